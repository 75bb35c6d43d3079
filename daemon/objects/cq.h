/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Completion channels and completion queues. */
#ifndef XD_CQ_H
#define XD_CQ_H

#include "daemon/clients/client.h"
#include "daemon/transport/transport.h"

struct json;

struct xd_channel {
	struct xd_object obj;
	struct xd_event_socket socket;
};

struct xd_cq {
	struct xd_object obj;
	uint32_t depth;
	uint32_t worker;	    /* index of the only worker that uses it, or XD_WORKER_* */
	uint32_t vector;	    /* completion vector: 0 or the worker of its QPs */
	bool moderated;		    /* engines have room for its timer */
	struct xd_channel *channel; /* NULL: none */
	struct xd_piece ring;
	struct xd_event_source completions, async;
	uint64_t known_error; /* queue_monitor.c */
	struct xt_cq xt;
};

extern const struct xd_kind_ops xd_channel_ops, xd_cq_ops;

#endif /* XD_CQ_H */
