/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An engine and its objects, for fuzzers that act as its peers and clients.
 *
 *   QP_ALONE            IPv4, connected to a peer that exists only as fuzzer input
 *   QP_LEFT  QP_RIGHT   IPv6, connected to each other; sent frames are received again
 *   QP_NEAR  QP_FAR     connected to each other by loopback
 *   QP_GOOD_A QP_GOOD_B of a second, correct client; connected to each other by frames
 *
 * All QPs are created as RC. Except those of the good client, they can be created again with
 * another kind. There are three SRQs: one for all types but XRC, one for XRC, and one for XRC in an
 * XRC domain without QPs.
 *
 * Some memory must never change, and its bytes must never be sent, whatever clients and peers do.
 * world_check() and the check of each sent frame verify this.
 */
#ifndef WORLD_H
#define WORLD_H

#include <infiniband/verbs.h>
#include <stddef.h>

#include "daemon/transport/transport.h"
#include "daemon/transport/wire/icrc.h"
#include "daemon/transport/memory/integrity.h"
#include "input.h"

#define CQ_DEPTH 256
#define SQ_DEPTH 16
#define RQ_DEPTH 16
#define MAX_SGES 4
#define MAX_INLINE 128
#define MAX_QUEUED 64 /* sent frames that have not been delivered */
#define PD_CLIENT 1
#define PD_OTHER 2
#define PD_GOOD 3
#define MAX_QPS 32 /* size of the table */
#define ALONE_PEER_QPN 0x123456
#define ALONE_PEER_PSN 0xfffff0
#define MSG_LIMIT 6000

enum region_id {
	REG_ALL,     /* all access, mapped */
	REG_PIECES,  /* all access, mapped and private segments */
	REG_LOCAL,   /* local write only */
	REG_WRITE,   /* remote write */
	REG_GOOD,    /* of the good client */
	REG_SECRETS, /* this and the following: must not change and not be sent */
	REG_OTHER_PD = REG_SECRETS,
	REG_STALE,
	REG_INVALID,
	REG_COUNT,
	REG_READ = REG_COUNT, /* remote read only: must not change */
	REG_TOTAL
};

struct fuzz_io;

struct region {
	uint8_t *bytes;
	uint32_t size;
	uint64_t va;
	uint32_t key; /* stays the same after the key has been released */
	struct xt_key *live;
	struct xt_mem mem;
	struct xt_mem_seg seg[3];
};

/* Keys that work requests change (changing.c). FAST_BASE is the address of the pages of REG_ALL. */
enum { CHANGING_WINDOW_1, CHANGING_WINDOW_2, CHANGING_FAST, CHANGING_INTEGRITY, CHANGING_COUNT };
#define FAST_PAGES 4
#define FAST_BASE 0x7000000
#define INTEGRITY_PIECES 4

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
#define SRQ_POSTS 256 /* at most, in one run */
#define FUZZ_DOMAIN 5

enum { AH_FAR = 1, AH_NEAR, AH_GROUP, AH_OTHERS }; /* AH_OTHERS is of another client */
#define FUZZ_QKEY 0x1357

struct queue {
	struct xr_queue *ring;
	uint8_t *entries;
	uint32_t depth, stride;
	uint32_t posted;       /* entries, modulo 2^32, like the producer index of the ring */
	uint32_t done;	       /* first entry without a completion */
	bool silent[SQ_DEPTH]; /* WR is not signaled; indexed by slot */
};

struct fuzz_qp {
	struct world *world;
	struct xt_qp *qp;
	unsigned id;
	enum qp_kind kind; /* used by qp_create() */
	uint32_t type;
	struct queue sq, rq; /* ring is NULL if the QP has none */
	struct xt_cq *cq;
};

struct fuzz_srq {
	unsigned id; /* follows the numbers of the QPs */
	struct queue queue;
	struct xt_srq xt;
	bool open[SRQ_POSTS]; /* posted and not completed */
	unsigned ended;	      /* QPs that ended and may have kept a receive of the SRQ */
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
	struct xt_mem_piece fast_piece[FAST_PAGES / 2];
	struct xt_mem fast_mem, integrity_mem;
	struct xt_integrity integrity;
	struct xt_integrity_piece integrity_piece[INTEGRITY_PIECES];
	union {
		struct xr_integrity shared;
		uint8_t room[sizeof(struct xr_integrity) +
			     XR_FAST_LISTS * (sizeof(struct xr_integrity_list) +
					      INTEGRITY_PIECES * sizeof(struct xr_sge))];
	} integrity_shared;
	struct fuzz_cq cq[2]; /* of the client, of the good client */
	struct fuzz_qp qp[QP_COUNT];
	struct fuzz_srq srq[SRQ_COUNT];
	struct queued queue[MAX_QUEUED];
	unsigned queued;
	uint64_t now;
	uint8_t secret[8];
	bool honest;	 /* the client is correct: its completions are checked */
	bool no_room;	 /* tx_get refuses */
	bool slow;	 /* accesses do not finish by themselves */
	bool no_staging; /* there is no room for accesses */
	struct xt_mem_pool pool;
	struct fuzz_io *io; /* accesses, in the order of their submission */
	unsigned accesses;  /* not freed */
	bool took_memory;   /* memory of a valid region was inaccessible at least once */
	unsigned good_ok;   /* completions of the good client */
};

void world_open(struct world *w, bool honest);
/* Flushes and destroys all QPs, checks that all work has completed, frees everything. */
void world_close(struct world *w);
/* Checks that memory which must not change has not changed. */
void world_check(struct world *w);

/* Memory that is not mapped (tier.c) */
extern const struct xt_mem_ops tier_ops;
/* Finishes up to n accesses. */
void world_finish(struct world *w, unsigned n, bool fail);

/* Runs the engine until it has nothing to do now, at most 16 times. */
void world_run(struct world *w);
void world_advance(struct world *w, uint64_t ns);
void world_rx(struct world *w, const uint8_t *data, uint32_t len);
/* The same as the first packet of a large frame, whose others have so many bytes of payload each */
void world_rx_large(struct world *w, const uint8_t *data, uint32_t len, uint32_t packets,
		    uint32_t payload);
/*
 * Takes the oldest sent frame from the queue. The caller frees it. Returns NULL if there is none.
 */
uint8_t *world_take(struct world *w, uint32_t *len);
void world_poll(struct world *w);
/* Moves the client's CQ to a new ring. */
void world_resize(struct world *w, uint32_t depth);

/* changing.c */
void world_add_changing(struct world *w);
void world_end_changing(struct world *w);
/* Returns an SGE at the memory to which the key is bound now, if any. */
struct xr_sge world_changing_sge(const struct world *w, unsigned which, struct stream *in);
/* Turns a work request into a bind, a registration or an invalidation. */
void world_add_key_work(struct world *w, struct xr_send_wqe *wqe, struct stream *in);

/* queues.c */
extern const struct xr_addr fuzz_group;
void *world_ring(uint32_t depth, uint32_t stride);
void world_add_ahs(struct world *w);
void srq_open(struct world *w, enum srq_id id);
void srq_close(struct world *w, enum srq_id id);
void srq_check_cqe(struct world *w, const struct xr_cqe *cqe);
struct fuzz_srq *qp_srq(const struct fuzz_qp *q);

/* Moves a QP through RESET, INIT, RTR and RTS up to a state. */
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

/* Access flags of the client's regions */
#define ACCESS_ALL (XR_ACCESS_LOCAL_WRITE | XR_ACCESS_REMOTE)

static inline struct xr_sge world_sge(const struct world *w, unsigned region, uint32_t off,
				      uint32_t len)
{
	const struct region *r = &w->region[region];

	return (struct xr_sge){ r->va + off, len, r->key };
}

#endif /* WORLD_H */
