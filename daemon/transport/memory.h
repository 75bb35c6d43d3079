/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Access to the bytes of a memory region, independent of its tiers. The engine uses offsets into a
 * region, but no mappings, processes or files; the daemon and the simulation implement the tiers.
 *
 * A region is a list of segments in the order of their offsets, without gaps. A segment with `ptr`
 * is mapped and accessed by load and store (tiers "shared" and "adopted"). A segment without `ptr`
 * is accessed through `ops` (tier "private"), at the cost of a system call.
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

struct xt_mem;
struct xt_mem_seg;

struct xt_mem_ops {
	/* for segments without ptr only; off: from the start of the segment */
	int (*read)(struct xt_mem *mem, const struct xt_mem_seg *seg, uint64_t off, void *dst,
		    size_t len);
	int (*write)(struct xt_mem *mem, const struct xt_mem_seg *seg, uint64_t off,
		     const void *src, size_t len);
};

struct xt_mem_seg {
	uint64_t off; /* in the region */
	uint64_t len;
	uint8_t *ptr;  /* mapped here, or NULL */
	uint64_t addr; /* in the owner's address space */
	bool writable;
};

struct xt_mem {
	const struct xt_mem_ops *ops;
	uint64_t length;
	bool broken; /* set by the tier if the memory was lost: every access fails with -EFAULT */
	uint32_t nseg;
	struct xt_mem_seg *seg;
};

/*
 * The epoch of the calling thread. A tier may cache its permission checks within one epoch. An
 * epoch begins with each batch of frames and each ring entry seen for the first time, and thus
 * before any access that is requested later. Outside of an engine's round (@in_round false) nothing
 * may be cached.
 */
struct xt_mem_epoch {
	uint64_t count; /* increases with each new epoch */
	bool in_round;
};
extern __thread struct xt_mem_epoch xt_mem_epoch;

static inline void xt_mem_new_epoch(void)
{
	xt_mem_epoch.count++;
}

/* Returns a pointer to [off, off + len) if one mapped segment contains it, else NULL. */
uint8_t *xt_mem_ptr(const struct xt_mem *mem, uint64_t off, uint64_t len);

int xt_mem_read(struct xt_mem *mem, uint64_t off, void *dst, size_t len);
int xt_mem_write(struct xt_mem *mem, uint64_t off, const void *src, size_t len);

/*
 * Copies the payload of a packet, in two halves. Above 2 KiB C libraries copy by microcode (rep
 * movsb), which on some processors takes twenty times as long if the target lies a few bytes
 * behind the source modulo 4096. The headers in front of a payload cause such targets.
 */
static inline void xt_copy(void *dst, const void *src, size_t len)
{
	const size_t half = 2048;

	if (len > half && len <= 2 * half) {
		memcpy(dst, src, half);
		dst = (uint8_t *)dst + half;
		src = (const uint8_t *)src + half;
		len -= half;
	}
	memcpy(dst, src, len);
}

/*
 * Copies between regions, directly if both are mapped. On an error, *src_failed is true if the
 * source caused it, false if the target did.
 */
int xt_mem_copy(struct xt_mem *dst, uint64_t dst_off, struct xt_mem *src, uint64_t src_off,
		uint64_t len, bool *src_failed);

/*
 * 64-bit atomics in host byte order, at an offset whose address is a multiple of 8. Sets *old to
 * the value before the operation. In mapped memory they use atomic instructions; elsewhere they are
 * atomic only with respect to each other (IBV_ATOMIC_HCA).
 */
int xt_mem_cmp_swap(struct xt_mem *mem, uint64_t off, uint64_t compare, uint64_t swap,
		    uint64_t *old);
int xt_mem_fetch_add(struct xt_mem *mem, uint64_t off, uint64_t add, uint64_t *old);
/* Stores 8 bytes with one store if they are mapped. value: the bytes in their order in memory */
int xt_mem_atomic_write(struct xt_mem *mem, uint64_t off, uint64_t value);

#endif /* XT_MEMORY_H */
