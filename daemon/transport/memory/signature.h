/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Signatures of blocks: T10-DIF (SBC-3, 4.22) and CRCs. They are added block by block; nothing here
 * depends on memory or packets.
 */
#ifndef XT_SIGNATURE_H
#define XT_SIGNATURE_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/ring.h>

#define XT_SIG_MAX 8 /* bytes of PI of a block */

/* A transform of blocks: PI of one side is checked, PI of the other side is made. */
struct xt_transform {
	const struct xr_signature *from, *to;
};

/* CRCs of the data of one block so far, for each side */
struct xt_sig_sum {
	uint32_t from, to;
};

struct xt_sig_error {
	uint32_t kind; /* enum xr_integrity_kind */
	uint32_t expected, actual;
};

/* A block begins. */
void xt_sig_begin(const struct xt_transform *t, struct xt_sig_sum *sum);
/* Adds data of the block. */
void xt_sig_add(const struct xt_transform *t, struct xt_sig_sum *sum, const void *data,
		uint32_t len);
/*
 * All data of a block was added. block: its number. pi: its PI on the side it comes from, if that
 * has any. Writes the PI of the other side to out. If both sides have the same signature, or
 * T10-DIF and the block has escape values, that is the PI as it was. *error is set: kind
 * XR_INTEGRITY_OK, or the first check that failed.
 */
void xt_sig_end(const struct xt_transform *t, const struct xt_sig_sum *sum, uint64_t block,
		const uint8_t pi[XT_SIG_MAX], uint8_t out[XT_SIG_MAX], struct xt_sig_error *error);

#endif /* XT_SIGNATURE_H */
