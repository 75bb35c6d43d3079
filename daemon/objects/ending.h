/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Requests that end a right to memory reply when nothing accesses the memory any more: accesses of
 * a mover that have been submitted take effect later. But they do not wait long, as the memory may
 * hang.
 */
#ifndef XD_ENDING_H
#define XD_ENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/clients/client_jobs.h"

struct xd_mem;
struct xd_proc;
struct xt_mem;
struct xt_qp;

struct xd_ending {
	struct xd_client_job job;
	struct xd_proc *proc;	  /* whose mover accesses the memory; NULL: there is none */
	const struct xt_mem *mem; /* the region, which may be freed meanwhile; NULL: any */
	uint32_t mark;		  /* of the accesses */
	struct xt_qp *qp;	  /* or else: the QP that has given up writes */
	uint32_t worker;	  /* of the QP */
	uint64_t until;		  /* of the wait for it */
	/* In the control thread, also if the client is ending. Frees the structure. */
	void (*then)(struct xd_client *c, struct xd_ending *e);
};

/*
 * Notes the accesses to a region that were submitted so far. A grace period has passed since its
 * key was withdrawn. Any thread
 */
void xd_ending_region(struct xd_ending *e, const struct xd_mem *mem);
/* The same for all memory of a process */
void xd_ending_all(struct xd_ending *e, struct xd_proc *proc);
/*
 * The writes that a QP was executing when it was moved to RESET or ERR, or removed from its engine.
 * If its client owns it, it must exist until the client is ending.
 */
void xd_ending_qp(struct xd_ending *e, struct xt_qp *qp, uint32_t worker);
/* Returns true if those to a region have ended: the structure needs nothing more. Any thread */
bool xd_ending_over(struct xd_ending *e);
/* Calls then() when they have ended: at once, or in a later job of the client. */
void xd_ending_wait(struct xd_client *c, struct xd_ending *e);

#endif /* XD_ENDING_H */
