// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Which calls of a thread that takes events leave their work to a later one. */
#include <stdlib.h>

#include "provider/host/reader.h"
#include "selftests/lib/tap.h"

#define US 1000u

static struct xp_reader reader;
static uint64_t now = 1000000000;

static void raise_events(int n)
{
	xp_reader_polls(&reader);
	while (n--)
		xp_reader_raised(&reader);
}

/* An event is taken, `ns` after the one before. Returns true if what was left is to be sent. */
static bool takes(uint64_t ns)
{
	now += ns;
	return xp_reader_took(&reader, now);
}

/* Returns true if a call leaves its work; else it sends what was left. */
static bool posts(void)
{
	if (xp_reader_leaves(&reader, true))
		return true;
	xp_reader_posts(&reader);
	xp_reader_sends(&reader);
	return false;
}

static bool polls(void)
{
	if (xp_reader_leaves(&reader, false))
		return true;
	xp_reader_polls(&reader);
	return false;
}

static void test_leaves(void)
{
	bool ok;

	raise_events(3);
	ok = !takes(US) && posts() && polls();
	ok &= !takes(US) && posts();
	TAP_OK(ok, "calls leave their work while there are more events");
	TAP_OK(takes(US), "the last event sends what was left");
	xp_reader_sends(&reader);
	TAP_OK(!posts() && !polls(), "calls after it leave nothing");

	raise_events(2);
	ok = !takes(US) && !takes(US);
	TAP_OK(ok, "nothing is sent if nothing was left");

	raise_events(2);
	takes(US);
	TAP_OK(polls() && polls() && polls() && polls() && !polls(),
	       "a program that does not take its events polls after some calls");
	xp_reader_dropped(&reader, 1);

	raise_events(1);
	takes(US);
	TAP_OK(!posts(), "a single event is answered at once");
}

/* Takes and answers n events, the last one if `all`. Returns true if that one sends the others. */
static bool answer(int n, bool all)
{
	bool sends = false;

	raise_events(n);
	for (int i = 0; i < n; i++) {
		sends = takes(US);
		if (sends)
			xp_reader_sends(&reader);
		if (i < n - 1 || all)
			posts();
	}
	return sends;
}

static void test_last(void)
{
	int n;

	for (n = 0; n < 100 && answer(3, true); n++)
		;
	TAP_OK(n && n < 100, "an answer to the last event takes the others along after a while");
	TAP_OK(!answer(3, false) && answer(3, true), "not any more once there was none");

	raise_events(2);
	takes(US);
	posts();
	takes(US);
	TAP_OK(xp_reader_posts(&reader) && !xp_reader_posts(&reader),
	       "the answer to the last event is told from others");
}

static void test_slow(void)
{
	raise_events(3);
	takes(1000 * US);
	TAP_OK(posts(), "a pause before the first event means nothing");
	takes(1000 * US);
	TAP_OK(!posts(), "a program that takes long for an event sends each answer");
	takes(US);
	raise_events(2);
	takes(1000 * US);
	TAP_OK(posts(), "until it is fast again");
	takes(US);
}

static void *takes_elsewhere(void *arg)
{
	(void)arg;
	takes(US);
	return NULL;
}

static void test_threads(void)
{
	pthread_t thread;

	raise_events(3);
	if (pthread_create(&thread, NULL, takes_elsewhere, NULL) || pthread_join(thread, NULL))
		exit(1);
	TAP_OK(!posts() && !polls(),
	       "another thread than the one that takes events leaves nothing");
	takes(US);
	TAP_OK(posts(), "it does after an event of its own");
	takes(US);
}

static void test_time(void)
{
	TAP_OK(xp_reader_takes(&reader, now + 10, 20) && !xp_reader_takes(&reader, now + 20, 20),
	       "the thread takes events until some time after the last one");
	TAP_OK(!reader.unread, "all events were taken");
}

int main(void)
{
	test_leaves();
	test_last();
	test_slow();
	test_threads();
	test_time();
	return tap_end();
}
