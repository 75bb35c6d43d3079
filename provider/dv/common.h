/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What several direct verbs share. The functions return 0, or the negative errno of the refusal. */
#ifndef XP_DV_COMMON_H
#define XP_DV_COMMON_H

#include "provider/verbs/qp.h"

/* EOPNOTSUPP: the object is of another vendor's device. */
int xp_refuse_foreign(const char *verb);
/* EIO: the object is of the parent process. */
int xp_refuse_forked(const char *verb);
/* EPERM: @what and the QP have different PDs. */
int xp_refuse_pd(const char *verb, const char *what);
/* EINVAL or ENOMEM: the QP's state permits no sends, or its send queue is full. */
int xp_refuse_post(const char *verb, const struct xp_qp *qp);

/*
 * Prepares a call that posts one WR. Returns 0 with the lock of the send queue held, and room for
 * the WR, or refuses. @ibpd: that of the region `what`.
 */
int xp_post_begin(const char *verb, struct ibv_qp *ibqp, const struct ibv_pd *ibpd,
		  const char *what);
/* Publishes the entry of xp_ring_next(), and releases the lock. */
void xp_post_end(struct xp_qp *qp, uint64_t wr_id);

#endif /* XP_DV_COMMON_H */
