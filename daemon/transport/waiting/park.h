/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * QPs that wait for memory: received packets, posted writes, and how the QP continues.
 *
 * If the step of a packet must be parked, the packet is copied, and so are those received after it,
 * requests and responses separately. They are processed in order when accesses finish. Their number
 * is limited (park_pool.h); beyond the limit they are lost, as in a network.
 *
 * Posted writes: if only the ACK of a request depends on its data, or a receive of the QP's own
 * queue, the responder accepts the request before the data is in memory. An ACK covers only
 * requests whose data is in memory, and a receive completes when all data up to its end is. NAKs,
 * other completions, READs, atomics, invalidations and writes to mapped memory wait until no write
 * is posted. If a posted write fails, the responder refuses its request. The requester posts the
 * writes of READ responses likewise. A READ is retired when all its responses have arrived, and the
 * peer's answers to later requests are processed. But the READ and all behind it complete when its
 * data is in memory. An answer that makes a later request fail waits until then. Writes of a UD
 * datagram are posted likewise; UD has no expected PSN, so xt_responder.epsn counts datagrams.
 */
#ifndef XT_PARK_H
#define XT_PARK_H

#include "daemon/transport/base/list.h"
#include "park_pool.h"
#include "daemon/transport/memory/step.h"

struct xt_engine;
struct xt_flow;
struct xt_qp;
struct xt_rx;

/* Limit for the blocks of parked packets of a QP. The flow of the QP has a limit as well. */
#define XT_PARK_QP_MAX 512

enum xt_park_side { XT_PARK_RESPONDER, XT_PARK_REQUESTER, XT_PARK_SIDES };

struct xt_park {
	bool busy;			       /* one of the following lists is not empty */
	struct xt_list packets[XT_PARK_SIDES]; /* struct xt_parked */
	struct xt_list early[XT_PARK_SIDES];   /* struct xt_parked, see early.h */
	struct xt_list known;		      /* one struct xt_known or none, see place_request.c */
	struct xt_list posted[XT_PARK_SIDES]; /* struct xt_mem_io, in the order of PSNs */
	uint32_t blocks[XT_PARK_SIZES];	      /* of packets */
	uint32_t acked; /* PSN behind the last one acknowledged while writes were posted */
	struct xt_list resume_link; /* in engine->resumed */
	struct xt_step step[XT_STEPS];
};

void xt_park_init(struct xt_qp *qp);
/* Gives up all accesses and drops all packets, which xt_park_free() frees. */
void xt_park_stop(struct xt_qp *qp);
/* Frees the blocks of up to @most packets that were dropped. */
void xt_park_free(struct xt_engine *e, unsigned most);

/* The QP moves to another flow of its engine. */
void xt_park_set_flow(struct xt_qp *qp, struct xt_flow *flow);

/*
 * Takes a block of at least len bytes for a packet that must wait, behind those that wait already;
 * struct xt_parked is in front. Returns NULL if the packet is lost.
 */
void *xt_park_add(struct xt_qp *qp, enum xt_park_side side, uint32_t len);
/*
 * A packet is lost. If it is the one whose step was parked, the step ends, as if the packet had
 * never been received.
 */
void xt_park_lose(struct xt_qp *qp, enum xt_park_side side);
enum xt_park_side xt_park_side_of(const struct xt_rx *rx);
/* Parks a received packet of a connected QP. */
void xt_park_rx(struct xt_qp *qp, const struct xt_rx *rx);
/* Returns true if packets of that side wait already, so that later ones must as well. */
static inline bool xt_park_waits(const struct xt_park *p, enum xt_park_side side)
{
	return __builtin_expect(p->busy, false) && !xt_list_empty(&p->packets[side]);
}

/* Returns true if writes of that side are posted. */
static inline bool xt_posted(const struct xt_park *p, enum xt_park_side side)
{
	return __builtin_expect(p->busy, false) && !xt_list_empty(&p->posted[side]);
}
/* Returns the last one of the request that the responder is executing, NULL if there is none. */
struct xt_mem_io *xt_posted_now(const struct xt_qp *qp);
/* Returns the PSN of the first of them. */
static inline uint32_t xt_posted_first(const struct xt_park *p, enum xt_park_side side)
{
	return XT_IO_OF(p->posted[side].next)->psn;
}
/*
 * Returns the oldest PSN whose data is not in memory, or the expected PSN. Sets *msn to the MSN
 * before that request.
 */
uint32_t xt_posted_psn(const struct xt_qp *qp, uint32_t *msn);

#endif /* XT_PARK_H */
