/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Completion queues. */
#ifndef XP_CQ_H
#define XP_CQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "provider/verbs/lock.h"
#include "provider/verbs/nap.h"
#include "provider/verbs/ring.h"

struct xp_context;
struct xp_qp;
struct xp_srq;

struct xp_cq {
	union {
		struct ibv_cq ibcq;
		struct ibv_cq_ex ex;
	};
	struct xp_context *ctx; /* of this process: child.h */
	struct xp_lock lock;
	struct xp_cq_ring ring;
	unsigned int idle;	 /* empty polls in a row; atomic, inexact if several threads poll */
	uint64_t polled;	 /* end of the last empty poll that was timed, for naps; atomic */
	unsigned int untimed;	 /* the next empty polls that need not be timed; atomic */
	uint64_t no_pause_until; /* others.h; atomic */
	struct xp_nap nap;	 /* under the lock, as the next two are */
	struct xp_recv_nap recv_nap;
	struct xp_wait wait;
	bool flushing; /* the daemon is gone: completions are generated, the ring is not read */
	struct xp_qp **qps; /* the QPs that complete here, hashed by QPN */
	uint32_t qp_mask, nqps;
	struct xp_srq *srqs; /* the XRC SRQs that complete here */
	uint32_t comp_read;  /* events read; under the lock of the channel's events */
	uint32_t comp_early; /* others; under the mutex of struct ibv_context */
	uint64_t armed_at; /* direct contexts: received(), when it was armed; under the CQ's lock */
	uint32_t async_read; /* events read; under the lock of the context's event socket */
	bool unpolled_event; /* an event was read, and the CQ was not polled since; atomic */
	struct xp_cq *next_on_channel;
	struct ibv_pd *parent; /* parent domain of ibv_create_cq_ex(), or NULL */

	/* Extended CQs, from start_poll() to end_poll() */
	struct xp_lock polling;
	struct xr_cqe current;
};

_Static_assert(offsetof(struct ibv_cq, async_events_completed) ==
		       offsetof(struct ibv_cq_ex, async_events_completed),
	       "struct ibv_cq_ex starts like struct ibv_cq");

static inline struct xp_cq *xp_cq(struct ibv_cq *ibcq)
{
	return (struct xp_cq *)ibcq;
}

struct ibv_cq *xp_create_cq(struct ibv_context *ibctx, int cqe, void *cq_context,
			    struct ibv_comp_channel *ibch, int comp_vector);
struct ibv_cq_ex *xp_create_cq_ex(struct ibv_context *ibctx, struct ibv_cq_init_attr_ex *attr);
int xp_resize_cq(struct ibv_cq *ibcq, int cqe);
int xp_destroy_cq(struct ibv_cq *ibcq);
int xp_req_notify_cq(struct ibv_cq *ibcq, int solicited_only);
int xp_modify_cq(struct ibv_cq *ibcq, struct ibv_modify_cq_attr *attr);
int xp_poll_cq(struct ibv_cq *ibcq, int n, struct ibv_wc *wc);

/*
 * Creates a CQ, extended or not. Returns NULL and errno on error.
 * @attr: fields that ibv_create_cq() has, too.
 * @parent: parent domain, or NULL.
 * @flags: XR_CQF_*.
 */
struct xp_cq *xp_cq_create(struct xp_context *ctx, const struct ibv_cq_init_attr_ex *attr,
			   struct ibv_pd *parent, uint32_t flags);

/*
 * Polls one completion. Returns 0, ENOENT or EIO.
 * @yield: yield the processor if the CQ is empty, as xp_poll_cq() does.
 */
int xp_cq_poll_one(struct xp_cq *cq, struct xr_cqe *cqe, bool yield);

/* For use when the daemon is gone: returns true if a poll would return a completion. */
bool xp_cq_has_work(struct xp_cq *cq);

#endif /* XP_CQ_H */
