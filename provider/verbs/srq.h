/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared receive queues. */
#ifndef XP_SRQ_H
#define XP_SRQ_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "provider/verbs/lock.h"
#include "provider/verbs/ring.h"

struct xp_cq;

struct xp_srq {
	struct ibv_srq ibsrq;
	struct xp_context *ctx; /* of this process: child.h */
	struct xp_lock lock;
	struct xp_ring ring; /* wr_id is not used; tail only if flushing */
	uint32_t max_sge;
	unsigned int qps;    /* that use it; atomic */
	bool flushing;	     /* the daemon is gone: completions are generated from tail on */
	uint32_t async_read; /* events read; under the lock of the context's event socket */

	/* XRC only */
	uint32_t number; /* 0: not XRC */
	struct xp_cq *cq;
	struct xp_srq *next_in_cq;
};

static inline struct xp_srq *xp_srq(struct ibv_srq *ibsrq)
{
	return (struct xp_srq *)ibsrq;
}

struct ibv_srq *xp_create_srq(struct ibv_pd *ibpd, struct ibv_srq_init_attr *attr);
struct ibv_srq *xp_create_srq_ex(struct ibv_context *ibctx, struct ibv_srq_init_attr_ex *attr);
int xp_get_srq_num(struct ibv_srq *ibsrq, uint32_t *number);
int xp_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr, int mask);
int xp_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr);
int xp_destroy_srq(struct ibv_srq *ibsrq);
int xp_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

/*
 * For use when the daemon is gone. xp_srq_pop() removes the oldest receive that the daemon had not
 * consumed and returns false if there is none; xp_srq_has_work() returns true if there is one.
 */
bool xp_srq_pop(struct xp_srq *srq, uint64_t *wr_id);
bool xp_srq_has_work(struct xp_srq *srq);

#endif /* XP_SRQ_H */
