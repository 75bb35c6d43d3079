// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "spin.h"

void xd_spin_init(struct xd_spin *s, uint64_t limit_ns, uint64_t now)
{
	*s = (struct xd_spin){ .limit_ns = limit_ns, .last_work = now, .woken = now };
}

void xd_spin_look(struct xd_spin *s, uint64_t now)
{
	if (s->looked || now < s->no_looks_until)
		return;
	s->looked = true;
	s->look_until = now + XD_LOOK_NS;
}

static void end_look(struct xd_spin *s, uint64_t now, bool found)
{
	s->look_until = 0;
	s->looks++;
	s->looks_found += found;
	if (s->looks < XD_LOOKS)
		return;
	if (s->looks_found < XD_LOOKS / 2)
		s->no_looks_until = now + XD_NO_LOOKS_NS;
	s->looks = s->looks_found = 0;
}

void xd_spin_worked(struct xd_spin *s, uint64_t now)
{
	bool successful = s->yielded && !s->slept;

	if (s->look_until)
		end_look(s, now, true);
	if (successful && s->wasted && now >= s->short_until)
		s->wasted--;
	s->last_work = now;
	s->yielded = s->slept = false;
	s->lone_looks = 0; /* the work may have made another thread runnable */
}

void xd_spin_slept(struct xd_spin *s, uint64_t now)
{
	s->last_work = s->woken = now;
	s->slept = true;
	s->looked = false;
}

/* Returns how long a state lasts that lasted ns before; again: it is entered again soon. */
static uint64_t next_duration(uint64_t ns, bool again, uint64_t least, uint64_t most)
{
	if (!again)
		return least;
	return ns < most / 2 ? 2 * ns : most;
}

/* The spin that ends now had no work. */
static void count_wasted(struct xd_spin *s, uint64_t now)
{
	s->wasted += XD_WASTED_WEIGHT;
	if (s->wasted < XD_WASTED_LIMIT)
		return;
	s->wasted = XD_WASTED_RETRY;
	s->short_ns = next_duration(s->short_ns, now < s->short_until + s->short_ns,
				    XD_SHORT_SPINS_MIN_NS, XD_SHORT_SPINS_MAX_NS);
	s->short_until = now + s->short_ns;
}

/* During back-off */
static enum xd_idle pause_or_sleep(const struct xd_spin *s, uint64_t idle_ns)
{
	bool bulk = s->last_work - s->woken >= XD_BULK_NS;

	return bulk && idle_ns < XD_PAUSE_NS && idle_ns < s->limit_ns ? XD_IDLE_PAUSE
								      : XD_IDLE_SLEEP;
}

enum xd_idle xd_spin_next(struct xd_spin *s, uint64_t now)
{
	uint64_t idle_ns = now - s->last_work;

	if (now < s->backoff_until)
		return pause_or_sleep(s, idle_ns);
	if (s->look_until && now < s->look_until)
		return XD_IDLE_PAUSE;
	if (s->look_until)
		end_look(s, now, false);
	if (s->yielded && now < s->short_until)
		return XD_IDLE_SLEEP;
	if (s->yielded && idle_ns >= s->limit_ns) {
		count_wasted(s, now);
		return XD_IDLE_SLEEP;
	}
	if (s->lone_looks) {
		s->lone_looks--;
		return XD_IDLE_PAUSE;
	}
	s->yielded = true;
	return XD_IDLE_YIELD;
}

bool xd_spin_yielded(struct xd_spin *s, uint64_t before, uint64_t after)
{
	bool recent = s->backoff_ns && after < s->backoff_until + s->backoff_ns;

	s->looked = false;
	if (after - before < XD_LONE_NS)
		s->lone_looks = XD_LONE_LOOKS;
	if (after - before <= XD_STARVED_NS) {
		s->long_yields = 0;
		return false;
	}
	s->woken = after;
	if (!recent && ++s->long_yields < XD_STARVED_YIELDS)
		return false;
	s->long_yields = 0;
	s->backoff_ns = next_duration(s->backoff_ns, recent, XD_BACKOFF_MIN_NS, XD_BACKOFF_MAX_NS);
	s->backoff_until = after + s->backoff_ns;
	return true;
}

void xd_spin_reset_backoff(struct xd_spin *s)
{
	s->backoff_until = 0;
	s->backoff_ns = 0;
	s->short_until = 0;
	s->short_ns = 0;
	s->wasted = 0;
}
