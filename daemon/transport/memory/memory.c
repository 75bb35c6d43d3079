// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include <xroce/ring.h>

#include "guard.h"
#include "integrity.h"
#include "memory.h"
#include "step.h"
#include "daemon/transport/transport.h"

/* Bytes copied at a time between two segments that are not mapped */
#define BOUNCE 16384

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

	if (!seg || !seg->ptr || len > seg->len - (off - seg->off))
		return NULL;
	return seg->ptr + (off - seg->off);
}

const struct xt_mem_seg *xt_mem_seg_at(const struct xt_mem *mem, uint64_t off)
{
	return find_seg(mem, off);
}

/* Returns the bytes from an offset of the region to the end of the segment, at most len. */
static uint64_t span(const struct xt_mem_seg *seg, uint64_t off, uint64_t len)
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
static int access_parts(const struct xt_step_place *p, uint8_t *data, size_t len, bool write)
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

/* Returns true if an access to a segment without ptr may have to wait. */
static bool may_wait(const struct xt_step *step, const struct xt_mem *mem)
{
	return step && mem->ops->io_new;
}

static int read_seg(struct xt_step *step, const struct xt_step_place *p, void *dst, size_t len)
{
	const struct xt_mem_seg *seg = p->seg;

	if (seg->ptr)
		return reported(p->mem, xt_guard_copy(dst, seg->ptr + (p->off - seg->off), len));
	if (may_wait(step, p->mem))
		return xt_step_read(step, p, dst, len);
	if (seg->pieces)
		return access_parts(p, dst, len, false);
	return p->mem->ops->read(p->mem, seg, p->off - seg->off, dst, len);
}

/* Returns true if mapped memory is written when the step is executed again, see xt_step_fence(). */
static bool is_fenced(struct xt_step *step)
{
	return step && (step->fenced || step->last) && xt_step_fence(step);
}

/* The same if bytes before it have to be read first */
static bool must_delay(struct xt_step *step)
{
	return step && (step->delayed || is_fenced(step));
}

static int write_seg(struct xt_step *step, const struct xt_step_place *p, const void *src,
		     size_t len)
{
	const struct xt_mem_seg *seg = p->seg;

	if (!seg->writable)
		return -EACCES;
	if (seg->ptr) {
		if (must_delay(step))
			return -EINPROGRESS;
		return reported(p->mem, xt_guard_place(seg->ptr + (p->off - seg->off), src, len));
	}
	if (may_wait(step, p->mem))
		return xt_step_write(step, p, &(struct xt_seg){ (void *)src, len }, 0, len);
	if (seg->pieces)
		return access_parts(p, (uint8_t *)src, len, true);
	return p->mem->ops->write(p->mem, seg, p->off - seg->off, src, len);
}

/* -EINPROGRESS does not stop an access: all that can be started is. */
static bool goes_on(int err)
{
	return !err || err == -EINPROGRESS;
}

/* Adds the result of a part to that of the access. */
static void add_result(int *result, int err)
{
	if (err && goes_on(*result))
		*result = err;
}

int xt_mem_read(struct xt_step *step, struct xt_mem *mem, uint64_t off, void *dst, size_t len)
{
	struct xt_step_place p = { .mem = mem, .off = off };
	int err = 0;
	size_t n;

	for (; len && goes_on(err); p.off += n, dst = (uint8_t *)dst + n, len -= n) {
		p.seg = find_seg(mem, p.off);
		if (!p.seg)
			return mem->integrity
				       ? xt_integrity_read(step, mem->integrity, off, dst, len)
				       : -EFAULT;
		n = span(p.seg, p.off, len);
		add_result(&err, read_seg(step, &p, dst, n));
	}
	return err;
}

bool xt_mem_waits(const struct xt_step *step, const struct xt_mem *mem, uint64_t off, uint32_t len)
{
	const struct xt_mem_seg *seg = find_seg(mem, off);

	return seg && !seg->ptr && span(seg, off, len) == len && may_wait(step, mem);
}

bool xt_mem_fetch(struct xt_step *ahead, uint32_t item, struct xt_mem *mem, uint64_t off,
		  uint32_t len)
{
	struct xt_step_place p = { .mem = mem, .seg = find_seg(mem, off), .off = off };

	return !xt_mem_waits(ahead, mem, off, len) || xt_step_fetch_ahead(ahead, item, &p, len);
}

int xt_mem_write(struct xt_step *step, struct xt_mem *mem, uint64_t off, const void *src,
		 size_t len)
{
	struct xt_step_place p = { .mem = mem, .off = off };
	int err = 0;
	size_t n;

	for (; len && goes_on(err); p.off += n, src = (const uint8_t *)src + n, len -= n) {
		p.seg = find_seg(mem, p.off);
		if (!p.seg)
			return mem->integrity
				       ? xt_integrity_write(step, mem->integrity, off, src, len)
				       : -EFAULT;
		n = span(p.seg, p.off, len);
		add_result(&err, write_seg(step, &p, src, n));
	}
	return err;
}

int xt_mem_write_segs(struct xt_step *step, const struct xt_mem_at *to, const struct xt_seg *from,
		      uint64_t skip, size_t len)
{
	struct xt_step_place p = { .mem = to->mem, .off = to->off };
	int err = 0;
	size_t run;

	for (; skip >= from->len; from++)
		skip -= from->len;
	if (from->len - skip < len)
		p.seg = find_seg(p.mem, p.off);
	if (p.seg && p.seg->writable && xt_mem_waits(step, p.mem, p.off, (uint32_t)len))
		return xt_step_write(step, &p, from, skip, len);
	for (; len && goes_on(err); from++, skip = 0, p.off += run, len -= run) {
		run = from->len - skip < len ? from->len - skip : len;
		add_result(&err, xt_mem_write(step, p.mem, p.off, from->data + skip, run));
	}
	return err;
}

bool xt_mem_place(const struct xt_mem_at *to, const struct xt_seg *from, uint64_t skip, size_t len)
{
	const struct xt_mem_seg *seg = find_seg(to->mem, to->off);

	if (!seg || !seg->ptr || !seg->writable || span(seg, to->off, len) != len)
		return false;
	return !reported(to->mem,
			 xt_guard_copy_segs(seg->ptr + (to->off - seg->off), from, skip, len));
}

static uint8_t *place_ptr(const struct xt_step_place *p)
{
	return p->seg->ptr ? p->seg->ptr + (p->off - p->seg->off) : NULL;
}

/* Copies from a segment that is not mapped. */
static int copy_through_buffer(struct xt_step *step, const struct xt_step_place *to,
			       const struct xt_step_place *from, uint32_t len, bool *src_failed)
{
	uint8_t bounce[BOUNCE];
	int err;

	if (may_wait(step, from->mem) && may_wait(step, to->mem))
		return xt_step_copy(step, to, from, len, src_failed);
	err = read_seg(step, from, bounce, len);
	*src_failed = err;
	return err ? err : write_seg(step, to, bounce, len);
}

/* Copies to a mapped segment from one that may have to be waited for. */
static int place_read(struct xt_step *step, const struct xt_step_place *to,
		      const struct xt_step_place *from, uint64_t len, bool *src_failed)
{
	int err = xt_step_place_read(step, from, place_ptr(to), len, src_failed);

	if (err && err != -EINPROGRESS && !*src_failed)
		reported(to->mem, err);
	return err;
}

/* Copies from a mapped segment to one that is not mapped. */
static int write_mapped(struct xt_step *step, const struct xt_step_place *to,
			const struct xt_step_place *from, uint64_t len, bool *src_failed)
{
	int err = write_seg(step, to, place_ptr(from), len);

	*src_failed = err == XT_STEP_ABSENT;
	return *src_failed ? reported(from->mem, -EFAULT) : err;
}

/* Copies bytes that lie in one segment on each side; their length: as run_of() returns it. */
static int copy_run(struct xt_step *step, const struct xt_step_place *to,
		    const struct xt_step_place *from, uint64_t len, bool *src_failed)
{
	uint8_t *dst = place_ptr(to), *src = place_ptr(from);
	int err;

	if (!to->seg->writable)
		return -EACCES;
	if (dst && is_fenced(step))
		return -EINPROGRESS;
	if (dst && !src && may_wait(step, from->mem))
		return place_read(step, to, from, len, src_failed);
	if (dst && step && step->delayed)
		return -EINPROGRESS;
	/* both may be the same memory */
	if (dst && src) {
		err = xt_guard_move(dst, src, len, src_failed);
		return reported(*src_failed ? from->mem : to->mem, err);
	}
	if (src)
		return write_mapped(step, to, from, len, src_failed);
	return copy_through_buffer(step, to, from, len, src_failed);
}

/* Returns the bytes that copy_run() may copy at once. */
static uint64_t run_of(const struct xt_step *step, const struct xt_step_place *to,
		       const struct xt_step_place *from, uint64_t len)
{
	uint64_t n = span(from->seg, from->off, span(to->seg, to->off, len)), most = BOUNCE;

	if (from->seg->ptr || (to->seg->ptr && may_wait(step, from->mem)))
		return n;
	if (may_wait(step, from->mem) && may_wait(step, to->mem))
		most = XT_MEM_IO_MAX;
	return n < most ? n : most;
}

int xt_mem_copy(struct xt_step *step, const struct xt_mem_at *dst, const struct xt_mem_at *src,
		uint64_t len, bool *src_failed)
{
	struct xt_step_place to = { .mem = dst->mem, .off = dst->off };
	struct xt_step_place from = { .mem = src->mem, .off = src->off };
	bool failed = false;
	int err = 0;
	uint64_t n;

	*src_failed = false;
	for (; len && goes_on(err); to.off += n, from.off += n, len -= n) {
		to.seg = find_seg(dst->mem, to.off);
		from.seg = find_seg(src->mem, from.off);
		if (!to.seg || !from.seg) {
			if (dst->mem->integrity || src->mem->integrity)
				return xt_integrity_copy(step, dst, src, len, src_failed);
			*src_failed = to.seg;
			return -EFAULT;
		}
		n = run_of(step, &to, &from, len);
		failed = false;
		add_result(&err, copy_run(step, &to, &from, n, &failed));
	}
	*src_failed = failed;
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
static bool is_whole(const struct xt_step_place *p)
{
	struct xt_mem_piece part[sizeof(uint64_t)];

	if (!p->seg || span(p->seg, p->off, sizeof(uint64_t)) < sizeof(uint64_t))
		return false;
	return !p->seg->pieces ||
	       xt_mem_parts(p->seg, p->off - p->seg->off, sizeof(uint64_t), part) == 1;
}

/* Returns true if a step executes the atomic; *err is its result so far. */
static bool by_step(struct xt_step *step, const struct xt_mem_at *at,
		    const struct xt_step_atomic *a, int *err)
{
	struct xt_step_place p = { at->mem, find_seg(at->mem, at->off), at->off };
	bool whole = is_whole(&p);

	if (!may_wait(step, at->mem) || (whole && p.seg->ptr))
		return false;
	if (!whole)
		*err = -EFAULT;
	else
		*err = p.seg->writable ? xt_step_atomic(step, &p, a) : -EACCES;
	return true;
}

int xt_mem_cmp_swap(struct xt_step *step, const struct xt_mem_at *at, uint64_t compare,
		    uint64_t swap, uint64_t *old)
{
	const struct xt_step_atomic a = { XT_MEM_CMP_SWAP, compare, swap };
	uint64_t *p = atomic_ptr(at->mem, at->off), value;
	int err;

	if (p)
		return reported(at->mem, XT_UNORDERED(xt_guard_cmp_swap(p, compare, swap, old)));
	if (by_step(step, at, &a, &err)) {
		*old = step->atomic_old;
		return err;
	}
	pthread_mutex_lock(&unmapped_lock);
	err = xt_mem_read(NULL, at->mem, at->off, &value, sizeof(value));
	if (!err && value == compare)
		err = xt_mem_write(NULL, at->mem, at->off, &swap, sizeof(swap));
	pthread_mutex_unlock(&unmapped_lock);
	if (!err)
		*old = value;
	return err;
}

int xt_mem_fetch_add(struct xt_step *step, const struct xt_mem_at *at, uint64_t add, uint64_t *old)
{
	const struct xt_step_atomic a = { XT_MEM_FETCH_ADD, 0, add };
	uint64_t *p = atomic_ptr(at->mem, at->off), value = 0, sum;
	int err;

	if (p)
		return reported(at->mem, XT_UNORDERED(xt_guard_fetch_add(p, add, old)));
	if (by_step(step, at, &a, &err)) {
		*old = step->atomic_old;
		return err;
	}
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

int xt_mem_atomic_write(struct xt_step *step, const struct xt_mem_at *at, uint64_t value)
{
	const struct xt_step_atomic a = { XT_MEM_ATOMIC_WRITE, 0, value };
	uint64_t *p = atomic_ptr(at->mem, at->off);
	int err;

	if (p)
		return reported(at->mem, XT_UNORDERED(xt_guard_store(p, value)));
	if (by_step(step, at, &a, &err))
		return err;
	pthread_mutex_lock(&unmapped_lock);
	err = xt_mem_write(NULL, at->mem, at->off, &value, sizeof(value));
	pthread_mutex_unlock(&unmapped_lock);
	return err;
}
