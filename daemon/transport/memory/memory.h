/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Access to the bytes of a memory region, independent of its tiers. The engine uses offsets into a
 * region, but no mappings, processes or files; the daemon and the simulation implement the tiers.
 *
 * A region is a list of segments in the order of their offsets, without gaps. A segment with `ptr`
 * is mapped and accessed by load and store (tiers "shared" and "adopted"). A segment without `ptr`
 * is accessed through `ops` (tier "private"): by read() and write(), which must not wait, or by
 * accesses (struct xt_mem_io), which are submitted and finish later.
 *
 * Functions return 0 or a negative errno; -EFAULT: the memory is no longer accessible. They check
 * no bounds: keys.h checks the range before it returns a struct xt_mem. They may be called by any
 * worker's thread.
 */
#ifndef XT_MEMORY_H
#define XT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "daemon/transport/base/list.h"
#include "xroce/ring.h"

struct xt_engine;
struct xt_integrity;
struct xt_mem;
struct xt_mem_io;
struct xt_mem_seg;
struct xt_put;
struct xt_qp;
struct xt_reads;
struct xt_seg;

/* ---- accesses that finish later ------------------------------------------------------------- */

/* Most bytes of one access */
#define XT_MEM_IO_MAX (64u << 10)

enum xt_mem_op {
	XT_MEM_READ,
	XT_MEM_WRITE,
	XT_MEM_CMP_SWAP,
	XT_MEM_FETCH_ADD,
	XT_MEM_ATOMIC_WRITE,
};

/*
 * Staging memory of one client for the accesses of one engine. It belongs to the host, which
 * frees it after the client's QPs are destroyed.
 */
struct xt_mem_pool {
	struct xt_list rooms; /* struct xt_room of QPs that got no staging memory */
	struct xt_list kept;  /* finished reads that the engine may need, and may give up */
};

static inline void xt_mem_pool_init(struct xt_mem_pool *pool)
{
	xt_list_init(&pool->rooms);
	xt_list_init(&pool->kept);
}

/* One access to bytes of one segment. The host embeds it in a structure of its own. */
struct xt_mem_io {
	/* set by io_new() */
	const struct xt_mem_ops *ops;
	struct xt_mem_pool *pool;
	uint8_t *data; /* staging memory: XT_MEM_WRITE: source, XT_MEM_READ: target; else NULL */
	uint32_t len;  /* bytes at data; of an atomic: 8 */
	/* set before io_submit() */
	uint8_t op; /* enum xt_mem_op */
	struct xt_mem *mem;
	const struct xt_mem_seg *seg; /* valid in io_submit() only: the key may change later */
	uint64_t off;		      /* from the start of the segment */
	uint64_t compare, value;      /* atomics: compare; swap, addend or value stored */
	/*
	 * XT_MEM_WRITE: a message ends with these bytes. Programs poll the last of them, so these
	 * are stored after all others. The other bytes of an access have no order.
	 */
	bool last;
	/* the integrity region that is written, of which this is a piece; or NULL */
	const struct xt_integrity *through;
	/* set when it is finished */
	bool done;
	int err;      /* 0 or a negative errno */
	uint64_t old; /* atomics: the value before */

	/* of the engine */
	struct xt_qp *qp;
	struct xt_list link;
	uint64_t at;   /* offset in the region */
	bool given_up; /* a write that the QP does not need any more, see access.h */
	/* reads, see reads.h */
	struct xt_reads *reads;	  /* NULL: not a read */
	struct xt_list kept_link; /* in pool->kept */
	uint32_t pass;		  /* packet that used it last */
	uint32_t item;		  /* read ahead: work request or READ that it is for */
	bool ahead;		  /* read ahead, not used yet */
	/* writes and atomics, see put.h */
	bool mapped; /* the bytes are mapped, too */
	uint8_t side;
	uint8_t kind; /* enum xt_wr_kind of the message */
	uint32_t psn, msn;
	uint32_t rd; /* atomics: index of the response */
	/* a receive completes when this one is done */
	bool receives, solicited;
	struct xr_cqe cqe;
};

struct xt_mem_ops {
	/*
	 * For segments without ptr only; off: from the start of the segment. Not used if io_new is
	 * set, except by callers that may wait.
	 */
	int (*read)(struct xt_mem *mem, const struct xt_mem_seg *seg, uint64_t off, void *dst,
		    size_t len);
	int (*write)(struct xt_mem *mem, const struct xt_mem_seg *seg, uint64_t off,
		     const void *src, size_t len);

	/*
	 * NULL: memory that never waits. The three functions below are called with the lock of the
	 * engine's worker held (by any thread). engine_ctx: that of xt_engine_new().
	 *
	 * Allocates an access with len bytes of staging memory (atomics: 0) and sets *pool. Returns
	 * NULL if there is no room now: xt_mem_io_room() must follow; *pool is NULL if the memory
	 * can never be accessed. A pool that is empty otherwise must have room for all accesses of
	 * one packet, or piece over loopback: 256 KiB, and two for each segment of 32 SGEs. If one
	 * segment or two neighbours have at least 2 KiB, these are at most 514 accesses.
	 */
	struct xt_mem_io *(*io_new)(struct xt_mem *mem, void *engine_ctx, uint32_t len,
				    struct xt_mem_pool **pool);
	/*
	 * Starts the access; must not call xt_mem_io_done() itself. Accesses of one engine to the
	 * memory of one client take effect in the order in which they are submitted, also those to
	 * segments with ptr, which are written in this way if they are `addressed`. Atomics are
	 * atomic towards all other accesses to the client's memory that are submitted here, by any
	 * engine.
	 */
	void (*io_submit)(struct xt_mem_io *io);
	/*
	 * Releases an access, submitted or not, finished or not. One that is not finished must not
	 * begin any more if that can still be prevented, and is not reported.
	 */
	void (*io_free)(struct xt_mem_io *io);
	/*
	 * Prevents an access that was submitted and is not finished. Returns false if that is too
	 * late, as it is being executed: it will be finished like any other.
	 */
	bool (*io_cancel)(struct xt_mem_io *io);
	/*
	 * Returns a mark that separates the accesses that any engine has submitted so far from
	 * later ones; 0 without accesses. NULL: memory that never waits.
	 */
	uint32_t (*mark)(const struct xt_mem *mem);
	/*
	 * Returns true if an access to the region that was submitted before the mark has not ended,
	 * also one that was released meanwhile. An integrity region is accessed by accesses to its
	 * pieces. Returns false if no access has ended for XT_ENDING_NS (ending.h): the memory
	 * hangs, and nobody should wait for it. By any thread, also while workers run.
	 */
	bool (*in_use)(const struct xt_mem *mem, uint32_t mark);

	/* An access to a mapped segment found an absent page and failed. NULL: nothing to do. */
	void (*absent)(struct xt_mem *mem);
};

/*
 * The access has finished. err: 0 or a negative errno, also -EFAULT if the region was deregistered.
 * The host may finish an access at any time between io_submit() and io_free(), with the lock
 * of the engine's worker held, outside of the engine's functions. The engine may release this
 * access and others at once.
 * xt_engine_run() must follow.
 */
void xt_mem_io_done(struct xt_engine *e, struct xt_mem_io *io, int err);
/* A pool whose io_new() returned NULL may have room again. As for xt_mem_io_done(). */
void xt_mem_io_room(struct xt_engine *e, struct xt_mem_pool *pool);

/* ---- regions -------------------------------------------------------------------------------- */

struct xt_mem_piece {
	uint64_t addr; /* in the owner's address space */
	uint32_t len;
};

struct xt_mem_seg {
	uint64_t off; /* in the region */
	uint64_t len;
	uint8_t *ptr; /* mapped here, or NULL */
	union {
		uint64_t addr;			  /* in the owner's address space */
		const struct xt_mem_piece *piece; /* if there are pieces */
	};
	bool writable;
	bool addressed;	 /* mapped, and accesses reach the bytes as well, by their address */
	uint16_t pieces; /* 0, or the segment is a group of pieces (ring.h), never mapped */
};

/*
 * Splits [off, off + len) of a segment that is a group into parts of its pieces. Returns their
 * number. out: room for XR_GROUP_PIECES
 */
uint32_t xt_mem_parts(const struct xt_mem_seg *seg, uint64_t off, uint64_t len,
		      struct xt_mem_piece *out);

struct xt_mem {
	const struct xt_mem_ops *ops;
	uint64_t length;
	uint32_t nseg;
	struct xt_mem_seg *seg;
	struct xt_integrity *integrity; /* NULL; or there are no segments, see integrity.h */
};

/* Returns a pointer to [off, off + len) if one mapped segment contains it, else NULL. */
uint8_t *xt_mem_ptr(const struct xt_mem *mem, uint64_t off, uint64_t len);
/* Returns the segment that contains an offset, NULL beyond the end. */
const struct xt_mem_seg *xt_mem_seg_at(const struct xt_mem *mem, uint64_t off);

/* A position in a region */
struct xt_mem_at {
	struct xt_mem *mem;
	uint64_t off;
};

/* xt_guard_probe() of mapped memory of a region */
int xt_mem_probe(struct xt_mem *mem, const uint8_t *p, size_t len);

/*
 * Reads. If the memory may have to be waited for, the bytes are read by accesses, and -EINPROGRESS
 * is returned until these have finished (reads.h). reads NULL: the caller may wait.
 */
int xt_mem_read(struct xt_reads *reads, struct xt_mem *mem, uint64_t off, void *dst, size_t len);
/*
 * Writes, at once or by accesses (put.h). Sets put->waits if that is not possible now. put NULL:
 * the caller may wait.
 */
int xt_mem_write(struct xt_put *put, struct xt_mem *mem, uint64_t off, const void *src, size_t len);
/* Writes bytes from offset @skip of a list; len: not 0. Takes one access if possible. */
int xt_mem_write_segs(struct xt_put *put, const struct xt_mem_at *to, const struct xt_seg *from,
		      uint64_t skip, size_t len);
/*
 * Writes them if they go to one mapped segment. Returns false if not, or if memory is absent. The
 * last bytes may be stored before others.
 */
bool xt_mem_place(const struct xt_mem_at *to, const struct xt_seg *from, uint64_t skip, size_t len);
/* Returns true if the bytes are in one segment without ptr, whose accesses may take time. */
bool xt_mem_waits(const struct xt_mem *mem, uint64_t off, uint32_t len);
/*
 * Starts to read len bytes for a later work request, unless they are mapped or in several segments.
 * Returns false if there is no staging memory to spare.
 */
bool xt_mem_fetch(struct xt_reads *ahead, uint32_t item, struct xt_mem *mem, uint64_t off,
		  uint32_t len);

/*
 * Copies between regions, directly if both are mapped. put->reads has the bytes that must be read.
 * On an error, *src_failed is true if the source caused it, false if the target did.
 */
int xt_mem_copy(struct xt_put *put, const struct xt_mem_at *to, const struct xt_mem_at *from,
		uint64_t len, bool *src_failed);

/*
 * 64-bit atomics in host byte order, at an offset whose address is a multiple of 8. Sets *old to
 * the value before the operation, unless put has an access now whose result is that. In mapped
 * memory they use atomic instructions; elsewhere they are atomic only with respect to each other
 * (IBV_ATOMIC_HCA).
 */
int xt_mem_cmp_swap(struct xt_put *put, const struct xt_mem_at *at, uint64_t compare, uint64_t swap,
		    uint64_t *old);
int xt_mem_fetch_add(struct xt_put *put, const struct xt_mem_at *at, uint64_t add, uint64_t *old);
/* Stores 8 bytes with one store if they are mapped. value: the bytes in their order in memory */
int xt_mem_atomic_write(struct xt_put *put, const struct xt_mem_at *at, uint64_t value);

#endif /* XT_MEMORY_H */
