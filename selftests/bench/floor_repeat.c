// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Selective repeat, and faults, see floor.c */
#include "floor_repeat.h"

#include <errno.h>

#include "../lib/clock.h"
#include "floor.h"

#define FIRST_ROUND_TRIP 100000 /* ns */
#define NAK_AGAIN 16		/* packets behind a gap after which a NAK is repeated, as xroce's */
#define REORDER_NS 50000	/* longest time that a packet is held back */

/* ---- sender ---------------------------------------------------------------------------------- */

static void note_progress(struct repeat_sender *s, uint64_t acked, uint64_t now)
{
	if (!s->round_trip)
		s->round_trip = FIRST_ROUND_TRIP;
	if (s->again_at)
		s->round_trip += (now - s->again_at) / 8 - s->round_trip / 8;
	s->again_at = 0;
	s->progress_at = now;
	s->acked = acked;
}

/*
 * Whether packet acked is to be sent again. NAKs are repeated, so those that may have crossed it
 * are ignored. If nothing comes, it was the last one of a window, or all ACKs for it were lost.
 */
static bool missing(const struct repeat_sender *s, bool asked, uint64_t now)
{
	if (asked)
		return !s->again_at || now - s->again_at > 2 * s->round_trip;
	return s->acked != s->next &&
	       now - (s->again_at ? s->again_at : s->progress_at) > 4 * s->round_trip;
}

/* New packets wait until they fill a frame, unless one leaves with a packet that is missing. */
uint32_t repeat_choose(struct repeat_sender *s, uint64_t acked, bool asked, uint32_t max,
		       uint64_t *numbers)
{
	uint64_t now = now_ns();
	uint32_t n = 0;

	if (acked != s->acked || !s->round_trip)
		note_progress(s, acked, now);
	if (missing(s, asked, now)) {
		s->again_at = now;
		numbers[n++] = acked;
	} else if (acked + WINDOW - s->next < max) {
		return 0;
	}
	while (n < max && s->next < acked + WINDOW)
		numbers[n++] = s->next++;
	return n;
}

/* ---- receiver -------------------------------------------------------------------------------- */

static bool get_bit(const struct repeat_receiver *r, uint64_t number)
{
	return r->come[number % WINDOW / 64] >> number % 64 & 1;
}

static void flip_bit(struct repeat_receiver *r, uint64_t number)
{
	r->come[number % WINDOW / 64] ^= 1ull << number % 64;
}

bool repeat_has(const struct repeat_receiver *r, uint64_t number)
{
	return number < r->expected || get_bit(r, number);
}

static void begin_gap(struct repeat_receiver *r)
{
	r->ahead = 0;
	r->gap_at = now_ns();
}

static void end_gap(struct repeat_receiver *r)
{
	if (!r->gap_at)
		return;
	shared->repeat.gaps++;
	shared->repeat.gap_ns += now_ns() - r->gap_at;
	r->gap_at = 0;
}

/* Whether a packet behind the gap, which has just come, is a reason for a NAK. */
static bool asks(struct repeat_receiver *r)
{
	return r->ahead++ % NAK_AGAIN == 0;
}

/* Goes on to the next packet that is missing. */
static bool fill_gap(struct repeat_receiver *r)
{
	end_gap(r);
	while (get_bit(r, ++r->expected))
		flip_bit(r, r->expected);
	if (r->end <= r->expected)
		return false;
	begin_gap(r);
	return asks(r);
}

bool repeat_arrived(struct repeat_receiver *r, uint64_t number)
{
	if (repeat_has(r, number))
		return false;
	if (number - r->expected >= WINDOW)
		raw_die("a packet is not in the window", EBADMSG);
	if (number >= r->end)
		r->end = number + 1;
	if (number == r->expected)
		return fill_gap(r);
	flip_bit(r, number);
	if (!r->gap_at)
		begin_gap(r);
	return asks(r);
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* xorshift64* */
static uint64_t next_random(struct faults *f)
{
	f->random ^= f->random >> 12;
	f->random ^= f->random << 25;
	f->random ^= f->random >> 27;
	return (f->random * 0x2545f4914f6cdd1d) >> 32;
}

enum fate faults_decide(struct faults *f, uint64_t number)
{
	uint64_t chance;

	if (!f->drop && !f->reorder)
		return ARRIVES;
	chance = next_random(f) % 1000;
	if (chance < f->drop)
		return LOST;
	if (chance >= f->drop + f->reorder || f->n == MAX_HELD)
		return ARRIVES;
	f->held[f->n].number = number;
	f->held[f->n++].until = now_ns() + next_random(f) % REORDER_NS;
	return HELD;
}

bool faults_release(struct faults *f, uint64_t *number)
{
	uint64_t now = f->n ? now_ns() : 0;

	for (uint32_t i = 0; i < f->n; i++) {
		if (now < f->held[i].until)
			continue;
		*number = f->held[i].number;
		f->held[i] = f->held[--f->n];
		return true;
	}
	return false;
}
