// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <string.h>

#include "fault.h"

#define BOTH (XR_FAULT_RX | XR_FAULT_TX)
#define FIRST_BYTE 12 /* a frame with damaged Ethernet addresses would not arrive at all */
#define MAX_FLIPS 3   /* the ICRC detects up to three bit errors in a packet */

int xd_fault_init(struct xd_fault *f, const struct xr_fault_config *config)
{
	static const struct xr_fault_config off;
	const struct xr_fault_config *c = config ? config : &off;

	if (c->drop > 1000 || c->duplicate > 1000 || c->reorder > 1000 || c->corrupt > 1000 ||
	    c->delay > 1000 || c->direction & ~(BOTH | XR_FAULT_MADS))
		return -EINVAL;
	f->config = *c;
	f->state = c->seed;
	return 0;
}

bool xd_fault_on(const struct xd_fault *f, uint32_t direction)
{
	const struct xr_fault_config *c = &f->config;

	if (c->direction & BOTH && !(c->direction & direction))
		return false;
	return c->drop | c->duplicate | c->reorder | c->corrupt | c->delay;
}

/* splitmix64 */
static uint64_t draw(struct xd_fault *f)
{
	uint64_t z = f->state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static bool happens(struct xd_fault *f, uint32_t per_mille)
{
	return per_mille && draw(f) % 1000 < per_mille;
}

static uint64_t draw_delay(struct xd_fault *f)
{
	uint64_t ns = 0;

	if (happens(f, f->config.reorder))
		ns += 1 + draw(f) % XD_REORDER_NS;
	if (happens(f, f->config.delay))
		ns += f->config.delay_us * 1000ull;
	return ns;
}

struct xd_fault_action xd_fault_next(struct xd_fault *f)
{
	struct xd_fault_action a = { .copies = 1 };
	unsigned i;

	if (happens(f, f->config.drop))
		a.copies = 0;
	else if (happens(f, f->config.duplicate))
		a.copies = 2;
	if (a.copies && happens(f, f->config.corrupt)) {
		a.flips = 1 + draw(f) % MAX_FLIPS;
		a.flip_seed = draw(f);
	}
	for (i = 0; i < a.copies; i++)
		a.delay_ns[i] = draw_delay(f);
	return a;
}

static void flip(const struct xt_frame *frame, uint32_t bit)
{
	uint32_t off = bit / 8, i;

	for (i = 0; i < frame->nseg && off >= frame->seg[i].len; i++)
		off -= frame->seg[i].len;
	if (i < frame->nseg)
		frame->seg[i].data[off] ^= 1 << bit % 8;
}

void xd_fault_damage(const struct xd_fault_action *action, const struct xt_frame *frame)
{
	struct xd_fault bits_of = { .state = action->flip_seed };
	uint32_t bits, i;

	if (frame->len <= FIRST_BYTE)
		return;
	bits = (frame->len - FIRST_BYTE) * 8;
	for (i = 0; i < action->flips; i++)
		flip(frame, FIRST_BYTE * 8 + draw(&bits_of) % bits);
}
