/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Posting: from the lists of verbs to ring entries. */
#ifndef XP_POST_H
#define XP_POST_H

#include "provider/verbs/qp.h"

int xp_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int xp_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

/* Posts a bind of a type 1 window. ibv_post_send() accepts only type 2 windows. */
int xp_post_bind(struct ibv_qp *ibqp, struct ibv_send_wr *wr);

/* Rings the doorbell of the QP and wakes the worker if it sleeps. */
void xp_ring_doorbell(struct xp_qp *qp);

/* For all that post to send queues: lists, builders of extended QPs, fast registration */
#define XP_SEND_FLAGS (IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE)

static inline bool xp_can_send(enum ibv_qp_state state)
{
	return state >= IBV_QPS_RTS && state <= IBV_QPS_ERR;
}

void xp_wqe_init(struct xr_send_wqe *wqe, uint64_t wr_id, unsigned int opcode, unsigned int flags);
void xp_wqe_bind(struct xr_send_wqe *wqe, const struct ibv_mw *mw, uint32_t new_rkey,
		 const struct ibv_mw_bind_info *info);

/* Fills a send queue entry. Returns 0, or EINVAL if the QP cannot perform the WR. */
int xp_fill_send(const struct xp_qp *qp, struct xr_send_wqe *wqe, const struct ibv_send_wr *wr);

/* Returns true if the operation can have inline data. */
bool xp_wqe_may_inline(const struct xr_send_wqe *wqe);

/* Appends inline data. Returns 0, or EINVAL if it exceeds max_inline. */
int xp_wqe_inline(const struct xp_qp *qp, struct xr_send_wqe *wqe, const void *data, size_t len);

/* Fills a receive queue entry. Returns 0, or EINVAL if wr has more than max_sge elements. */
int xp_fill_recv(struct xr_recv_wqe *wqe, uint32_t max_sge, const struct ibv_recv_wr *wr);

/* Returns false if the WR binds a type 1 window, for which there is ibv_bind_mw(). */
static inline bool xp_can_bind(const struct ibv_send_wr *wr)
{
	return wr->opcode != IBV_WR_BIND_MW || wr->bind_mw.mw->type == IBV_MW_TYPE_2;
}

/*
 * Explains why a WR was not posted. The texts name no WR, so that each is printed once.
 * @mw_type: type of the windows that may be bound
 */
void xp_explain_send(const char *verb, const struct xp_qp *qp, const struct ibv_send_wr *wr,
		     int err, enum ibv_mw_type mw_type);

/* Refuses a verb because a queue is full, with ENOMEM. @field: its size, limit is the value. */
int xp_refuse_full(const char *verb, const char *field, uint32_t limit);

/* Explains the error of a receive that was not posted. Returns the negative errno. */
int xp_refuse_recv(const char *verb, int err, const struct ibv_recv_wr *wr, uint32_t max_sge,
		   uint32_t max_wr);

#endif /* XP_POST_H */
