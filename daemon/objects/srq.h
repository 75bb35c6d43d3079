/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared receive queues. */
#ifndef XD_SRQ_H
#define XD_SRQ_H

#include "daemon/clients/client.h"
#include "daemon/transport/transport.h"

struct xd_cq;
struct xd_pd;
struct xd_xrcd;

struct xd_srq {
	struct xd_object obj;
	uint32_t max_wr, max_sge;
	uint32_t worker; /* index of the worker that takes entries, or XD_WORKER_* */
	struct xd_pd *pd;
	struct xd_xrcd *xrcd; /* NULL: not for XRC */
	struct xd_cq *cq;     /* XRC only */
	struct xd_piece ring;
	struct xd_event_source async;
	uint64_t known_error; /* queue_monitor.c */
	struct xt_srq xt;
};

extern const struct xd_kind_ops xd_srq_ops;

#endif /* XD_SRQ_H */
