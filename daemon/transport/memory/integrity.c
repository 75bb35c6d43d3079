// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>

#include "integrity.h"
#include "keys.h"
#include "put.h"
#include "reads.h"

#define BUFFER XT_INTEGRITY_BUFFER

/* Adds the result of a part to that of the whole: -EINPROGRESS does not stop an access. */
static bool integrity_goes_on(int *result, int err)
{
	if (err && (!*result || *result == -EINPROGRESS))
		*result = err;
	return !err || err == -EINPROGRESS;
}

/* ---- registration -------------------------------------------------------------------------- */

/* Adds the bytes of pieces to *total. Returns false if one of them is invalid. */
static bool add_pieces(struct xt_integrity_piece *p, const struct xr_sge *sge, uint32_t n,
		       uint64_t *total)
{
	/* the client can change the list at any time: each element is read once */
	for (; n; n--, p++, sge++) {
		p->sge.addr = __atomic_load_n(&sge->addr, __ATOMIC_RELAXED);
		p->sge.length = __atomic_load_n(&sge->length, __ATOMIC_RELAXED);
		p->sge.lkey = __atomic_load_n(&sge->lkey, __ATOMIC_RELAXED);
		p->off = *total;
		if (!p->sge.length || p->sge.addr + p->sge.length < p->sge.addr ||
		    p->sge.lkey == XR_RESERVED_LKEY)
			return false;
		*total += p->sge.length;
	}
	return true;
}

static bool layout_valid(const struct xr_integrity_list *l, uint32_t max_pieces)
{
	return xr_integrity_block_valid(l->block) && xr_signature_valid(&l->memory) &&
	       xr_signature_valid(&l->wire) &&
	       (l->memory.type != XR_SIG_NONE || l->wire.type != XR_SIG_NONE) && l->data_pieces &&
	       l->data_pieces <= max_pieces && l->pi_pieces <= max_pieces - l->data_pieces &&
	       (!l->pi_pieces || l->memory.type != XR_SIG_NONE);
}

static void integrity_reset(struct xt_integrity *in)
{
	in->failed = false;
	in->next_state = 0;
	memset(in->state, 0, sizeof(in->state));
	__atomic_store_n(&in->shared->kind, XR_INTEGRITY_OK, __ATOMIC_RELEASE);
}

bool xt_integrity_load(struct xt_integrity *in, uint32_t list, uint64_t len)
{
	struct xr_integrity_list *from = xr_integrity_list(in->shared, list, in->max_pieces);
	uint64_t data = 0, pi = 0, blocks;
	struct xr_integrity_list l;
	uint32_t memory_pi;

	memcpy(&l, from, sizeof(l));
	if (!layout_valid(&l, in->max_pieces))
		return false;
	memory_pi = xr_signature_len(l.memory.type);
	in->memory = l.memory;
	in->wire = l.wire;
	in->block = l.block;
	in->in_memory = l.block + (l.pi_pieces ? 0 : memory_pi);
	in->on_wire = l.block + xr_signature_len(l.wire.type);
	in->data_pieces = l.data_pieces;
	in->pi_pieces = l.pi_pieces;
	blocks = len / in->on_wire;
	if (!add_pieces(in->piece, from->piece, l.data_pieces, &data) ||
	    !add_pieces(in->piece + l.data_pieces, from->piece + l.data_pieces, l.pi_pieces, &pi) ||
	    len % in->on_wire || data % in->in_memory || data / in->in_memory != blocks ||
	    pi != (l.pi_pieces ? blocks * memory_pi : 0))
		return false;
	integrity_reset(in);
	return true;
}

/* ---- pieces --------------------------------------------------------------------------------- */

/* One access to an integrity region */
struct integrity_use {
	struct xt_integrity *in;
	struct xt_reads *reads; /* reading */
	struct xt_put *put;	/* writing */
	struct xt_transform t;
	uint64_t end; /* reading: block behind the last one that may be read ahead; 0: none */
};

/* Selects the pieces of data or those of protection information */
enum part { DATA, PI };

static const struct xt_integrity_piece *find_piece(const struct xt_integrity *in, enum part part,
						   uint64_t off)
{
	const struct xt_integrity_piece *p = in->piece + (part == PI ? in->data_pieces : 0);
	uint32_t lo = 0, hi = part == PI ? in->pi_pieces : in->data_pieces, mid;

	while (hi - lo > 1) {
		mid = lo + (hi - lo) / 2;
		if (p[mid].off <= off)
			lo = mid;
		else
			hi = mid;
	}
	return p + lo;
}

/* Finds the memory of a byte of a piece. Pieces cannot be in integrity regions. */
static int find_memory(const struct integrity_use *u, const struct xt_integrity_piece *p,
		       uint64_t skip, uint64_t len, struct xt_mem_at *at)
{
	const struct xr_key_use use = {
		.key = p->sge.lkey,
		.pd = u->in->pd,
		.qpn = u->in->qpn,
		.access = u->put ? XR_ACCESS_LOCAL_WRITE : 0,
		.va = p->sge.addr + skip,
		.len = len,
	};

	if (xt_keys_check(u->in->keys, &use, &at->mem, &at->off) != XR_OK || at->mem->integrity)
		return -EACCES;
	return 0;
}

/* Returns how much may be read from a piece at once, now and ahead. */
static uint64_t may_read(const struct integrity_use *u, enum part part, uint64_t off, uint64_t left)
{
	uint64_t end = u->end *
		       (part == PI ? xr_signature_len(u->in->memory.type) : u->in->in_memory);

	return end - off < left ? end - off : left;
}

static int access_piece(const struct integrity_use *u, const struct xt_mem_at *at, uint8_t *bytes,
			uint64_t len, uint64_t ahead)
{
	if (u->put)
		return xt_mem_write(u->put, at->mem, at->off, bytes, len);
	/* the offset is one of the piece's region */
	if (u->end)
		u->reads->read_end = at->off + (ahead > len ? ahead : len);
	return xt_mem_read(u->reads, at->mem, at->off, bytes, len);
}

/* Reads or writes bytes of the data or PI. As xt_mem_read(). */
static int access(const struct integrity_use *u, enum part part, uint64_t off, uint8_t *bytes,
		  uint64_t len)
{
	const struct xt_integrity_piece *p;
	int err, result = 0;
	struct xt_mem_at at;
	uint64_t left, n;

	for (; len; off += n, bytes += n, len -= n) {
		p = find_piece(u->in, part, off);
		left = p->sge.length - (off - p->off);
		n = left < len ? left : len;
		err = find_memory(u, p, off - p->off, n, &at);
		if (!err)
			err = access_piece(u, &at, bytes, n, may_read(u, part, off, left));
		if (!integrity_goes_on(&result, err))
			break;
	}
	return result;
}

/* Returns where the PI of a block is in memory. */
static uint64_t pi_offset(const struct xt_integrity *in, uint64_t block, enum part *part)
{
	*part = in->pi_pieces ? PI : DATA;
	return in->pi_pieces ? block * xr_signature_len(in->memory.type)
			     : block * in->in_memory + in->block;
}

static void record(struct xt_integrity *in, uint64_t block, const struct xt_sig_error *e)
{
	if (e->kind == XR_INTEGRITY_OK || in->failed)
		return;
	in->failed = true;
	in->shared->expected = e->expected;
	in->shared->actual = e->actual;
	in->shared->offset = block * in->on_wire;
	__atomic_store_n(&in->shared->kind, e->kind, __ATOMIC_RELEASE);
}

/* ---- from memory ---------------------------------------------------------------------------- */

/* Bytes [pos, end) of a block in the stream */
struct integrity_range {
	uint64_t block;
	uint32_t pos, end;
};

/*
 * Reads a range that includes PI, or the end of a block that is checked. All data of the block is
 * read: what is before the range into a buffer.
 */
static int read_end_of_block(const struct integrity_use *u, const struct integrity_range *r,
			     uint8_t *dst)
{
	struct xt_integrity *in = u->in;
	uint32_t head = r->pos < in->block ? r->pos : in->block, rest = in->block - head;
	uint64_t at = r->block * in->in_memory;
	uint8_t before[XR_INTEGRITY_MAX_BLOCK], pi[XT_SIG_MAX] = { 0 }, out[XT_SIG_MAX];
	uint32_t pi_len = xr_signature_len(in->memory.type);
	struct xt_sig_error error;
	struct xt_sig_sum sum;
	enum part part;
	int err = 0;

	if (integrity_goes_on(&err, access(u, DATA, at, before, head)) &&
	    integrity_goes_on(&err, access(u, DATA, at + head, dst, rest))) {
		at = pi_offset(in, r->block, &part);
		integrity_goes_on(&err, access(u, part, at, pi, pi_len));
	}
	if (err)
		return err;
	xt_sig_begin(&u->t, &sum);
	xt_sig_add(&u->t, &sum, before, head);
	xt_sig_add(&u->t, &sum, dst, rest);
	xt_sig_end(&u->t, &sum, r->block, pi, out, &error);
	if (r->end > in->block)
		memcpy(dst + rest, out + (r->pos - head), r->end - r->pos - rest);
	/* what a peer reads again may have changed since it was checked */
	if (r->end == in->on_wire && !u->reads->repeats)
		record(in, r->block, &error);
	return 0;
}

static int read_range(const struct integrity_use *u, const struct integrity_range *r, uint8_t *dst)
{
	const struct xt_integrity *in = u->in;

	if (r->end > in->block || r->end == in->on_wire)
		return read_end_of_block(u, r, dst);
	return access(u, DATA, r->block * in->in_memory + r->pos, dst, r->end - r->pos);
}

int xt_integrity_read(struct xt_reads *reads, struct xt_integrity *in, uint64_t off, void *dst,
		      size_t len)
{
	const uint64_t read_end = reads ? reads->read_end : 0;
	struct integrity_use u = {
		.in = in,
		.reads = reads,
		.t = { &in->memory, &in->wire },
		.end = (read_end + in->on_wire - 1) / in->on_wire,
	};
	struct integrity_range r = { off / in->on_wire, (uint32_t)(off % in->on_wire), 0 };
	uint8_t *to = dst;
	int err = 0;

	/* only atomics have none */
	if (!reads)
		return -EACCES;
	for (; len; to += r.end - r.pos, len -= r.end - r.pos, r.block++, r.pos = 0) {
		r.end = in->on_wire - r.pos < len ? in->on_wire : r.pos + (uint32_t)len;
		if (!integrity_goes_on(&err, read_range(&u, &r, to)))
			break;
	}
	reads->read_end = read_end;
	return err;
}

/* ---- into memory ---------------------------------------------------------------------------- */

/* Bytes that are written at once */
struct integrity_run {
	uint64_t off;
	uint32_t len;
	uint8_t bytes[BUFFER];
};

struct writing {
	struct integrity_use u;
	struct xt_integrity_state s;
	struct integrity_run run[2]; /* by enum part */
};

static int integrity_flush(struct writing *w, enum part part)
{
	struct integrity_run *r = &w->run[part];
	int err = access(&w->u, part, r->off, r->bytes, r->len);

	r->len = 0;
	return err;
}

static int put(struct writing *w, enum part part, uint64_t off, const uint8_t *src, uint32_t len)
{
	struct integrity_run *r = &w->run[part];
	int err = 0;
	uint32_t n;

	for (; len && !err; off += n, src += n, len -= n) {
		if (r->len == BUFFER || (r->len && r->off + r->len != off))
			err = integrity_flush(w, part);
		if (!r->len)
			r->off = off;
		n = BUFFER - r->len < len ? BUFFER - r->len : len;
		memcpy(r->bytes + r->len, src, n);
		r->len += n;
	}
	return err;
}

/* All bytes of a block have arrived. */
static int end_block(struct writing *w, uint64_t block)
{
	struct xt_integrity *in = w->u.in;
	struct xt_sig_error error;
	uint8_t out[XT_SIG_MAX];
	enum part part;
	uint64_t off;

	xt_sig_end(&w->u.t, &w->s.sum, block, w->s.pi, out, &error);
	record(in, block, &error);
	xt_sig_begin(&w->u.t, &w->s.sum);
	off = pi_offset(in, block, &part);
	return put(w, part, off, out, xr_signature_len(in->memory.type));
}

static int write_range(struct writing *w, const struct integrity_range *r, const uint8_t *src)
{
	struct xt_integrity *in = w->u.in;
	uint32_t data_end = r->end < in->block ? r->end : in->block;
	uint32_t data = r->pos < data_end ? data_end - r->pos : 0;
	int err;

	xt_sig_add(&w->u.t, &w->s.sum, src, data);
	err = put(w, DATA, r->block * in->in_memory + r->pos, src, data);
	if (r->end > in->block)
		memcpy(w->s.pi + (r->pos + data - in->block), src + data, r->end - r->pos - data);
	return err || r->end < in->on_wire ? err : end_block(w, r->block);
}

/* Returns the state at an offset, NULL if no write has ended there. */
static struct xt_integrity_state *find_state(struct xt_integrity *in, uint64_t off)
{
	for (uint32_t i = 0; i < XT_INTEGRITY_STATES; i++)
		if (in->state[i].next == off)
			return &in->state[i];
	return NULL;
}

static void keep_state(struct xt_integrity *in, const struct xt_integrity_state *s)
{
	struct xt_integrity_state *at = find_state(in, s->next);

	if (!at)
		at = &in->state[in->next_state++ % XT_INTEGRITY_STATES];
	*at = *s;
}

static bool integrity_begin(struct writing *w, uint64_t off)
{
	const struct xt_integrity_state *s;

	if (off % w->u.in->on_wire) {
		s = find_state(w->u.in, off);
		if (!s)
			return false;
		w->s = *s;
	} else {
		xt_sig_begin(&w->u.t, &w->s.sum);
		memset(w->s.pi, 0, sizeof(w->s.pi));
	}
	w->run[DATA].len = w->run[PI].len = 0;
	return true;
}

static int write_all(struct writing *w, uint64_t off, const uint8_t *src, size_t len)
{
	const uint32_t on_wire = w->u.in->on_wire;
	struct integrity_range r = { off / on_wire, (uint32_t)(off % on_wire), 0 };
	int err = 0;

	for (; len && !err; src += r.end - r.pos, len -= r.end - r.pos, r.block++, r.pos = 0) {
		r.end = on_wire - r.pos < len ? on_wire : r.pos + (uint32_t)len;
		err = write_range(w, &r, src);
	}
	if (!err)
		err = integrity_flush(w, DATA);
	return err ? err : integrity_flush(w, PI);
}

int xt_integrity_write(struct xt_put *put, struct xt_integrity *in, uint64_t off, const void *src,
		       size_t len)
{
	struct writing w;
	int err;

	w.u = (struct integrity_use){ .in = in, .put = put, .t = { &in->wire, &in->memory } };
	if (!put || !integrity_begin(&w, off))
		return -EACCES;
	put->through = in;
	err = write_all(&w, off, src, len);
	put->through = NULL;
	if (err)
		return err;
	w.s.next = off + len;
	if (w.s.next % in->on_wire)
		keep_state(in, &w.s);
	return 0;
}

/* ---- from memory to memory ------------------------------------------------------------------ */

int xt_integrity_copy(struct xt_put *put, const struct xt_mem_at *dst, const struct xt_mem_at *src,
		      uint64_t len, bool *src_failed)
{
	uint8_t bytes[BUFFER];
	uint64_t done, n;
	int err;

	for (done = 0; done < len; done += n) {
		n = len - done < BUFFER ? len - done : BUFFER;
		err = xt_mem_read(put->reads, src->mem, src->off + done, bytes, n);
		put->waits |= err == -EINPROGRESS;
		*src_failed = err && err != -EINPROGRESS;
		/* bytes are written in order: behind some that are not read, reads only start */
		if (!err && !put->waits)
			err = xt_mem_write(put, dst->mem, dst->off + done, bytes, n);
		if (err && err != -EINPROGRESS)
			return err;
	}
	return 0;
}
