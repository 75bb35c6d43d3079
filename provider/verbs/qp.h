/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Queue pairs. Posting is in post.h. */
#ifndef XP_QP_H
#define XP_QP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <xroce/control.h>

#include "provider/verbs/lock.h"
#include "provider/verbs/ring.h"

/* struct ibv_qp_ex up to and including wr_flush, which verbs.h has since rdma-core 45 */
struct xp_qp_ex_45 {
	uint8_t before[offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(void (*)(void))];
	void (*wr_flush)(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, size_t len,
			 uint8_t type, uint8_t level);
};

struct xp_qp {
	union {
		struct ibv_qp ibqp;
		struct ibv_qp_ex ex;
		struct xp_qp_ex_45 ex_45;
	};
	struct xp_context *ctx; /* of this process: child.h */
	struct xp_lock sq_lock, rq_lock;
	struct xp_ring sq, rq;
	uint32_t max_send_sge, max_recv_sge, max_inline;
	struct xr_doorbell *doorbell;
	uint32_t slot;		     /* in the doorbell */
	int wake;		     /* the worker's eventfd */
	struct xp_qp *next_in_cq[2]; /* hash chain of the send CQ; of the recv CQ if it differs */
	bool access_kept;	     /* the daemon has not got access_flags yet; in INIT only */
	uint32_t access_flags;
	uint32_t sends_seen; /* sq.head at the last receive completion; recv_cq's lock */
	uint32_t async_read; /* events read; under the lock of the context's event socket */

	/* Extended QPs: the batch since wr_start(); under sq_lock */
	bool extended;
	bool sig_all;		 /* every send completes */
	uint64_t send_ops;	 /* enum ibv_qp_create_send_ops_flags */
	uint32_t staged;	 /* entries after sq.head */
	int batch_err;		 /* first error of the batch */
	struct xr_send_wqe *wqe; /* the entry that setters change, or NULL */
};

static inline struct xp_qp *xp_qp(const struct ibv_qp *ibqp)
{
	return (struct xp_qp *)ibqp;
}

struct ibv_qp *xp_create_qp(struct ibv_pd *ibpd, struct ibv_qp_init_attr *attr);
struct ibv_qp *xp_create_gsi_qp(struct ibv_pd *ibpd, struct ibv_qp_init_attr *attr);
struct ibv_qp *xp_create_qp_ex(struct ibv_context *ibctx, struct ibv_qp_init_attr_ex *attr);
struct ibv_qp_ex *xp_qp_to_qp_ex(struct ibv_qp *ibqp);
int xp_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask);
int xp_modify_qp_rate_limit(struct ibv_qp *ibqp, struct ibv_qp_rate_limit_attr *attr);
int xp_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask,
		struct ibv_qp_init_attr *init_attr);
int xp_destroy_qp(struct ibv_qp *ibqp);

/* A request that creates or opens a QP. The reply is struct xr_create_qp_rep. */
struct xp_qp_request {
	uint32_t type; /* enum xr_msg_type */
	void *req;
	size_t req_len;
	__u64 *cookie; /* field of req */
};

/*
 * Sends the request and creates the QP of the reply. Returns NULL and errno on error.
 * @ibpd: NULL for an XRC target QP, which has neither CQs nor queues.
 * @attr: attr->cap is set to what the daemon granted.
 */
struct ibv_qp *xp_qp_create(struct xp_context *ctx, struct ibv_pd *ibpd,
			    struct ibv_qp_init_attr *attr, const struct xp_qp_request *request);

#endif /* XP_QP_H */
