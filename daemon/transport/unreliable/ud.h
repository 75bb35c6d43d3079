/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A datagram on its way to a receive queue, for ud_receive.c and ud_send.c */
#ifndef XT_UD_H
#define XT_UD_H

#include "daemon/transport/memory/copy.h"
#include "daemon/transport/qp.h"

struct xt_datagram {
	uint8_t grh[XR_GRH_LEN];
	struct xt_source src;
	uint32_t len;
	uint32_t qkey;
	uint32_t src_qpn;
	__be32 imm;
	bool has_imm, solicited;
	bool posted; /* its writes were started; its receive completes when they have ended */
};

/*
 * Delivers a datagram now or later. If it cannot be delivered now and d->src is a work request, its
 * bytes must be mapped. Returns XT_SIDE_SOURCE with *error set if these bytes
 * cannot be read, else XT_SIDE_NONE, also if the datagram was dropped.
 */
enum xt_side xt_ud_deliver(struct xt_qp *qp, struct xt_datagram *d, struct xt_wc_error *error);

#endif /* XT_UD_H */
