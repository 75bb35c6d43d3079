/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The part of a QP that is not done yet: packets that are kept, and accesses to memory that have to
 * be waited for.
 *
 * Kept packets are copied to blocks (kept_pool.h). Most came early (rc/early.h). One that has its
 * turn may be *held*: it cannot be executed now, because there is no staging memory, or because it
 * must not come before posted writes (posted.h). It had no effect, so it is the same as one that
 * comes later; or its writes were started (struct xt_rx, `posted`), and the rest of it is to be
 * executed. It is tried again when the QP is resumed. Packets beyond the limits are lost,
 * as in a network.
 */
#ifndef XT_WAITING_H
#define XT_WAITING_H

#include "daemon/transport/base/list.h"
#include "daemon/transport/memory/part.h"
#include "kept_pool.h"

struct xt_engine;
struct xt_flow;

/* Limit for the blocks of kept packets of a QP. The flow of the QP has a limit as well. */
#define XT_KEPT_QP_MAX 512

struct xt_waiting {
	bool busy;			  /* packets are kept */
	struct xt_list kept[XT_QP_SIDES]; /* struct xt_kept in the order of their execution */
	bool held[XT_QP_SIDES];		  /* the first of them is */
	struct xt_list known;		  /* one struct xt_known or none, see place_request.c */
	uint32_t blocks[XT_KEPT_SIZES];	  /* of packets */
	bool stopped;			  /* the QP has received nothing since the last stop */
	uint32_t stops;			  /* how often it was stopped after it may have received */
	uint32_t stopped_psn;		  /* PSN behind the data that was in memory then */
};

void xt_waiting_init(struct xt_qp *qp);
/* The QP receives from now on. */
void xt_waiting_begin(struct xt_qp *qp);
/*
 * Gives up all accesses and drops all packets, which xt_kept_free_dropped() frees. done_psn: PSN
 * behind the data that is in memory
 */
void xt_waiting_stop(struct xt_qp *qp, uint32_t done_psn);
/* Frees the blocks of up to @most packets that were dropped. */
void xt_kept_free_dropped(struct xt_engine *e, unsigned most);

/* The QP moves to another flow of its engine. */
void xt_waiting_set_flow(struct xt_qp *qp, struct xt_flow *flow);

/* Returns true if packets of a side are kept. */
static inline bool xt_keeps(const struct xt_waiting *p, enum xt_qp_side side)
{
	return __builtin_expect(p->busy, false) && !xt_list_empty(&p->kept[side]);
}

#endif /* XT_WAITING_H */
