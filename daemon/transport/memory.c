// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "memory.h"

/* Bytes copied at a time between two segments that are not mapped */
#define BOUNCE 16384

__thread struct xt_mem_epoch xt_mem_epoch;

/* Returns the segment that contains an offset, NULL beyond the end. */
static const struct xt_mem_seg *find_seg(const struct xt_mem *mem, uint64_t off)
{
	uint32_t lo = 0, hi = mem->nseg, mid;

	if (off >= mem->length)
		return NULL;
	while (hi - lo > 1) {
		mid = lo + (hi - lo) / 2;
		if (mem->seg[mid].off <= off)
			lo = mid;
		else
			hi = mid;
	}
	return mem->nseg ? &mem->seg[lo] : NULL;
}

uint8_t *xt_mem_ptr(const struct xt_mem *mem, uint64_t off, uint64_t len)
{
	const struct xt_mem_seg *seg = find_seg(mem, off);

	if (!seg || !seg->ptr || mem->broken || len > seg->len - (off - seg->off))
		return NULL;
	return seg->ptr + (off - seg->off);
}

/* Returns the bytes from an offset of the region to the end of the segment, at most len. */
static uint64_t span(const struct xt_mem_seg *seg, uint64_t off, uint64_t len)
{
	uint64_t left = seg->len - (off - seg->off);

	return left < len ? left : len;
}

static int read_seg(struct xt_mem *mem, const struct xt_mem_seg *seg, uint64_t off, void *dst,
		    size_t len)
{
	if (!seg->ptr)
		return mem->ops->read(mem, seg, off - seg->off, dst, len);
	xt_copy(dst, seg->ptr + (off - seg->off), len);
	return 0;
}

static int write_seg(struct xt_mem *mem, const struct xt_mem_seg *seg, uint64_t off,
		     const void *src, size_t len)
{
	if (!seg->writable)
		return -EACCES;
	if (!seg->ptr)
		return mem->ops->write(mem, seg, off - seg->off, src, len);
	xt_copy(seg->ptr + (off - seg->off), src, len);
	return 0;
}

/*
 * Returns true if the memory was lost. Called before and after each access: if pages vanish during
 * a copy, a signal handler maps zeros in their place (daemon/memory/sigbus.c).
 */
static bool is_broken(const struct xt_mem *mem)
{
	return __atomic_load_n(&mem->broken, __ATOMIC_ACQUIRE);
}

int xt_mem_read(struct xt_mem *mem, uint64_t off, void *dst, size_t len)
{
	const struct xt_mem_seg *seg;
	int err = 0;
	size_t n;

	for (; len && !err; off += n, dst = (uint8_t *)dst + n, len -= n) {
		seg = find_seg(mem, off);
		if (!seg || is_broken(mem))
			return -EFAULT;
		n = span(seg, off, len);
		err = read_seg(mem, seg, off, dst, n);
	}
	return !err && is_broken(mem) ? -EFAULT : err;
}

int xt_mem_write(struct xt_mem *mem, uint64_t off, const void *src, size_t len)
{
	const struct xt_mem_seg *seg;
	int err = 0;
	size_t n;

	for (; len && !err; off += n, src = (const uint8_t *)src + n, len -= n) {
		seg = find_seg(mem, off);
		if (!seg || is_broken(mem))
			return -EFAULT;
		n = span(seg, off, len);
		err = write_seg(mem, seg, off, src, n);
	}
	return !err && is_broken(mem) ? -EFAULT : err;
}

/* A position in one segment of a region */
struct place {
	struct xt_mem *mem;
	const struct xt_mem_seg *seg;
	uint64_t off; /* in the region */
};

static uint8_t *place_ptr(const struct place *p)
{
	return p->seg->ptr ? p->seg->ptr + (p->off - p->seg->off) : NULL;
}

/* Copies between two segments that are not mapped. */
static int copy_through_buffer(struct place to, struct place from, uint64_t len, bool *src_failed)
{
	uint8_t bounce[BOUNCE];
	uint64_t n;
	int err;

	for (; len; to.off += n, from.off += n, len -= n) {
		n = len < BOUNCE ? len : BOUNCE;
		err = read_seg(from.mem, from.seg, from.off, bounce, n);
		*src_failed = err;
		if (!err)
			err = write_seg(to.mem, to.seg, to.off, bounce, n);
		if (err)
			return err;
	}
	return 0;
}

/* Copies bytes that lie in one segment on each side. */
static int copy_run(const struct place *to, const struct place *from, uint64_t len,
		    bool *src_failed)
{
	uint8_t *dst = place_ptr(to), *src = place_ptr(from);
	int err;

	if (!to->seg->writable)
		return -EACCES;
	if (dst && src) {
		/* both may be the same memory */
		memmove(dst, src, len);
		return 0;
	}
	if (src)
		return write_seg(to->mem, to->seg, to->off, src, len);
	if (dst) {
		err = read_seg(from->mem, from->seg, from->off, dst, len);
		*src_failed = err;
		return err;
	}
	return copy_through_buffer(*to, *from, len, src_failed);
}

int xt_mem_copy(struct xt_mem *dst, uint64_t dst_off, struct xt_mem *src, uint64_t src_off,
		uint64_t len, bool *src_failed)
{
	struct place to = { dst, NULL, dst_off }, from = { src, NULL, src_off };
	int err = 0;
	uint64_t n;

	*src_failed = false;
	for (; len && !err; to.off += n, from.off += n, len -= n) {
		to.seg = find_seg(dst, to.off);
		from.seg = find_seg(src, from.off);
		if (!to.seg || !from.seg || is_broken(dst) || is_broken(src))
			break;
		n = span(from.seg, from.off, span(to.seg, to.off, len));
		err = copy_run(&to, &from, n, src_failed);
	}
	if (err || (!len && !is_broken(dst) && !is_broken(src)))
		return err;
	*src_failed = !is_broken(dst) && is_broken(src);
	return -EFAULT;
}

/* ---- atomics --------------------------------------------------------------------- */

/*
 * An atomic operation on memory that is not mapped takes two system calls, one to read and one to
 * write. The lock serializes these operations of all workers. Atomic instructions need no lock.
 */
static pthread_mutex_t unmapped_lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t *atomic_ptr(const struct xt_mem *mem, uint64_t off)
{
	const struct xt_mem_seg *seg = find_seg(mem, off);
	uint8_t *p = xt_mem_ptr(mem, off, sizeof(uint64_t));

	return p && seg->writable && !((uintptr_t)p & 7) ? (uint64_t *)p : NULL;
}

int xt_mem_cmp_swap(struct xt_mem *mem, uint64_t off, uint64_t compare, uint64_t swap,
		    uint64_t *old)
{
	uint64_t *p = atomic_ptr(mem, off), value = compare;
	int err;

	if (p) {
		__atomic_compare_exchange_n(p, &value, swap, false, __ATOMIC_SEQ_CST,
					    __ATOMIC_SEQ_CST);
		*old = value;
		return is_broken(mem) ? -EFAULT : 0;
	}
	pthread_mutex_lock(&unmapped_lock);
	err = xt_mem_read(mem, off, &value, sizeof(value));
	if (!err && value == compare)
		err = xt_mem_write(mem, off, &swap, sizeof(swap));
	pthread_mutex_unlock(&unmapped_lock);
	if (!err)
		*old = value;
	return err;
}

int xt_mem_fetch_add(struct xt_mem *mem, uint64_t off, uint64_t add, uint64_t *old)
{
	uint64_t *p = atomic_ptr(mem, off), value = 0, sum;
	int err;

	if (p) {
		*old = __atomic_fetch_add(p, add, __ATOMIC_SEQ_CST);
		return is_broken(mem) ? -EFAULT : 0;
	}
	pthread_mutex_lock(&unmapped_lock);
	err = xt_mem_read(mem, off, &value, sizeof(value));
	sum = value + add;
	if (!err)
		err = xt_mem_write(mem, off, &sum, sizeof(sum));
	pthread_mutex_unlock(&unmapped_lock);
	if (!err)
		*old = value;
	return err;
}

int xt_mem_atomic_write(struct xt_mem *mem, uint64_t off, uint64_t value)
{
	uint64_t *p = atomic_ptr(mem, off);
	int err;

	if (p) {
		__atomic_store_n(p, value, __ATOMIC_SEQ_CST);
		return is_broken(mem) ? -EFAULT : 0;
	}
	pthread_mutex_lock(&unmapped_lock);
	err = xt_mem_write(mem, off, &value, sizeof(value));
	pthread_mutex_unlock(&unmapped_lock);
	return err;
}
