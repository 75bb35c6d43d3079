/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The part of a QP that is its accesses to memory that have not ended */
#ifndef XT_MEMORY_PART_H
#define XT_MEMORY_PART_H

#include "put.h"
#include "reads.h"

struct xt_accesses {
	bool busy;				     /* writes are posted */
	struct xt_list posted[XT_QP_SIDES];	     /* struct xt_mem_io, in the order of PSNs */
	uint32_t posted_mapped[XT_QP_SIDES];	     /* number of these to mapped memory */
	const struct xt_mem *posted_to[XT_QP_SIDES]; /* the region of all of them; NULL: several */
	struct xt_list given_up; /* struct xt_mem_io: writes that are being executed */
	struct xt_room room[XT_QP_SIDES];
	struct xt_reads reads[XT_READS];
	struct xt_list resume_link; /* in engine->resumed */
};

void xt_accesses_init(struct xt_qp *qp);
/* Ends all reads, and waits for room no more. Posted writes are the caller's. */
void xt_accesses_stop(struct xt_qp *qp);

#endif /* XT_MEMORY_PART_H */
