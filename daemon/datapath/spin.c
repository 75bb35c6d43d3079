// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "spin.h"

void xd_spin_init(struct xd_spin *s, uint64_t limit_ns, uint64_t now)
{
	*s = (struct xd_spin){ .limit_ns = limit_ns, .last_work = now };
}

void xd_spin_worked(struct xd_spin *s, uint64_t now)
{
	s->last_work = now;
	s->yielded = false;
}

void xd_spin_slept(struct xd_spin *s, uint64_t now)
{
	s->last_work = now;
}

enum xd_idle xd_spin_next(struct xd_spin *s, uint64_t now)
{
	bool shy = now < s->shy_until;
	uint64_t limit = shy && s->limit_ns > XD_SHY_SPIN_NS ? XD_SHY_SPIN_NS : s->limit_ns;

	if (now - s->last_work >= limit && (shy || s->yielded))
		return XD_IDLE_SLEEP;
	if (shy)
		return XD_IDLE_PAUSE;
	s->yielded = true;
	return XD_IDLE_YIELD;
}

bool xd_spin_yielded(struct xd_spin *s, uint64_t before, uint64_t after)
{
	if (after - before <= XD_STARVED_NS)
		return false;
	s->shy_ns = s->shy_ns && after < s->shy_until + s->shy_ns ? s->shy_ns * 2 : XD_SHY_MIN_NS;
	if (s->shy_ns > XD_SHY_MAX_NS)
		s->shy_ns = XD_SHY_MAX_NS;
	s->shy_until = after + s->shy_ns;
	return true;
}

void xd_spin_forget(struct xd_spin *s)
{
	s->shy_until = 0;
	s->shy_ns = 0;
}
