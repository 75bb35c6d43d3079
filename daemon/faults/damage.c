// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Damages the bytes of a packet. */
#include "daemon/transport/wire/icrc.h"
#include "faults.h"
#include "fields.h"
#include "internal.h"
#include "random.h"

#define FIRST_BYTE 12 /* a frame with damaged Ethernet addresses would not arrive at all */

static void flip(const struct xt_frame *frame, uint32_t bit)
{
	uint32_t off = bit / 8, i;

	for (i = 0; i < frame->nseg && off >= frame->seg[i].len; i++)
		off -= frame->seg[i].len;
	if (i < frame->nseg)
		frame->seg[i].data[off] ^= 1 << bit % 8;
}

/*
 * Returns true if the ICRC may not detect the damage. It detects three bits, and one field. A
 * program could look for a seed with which more of them deceive the peer.
 */
static bool can_deceive(const struct xd_fault_action *action)
{
	return action->flips > XD_FAULT_FLIPS || (action->flips && action->field.width);
}

/* The ICRC can only be right if what it does not cover is left alone: damage begins at the BTH. */
void xd_fault_damage(const struct xd_fault_action *action, const struct xt_frame *frame)
{
	uint32_t ip = xd_frame_ip(frame), bth = xd_frame_bth(frame), first = FIRST_BYTE,
		 end = frame->len, i;
	uint64_t random = action->flip_seed;

	if (action->seal) {
		first = bth;
		end -= XR_ICRC_LEN;
	}
	if (frame->len <= XR_ICRC_LEN || first >= end)
		return;
	if (bth + action->field.offset + action->field.width <= end)
		xd_frame_store(frame, bth + action->field.offset, action->field.value,
			       action->field.width);
	for (i = 0; i < action->flips; i++)
		flip(frame, first * 8 + (uint32_t)(xd_fault_draw(&random) % ((end - first) * 8)));
	if ((action->seal || can_deceive(action)) && bth + XR_BTH_HLEN <= frame->seg[0].len) {
		xt_icrc_seal(frame->seg, frame->nseg, ip, bth);
		if (!action->seal)
			flip(frame, frame->len * 8 - 1);
	}
}
