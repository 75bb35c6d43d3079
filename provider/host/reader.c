// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "reader.h"

/* A program arms the CQ, polls it, and posts an answer or two. */
#define LEAVES 4
/* A program that takes longer for an event would delay the answers to those before it. */
#define SLOW_NS 20000u
/* A program may take so long for all events that a round has made. */
#define EVENTS_NS 2000000u

#define LOAD(field) __atomic_load_n(&r->field, __ATOMIC_RELAXED)
#define STORE(field, value) __atomic_store_n(&r->field, value, __ATOMIC_RELAXED)

void xp_reader_raised(struct xp_reader *r)
{
	__atomic_fetch_add(&r->unread, 1, __ATOMIC_RELAXED);
}

void xp_reader_dropped(struct xp_reader *r, uint32_t n)
{
	uint32_t unread = LOAD(unread);

	while (!__atomic_compare_exchange_n(&r->unread, &unread, unread > n ? unread - n : 0, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

bool xp_reader_took(struct xp_reader *r, uint64_t now)
{
	xp_reader_dropped(r, 1);
	if (!LOAD(polled))
		STORE(slow, now - LOAD(taken_at) > SLOW_NS);
	STORE(polled, false);
	STORE(taken_at, now);
	STORE(thread, pthread_self());
	STORE(leaves, LOAD(unread) && !LOAD(slow) ? LEAVES : 0);
	STORE(woken,
	      now < LOAD(woken_at) + SLOW_NS && pthread_equal(pthread_self(), LOAD(receiver)));
	return !LOAD(unread) && LOAD(left);
}

static bool leaves(struct xp_reader *r)
{
	uint32_t n = LOAD(leaves);

	if (!n || !pthread_equal(LOAD(thread), pthread_self()))
		return false;
	STORE(leaves, n - 1);
	return true;
}

bool xp_reader_leaves_poll(struct xp_reader *r)
{
	return leaves(r);
}

bool xp_reader_is_woken(struct xp_reader *r, uint64_t now)
{
	if (!LOAD(woken) || !pthread_equal(LOAD(thread), pthread_self()))
		return false;
	STORE(woken, false);
	return now < LOAD(taken_at) + SLOW_NS;
}

bool xp_reader_leaves_post(struct xp_reader *r, uint64_t now)
{
	if (!leaves(r) || now - LOAD(taken_at) > SLOW_NS)
		return false;
	STORE(left, true);
	return true;
}

/* Events that were not taken in time may be those of a channel that nobody reads. */
void xp_reader_sends(struct xp_reader *r, bool late)
{
	if (!LOAD(left))
		return;
	STORE(left, false);
	if (!late)
		return;
	STORE(unread, 0);
	STORE(leaves, 0);
}

void xp_reader_polls(struct xp_reader *r)
{
	STORE(polled, true);
	STORE(woken, false);
}

void xp_reader_receives(struct xp_reader *r, uint64_t now)
{
	STORE(receiver, pthread_self());
	STORE(woken_at, now);
}

bool xp_reader_takes(const struct xp_reader *r, uint64_t now, uint64_t ns)
{
	return now < LOAD(taken_at) + ns && now < LOAD(woken_at) + EVENTS_NS &&
	       pthread_equal(LOAD(thread), LOAD(receiver));
}

bool xp_reader_sleeps(const struct xp_reader *r, uint64_t now)
{
	return now < LOAD(taken_at) + EVENTS_NS && now >= LOAD(woken_at) + EVENTS_NS;
}
