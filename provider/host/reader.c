// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "reader.h"

/* A program arms the CQ, polls it, and posts an answer or two. */
#define LEAVES 4
/* A program that takes longer for an event would delay the answers to those before it. */
#define SLOW_NS 20000u
/*
 * A program that answers the last event so often will do so again, and this answer takes the others
 * along. If it does not, they wait for its next poll, or for a tick of the progress thread.
 */
#define ANSWERS_MAX 4

#define LOAD(field) __atomic_load_n(&r->field, __ATOMIC_RELAXED)
#define STORE(field, value) __atomic_store_n(&r->field, value, __ATOMIC_RELAXED)

void xp_reader_raised(struct xp_reader *r)
{
	__atomic_fetch_add(&r->unread, 1, __ATOMIC_RELAXED);
}

void xp_reader_dropped(struct xp_reader *r, uint32_t n)
{
	__atomic_fetch_sub(&r->unread, n, __ATOMIC_RELAXED);
}

bool xp_reader_took(struct xp_reader *r, uint64_t now)
{
	uint32_t unread = __atomic_sub_fetch(&r->unread, 1, __ATOMIC_RELAXED);

	if (!LOAD(polled))
		STORE(slow, now - LOAD(taken_at) > SLOW_NS);
	STORE(polled, false);
	STORE(taken_at, now);
	STORE(thread, pthread_self());
	STORE(leaves, unread && !LOAD(slow) ? LEAVES : 0);
	if (unread || !LOAD(left))
		return false;
	STORE(took_last, true);
	return LOAD(answers) < ANSWERS_MAX;
}

bool xp_reader_leaves(struct xp_reader *r, bool posts)
{
	uint32_t n = LOAD(leaves);

	if (!n || !pthread_equal(LOAD(thread), pthread_self()))
		return false;
	STORE(leaves, n - 1);
	if (posts)
		STORE(left, true);
	return true;
}

/* The last event is answered, or is not. Returns false if there are others, or were none. */
static bool end_events(struct xp_reader *r, bool answered)
{
	uint32_t n = LOAD(answers);

	if (!LOAD(took_last))
		return false;
	STORE(took_last, false);
	STORE(answers, !answered ? 0 : n < ANSWERS_MAX ? n + 1 : n);
	return true;
}

bool xp_reader_posts(struct xp_reader *r)
{
	return end_events(r, true);
}

void xp_reader_sends(struct xp_reader *r)
{
	if (LOAD(left))
		STORE(left, false);
}

void xp_reader_polls(struct xp_reader *r)
{
	STORE(polled, true);
	end_events(r, false);
}

bool xp_reader_takes(const struct xp_reader *r, uint64_t now, uint64_t ns)
{
	return now < LOAD(taken_at) + ns;
}
