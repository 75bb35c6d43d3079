/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The ICRC of frames, and access to their BTH. */
#ifndef XT_ICRC_H
#define XT_ICRC_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/transport/transport.h"

/* Returns the BTH of a frame whose metadata have been checked. It can be unaligned. */
static inline const uint8_t *xt_bth(const struct xt_frame *frame)
{
	return frame->seg[0].data + frame->meta.bth_off;
}

static inline unsigned xt_pad_count(const uint8_t *bth)
{
	return (bth[1] & XR_BTH_PAD_MASK) >> XR_BTH_PAD_SHIFT;
}

/*
 * Computes the ICRC of a frame and stores it in the last 4 bytes. The segments contain the frame
 * from the Ethernet header to the ICRC; the first one contains all headers up to the BTH. IBTA
 * 7.8.1, A17.3.3.
 */
void xt_icrc_seal(const struct xt_seg *seg, unsigned nseg, unsigned ip_off, unsigned bth_off);

/* Returns true if the offsets of frame->meta are inside of a received frame. */
bool xt_frame_fits(const struct xt_frame *frame);

/*
 * Returns true if the ICRC of a received frame is correct. Checks the offsets of frame->meta first,
 * and returns false if one is outside of the frame.
 */
bool xt_icrc_ok(const struct xt_frame *frame);

/*
 * The same for frames whose IPv4 identification may be a guess (frame->guessed_id): if another
 * identification, or the absence of "don't fragment", explains the ICRC, it is written into the
 * header. 15 of 32 bits of the check are left then.
 */
bool xt_icrc_accept(struct xt_frame *frame);

/*
 * Changes the identification in the IPv4 header of a frame to be sent, and its checksums as far as
 * the change goes: a wrong ICRC stays wrong.
 */
void xt_icrc_set_id(const struct xt_frame *frame, uint16_t id);

#endif /* XT_ICRC_H */
