// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Integrity regions: the stream that memory and wire see, for all signatures and block sizes, cut
 * in any way, against an independent reference; the errors that are found; the work request.
 */
#include <errno.h>

#include "binding.h"

#include "daemon/transport/memory/integrity.h"
#include "daemon/transport/qp.h"
#include "daemon/transport/memory/put.h"
#include "daemon/transport/memory/reads.h"
#include "selftests/lib/signatures.h"
#include "selftests/lib/tap.h"

#define BLOCKS 5
#define ROOM (BLOCKS * (XR_INTEGRITY_MAX_BLOCK + 8))
#define MAX_PIECES 12
#define VA 0x7000000123ull

static const uint32_t sizes[] = { 512, 520, 4096, 4104 };

static struct {
	struct xt_mem mem;
	struct xt_integrity in;
	struct xt_integrity_piece piece[MAX_PIECES];
	union {
		struct xr_integrity shared;
		uint8_t room[2048];
	};
} region;

static struct xr_signature signature(uint8_t type)
{
	struct xr_signature s = { .type = type };

	if (type == XR_SIG_NONE)
		return s;
	s.check = XR_SIG_CHECK_GUARD;
	s.seed = type >= XR_SIG_CRC32 ? 0xffffffff : 0;
	if (type >= XR_SIG_CRC32)
		return s;
	s.app_tag = 0x1234;
	s.app_mask = 0xff0f;
	s.ref_tag = 0xfffffffe; /* wraps around */
	s.check |= XR_SIG_CHECK_APP_TAG;
	if (type != XR_SIG_DIF_3)
		s.check |= XR_SIG_CHECK_REF_TAG;
	return s;
}

/* ---- the region ----------------------------------------------------------------------------- */

static const struct xt_mem_ops no_ops;

static struct xt_key *make_region(struct world *w)
{
	struct xt_key *key = xt_keys_alloc(w->h->shared.keys);

	memset(&region, 0, sizeof(region));
	region.mem = (struct xt_mem){ .ops = &no_ops, .integrity = &region.in };
	region.in.keys = w->h->shared.keys;
	region.in.shared = &region.shared;
	region.in.max_pieces = MAX_PIECES;
	region.in.piece = region.piece;
	key->entry.variant = 0;
	key->entry.pd = 1;
	key->entry.type = XR_KEY_MR;
	key->entry.flags = XR_KEYF_INTEGRITY;
	key->mem = &region.mem;
	return key;
}

static struct xr_integrity_list *list_of(uint32_t list)
{
	return xr_integrity_list(&region.shared, list, MAX_PIECES);
}

/* Adds pieces of unequal lengths for len bytes at an offset of memory. Returns their number. */
static uint32_t add_pieces(struct xr_sge *p, uint32_t off, uint32_t len, uint32_t lkey)
{
	uint32_t n = 0, part;

	for (; len; off += part, len -= part) {
		part = n == 3 || len < 700 ? len : len / 2 - 33 * n;
		p[n++] = (struct xr_sge){ BASE + off, part, lkey };
	}
	return n;
}

/* Where the data is in memory, and its PI if it is apart */
#define DATA_AT 3u
#define PI_AT 22000u

/* Fills a list. Returns the bytes of the stream. */
static uint64_t fill(struct world *w, uint32_t list, uint32_t block, const struct xr_signature *m,
		     const struct xr_signature *wire, bool apart)
{
	struct xr_integrity_list *l = list_of(list);
	uint32_t pi = xr_signature_len(m->type);

	l->memory = *m;
	l->wire = *wire;
	l->block = block;
	apart = apart && pi;
	l->data_pieces = add_pieces(l->piece, DATA_AT, BLOCKS * (block + (apart ? 0 : pi)),
				    w->lkey);
	l->pi_pieces = apart ? add_pieces(l->piece + l->data_pieces, PI_AT, BLOCKS * pi, w->lkey)
			     : 0;
	return BLOCKS * (uint64_t)(block + xr_signature_len(wire->type));
}

/* Collects the bytes of the region in memory: blocks of data, each followed by its PI. */
static void gather(uint8_t *out, uint32_t block, uint32_t pi, bool apart)
{
	const uint8_t *data = memory + DATA_AT, *pis = memory + PI_AT;

	for (uint32_t i = 0; i < BLOCKS; i++, out += block + pi) {
		memcpy(out, data, block);
		data += block;
		memcpy(out + block, apart ? pis : data, pi);
		if (apart)
			pis += pi;
		else
			data += pi;
	}
}

static void scatter(const uint8_t *in, uint32_t block, uint32_t pi, bool apart)
{
	uint8_t *data = memory + DATA_AT, *pis = memory + PI_AT;

	for (uint32_t i = 0; i < BLOCKS; i++, in += block + pi) {
		memcpy(data, in, block);
		data += block;
		memcpy(apart ? pis : data, in + block, pi);
		if (apart)
			pis += pi;
		else
			data += pi;
	}
}

static uint32_t seed = 1;

static uint32_t below(uint32_t n)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % n;
}

/* ---- streams -------------------------------------------------------------------------------- */

static uint8_t data[ROOM], in_memory[ROOM], on_wire[ROOM], got[ROOM];

static void make_data(uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		data[i] = (uint8_t)below(256);
}

/* Reads the stream in cuts of any length and order. */
static bool reads(struct xt_reads *from, uint64_t len)
{
	bool ok = true;

	memset(got, 0, sizeof(got));
	ok &= !xt_mem_read(from, &region.mem, 0, got, len) && !memcmp(got, on_wire, len);
	for (unsigned i = 0; i < 60 && ok; i++) {
		uint32_t off = below((uint32_t)len), n = 1 + below((uint32_t)len - off);

		if (i % 2 && n > 300)
			n = 1 + n % 300;
		ok = !xt_mem_read(from, &region.mem, off, got, n) && !memcmp(got, on_wire + off, n);
	}
	return ok;
}

/* Writes the stream in order, cut anywhere, some cuts twice: a packet that is executed again. */
static bool writes(struct xt_put *put, uint64_t len, uint32_t longest)
{
	uint32_t n;

	for (uint64_t off = 0; off < len; off += n) {
		n = 1 + below(longest);
		if (n > len - off)
			n = (uint32_t)(len - off);
		for (uint32_t again = below(3) ? 1 : 2; again; again--)
			if (xt_mem_write(put, &region.mem, off, on_wire + off, n))
				return false;
	}
	return true;
}

/* A stream with these signatures, read and written. */
static bool stream_is_right(struct world *w, uint32_t block, uint8_t m, uint8_t wire, bool apart)
{
	struct xr_signature ms = signature(m), ws = signature(wire);
	struct xt_reads from = { .qp = w->q[0].qp };
	struct xt_put put;
	uint32_t pi = xr_signature_len(m), total = BLOCKS * (block + pi);
	uint64_t len;
	bool ok;

	if (m && wire && m != wire)
		ws.app_tag = 0x4321;
	make_data(BLOCKS * block);
	ref_stream(&ms, block, BLOCKS, data, in_memory);
	ref_stream(&ws, block, BLOCKS, data, on_wire);
	len = fill(w, 0, block, &ms, &ws, apart);
	if (!xt_integrity_load(&region.in, 0, len))
		return false;
	region.mem.length = len;
	scatter(in_memory, block, pi, apart);
	xt_put_begin(&put, w->q[0].qp, XT_RESPONDER, 0);
	ok = reads(&from, len);
	for (unsigned i = 0; i < 4 && ok; i++) {
		memset(memory, 0xee, SIZE);
		ok = writes(&put, len, i % 2 ? 5000 : 300);
		gather(got, block, pi, apart);
		ok = ok && !memcmp(got, in_memory, total) && memory[DATA_AT - 1] == 0xee &&
		     memory[DATA_AT + (apart ? BLOCKS * block : total)] == 0xee;
	}
	return ok && region.shared.kind == XR_INTEGRITY_OK;
}

static const char *const names[] = { "none", "DIF 1", "DIF 2", "DIF 3", "CRC32", "CRC32C" };

static void test_streams(void)
{
	struct world w;

	begin(&w);
	make_region(&w);
	region.in.pd = 1;
	for (uint8_t m = 0; m < XR_SIG_TYPES; m++) {
		for (uint8_t wire = 0; wire < XR_SIG_TYPES; wire++) {
			for (unsigned s = 0; s < 8 && (m || wire); s++)
				TAP_OK(stream_is_right(&w, sizes[s / 2], m, wire, s % 2),
				       "blocks of %u, memory %s%s, wire %s", sizes[s / 2], names[m],
				       s % 2 ? " apart" : "", names[wire]);
		}
	}
	end(&w);
}

/* ---- known values --------------------------------------------------------------------------- */

static void test_known(void)
{
	static const uint8_t digits[] = "123456789";
	static const struct {
		uint8_t type;
		uint32_t seed, value;
	} rows[] = {
		{ XR_SIG_DIF_1, 0, 0xd0db },
		{ XR_SIG_CRC32, 0xffffffff, 0xcbf43926 },
		{ XR_SIG_CRC32C, 0xffffffff, 0xe3069283 },
	};

	for (unsigned i = 0; i < 3; i++) {
		struct xr_signature s = { .type = rows[i].type, .seed = rows[i].seed },
				    none = { 0 };
		struct xt_transform t = { .from = &none, .to = &s };
		struct xt_sig_error error;
		struct xt_sig_sum sum;
		uint8_t pi[8], expected[8];
		uint32_t len;

		xt_sig_begin(&t, &sum);
		xt_sig_add(&t, &sum, digits, 4);
		xt_sig_add(&t, &sum, digits + 4, 5);
		xt_sig_end(&t, &sum, 0, pi, pi, &error);
		len = ref_pi(&s, 0, digits, 9, expected);
		TAP_OK(ref_guard(&s, digits, 9) == rows[i].value && !memcmp(pi, expected, len),
		       "%s of \"123456789\" is %x", names[s.type], rows[i].value);
	}
}

/* ---- errors --------------------------------------------------------------------------------- */

struct error_row {
	const char *what;
	uint8_t type;
	int32_t at;    /* byte that is changed, from the start of block 2; negative: of its PI */
	uint32_t kind; /* expected error */
};

static const struct error_row errors[] = {
	{ "data", XR_SIG_DIF_1, 17, XR_INTEGRITY_GUARD },
	{ "first bit", XR_SIG_DIF_2, 0, XR_INTEGRITY_GUARD },
	{ "guard", XR_SIG_DIF_3, -1, XR_INTEGRITY_GUARD },
	{ "application tag", XR_SIG_DIF_1, -3, XR_INTEGRITY_APP_TAG },
	{ "application tag", XR_SIG_DIF_3, -4, XR_INTEGRITY_APP_TAG },
	{ "reference tag", XR_SIG_DIF_1, -5, XR_INTEGRITY_REF_TAG },
	{ "reference tag", XR_SIG_DIF_2, -8, XR_INTEGRITY_REF_TAG },
	{ "reference tag that is not checked", XR_SIG_DIF_3, -8, XR_INTEGRITY_OK },
	{ "data", XR_SIG_CRC32, 100, XR_INTEGRITY_SIGNATURE },
	{ "CRC", XR_SIG_CRC32, -4, XR_INTEGRITY_SIGNATURE },
	{ "data", XR_SIG_CRC32C, 511, XR_INTEGRITY_SIGNATURE },
	{ "CRC", XR_SIG_CRC32C, -1, XR_INTEGRITY_SIGNATURE },
};

static uint32_t field(const uint8_t *pi, uint32_t kind)
{
	switch (kind) {
	case XR_INTEGRITY_GUARD:
		return (uint32_t)pi[0] << 8 | pi[1];
	case XR_INTEGRITY_APP_TAG:
		return ((uint32_t)pi[2] << 8 | pi[3]) & 0xff0f;
	case XR_INTEGRITY_REF_TAG:
		return (uint32_t)pi[4] << 24 | (uint32_t)pi[5] << 16 | (uint32_t)pi[6] << 8 | pi[7];
	default:
		return pi[0] | (uint32_t)pi[1] << 8 | (uint32_t)pi[2] << 16 | (uint32_t)pi[3] << 24;
	}
}

/* Changes one byte of block 2 of a stream. Returns the PI that the block should have. */
static void corrupt(const struct error_row *r, uint8_t *stream, uint32_t block, uint8_t good[8])
{
	struct xr_signature s = signature(r->type);
	uint8_t *b = stream + 2ul * (block + xr_signature_len(r->type));

	if (r->at >= 0)
		b[r->at] ^= 0x41;
	else
		b[block - 1 - r->at] ^= 0x41;
	ref_pi(&s, 2, b, block, good);
}

static bool error_is(const struct error_row *r, const uint8_t *pi, const uint8_t good[8],
		     uint64_t offset)
{
	const struct xr_integrity *e = &region.shared;

	if (!r->kind)
		return e->kind == XR_INTEGRITY_OK;
	return e->kind == r->kind && e->expected == field(good, r->kind) &&
	       e->actual == field(pi, r->kind) && e->offset == offset;
}

/* read: the memory has the signature, else the wire */
static void test_error(struct world *w, const struct error_row *r, uint32_t block, uint8_t other,
		       bool read)
{
	struct xr_signature with = signature(r->type), o = signature(other);
	uint32_t pi = xr_signature_len(r->type), unit = block + xr_signature_len(other);
	struct xt_reads from = { .qp = w->q[0].qp };
	struct xt_put put;
	uint8_t good[8], *bad = read ? in_memory : on_wire;
	uint64_t len = fill(w, 0, block, read ? &with : &o, read ? &o : &with, false);
	bool ok = xt_integrity_load(&region.in, 0, len);

	xt_put_begin(&put, w->q[0].qp, XT_RESPONDER, 0);
	region.mem.length = len;
	make_data(BLOCKS * block);
	ref_stream(&with, block, BLOCKS, data, bad);
	corrupt(r, bad, block, good);
	if (r->kind) /* not the first error */
		bad[4ul * (block + pi) + 9] ^= 1;
	if (read)
		scatter(in_memory, block, pi, false);
	for (unsigned i = 0; i < 2 && ok; i++) {
		uint64_t cut = 2ull * (read ? unit : block + pi) + 1;

		ok = read ? !xt_mem_read(&from, &region.mem, 0, got, cut) &&
				     region.shared.kind == XR_INTEGRITY_OK &&
				     !xt_mem_read(&from, &region.mem, cut, got, len - cut)
			  : writes(&put, len, 700);
		ok = ok && error_is(r, bad + 2ull * (block + pi) + block, good,
				    2ull * (read ? unit : block + pi));
		/* the next registration clears the error */
		ok = ok && xt_integrity_load(&region.in, 0, len) && !region.shared.kind;
	}
	TAP_OK(ok, "%s of %s in a block of %u is found, %s, other side %s", r->what, names[r->type],
	       block, read ? "reading" : "writing", names[other]);
}

static void test_errors(void)
{
	struct world w;

	begin(&w);
	make_region(&w);
	region.in.pd = 1;
	for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		for (unsigned s = 0; s < 4; s++) {
			test_error(&w, &errors[i], sizes[s], XR_SIG_NONE, s % 2);
			test_error(&w, &errors[i], sizes[s], XR_SIG_CRC32C, !(s % 2));
		}
	end(&w);
}

/* Blocks with escape values are not checked, and keep them if the other side has T10-DIF, too. */
static void test_escape(void)
{
	static const struct {
		uint8_t type;
		uint32_t app, ref;
		bool escaped;
	} rows[] = {
		{ XR_SIG_DIF_1, 0xffff, 5, true },	     { XR_SIG_DIF_2, 0xffff, 0, true },
		{ XR_SIG_DIF_3, 0xffff, 0xffffffff, true },  { XR_SIG_DIF_3, 0xffff, 5, false },
		{ XR_SIG_DIF_1, 0xfffe, 0xffffffff, false },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct xr_signature from = signature(rows[i].type), to = signature(XR_SIG_DIF_1);
		struct xt_transform t = { .from = &from, .to = &to };
		uint8_t pi[8] = { 0xab, 0xcd, (uint8_t)(rows[i].app >> 8), (uint8_t)rows[i].app };
		struct xt_sig_error error;
		struct xt_sig_sum sum;
		uint8_t out[8];

		for (int b = 0; b < 4; b++)
			pi[4 + b] = (uint8_t)(rows[i].ref >> (24 - 8 * b));
		to.app_tag = 7;
		xt_sig_begin(&t, &sum);
		xt_sig_add(&t, &sum, memory, 512);
		xt_sig_end(&t, &sum, 0, pi, out, &error);
		TAP_OK((error.kind == XR_INTEGRITY_OK) == rows[i].escaped &&
			       !memcmp(out, pi, 8) == rows[i].escaped,
		       "%s with tags %x and %x is %schecked", names[rows[i].type], rows[i].app,
		       rows[i].ref, rows[i].escaped ? "not " : "");
	}
}

/* Checks that the program does not request do not happen. */
static void test_unchecked(void)
{
	struct xr_signature from = signature(XR_SIG_DIF_1), to = { 0 };
	struct xt_transform t = { .from = &from, .to = &to };
	uint8_t pi[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, out[8];
	struct xt_sig_error error;
	struct xt_sig_sum sum;

	for (uint8_t check = 0; check < 8; check++) {
		uint32_t kind = check & XR_SIG_CHECK_GUARD     ? XR_INTEGRITY_GUARD
				: check & XR_SIG_CHECK_APP_TAG ? XR_INTEGRITY_APP_TAG
				: check			       ? XR_INTEGRITY_REF_TAG
							       : XR_INTEGRITY_OK;

		from.check = check;
		xt_sig_begin(&t, &sum);
		xt_sig_add(&t, &sum, memory, 512);
		xt_sig_end(&t, &sum, 0, pi, out, &error);
		TAP_OK(error.kind == kind, "checks %u: error %u", check, error.kind);
	}
}

/* ---- access --------------------------------------------------------------------------------- */

static void test_access(void)
{
	struct xr_signature none = signature(XR_SIG_NONE), dif = signature(XR_SIG_DIF_1);
	struct xt_reads from = { 0 };
	struct xt_put put;
	struct xt_key *key;
	struct world w;
	uint64_t len;

	begin(&w);
	from.qp = w.q[0].qp;
	xt_put_begin(&put, w.q[0].qp, XT_RESPONDER, 0);
	key = make_region(&w);
	region.in.pd = 1;
	len = fill(&w, 0, 512, &none, &dif, false);
	xt_integrity_load(&region.in, 0, len);
	region.mem.length = len;
	TAP_OK(xt_mem_write(&put, &region.mem, 100, got, 8) == -EACCES,
	       "a write that begins within a block is refused");
	TAP_OK(!xt_mem_write(&put, &region.mem, 520, got, 100) &&
		       !xt_mem_write(&put, &region.mem, 620, got, 8),
	       "a write continues where the last one ended");
	TAP_OK(!xt_mem_write(&put, &region.mem, 0, got, 3) &&
		       !xt_mem_write(&put, &region.mem, 628, got, 8) &&
		       !xt_mem_write(&put, &region.mem, 3, got, 600),
	       "two writes advance by turns");
	TAP_OK(xt_mem_read(NULL, &region.mem, 0, got, 8) == -EACCES &&
		       xt_mem_write(NULL, &region.mem, 0, got, 8) == -EACCES,
	       "atomics are refused");
	list_of(0)->piece[0].lkey ^= 0x100;
	TAP_OK(xt_integrity_load(&region.in, 0, len) &&
		       xt_mem_read(&from, &region.mem, 0, got, 8) == -EACCES,
	       "a piece without a region is refused");
	list_of(0)->piece[0].lkey = xt_key_value(key);
	key->entry.state = XR_KEY_VALID;
	key->entry.va = BASE;
	key->entry.length = SIZE;
	TAP_OK(xt_integrity_load(&region.in, 0, len) &&
		       xt_mem_read(&from, &region.mem, 0, got, 8) == -EACCES,
	       "a piece in an integrity region is refused");
	list_of(0)->piece[0].lkey = w.lkey;
	w.mr.key->entry.access = 0;
	TAP_OK(xt_integrity_load(&region.in, 0, len) &&
		       !xt_mem_read(&from, &region.mem, 0, got, 8) &&
		       xt_mem_write(&put, &region.mem, 0, got, 8) == -EACCES,
	       "pieces in a region without local write can be read only");
	w.mr.key->entry.pd = 2;
	TAP_OK(xt_mem_read(&from, &region.mem, 0, got, 8) == -EACCES,
	       "a piece in a region of another PD is refused");
	/* a response that is sent again: the memory may have changed legitimately */
	w.mr.key->entry.pd = 1;
	fill(&w, 0, 512, &dif, &none, false);
	xt_integrity_load(&region.in, 0, BLOCKS * 512);
	from.repeats = true;
	TAP_OK(!xt_mem_read(&from, &region.mem, 0, got, 512) && !region.shared.kind,
	       "a repeated response records no error");
	from.repeats = false;
	TAP_OK(!xt_mem_read(&from, &region.mem, 0, got, 512) && region.shared.kind,
	       "the first one does");
	end(&w);
}

/* ---- work requests -------------------------------------------------------------------------- */

static struct xr_send_wqe *post_reg(struct world *w, uint64_t wr_id, const struct xt_key *key,
				    uint32_t list, uint64_t len)
{
	struct xr_send_wqe *wqe = h_post_send(&w->q[0], wr_id, XR_WR_REG_INTEGRITY, 0, 0, 0);

	wqe->reg.key = XR_KEY(key->index, 0x77);
	wqe->reg.access = XR_ACCESS_LOCAL_WRITE | RW;
	wqe->reg.list = (uint8_t)list;
	wqe->remote_addr = VA;
	wqe->bind_len = len;
	return wqe;
}

struct change {
	struct xr_send_wqe *wqe;
	struct xr_integrity_list *list;
	struct xt_key *key;
	struct world *w;
};

static void no_change(struct change *c)
{
	(void)c;
}
static void list_1(struct change *c)
{
	memcpy(list_of(1), c->list, (size_t)((char *)list_of(1) - (char *)list_of(0)));
	c->wqe->reg.list = 1;
}
static void list_2(struct change *c)
{
	c->wqe->reg.list = XR_FAST_LISTS;
}
static void longer(struct change *c)
{
	c->wqe->bind_len += 520;
}
static void odd(struct change *c)
{
	c->wqe->bind_len--;
}
static void empty(struct change *c)
{
	c->wqe->bind_len = 0;
}
static void wraps(struct change *c)
{
	c->wqe->remote_addr = -8ull;
}
static void block(struct change *c)
{
	c->list->block = 513;
}
static void no_block(struct change *c)
{
	c->list->block = 0;
}
static void type(struct change *c)
{
	c->list->wire.type = XR_SIG_TYPES;
}
static void neither(struct change *c)
{
	c->list->memory = c->list->wire = (struct xr_signature){ 0 };
	c->wqe->bind_len = BLOCKS * 512;
}
static void check_none(struct change *c)
{
	c->list->memory.check = XR_SIG_CHECK_GUARD;
}
static void check_ref(struct change *c)
{
	c->list->wire.type = XR_SIG_DIF_3;
}
static void large_seed(struct change *c)
{
	c->list->wire.seed = 0x10000;
}
static void no_pieces(struct change *c)
{
	c->list->data_pieces = 0;
}
static void many(struct change *c)
{
	c->list->data_pieces = MAX_PIECES + 1;
}
static void many_pi(struct change *c)
{
	c->list->memory = c->list->wire;
	c->list->pi_pieces = MAX_PIECES;
}
static void overflow(struct change *c)
{
	c->list->pi_pieces = UINT32_MAX;
}
static void pi_of_none(struct change *c)
{
	c->list->pi_pieces = 1;
}
static void short_piece(struct change *c)
{
	c->list->piece[1].length--;
}
static void empty_piece(struct change *c)
{
	c->list->piece[1].length = 0;
}
static void far_piece(struct change *c)
{
	c->list->piece[0].addr = -8ull;
}
static void reserved(struct change *c)
{
	c->list->piece[0].lkey = XR_RESERVED_LKEY;
}
static void bind(struct change *c)
{
	c->wqe->reg.access |= XR_ACCESS_MW_BIND;
}
static void atomic(struct change *c)
{
	c->wqe->reg.access |= XR_ACCESS_REMOTE_ATOMIC;
}
static void no_local(struct change *c)
{
	c->wqe->reg.access = XR_ACCESS_REMOTE_WRITE;
}
static void pd(struct change *c)
{
	c->key->entry.pd = 2;
}
static void fast(struct change *c)
{
	c->key->entry.flags = XR_KEYF_FAST;
}
static void index_of(struct change *c)
{
	c->wqe->reg.key ^= 0x700;
}
static void valid(struct change *c)
{
	c->key->entry.state = XR_KEY_VALID;
}
static void as_fast(struct change *c)
{
	c->wqe->opcode = XR_WR_REG_MR, c->wqe->reg.pages = 1;
}

/* A number of blocks whose bytes in memory, modulo 2^64, are those of the pieces */
static void overflows(struct change *c)
{
	c->list->memory = c->list->wire;
	c->list->wire = signature(XR_SIG_CRC32);
	c->list->data_pieces = 1;
	c->list->piece[0].length = 5 * 520 + 504;
	c->wqe->remote_addr = 0;
	c->wqe->bind_len = (UINT64_MAX / 520 + 6) * 516;
}

static void test_register(void)
{
	static const struct {
		const char *what;
		void (*change)(struct change *);
		enum xr_reason why;
	} rows[] = {
		{ "a region", no_change, 0 },
		{ "the other list", list_1, 0 },
		{ "a list that does not exist", list_2, XR_KEY_RANGE },
		{ "a block too long", longer, XR_KEY_RANGE },
		{ "a part of a block", odd, XR_KEY_RANGE },
		{ "no block", empty, XR_KEY_RANGE },
		{ "wraps around the address space", wraps, XR_KEY_RANGE },
		{ "more memory than 2^64 bytes", overflows, XR_KEY_RANGE },
		{ "an invalid block size", block, XR_KEY_RANGE },
		{ "no block size", no_block, XR_KEY_RANGE },
		{ "an unknown signature", type, XR_KEY_RANGE },
		{ "no signature on either side", neither, XR_KEY_RANGE },
		{ "a check of no signature", check_none, XR_KEY_RANGE },
		{ "a check of the reference tag of type 3", check_ref, XR_KEY_RANGE },
		{ "a seed that is too large", large_seed, XR_KEY_RANGE },
		{ "no pieces", no_pieces, XR_KEY_RANGE },
		{ "too many pieces", many, XR_KEY_RANGE },
		{ "too many pieces of PI", many_pi, XR_KEY_RANGE },
		{ "2^32 - 1 pieces of PI", overflow, XR_KEY_RANGE },
		{ "pieces for PI that memory has not", pi_of_none, XR_KEY_RANGE },
		{ "pieces that are too short", short_piece, XR_KEY_RANGE },
		{ "an empty piece", empty_piece, XR_KEY_RANGE },
		{ "a piece that wraps around", far_piece, XR_KEY_RANGE },
		{ "a piece with the reserved L_Key", reserved, XR_KEY_RANGE },
		{ "binding", bind, XR_KEY_ACCESS },
		{ "atomics", atomic, XR_KEY_ACCESS },
		{ "REMOTE_WRITE without LOCAL_WRITE", no_local, XR_KEY_ACCESS },
		{ "another PD", pd, XR_KEY_PD },
		{ "a region for fast registration", fast, XR_KEY_INDEX },
		{ "a key that does not exist", index_of, XR_KEY_INDEX },
		{ "registered already", valid, XR_KEY_STATE },
		{ "by fast registration", as_fast, XR_KEY_INDEX },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct xr_signature none = { 0 }, dif = signature(XR_SIG_DIF_1);
		struct xr_cqe cqe = { 0 };
		struct change c;
		struct world w;
		uint64_t len;

		begin(&w);
		c.w = &w;
		c.key = make_region(&w);
		len = fill(&w, 0, 512, &none, &dif, false);
		c.list = list_of(0);
		c.wqe = post_reg(&w, 1, c.key, 0, len);
		rows[i].change(&c);
		run_until_idle(&w);
		status_of(&w, 1, &cqe);
		if (rows[i].why)
			TAP_OK(cqe.status == IBV_WC_MW_BIND_ERR &&
				       cqe.vendor_err == (XR_VERR_REGISTER | rows[i].why << 8) &&
				       !c.key->entry.qpn,
			       "%s: refused: %s", path_name(), rows[i].what);
		else
			TAP_OK(!cqe.status && cqe.opcode == IBV_WC_DRIVER1 &&
				       c.key->entry.state == XR_KEY_VALID &&
				       c.key->entry.variant == 0x77 &&
				       c.key->entry.qpn == w.q[0].qpn && w.h->keys_changed == 1,
			       "%s: registered: %s", path_name(), rows[i].what);
		end(&w);
	}
}

/* Posts a WR of QP 0 with the region as its local buffer, or of QP 1 with it as remote memory. */
static void post_use(struct world *w, uint8_t opcode, bool remote, uint32_t off, uint32_t len,
		     uint32_t key)
{
	struct xr_send_wqe *wqe;

	if (remote) {
		wqe = post_rdma(w, 1, 5, opcode, VA + off, len, key);
		return;
	}
	wqe = h_post_send(&w->q[0], 5, opcode, VA + off, len, key);
	wqe->remote_addr = BASE + 40000;
	wqe->rkey = w->lkey;
}

/*
 * A transfer of the whole region. to_wire: memory is read, and the stream arrives at 40000; else
 * the stream is there, and memory is written.
 */
static void test_transfer(uint8_t opcode, bool remote, uint32_t size, uint8_t wire, unsigned drop)
{
	bool to_wire = remote == (opcode == XR_WR_RDMA_READ);
	struct xr_signature ms = signature(XR_SIG_DIF_2), ws = signature(wire);
	struct xt_key *key;
	struct world w;
	uint64_t len;
	bool ok;

	begin(&w);
	key = make_region(&w);
	make_data(BLOCKS * size);
	ref_stream(&ms, size, BLOCKS, data, in_memory);
	ref_stream(&ws, size, BLOCKS, data, on_wire);
	len = fill(&w, 0, size, &ms, &ws, false);
	memset(memory, 0, SIZE);
	if (to_wire)
		scatter(in_memory, size, 8, false);
	else
		memcpy(memory + 40000, on_wire, len);
	post_reg(&w, 1, key, 0, len);
	run_until_idle(&w);
	ok = !status_of(&w, 1, NULL);
	post_use(&w, opcode, remote, 0, (uint32_t)len, XR_KEY(key->index, 0x77));
	w.drop = drop;
	run_until_idle(&w);
	ok = ok && !status_of(&w, 5, NULL) && !region.shared.kind;
	gather(got, size, 8, false);
	ok = ok && !memcmp(got, in_memory, BLOCKS * (size + 8)) &&
	     !memcmp(memory + 40000, on_wire, len);
	TAP_OK(ok, "%s: %s%s, blocks of %u, wire %s, frame %u lost", path_name(),
	       opcode == XR_WR_RDMA_READ ? "READ" : "WRITE", remote ? " of the peer" : "", size,
	       names[wire], drop);
	end(&w);
}

static void test_transfers(void)
{
	static const uint8_t opcodes[] = { XR_WR_RDMA_WRITE, XR_WR_RDMA_READ };

	for (unsigned i = 0; i < 4; i++)
		for (unsigned s = 0; s < 4; s++)
			for (uint8_t wire = 0; wire < XR_SIG_TYPES; wire++)
				for (unsigned drop = 0; drop <= (over_wire && wire % 2 ? 4 : 0);
				     drop++)
					test_transfer(opcodes[i / 2], i % 2, sizes[s], wire, drop);
}

/* A SEND into a receive whose SGE is the region, behind other memory */
static void test_receive(void)
{
	struct xr_signature ms = signature(XR_SIG_NONE), ws = signature(XR_SIG_DIF_1);
	struct xr_cqe cqe = { 0 };
	struct xr_recv_wqe *recv;
	struct xt_key *key;
	struct world w;
	uint64_t len;
	bool ok;

	begin(&w);
	key = make_region(&w);
	make_data(BLOCKS * 520);
	ref_stream(&ws, 520, BLOCKS, data, on_wire);
	len = fill(&w, 0, 520, &ms, &ws, false);
	memcpy(memory + 40052, on_wire, len);
	memory[40052 + 528 * 3 + 100] ^= 1;
	post_reg(&w, 1, key, 0, len);
	run_until_idle(&w);
	ok = !status_of(&w, 1, NULL);
	h_post_recv(&w.q[0], 7, BASE + 30000, 52, w.lkey);
	recv = (struct xr_recv_wqe *)(w.q[0].rq + 1);
	recv->num_sge = 2;
	((struct xr_sge *)(recv + 1))[1] = (struct xr_sge){ VA, (uint32_t)len,
							    XR_KEY(key->index, 0x77) };
	h_post_send(&w.q[1], 8, XR_WR_SEND, BASE + 40000, 52 + (uint32_t)len, w.lkey);
	run_until_idle(&w);
	while (h_poll(w.h, &cqe))
		ok &= !cqe.status;
	data[520 * 3 + 100] ^= 1;
	TAP_OK(ok && !memcmp(memory + DATA_AT, data, BLOCKS * 520) &&
		       region.shared.kind == XR_INTEGRITY_GUARD && region.shared.offset == 3 * 528,
	       "%s: a receive with a wrong block completes, and the error is recorded",
	       path_name());
	end(&w);
}

/* Memory that has to be waited for */
static struct xt_mem_io slow_io;
static struct xt_mem_pool slow_pool;
static uint8_t slow_data[XT_INTEGRITY_BUFFER];

static struct xt_mem_io *slow_new(struct xt_mem *mem, void *ctx, uint32_t len,
				  struct xt_mem_pool **pool)
{
	*pool = &slow_pool;
	slow_io = (struct xt_mem_io){
		.ops = mem->ops, .pool = &slow_pool, .data = slow_data, .len = len
	};
	return &slow_io;
}

static void slow_submit(struct xt_mem_io *io)
{
}

static void slow_free(struct xt_mem_io *io)
{
}

static bool slow_cancel(struct xt_mem_io *io)
{
	return true;
}

/* DEREG_MR waits for accesses to an integrity region, so accesses to its pieces know the region. */
static void test_pieces(void)
{
	static const struct xt_mem_ops ops = { .io_new = slow_new,
					       .io_submit = slow_submit,
					       .io_free = slow_free,
					       .io_cancel = slow_cancel };
	struct xr_signature none = { 0 }, dif = signature(XR_SIG_DIF_1);
	struct xt_put put;
	struct world w;
	uint64_t len;

	begin(&w);
	make_region(&w);
	region.in.pd = 1;
	len = fill(&w, 0, 512, &none, &dif, false);
	xt_integrity_load(&region.in, 0, len);
	region.mem.length = len;
	w.mr.mem.ops = &ops;
	w.mr.seg.ptr = NULL;
	xt_mem_pool_init(&slow_pool);
	xt_put_begin(&put, w.q[0].qp, XT_RESPONDER, 0);
	TAP_OK(!xt_mem_write(&put, &region.mem, 0, got, 100) && xt_put_last(&put) == &slow_io &&
		       slow_io.mem == &w.mr.mem && slow_io.through == &region.in,
	       "a write to an integrity region writes to a piece, and names the region");
	xt_put_drop(&put);
	TAP_OK(!xt_mem_write(&put, &w.mr.mem, 0, got, 100) && xt_put_last(&put) == &slow_io &&
		       !slow_io.through,
	       "a write to the piece itself does not");
	xt_put_drop(&put);
	end(&w);
}

/* Only the QP that registered it and its peer may use it, until it is invalidated. */
static void test_owner(void)
{
	struct xr_signature none = { 0 }, dif = signature(XR_SIG_DIF_1);
	struct xt_key *key;
	uint32_t value;
	struct world w;
	uint64_t len;

	begin(&w);
	key = make_region(&w);
	len = fill(&w, 0, 512, &none, &dif, false);
	post_reg(&w, 1, key, 0, len);
	run_until_idle(&w);
	status_of(&w, 1, NULL);
	value = XR_KEY(key->index, 0x77);
	if (over_wire) { /* its peer has no loopback to it */
		h_post_send(&w.q[2], 2, XR_WR_SEND, VA, 100, value);
		run_until_idle(&w);
		TAP_OK(status_of(&w, 2, NULL) == IBV_WC_LOC_PROT_ERR, "another QP is refused");
	}
	post_use(&w, XR_WR_RDMA_READ, true, (uint32_t)len - 8, 9, value);
	run_until_idle(&w);
	TAP_OK(status_of(&w, 5, NULL) == IBV_WC_REM_ACCESS_ERR,
	       "%s: a READ past the end is refused", path_name());
	end(&w);

	begin(&w);
	key = make_region(&w);
	len = fill(&w, 0, 512, &none, &dif, false);
	post_reg(&w, 1, key, 0, len);
	post_inv(&w, 0, 2, XR_WR_LOCAL_INV, value = XR_KEY(key->index, 0x77));
	post_reg(&w, 3, key, 0, len)->reg.key = XR_KEY(key->index, 0x78);
	run_until_idle(&w);
	TAP_OK(!status_of(&w, 1, NULL) && !status_of(&w, 2, NULL) && !status_of(&w, 3, NULL),
	       "%s: registered, invalidated, registered again", path_name());
	post_use(&w, XR_WR_RDMA_READ, true, 0, 8, value);
	run_until_idle(&w);
	TAP_OK(status_of(&w, 5, NULL) == IBV_WC_REM_ACCESS_ERR, "%s: the old key is refused",
	       path_name());
	end(&w);
}

int main(void)
{
	test_known();
	test_streams();
	test_errors();
	test_escape();
	test_unchecked();
	test_access();
	test_pieces();
	for (over_wire = false;; over_wire = true) {
		test_register();
		test_transfers();
		test_receive();
		test_owner();
		if (over_wire)
			return tap_end();
	}
}
