/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Accesses of a QP to memory that may have to be waited for (struct xt_mem_io): their staging
 * memory, their start and their end. reads.h and put.h use them.
 */
#ifndef XT_ACCESS_H
#define XT_ACCESS_H

#include "memory.h"

/* The access of an element of a list of accesses */
#define XT_IO_OF(l) ((struct xt_mem_io *)((char *)(l)-offsetof(struct xt_mem_io, link)))

/* A place in a segment */
struct xt_mem_place {
	struct xt_mem *mem;
	const struct xt_mem_seg *seg;
	uint64_t off; /* in the region */
};

/* A QP that waits for staging memory is in the pool's list `rooms`. */
struct xt_room {
	struct xt_list link;
	struct xt_qp *qp; /* is resumed when there may be room */
};

/*
 * Returns an access of a QP with len bytes of staging memory. Returns NULL if there is none to
 * spare, with *pool set, or NULL in *pool if the memory can never be accessed.
 */
struct xt_mem_io *xt_io_try_new(struct xt_qp *qp, struct xt_mem *mem, uint32_t len,
				struct xt_mem_pool **pool);
/*
 * The same; takes the memory of reads that others keep if need be, but not of `own` (NULL: none).
 * Returns NULL with *err set; -EINPROGRESS: the QP waits for room, and all of `own` was given up,
 * so QPs cannot wait for each other.
 */
struct xt_mem_io *xt_io_new(struct xt_room *room, struct xt_qp *qp, struct xt_reads *own,
			    struct xt_mem *mem, uint32_t len, int *err);
/* Starts an access. off: from the start of the segment */
void xt_io_submit(struct xt_mem_io *io, enum xt_mem_op op, const struct xt_mem_seg *seg,
		  uint64_t off);
/* Releases an access. A write that is being executed is kept until it has ended, see ending.h. */
void xt_io_free(struct xt_mem_io *io);
/* The QP forgets the writes that it has given up, as it will be freed. */
void xt_io_forget(struct xt_qp *qp);

/* The QP goes on in the next xt_engine_run(). */
void xt_resume_later(struct xt_qp *qp);

#endif /* XT_ACCESS_H */
