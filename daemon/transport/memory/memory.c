// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include <xroce/ring.h>

#include "guard.h"
#include "integrity.h"
#include "memory.h"
#include "put.h"
#include "reads.h"
#include "daemon/transport/transport.h"

/* Bytes copied at a time between two segments that are not mapped */
#define BOUNCE 16384

/* Returns the segment that contains an offset, NULL beyond the end. */
static const struct xt_mem_seg *find_seg(const struct xt_mem *mem, uint64_t off)
{
	/* the host may replace them, by as many */
	const struct xt_mem_seg *seg = __atomic_load_n(&mem->seg, __ATOMIC_ACQUIRE);
	uint32_t lo = 0, hi = mem->nseg, mid;

	if (off >= mem->length)
		return NULL;
	while (hi - lo > 1) {
		mid = lo + (hi - lo) / 2;
		if (seg[mid].off <= off)
			lo = mid;
		else
			hi = mid;
	}
	return mem->nseg ? &seg[lo] : NULL;
}

uint8_t *xt_mem_ptr(const struct xt_mem *mem, uint64_t off, uint64_t len)
{
	const struct xt_mem_seg *seg = find_seg(mem, off);

	if (!seg || !seg->ptr || len > seg->len - (off - seg->off))
		return NULL;
	return seg->ptr + (off - seg->off);
}

const struct xt_mem_seg *xt_mem_seg_at(const struct xt_mem *mem, uint64_t off)
{
	return find_seg(mem, off);
}

/* Returns the bytes from an offset of the region to the end of the segment, at most len. */
static uint64_t memory_span(const struct xt_mem_seg *seg, uint64_t off, uint64_t len)
{
	uint64_t left = seg->len - (off - seg->off);

	return left < len ? left : len;
}

/* Reports the result of an access to a mapped segment. Returns err. */
static int reported(struct xt_mem *mem, int err)
{
	if (err && mem->ops->absent)
		mem->ops->absent(mem);
	return err;
}

int xt_mem_probe(struct xt_mem *mem, const uint8_t *p, size_t len)
{
	return reported(mem, xt_guard_probe(p, len));
}

uint32_t xt_mem_parts(const struct xt_mem_seg *seg, uint64_t off, uint64_t len,
		      struct xt_mem_piece *out)
{
	const struct xt_mem_piece *p = seg->piece, *end = seg->piece + seg->pieces;
	uint32_t n = 0;

	for (; p < end && off >= p->len; p++)
		off -= p->len;
	for (; p < end && len; p++, off = 0, n++) {
		out[n].addr = p->addr + off;
		out[n].len = p->len - off < len ? p->len - (uint32_t)off : (uint32_t)len;
		len -= out[n].len;
	}
	return n;
}

/* Accesses a group of pieces one by one, without waiting. write: to memory from data */
static int access_parts(const struct xt_mem_place *p, uint8_t *data, size_t len, bool write)
{
	const struct xt_mem_ops *ops = p->mem->ops;
	struct xt_mem_piece part[XR_GROUP_PIECES];
	uint32_t n = xt_mem_parts(p->seg, p->off - p->seg->off, len, part), i;
	int err = 0;

	for (i = 0; i < n && !err; i++) {
		const struct xt_mem_seg seg = { .len = part[i].len,
						.addr = part[i].addr,
						.writable = p->seg->writable };

		err = write ? ops->write(p->mem, &seg, 0, data, part[i].len)
			    : ops->read(p->mem, &seg, 0, data, part[i].len);
		data += part[i].len;
	}
	return err;
}

/* Returns true if accesses to the segment may have to wait. */
static bool may_wait(const struct xt_mem_place *p)
{
	return !p->seg->ptr && p->mem->ops->io_new;
}

static int read_seg(struct xt_reads *reads, const struct xt_mem_place *p, void *dst, size_t len)
{
	const struct xt_mem_seg *seg = p->seg;

	if (seg->ptr)
		return reported(p->mem, xt_guard_copy(dst, seg->ptr + (p->off - seg->off), len));
	if (reads && may_wait(p))
		return xt_reads_copy(reads, p, dst, len);
	if (seg->pieces)
		return access_parts(p, dst, len, false);
	return p->mem->ops->read(p->mem, seg, p->off - seg->off, dst, len);
}

/* Returns true if bytes are written by accesses. */
static bool memory_is_posted(const struct xt_put *put, const struct xt_mem_place *to)
{
	return put && (may_wait(to) || (to->seg->ptr && xt_put_posts_mapped(put, to)));
}

/* Writes to memory that is not mapped, without waiting. */
static int write_at_once(const struct xt_mem_place *p, const void *src, size_t len)
{
	const struct xt_mem_seg *seg = p->seg;

	if (seg->pieces)
		return access_parts(p, (uint8_t *)src, len, true);
	return p->mem->ops->write(p->mem, seg, p->off - seg->off, src, len);
}

static int write_seg(struct xt_put *put, const struct xt_mem_place *p, const void *src, size_t len)
{
	const struct xt_mem_seg *seg = p->seg;
	int err;

	if (!seg->writable)
		return -EACCES;
	if (memory_is_posted(put, p)) {
		err = xt_put_write(put, p, &(struct xt_seg){ (void *)src, (uint32_t)len }, 0, len);
		if (err != XT_PUT_UNREACHED)
			return err;
	}
	if (put && put->waits)
		return 0;
	if (seg->ptr)
		return reported(p->mem, xt_guard_place(seg->ptr + (p->off - seg->off), src, len));
	return write_at_once(p, src, len);
}

int xt_mem_read(struct xt_reads *reads, struct xt_mem *mem, uint64_t off, void *dst, size_t len)
{
	struct xt_mem_place p = { .mem = mem, .off = off };
	int err, result = 0;
	size_t n;

	for (; len; p.off += n, dst = (uint8_t *)dst + n, len -= n) {
		p.seg = find_seg(mem, p.off);
		if (!p.seg)
			return mem->integrity
				       ? xt_integrity_read(reads, mem->integrity, off, dst, len)
				       : -EFAULT;
		n = memory_span(p.seg, p.off, len);
		err = read_seg(reads, &p, dst, n);
		/* all that can be started is */
		if (err && err != -EINPROGRESS)
			return err;
		result = err ? err : result;
	}
	return result;
}

bool xt_mem_waits(const struct xt_mem *mem, uint64_t off, uint32_t len)
{
	const struct xt_mem_seg *seg = find_seg(mem, off);

	return seg && !seg->ptr && memory_span(seg, off, len) == len && mem->ops->io_new;
}

bool xt_mem_fetch(struct xt_reads *ahead, uint32_t item, struct xt_mem *mem, uint64_t off,
		  uint32_t len)
{
	struct xt_mem_place p = { .mem = mem, .seg = find_seg(mem, off), .off = off };

	return !xt_mem_waits(mem, off, len) || xt_reads_fetch_ahead(ahead, item, &p, len);
}

int xt_mem_write(struct xt_put *put, struct xt_mem *mem, uint64_t off, const void *src, size_t len)
{
	struct xt_mem_place p = { .mem = mem, .off = off };
	int err = 0;
	size_t n;

	for (; len && !err; p.off += n, src = (const uint8_t *)src + n, len -= n) {
		p.seg = find_seg(mem, p.off);
		if (!p.seg)
			return mem->integrity
				       ? xt_integrity_write(put, mem->integrity, off, src, len)
				       : -EFAULT;
		n = memory_span(p.seg, p.off, len);
		err = write_seg(put, &p, src, n);
	}
	return err;
}

int xt_mem_write_segs(struct xt_put *put, const struct xt_mem_at *to, const struct xt_seg *from,
		      uint64_t skip, size_t len)
{
	struct xt_mem_place p = { .mem = to->mem, .off = to->off };
	int err = 0;
	size_t run;

	for (; skip >= from->len; from++)
		skip -= from->len;
	if (from->len - skip < len)
		p.seg = find_seg(p.mem, p.off);
	if (p.seg && p.seg->writable && memory_span(p.seg, p.off, len) == len &&
	    memory_is_posted(put, &p)) {
		err = xt_put_write(put, &p, from, skip, len);
		if (err != XT_PUT_UNREACHED)
			return err;
		err = 0;
	}
	for (; len && !err; from++, skip = 0, p.off += run, len -= run) {
		run = from->len - skip < len ? from->len - skip : len;
		err = xt_mem_write(put, p.mem, p.off, from->data + skip, run);
	}
	return err;
}

bool xt_mem_place(const struct xt_mem_at *to, const struct xt_seg *from, uint64_t skip, size_t len)
{
	const struct xt_mem_seg *seg = find_seg(to->mem, to->off);

	if (!seg || !seg->ptr || !seg->writable || memory_span(seg, to->off, len) != len)
		return false;
	return !reported(to->mem,
			 xt_guard_copy_segs(seg->ptr + (to->off - seg->off), from, skip, len));
}

/* Moves bytes between mapped segments, which may be the same memory. */
static int memory_move(const struct xt_mem_place *to, const struct xt_mem_place *from, uint64_t len,
		       bool *src_failed)
{
	uint8_t *dst = to->seg->ptr + (to->off - to->seg->off);
	const uint8_t *src = from->seg->ptr + (from->off - from->seg->off);
	int err = xt_guard_move(dst, src, len, src_failed);

	return reported(*src_failed ? from->mem : to->mem, err);
}

/* Posts bytes of a mapped segment. */
static int post_mapped(struct xt_put *put, const struct xt_mem_place *to,
		       const struct xt_mem_place *from, uint64_t len, bool *src_failed)
{
	const struct xt_seg src = { from->seg->ptr + (from->off - from->seg->off), (uint32_t)len };
	int err = xt_put_write(put, to, &src, 0, len);

	*src_failed = err == XT_PUT_ABSENT;
	return *src_failed ? reported(from->mem, -EFAULT) : err;
}

/* Writes bytes that have been read by an access. Those that are not there yet are waited for. */
static int write_read(struct xt_put *put, const struct xt_mem_place *to,
		      const struct xt_mem_place *from, uint64_t *len, bool *src_failed)
{
	const uint8_t *bytes;
	int err;

	bytes = xt_reads_bytes(put->reads, from, len, &err);
	if (bytes)
		return write_seg(put, to, bytes, *len);
	put->waits |= err == -EINPROGRESS;
	*src_failed = err != -EINPROGRESS;
	return *src_failed ? err : 0;
}

/* Writes bytes of a segment that is read without waiting. */
static int write_through_buffer(struct xt_put *put, const struct xt_mem_place *to,
				const struct xt_mem_place *from, uint64_t *len, bool *src_failed)
{
	uint8_t bounce[BOUNCE];
	int err;

	*len = *len < BOUNCE ? *len : BOUNCE;
	err = read_seg(NULL, from, bounce, *len);
	*src_failed = err;
	return err ? err : write_seg(put, to, bounce, *len);
}

/* Copies bytes that are in one segment on each side, as many as are at hand: *len becomes that. */
static int memory_copy_run(struct xt_put *put, const struct xt_mem_place *to,
			   const struct xt_mem_place *from, uint64_t *len, bool *src_failed)
{
	int err;

	if (!to->seg->writable)
		return -EACCES;
	if (from->seg->ptr && memory_is_posted(put, to)) {
		err = post_mapped(put, to, from, *len, src_failed);
		if (err != XT_PUT_UNREACHED)
			return err;
	}
	if (from->seg->ptr && to->seg->ptr)
		return put && put->waits ? 0 : memory_move(to, from, *len, src_failed);
	if (from->seg->ptr)
		return write_seg(put, to, from->seg->ptr + (from->off - from->seg->off), *len);
	if (put && may_wait(from))
		return write_read(put, to, from, len, src_failed);
	return write_through_buffer(put, to, from, len, src_failed);
}

int xt_mem_copy(struct xt_put *put, const struct xt_mem_at *dst, const struct xt_mem_at *src,
		uint64_t len, bool *src_failed)
{
	struct xt_mem_place to = { .mem = dst->mem, .off = dst->off };
	struct xt_mem_place from = { .mem = src->mem, .off = src->off };
	int err = 0;
	uint64_t n;

	*src_failed = false;
	for (; len && !err; to.off += n, from.off += n, len -= n) {
		to.seg = find_seg(dst->mem, to.off);
		from.seg = find_seg(src->mem, from.off);
		if (!to.seg || !from.seg) {
			if (dst->mem->integrity || src->mem->integrity)
				return xt_integrity_copy(put, dst, src, len, src_failed);
			*src_failed = to.seg;
			return -EFAULT;
		}
		n = memory_span(from.seg, from.off, memory_span(to.seg, to.off, len));
		err = memory_copy_run(put, &to, &from, &n, src_failed);
	}
	return err;
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

/* Returns true if the 8 bytes are in one segment, and in one piece if it is a group. */
static bool is_whole(const struct xt_mem_place *p)
{
	struct xt_mem_piece part[sizeof(uint64_t)];

	if (!p->seg || memory_span(p->seg, p->off, sizeof(uint64_t)) < sizeof(uint64_t))
		return false;
	return !p->seg->pieces ||
	       xt_mem_parts(p->seg, p->off - p->seg->off, sizeof(uint64_t), part) == 1;
}

/*
 * Returns true if the atomic is not to be executed here, but by an access, later or not at all;
 * *err is its result so far. It must not overtake posted writes. Accesses are atomic only towards
 * each other, so an atomic in mapped memory is never one.
 */
static bool is_put(struct xt_put *put, const struct xt_mem_at *at, const struct xt_put_atomic *a,
		   int *err)
{
	struct xt_mem_place p = { at->mem, find_seg(at->mem, at->off), at->off };
	bool whole = is_whole(&p);

	*err = 0;
	if (!put)
		return false;
	if (whole && p.seg->ptr) {
		put->waits |= xt_put_has_posted(put);
		return put->waits;
	}
	if (!at->mem->ops->io_new)
		return false;
	if (!whole)
		*err = -EFAULT;
	else
		*err = p.seg->writable ? xt_put_atomic(put, &p, a) : -EACCES;
	return true;
}

int xt_mem_cmp_swap(struct xt_put *put, const struct xt_mem_at *at, uint64_t compare, uint64_t swap,
		    uint64_t *old)
{
	const struct xt_put_atomic a = { XT_MEM_CMP_SWAP, compare, swap };
	uint64_t *p = atomic_ptr(at->mem, at->off), value;
	int err;

	if (is_put(put, at, &a, &err))
		return err;
	if (p)
		return reported(at->mem, XT_UNORDERED(xt_guard_cmp_swap(p, compare, swap, old)));
	pthread_mutex_lock(&unmapped_lock);
	err = xt_mem_read(NULL, at->mem, at->off, &value, sizeof(value));
	if (!err && value == compare)
		err = xt_mem_write(NULL, at->mem, at->off, &swap, sizeof(swap));
	pthread_mutex_unlock(&unmapped_lock);
	if (!err)
		*old = value;
	return err;
}

int xt_mem_fetch_add(struct xt_put *put, const struct xt_mem_at *at, uint64_t add, uint64_t *old)
{
	const struct xt_put_atomic a = { XT_MEM_FETCH_ADD, 0, add };
	uint64_t *p = atomic_ptr(at->mem, at->off), value = 0, sum;
	int err;

	if (is_put(put, at, &a, &err))
		return err;
	if (p)
		return reported(at->mem, XT_UNORDERED(xt_guard_fetch_add(p, add, old)));
	pthread_mutex_lock(&unmapped_lock);
	err = xt_mem_read(NULL, at->mem, at->off, &value, sizeof(value));
	sum = value + add;
	if (!err)
		err = xt_mem_write(NULL, at->mem, at->off, &sum, sizeof(sum));
	pthread_mutex_unlock(&unmapped_lock);
	if (!err)
		*old = value;
	return err;
}

int xt_mem_atomic_write(struct xt_put *put, const struct xt_mem_at *at, uint64_t value)
{
	const struct xt_put_atomic a = { XT_MEM_ATOMIC_WRITE, 0, value };
	uint64_t *p = atomic_ptr(at->mem, at->off);
	int err;

	if (is_put(put, at, &a, &err))
		return err;
	if (p)
		return reported(at->mem, XT_UNORDERED(xt_guard_store(p, value)));
	pthread_mutex_lock(&unmapped_lock);
	err = xt_mem_write(NULL, at->mem, at->off, &value, sizeof(value));
	pthread_mutex_unlock(&unmapped_lock);
	return err;
}
