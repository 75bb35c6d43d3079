/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Accesses that outlive the right to their memory. An access that has been submitted cannot be
 * undone: it may take effect after its key was invalidated, or after its QP has given it up. The
 * program must not learn that its memory is its own again before such accesses have ended:
 *
 * - LOCAL_INV, a SEND with Invalidate and a BIND_MW that replaces a binding change the key at once,
 *   but complete when no access that was submitted before to the memory of the key is under way.
 * - A QP that moves to ERR completes its work requests when no write that it has given up is being
 *   executed.
 *
 * Memory may hang, so nobody waits longer than XT_ENDING_NS for one access.
 */
#ifndef XT_ENDING_H
#define XT_ENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/transport/base/list.h"

struct xt_engine;
struct xt_key;
struct xt_qp;

/*
 * Far longer than a loaded machine keeps a mover from its processors: with 17 processes for the two
 * processors of a virtual machine, 100 ms were too short once in 9000 times. Memory that hangs
 * costs a program this time once.
 */
#define XT_ENDING_NS 500000000u
/* Accesses of other engines end without notice. */
#define XT_ENDING_POLL_NS 100000u

/* Accesses to a region that must end before a change of a key completes */
struct xt_ending_key {
	uint32_t region; /* index of its key; 0: none */
	uint32_t mark;	 /* xt_mem_ops.mark(): of those submitted before */
};

/* In struct xt_qp */
struct xt_ending {
	struct xt_ending_key key[2]; /* by enum xt_qp_side: whose work request changed the key */
	struct xt_list poll_link;    /* in engine->polls */
	uint64_t poll_at;
	uint64_t hold_until; /* ERR: nothing is flushed before; 0: not held */
};

/* Resumes the QP after XT_ENDING_POLL_NS. */
void xt_ending_poll(struct xt_qp *qp);
/* Resumes QPs whose time has come. */
void xt_ending_run(struct xt_engine *e);
/* Returns when xt_ending_run() must be called again, XT_NEVER if no QP waits. */
uint64_t xt_ending_next(const struct xt_engine *e);

/* The QP was stopped: its responder does not wait any more, nor its flush. */
void xt_ending_stop(struct xt_qp *qp);

/* No engine begins any more accesses to a region by the key that is being changed. */
void xt_ending_key_begin(struct xt_ending_key *k, const struct xt_key *region);
/* Returns true while they have not ended. */
bool xt_ending_key_waits(struct xt_ending_key *k, struct xt_engine *e);

#endif /* XT_ENDING_H */
