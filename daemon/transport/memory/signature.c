// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <endian.h>
#include <string.h>

#include <isa-l/crc.h>

#include "daemon/transport/base/crc.h"
#include "signature.h"
#include "daemon/transport/base/simd.h"

/* T10-DIF of a block, as it is in memory and on the wire */
struct dif {
	uint16_t guard, app_tag;
	uint32_t ref_tag;
};
_Static_assert(sizeof(struct dif) == XT_SIG_MAX, "PI of T10-DIF");

#define ESCAPE_APP 0xffffu
#define ESCAPE_REF 0xffffffffu

static bool is_dif(const struct xr_signature *s)
{
	return s->type >= XR_SIG_DIF_1 && s->type <= XR_SIG_DIF_3;
}

static bool signature_same(const struct xr_signature *a, const struct xr_signature *b)
{
	return a->type == b->type && a->app_tag == b->app_tag && a->ref_tag == b->ref_tag &&
	       a->seed == b->seed;
}

/* ---- CRCs ---------------------------------------------------------------------------------- */

/* ISA-L has the register of CRC32 inverted before and after each call, not those of the others. */
static uint32_t crc_begin(const struct xr_signature *s)
{
	return s->type == XR_SIG_CRC32 ? ~s->seed : s->seed;
}

static uint32_t crc_add(const struct xr_signature *s, uint32_t crc, const void *data, uint32_t len)
{
	if (is_dif(s))
		crc = crc16_t10dif((uint16_t)crc, data, len);
	else if (s->type == XR_SIG_CRC32)
		crc = xt_crc32(crc, data, len);
	else if (s->type == XR_SIG_CRC32C)
		crc = crc32_iscsi((unsigned char *)data, (int)len, crc);
	xt_simd_end();
	return crc;
}

static uint32_t crc_end(const struct xr_signature *s, uint32_t crc)
{
	return s->type == XR_SIG_CRC32C ? ~crc : crc;
}

/* Returns true if both sides have the same CRC. */
static bool shares(const struct xt_transform *t)
{
	bool dif = is_dif(t->from) && is_dif(t->to);

	return (dif || t->from->type == t->to->type) && t->from->seed == t->to->seed;
}

void xt_sig_begin(const struct xt_transform *t, struct xt_sig_sum *sum)
{
	sum->from = crc_begin(t->from);
	sum->to = crc_begin(t->to);
}

void xt_sig_add(const struct xt_transform *t, struct xt_sig_sum *sum, const void *data,
		uint32_t len)
{
	sum->from = crc_add(t->from, sum->from, data, len);
	sum->to = shares(t) ? sum->from : crc_add(t->to, sum->to, data, len);
}

/* ---- T10-DIF -------------------------------------------------------------------------------- */

/* Type 3: the reference tags are not numbers of blocks. */
static uint32_t ref_tag_of(const struct xr_signature *s, uint64_t block)
{
	return s->type == XR_SIG_DIF_3 ? s->ref_tag : s->ref_tag + (uint32_t)block;
}

/* A block with escape values is not checked: it was not written with PI. */
static bool escaped(const struct xr_signature *s, const uint8_t *pi)
{
	struct dif d;

	if (!is_dif(s))
		return false;
	memcpy(&d, pi, sizeof(d));
	return d.app_tag == ESCAPE_APP && (s->type != XR_SIG_DIF_3 || d.ref_tag == ESCAPE_REF);
}

static void set_error(struct xt_sig_error *e, uint32_t kind, uint32_t expected, uint32_t actual)
{
	if (expected != actual && e->kind == XR_INTEGRITY_OK)
		*e = (struct xt_sig_error){ kind, expected, actual };
}

static void check_dif(const struct xr_signature *s, uint32_t crc, uint64_t block, const uint8_t *pi,
		      struct xt_sig_error *e)
{
	struct dif d;

	memcpy(&d, pi, sizeof(d));
	if (s->check & XR_SIG_CHECK_GUARD)
		set_error(e, XR_INTEGRITY_GUARD, crc, be16toh(d.guard));
	if (s->check & XR_SIG_CHECK_APP_TAG)
		set_error(e, XR_INTEGRITY_APP_TAG, s->app_tag & s->app_mask,
			  be16toh(d.app_tag) & s->app_mask);
	if (s->check & XR_SIG_CHECK_REF_TAG)
		set_error(e, XR_INTEGRITY_REF_TAG, ref_tag_of(s, block), be32toh(d.ref_tag));
}

static void make_dif(const struct xr_signature *s, uint32_t crc, uint64_t block, uint8_t *out)
{
	const struct dif d = {
		.guard = htobe16((uint16_t)crc),
		.app_tag = htobe16(s->app_tag),
		.ref_tag = htobe32(ref_tag_of(s, block)),
	};

	memcpy(out, &d, sizeof(d));
}

/* ---- blocks --------------------------------------------------------------------------------- */

static void signature_check(const struct xr_signature *s, uint32_t crc, uint64_t block,
			    const uint8_t *pi, struct xt_sig_error *e)
{
	uint32_t value;

	if (is_dif(s)) {
		if (!escaped(s, pi))
			check_dif(s, crc, block, pi, e);
	} else if (s->check & XR_SIG_CHECK_GUARD) {
		memcpy(&value, pi, sizeof(value));
		set_error(e, XR_INTEGRITY_SIGNATURE, crc, le32toh(value));
	}
}

static void make(const struct xr_signature *s, uint32_t crc, uint64_t block, uint8_t *out)
{
	uint32_t value = htole32(crc);

	if (is_dif(s))
		make_dif(s, crc, block, out);
	else
		memcpy(out, &value, sizeof(value));
}

void xt_sig_end(const struct xt_transform *t, const struct xt_sig_sum *sum, uint64_t block,
		const uint8_t pi[XT_SIG_MAX], uint8_t out[XT_SIG_MAX], struct xt_sig_error *error)
{
	*error = (struct xt_sig_error){ .kind = XR_INTEGRITY_OK };
	signature_check(t->from, crc_end(t->from, sum->from), block, pi, error);
	if (signature_same(t->from, t->to) || (is_dif(t->to) && escaped(t->from, pi)))
		memcpy(out, pi, XT_SIG_MAX);
	else
		make(t->to, crc_end(t->to, sum->to), block, out);
}
