/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One engine with all that it works on, for fuzzers that play its peers and its clients.
 *
 *   QP_ALONE            IPv4, to a peer that only the fuzzer plays
 *   QP_LEFT  QP_RIGHT   IPv6, to each other by frames that go out and come back in
 *   QP_NEAR  QP_FAR     to each other the direct way
 *   QP_GOOD_A QP_GOOD_B of another client that does nothing wrong, to each other by frames
 *
 * All are of type RC at first; but for the good client's they may be made anew of any other kind. Of SRQs
 * there is one for all types but XRC, one for XRC, and one for XRC in a domain where no QP is.
 *
 * Some memory must never change and its bytes must never leave, whatever clients
 * and peers do: world_check() and every frame sent look after that.
 */
#ifndef WORLD_H
#define WORLD_H

#include <infiniband/verbs.h>
#include <stddef.h>

#include "daemon/transport/transport.h"
#include "daemon/transport/icrc.h"
#include "input.h"

#define CQ_DEPTH 256
#define SQ_DEPTH 16
#define RQ_DEPTH 16
#define MAX_SGES 4
#define MAX_INLINE 128
#define MAX_QUEUED 64 /* frames under way */
#define PD_CLIENT 1
#define PD_OTHER 2
#define PD_GOOD 3
#define MAX_QPS 32 /* of the table */
#define ALONE_PEER_QPN 0x123456
#define ALONE_PEER_PSN 0xfffff0
#define MSG_LIMIT 6000

enum region_id {
	REG_ALL,     /* every right, mapped */
	REG_PIECES,  /* every right, mapped and private segments */
	REG_LOCAL,   /* local write only */
	REG_WRITE,   /* remote write */
	REG_GOOD,    /* the well-behaved client's */
	REG_SECRETS, /* from here on: never to change, never to leave */
	REG_OTHER_PD = REG_SECRETS,
	REG_STALE,
	REG_INVALID,
	REG_COUNT,
	REG_READ = REG_COUNT, /* remote read, not writable: never to change */
	REG_TOTAL
};

struct region {
	uint8_t *bytes;
	uint32_t size;
	uint64_t va;
	uint32_t key; /* its value, also when it is gone */
	struct xt_key *live;
	struct xt_mem mem;
	struct xt_mem_seg seg[3];
};

/* Keys that work requests change (changing.c). Pages of REG_ALL lie at FAST_BASE. */
enum { CHANGING_WINDOW_1, CHANGING_WINDOW_2, CHANGING_FAST, CHANGING_COUNT };
#define FAST_PAGES 4
#define FAST_BASE 0x7000000

enum qp_id { QP_ALONE, QP_LEFT, QP_RIGHT, QP_NEAR, QP_FAR, QP_GOOD_A, QP_GOOD_B, QP_COUNT };

enum qp_kind {
	KIND_RC,
	KIND_UC,
	KIND_UD,
	KIND_XRC_SEND,
	KIND_XRC_RECV,
	KIND_RC_SRQ,
	KIND_UC_SRQ,
	KIND_UD_SRQ,
	KIND_COUNT /* a power of two */
};

enum srq_id { SRQ_PLAIN, SRQ_XRC, SRQ_FOREIGN, SRQ_COUNT };
#define SRQ_POSTS 256 /* in a run */
#define FUZZ_DOMAIN 5

enum { AH_FAR = 1, AH_NEAR, AH_GROUP, AH_OTHERS }; /* the last one is another's */
#define FUZZ_QKEY 0x1357

struct queue {
	struct xr_queue *ring;
	uint8_t *entries;
	uint32_t depth, stride;
	uint32_t posted;       /* free-running, as the ring's producer */
	uint32_t done;	       /* first entry that no completion covers */
	bool silent[SQ_DEPTH]; /* by slot: not signalled */
};

struct fuzz_qp {
	struct world *world;
	struct xt_qp *qp;
	unsigned id;
	enum qp_kind kind; /* taken by qp_create() */
	uint32_t type;
	struct queue sq, rq; /* ring NULL: has none */
	struct xt_cq *cq;
};

struct fuzz_srq {
	unsigned id; /* as those of QPs, behind them */
	struct queue queue;
	struct xt_srq xt;
	bool open[SRQ_POSTS]; /* posted, and not completed */
	unsigned ended;	      /* QPs, with or without a receive of it */
};

struct fuzz_cq {
	struct xt_cq cq;
	struct xr_queue *ring;
	uint32_t depth;
	uint32_t consumer;
};

struct queued {
	uint8_t *data;
	uint32_t len;
};

struct world {
	struct xt_keys *keys;
	struct xt_shared shared;
	struct xt_ahs *ahs; /* of the client: AH_FAR, AH_NEAR, AH_GROUP */
	struct xt_engine *engine;
	struct xr_psn_entry psns[MAX_QPS];
	struct region region[REG_TOTAL];
	struct xt_key *changing[CHANGING_COUNT];
	uint64_t fast_lists[XR_FAST_LISTS * FAST_PAGES];
	struct xt_mem_seg fast_seg[FAST_PAGES];
	struct xt_mem fast_mem;
	struct fuzz_cq cq[2]; /* the client's, the good client's */
	struct fuzz_qp qp[QP_COUNT];
	struct fuzz_srq srq[SRQ_COUNT];
	struct queued queue[MAX_QUEUED];
	unsigned queued;
	uint64_t now;
	uint8_t secret[8];
	bool honest;	  /* the client keeps to the rules: its completions are checked */
	bool no_room;	  /* tx_get refuses */
	bool took_memory; /* from under a live region, once at least */
	unsigned good_ok; /* completions of the good client */
};

void world_open(struct world *w, bool honest);
/* Ends all QPs, checks that nothing is missing, frees everything. */
void world_close(struct world *w);
/* Memory that must not change did not. */
void world_check(struct world *w);

/* Calls the engine until it has nothing more to do at once, within reason. */
void world_run(struct world *w);
void world_advance(struct world *w, uint64_t ns);
void world_rx(struct world *w, const uint8_t *data, uint32_t len);
/* The oldest frame under way; NULL: none. The caller frees it. */
uint8_t *world_take(struct world *w, uint32_t *len);
void world_poll(struct world *w);
/* Moves the client's CQ to a new ring. */
void world_resize(struct world *w, uint32_t depth);

/* changing.c */
void world_add_changing(struct world *w);
void world_end_changing(struct world *w);
/* What such a key stands for now, if it stands for anything */
struct xr_sge world_changing_sge(const struct world *w, unsigned which, struct stream *in);
/* Makes a work request bind, register or invalidate. */
void world_add_key_work(struct world *w, struct xr_send_wqe *wqe, struct stream *in);

/* queues.c */
extern const struct xr_addr fuzz_group;
void *world_ring(uint32_t depth, uint32_t stride);
void world_add_ahs(struct world *w);
void srq_open(struct world *w, enum srq_id id);
void srq_close(struct world *w, enum srq_id id);
void srq_check_cqe(struct world *w, const struct xr_cqe *cqe);
struct fuzz_srq *qp_srq(const struct fuzz_qp *q);

/* RESET, INIT, RTR, RTS: up to the state wanted. */
void qp_bring_up(struct fuzz_qp *q, uint32_t state);
int qp_to(struct fuzz_qp *q, uint32_t state);
void qp_create(struct world *w, enum qp_id id);
void qp_destroy(struct fuzz_qp *q);
void qp_remake(struct fuzz_qp *q, enum qp_kind kind, bool peer_too);

bool qp_may_post(const struct queue *queue);
bool qp_may_post_recv(const struct fuzz_qp *q);
void qp_add_destination(const struct fuzz_qp *q, struct xr_send_wqe *wqe, uint8_t how);
void qp_post_send(struct fuzz_qp *q, const struct xr_send_wqe *wqe, const void *tail, size_t len);
void qp_post_recv(struct fuzz_qp *q, uint32_t num_sge, const struct xr_sge *sge);

/* What may be done to memory of the client's regions */
#define ACCESS_ALL (XR_ACCESS_LOCAL_WRITE | XR_ACCESS_REMOTE)

static inline struct xr_sge world_sge(const struct world *w, unsigned region, uint32_t off,
				      uint32_t len)
{
	const struct region *r = &w->region[region];

	return (struct xr_sge){ r->va + off, len, r->key };
}

#endif /* WORLD_H */
