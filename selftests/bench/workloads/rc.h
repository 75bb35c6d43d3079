/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* RC QPs whose ends exchange their numbers over TCP. Failures end the program. */
#ifndef BENCH_RC_H
#define BENCH_RC_H

#include "side.h"

struct rc_device {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	int gid_index;
	union ibv_gid gid;
	enum ibv_mtu mtu;
	uint8_t max_reads; /* RDMA READs of a QP under way at once, in each direction */
};

/* Memory of the peer that this end may access */
struct rc_memory {
	uint64_t addr;
	uint32_t rkey;
};

void rc_open(struct rc_device *d, int gid_index);
/* For local and remote access */
struct ibv_mr *rc_register(struct rc_device *d, void *memory, size_t len);
struct ibv_cq *rc_cq(struct rc_device *d, uint32_t entries, struct ibv_comp_channel *channel);

struct rc_queues {
	struct ibv_cq *send_cq, *recv_cq;
	uint32_t sends, receives, inline_size;
};

/* Returns a QP in state INIT, which takes receive requests. */
struct ibv_qp *rc_create(struct rc_device *d, const struct rc_queues *q);
/*
 * Connects a QP to that of the peer at the other end of the socket, and returns the memory that
 * the peer offers. Receive requests for what the peer sends first have been posted before.
 */
struct rc_memory rc_connect(struct rc_device *d, struct ibv_qp *qp, int sock,
			    struct rc_memory mine);

/* Returns completions, all of which are successful. */
static inline int rc_poll(struct ibv_cq *cq, int max, struct ibv_wc *wc)
{
	int n = ibv_poll_cq(cq, max, wc);

	MUST(n >= 0, "poll a CQ");
	for (int i = 0; i < n; i++)
		MUST(wc[i].status == IBV_WC_SUCCESS, ibv_wc_status_str(wc[i].status));
	return n;
}

/*
 * ---- a QP whose requests are posted together -------------------------------------------------
 *
 * Send requests and receive requests are collected, and posted by rc_flush(): one call, and one
 * doorbell, for all that a program has to say at a time. Only some send requests are signaled. The
 * completion of one tells that those before it are complete as well.
 */

#define RC_BATCH 32

struct rc_queue_pair {
	struct ibv_qp *qp;
	uint32_t size;	     /* of the send queue */
	uint32_t used;	     /* send requests that may not be complete */
	uint32_t unsignaled; /* the last ones of them */
	uint32_t sends, receives;
	struct ibv_send_wr send[RC_BATCH];
	struct ibv_recv_wr receive[RC_BATCH];
	struct ibv_sge send_sge[RC_BATCH], receive_sge[RC_BATCH];
};

static inline uint32_t rc_room(const struct rc_queue_pair *q)
{
	return q->size - q->used;
}

/* Receive requests are posted first: what is sent may let the peer send. */
void rc_flush(struct rc_queue_pair *q);

/*
 * Adds a send request for len bytes at data, for which there is room. The sender chooses
 * IBV_SEND_SIGNALED if it waits for this request itself. With IBV_SEND_INLINE, data stay as they
 * are until rc_flush(), else until the request is complete. tag: see rc_complete()
 */
void rc_send(struct rc_queue_pair *q, const struct ibv_send_wr *wr, struct ibv_sge sge,
	     uint32_t tag);

/* Adds a receive request. */
void rc_receive(struct rc_queue_pair *q, uint64_t wr_id, struct ibv_sge sge);

/* Takes the completion of a send request, and returns its tag. */
static inline uint32_t rc_complete(struct rc_queue_pair *q, const struct ibv_wc *wc)
{
	q->used -= (uint32_t)wc->wr_id;
	return (uint32_t)(wc->wr_id >> 32);
}

static inline struct ibv_sge rc_sge(const void *data, size_t len, const struct ibv_mr *mr)
{
	return (struct ibv_sge){ (uintptr_t)data, (uint32_t)len, mr ? mr->lkey : 0 };
}

#endif /* BENCH_RC_H */
