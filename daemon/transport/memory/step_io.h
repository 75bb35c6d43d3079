/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The accesses of steps, for step.c, step_read.c, step_write.c and park.c. */
#ifndef XT_STEP_IO_H
#define XT_STEP_IO_H

#include "daemon/transport/qp.h"
#include "step.h"

/* The step must be executed again. Returns -EINPROGRESS. */
int xt_step_waits(struct xt_step *s);
/* The same because some access has to start later. */
int xt_step_delays(struct xt_step *s);

/* The step that reads ahead for a step that builds packets; the same for itself */
static inline struct xt_step *xt_step_ahead_of(const struct xt_step *s)
{
	bool send = s->role == XT_STEP_SEND || s->role == XT_STEP_AHEAD;

	return &s->qp->park.step[send ? XT_STEP_AHEAD : XT_STEP_RESPOND_AHEAD];
}

/* Returns NULL with *pool set if there is no room, and with *pool NULL if the memory is gone. */
struct xt_mem_io *xt_io_try_new(struct xt_step *s, struct xt_mem *mem, uint32_t len,
				struct xt_mem_pool **pool);
/* Returns NULL with *err set; -EINPROGRESS: the step waits for room. */
struct xt_mem_io *xt_io_new(struct xt_step *s, struct xt_mem *mem, uint32_t len, int *err);
/* Starts an access. off: from the start of the segment */
void xt_io_submit(struct xt_mem_io *io, enum xt_mem_op op, const struct xt_mem_seg *seg,
		  uint64_t off);
/*
 * Returns a read that has `least` bytes at an offset of a segment, which it starts if need be.
 * len: bytes that the caller needs.
 */
struct xt_mem_io *xt_step_read_at(struct xt_step *s, const struct xt_step_place *p, size_t len,
				  size_t least, int *err);

#endif /* XT_STEP_IO_H */
