// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The key table: reuse of indices, variants, and checks at the limits of regions. */
#include <stdlib.h>

#include "daemon/transport/memory/keys.h"
#include "daemon/transport/base/permute.h"
#include "selftests/lib/tap.h"

#define ALL (XR_ACCESS_LOCAL_WRITE | XR_ACCESS_REMOTE)

static struct xt_mem mem = { .length = 4096 };

static struct xt_key *make(struct xt_keys *keys, uint64_t va, uint64_t length, uint32_t access)
{
	struct xt_key *k = xt_keys_alloc(keys);

	k->entry.va = va;
	k->entry.length = length;
	k->entry.pd = 7;
	k->entry.access = access;
	k->entry.type = XR_KEY_MR;
	k->entry.state = XR_KEY_VALID;
	k->mem = &mem;
	return k;
}

static enum xr_reason check(struct xt_keys *keys, uint32_t key, uint32_t access, uint64_t va,
			    uint64_t len)
{
	const struct xr_key_use use = {
		.key = key, .pd = 7, .qpn = 100, .access = access, .va = va, .len = len
	};
	struct xt_mem *m;
	uint64_t off;

	return xt_keys_check(keys, &use, &m, &off);
}

static void test_ranges(struct xt_keys *keys)
{
	static const struct row {
		const char *what;
		uint64_t base, length, va, len;
		enum xr_reason want;
	} rows[] = {
		{ "whole region", 0x1000, 0x1000, 0x1000, 0x1000, XR_OK },
		{ "first byte", 0x1000, 0x1000, 0x1000, 1, XR_OK },
		{ "last byte", 0x1000, 0x1000, 0x1fff, 1, XR_OK },
		{ "byte before the region", 0x1000, 0x1000, 0xfff, 1, XR_KEY_RANGE },
		{ "starts one byte before the region", 0x1000, 0x1000, 0xfff, 0x1000,
		  XR_KEY_RANGE },
		{ "byte after the region", 0x1000, 0x1000, 0x2000, 1, XR_KEY_RANGE },
		{ "one byte too long", 0x1000, 0x1000, 0x1001, 0x1000, XR_KEY_RANGE },
		{ "length 2^64 - 1", 0x1000, 0x1000, 0x1000, UINT64_MAX, XR_KEY_RANGE },
		{ "wraps around to the byte before the region", 0x1000, 0x1000, 0x1800,
		  UINT64_MAX - 0x7ff, XR_KEY_RANGE },
		{ "region at 0", 0, 0x1000, 0, 0x1000, XR_OK },
		{ "region at 0, access wraps around", 0, 0x1000, UINT64_MAX, 2, XR_KEY_RANGE },
		{ "region at 0, one byte too long", 0, 0x1000, 1, 0x1000, XR_KEY_RANGE },
		{ "region up to 2^64", UINT64_MAX - 0xfff, 0x1000, UINT64_MAX - 0xfff, 0x1000,
		  XR_OK },
		{ "last byte of the address space", UINT64_MAX - 0xfff, 0x1000, UINT64_MAX, 1,
		  XR_OK },
		{ "wraps around the address space", UINT64_MAX - 0xfff, 0x1000, UINT64_MAX, 2,
		  XR_KEY_RANGE },
		{ "byte before a region up to 2^64", UINT64_MAX - 0xfff, 0x1000,
		  UINT64_MAX - 0x1000, 1, XR_KEY_RANGE },
		{ "address 0 with a region up to 2^64", UINT64_MAX - 0xfff, 0x1000, 0, 1,
		  XR_KEY_RANGE },
		{ "region of 2^64 - 1 bytes", 0, UINT64_MAX, 0, UINT64_MAX, XR_OK },
		{ "byte after a region of 2^64 - 1 bytes", 0, UINT64_MAX, UINT64_MAX, 1,
		  XR_KEY_RANGE },
		{ "empty region", 0x1000, 0, 0x1000, 1, XR_KEY_RANGE },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];
		struct xt_key *k = make(keys, r->base, r->length, ALL);
		struct xt_mem *m = NULL;
		uint64_t off = ~0ull;
		const struct xr_key_use use = {
			.key = xt_key_value(k),
			.pd = 7,
			.qpn = 1,
			.access = XR_ACCESS_REMOTE_READ,
			.va = r->va,
			.len = r->len,
		};
		enum xr_reason why = xt_keys_check(keys, &use, &m, &off);

		TAP_OK(why == r->want && (why != XR_OK || (m == &mem && off == r->va - r->base)),
		       "range: %s", r->what);
		xt_keys_release(keys, k);
	}
}

static void test_checks(struct xt_keys *keys)
{
	struct xt_key *k = make(keys, 0x1000, 64, XR_ACCESS_LOCAL_WRITE | XR_ACCESS_REMOTE_WRITE);
	uint32_t key = xt_key_value(k);
	struct xt_mem *m = &mem;
	uint64_t off = 5;
	struct xr_key_use whole = { .pd = 7, .qpn = 1, .len = 1, .whole = true };

	TAP_OK(check(keys, key, 0, 0x1000, 64) == XR_OK, "local read needs no access flag");
	TAP_OK(check(keys, key, XR_ACCESS_LOCAL_WRITE, 0x1000, 64) == XR_OK,
	       "local write is allowed with LOCAL_WRITE");
	TAP_OK(check(keys, key, XR_ACCESS_REMOTE_READ, 0x1000, 64) == XR_KEY_ACCESS,
	       "remote read without REMOTE_READ is refused");
	TAP_OK(check(keys, key, XR_ACCESS_REMOTE_READ | XR_ACCESS_REMOTE_WRITE, 0x1000, 64) ==
		       XR_KEY_ACCESS,
	       "access is refused if one of two flags is missing");
	TAP_OK(check(keys, key + 1, 0, 0x1000, 64) == XR_KEY_VARIANT, "another variant is refused");
	TAP_OK(check(keys, key + 0x100, 0, 0x1000, 64) == XR_KEY_INDEX,
	       "an unallocated index is refused");
	TAP_OK(check(keys, 0xffffff00, 0, 0x1000, 64) == XR_KEY_INDEX,
	       "the highest index is refused");
	TAP_OK(check(keys, 0, 0, 0x1000, 64) == XR_KEY_INDEX, "key 0 is refused");
	TAP_OK(xt_keys_check(keys, &(struct xr_key_use){ .key = 0xdead, .access = ALL }, &m,
			     &off) == XR_OK &&
		       !m,
	       "length 0 passes without a check and returns no memory");
	xt_keys_note(keys, &(struct xr_key_use){ .key = key, .qpn = 9 }, XR_KEY_RANGE, 33);
	xt_keys_note(keys, &(struct xr_key_use){ .key = key + 0x100, .qpn = 8 }, XR_KEY_INDEX, 44);
	TAP_OK(k->refused.count == 1 && k->refused.at == 33 && k->refused.qpn == 9 &&
		       k->refused.why == XR_KEY_RANGE,
	       "a refused use is noted for tools, if there is such a key");
	whole.key = key;
	TAP_OK(xt_keys_check(keys, &whole, &m, &off) == XR_OK && m == &mem,
	       "access to the whole region ignores address and length");
	whole.pd = 8;
	TAP_OK(xt_keys_check(keys, &whole, &m, &off) == XR_KEY_PD && !m,
	       "access to the whole region from another PD is refused");
	whole = (struct xr_key_use){ .key = key, .pd = 8, .qpn = 1, .va = 0x1000, .len = 1 };
	TAP_OK(xt_keys_check(keys, &whole, &m, &off) == XR_KEY_PD && !m, "another PD is refused");
	k->entry.qpn = 100;
	TAP_OK(check(keys, key, 0, 0x1000, 1) == XR_OK, "a key bound to this QP is valid");
	k->entry.qpn = 101;
	TAP_OK(check(keys, key, 0, 0x1000, 1) == XR_KEY_STATE,
	       "a key bound to another QP is refused");
	k->entry.qpn = 0;
	k->entry.state = XR_KEY_INVALID;
	TAP_OK(check(keys, key, 0, 0x1000, 1) == XR_KEY_STATE, "an invalid key is refused");
	k->entry.state = XR_KEY_FREE;
	TAP_OK(check(keys, key, 0, 0x1000, 1) == XR_KEY_STATE, "a free key is refused");
	k->entry.state = XR_KEY_VALID;
	k->mem = NULL;
	TAP_OK(check(keys, key, 0, 0x1000, 1) == XR_KEY_STATE,
	       "a valid key without memory is refused");
	xt_keys_release(keys, k);
	TAP_OK(check(keys, key, 0, 0x1000, 1) == XR_KEY_INDEX, "a released key is refused");
	TAP_OK(!xt_keys_by_index(keys, XR_KEY_INDEX(key)),
	       "a released key is not found by its index");
}

/* Slots are reused in the order of their release, with another index and variant. */
static void test_reuse(void)
{
	struct xt_keys *keys = xt_keys_new(3, 13);
	struct xt_key *k[4], *old[3];
	uint32_t first[3];

	for (int i = 0; i < 4; i++)
		k[i] = xt_keys_alloc(keys);
	TAP_OK(k[0] && k[1] && k[2] && !k[3], "a table of 3 allocates 3 keys");
	TAP_OK(k[0]->index && k[1]->index && k[2]->index, "index 0 is never allocated");
	for (int i = 0; i < 3; i++)
		first[i] = xt_key_value(old[i] = k[i]);
	xt_keys_release(keys, k[1]);
	xt_keys_release(keys, k[0]);
	xt_keys_release(keys, k[2]);
	k[0] = xt_keys_alloc(keys);
	k[1] = xt_keys_alloc(keys);
	TAP_OK(k[0] == old[1] && k[1] == old[0], "slots are reused in the order of release");
	TAP_OK(k[0]->index != XR_KEY_INDEX(first[1]) && k[1]->index != XR_KEY_INDEX(first[0]),
	       "a reused slot has another index");
	TAP_OK(k[0]->entry.variant != XR_KEY_VARIANT(first[1]) &&
		       k[1]->entry.variant != XR_KEY_VARIANT(first[0]),
	       "a reused slot has another variant");
	TAP_OK(k[0]->entry.state == XR_KEY_FREE && !k[0]->mem && !k[0]->entry.access,
	       "a reused key has no old contents");
	xt_keys_release(keys, k[0]);
	xt_keys_release(keys, k[0]);
	k[2] = xt_keys_alloc(keys);
	k[0] = xt_keys_alloc(keys);
	k[3] = xt_keys_alloc(keys);
	TAP_OK(k[2] && k[0] && k[2] != k[0] && !k[3], "a key released twice is allocated once");
	xt_keys_free(keys);
	xt_keys_free(NULL);
}

/* A stale key must not become valid again while other keys are allocated and released. */
static void test_stale(void)
{
	struct xt_keys *keys = xt_keys_new(1 << 20, 13);
	struct xt_key *k = make(keys, 0, 64, ALL);
	uint32_t stale = xt_key_value(k);
	unsigned i;

	xt_keys_release(keys, k);
	for (i = 0; i < 200000; i++) {
		k = make(keys, 0, 64, ALL);
		if (check(keys, stale, 0, 0, 1) == XR_OK)
			break;
		xt_keys_release(keys, k);
	}
	TAP_OK(i == 200000, "a stale key is refused after %u reuses", i);
	xt_keys_free(keys);
}

/* Each number below 2^24 is the image of one other, and 0 that of itself. */
static void test_permutation(void)
{
	static uint8_t seen[1 << XT_PERMUTE_BITS];
	struct xt_permutation p;
	unsigned wrong = 0, n;

	xt_permutation_init(&p, 17);
	for (n = 0; n < sizeof(seen); n++) {
		uint32_t image = xt_permute(&p, n);

		if (image >= sizeof(seen) || seen[image] || xt_unpermute(&p, image) != n) {
			wrong++;
			break;
		}
		seen[image] = 1;
	}
	TAP_OK(!wrong, "the permutation is one, and has an inverse");
	TAP_OK(!xt_permute(&p, 0), "the permutation leaves 0 in place");
}

static void test_random_order(void)
{
	enum { COUNT = 10000 };
	struct xt_keys *keys = xt_keys_new(COUNT, 1), *other = xt_keys_new(COUNT, 2);
	unsigned neighbours = 0, same = 0, variants[256] = { 0 }, rare = 0;
	uint32_t before = 0;

	for (unsigned i = 0; i < COUNT; i++) {
		struct xt_key *k = xt_keys_alloc(keys), *l = xt_keys_alloc(other);

		neighbours += k->index - before + 1 < 3;
		same += k->index == l->index;
		variants[k->entry.variant]++;
		before = k->index;
	}
	for (unsigned i = 0; i < 256; i++)
		rare += variants[i] < COUNT / 256 / 4;
	TAP_OK(neighbours < COUNT / 100, "key indices are not sequential");
	TAP_OK(same < COUNT / 100, "key indices are others after a restart");
	TAP_OK(!rare, "the first variants are random");
	xt_keys_free(keys);
	xt_keys_free(other);
}

static void test_many(void)
{
	enum { COUNT = 1 << 20 };
	struct xt_keys *keys = xt_keys_new(COUNT, 13);
	struct xt_key **k = calloc(COUNT, sizeof(*k));
	unsigned made = 0, found = 0, i;

	for (i = 0; i < COUNT; i++) {
		k[i] = xt_keys_alloc(keys);
		made += !!k[i];
	}
	TAP_OK(made == COUNT && !xt_keys_alloc(keys), "%u keys can be allocated, not one more",
	       made);
	for (i = 0; i < COUNT && k[i]; i++)
		found += xt_keys_by_index(keys, k[i]->index) == k[i];
	TAP_OK(found == COUNT, "lookup by index returns the allocated keys");
	for (i = 0; i < COUNT; i += 2)
		xt_keys_release(keys, k[i]);
	for (made = 0; xt_keys_alloc(keys); made++)
		;
	TAP_OK(made == COUNT / 2, "released keys can be allocated again");
	free(k);
	xt_keys_free(keys);
}

int main(void)
{
	struct xt_keys *keys = xt_keys_new(1000, 13);

	test_ranges(keys);
	test_checks(keys);
	xt_keys_free(keys);
	test_reuse();
	test_stale();
	test_permutation();
	test_random_order();
	test_many();
	return tap_end();
}
