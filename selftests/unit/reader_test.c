// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Which calls of a thread that takes events leave their work to a later one. */
#include <stdlib.h>

#include "provider/host/reader.h"
#include "selftests/lib/tap.h"

#define US 1000u
#define LONG 5000000u

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
	if (xp_reader_may_leave(&reader) && xp_reader_leaves_post(&reader, now))
		return true;
	xp_reader_sends(&reader, false);
	return false;
}

static bool polls(void)
{
	if (xp_reader_leaves_poll(&reader) ||
	    (xp_reader_may_be_woken(&reader) && xp_reader_is_woken(&reader, now)))
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
	xp_reader_sends(&reader, false);
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

/* An event is raised for a channel that nobody reads. */
static void test_late(void)
{
	raise_events(2);
	takes(US);
	TAP_OK(posts(), "an answer waits for the next event");
	xp_reader_sends(&reader, true);
	TAP_OK(!posts() && !polls() && !reader.unread, "if it was late, that one is not expected");
	raise_events(1);
	takes(US);
	TAP_OK(!posts(), "and the next answer does not wait for it");
	takes(US);
	raise_events(2);
	takes(US);
	TAP_OK(posts(), "although it may be taken later");
	takes(US);
	xp_reader_sends(&reader, false);
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
	raise_events(2);
	takes(US);
	now += 1000 * US;
	TAP_OK(!posts(), "an answer after a long time is not left");
	takes(US);
	raise_events(2);
	takes(US);
	takes(US);
}

static void *takes_elsewhere(void *arg)
{
	(void)arg;
	takes(US);
	return NULL;
}

static void take_elsewhere(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, takes_elsewhere, NULL) || pthread_join(thread, NULL))
		exit(1);
}

static void test_threads(void)
{
	raise_events(3);
	take_elsewhere();
	TAP_OK(!posts() && !polls(),
	       "another thread than the one that takes events leaves nothing");
	takes(US);
	TAP_OK(posts(), "it does after an event of its own");
	takes(US);
}

static bool takes_lately(uint64_t passed)
{
	return xp_reader_takes(&reader, now + passed, 20);
}

static void test_receiver(void)
{
	raise_events(2);
	takes(US);
	TAP_OK(!takes_lately(0), "a thread that no packet wakes is not waited for");
	xp_reader_receives(&reader, now);
	TAP_OK(takes_lately(10) && !takes_lately(20), "another one is, for some time");
	take_elsewhere();
	TAP_OK(!takes_lately(0), "not if another thread took the last event");
	TAP_OK(!reader.unread, "all events were taken");
}

/* The poll that finds no more completions receives nothing, as a packet would wake the thread. */
static void test_woken(void)
{
	raise_events(1);
	takes(LONG);
	TAP_OK(!polls(), "a thread that no packet has woken lately receives when it polls");
	xp_reader_receives(&reader, now);
	raise_events(1);
	takes(US);
	TAP_OK(!posts() && polls() && !polls(),
	       "the first poll after an event leaves its work if a packet woke the thread");
	xp_reader_receives(&reader, now);
	raise_events(1);
	takes(US);
	now += LONG;
	TAP_OK(!polls(), "not if it comes late");
	xp_reader_receives(&reader, now);
	raise_events(1);
	take_elsewhere();
	TAP_OK(!polls(), "not if another thread took the event");
}

/* Packets wake a thread that has another channel, or nobody looks at that channel any more. */
static void test_sleeps(void)
{
	raise_events(2);
	xp_reader_receives(&reader, now);
	takes(US);
	TAP_OK(takes_lately(0) && !xp_reader_sleeps(&reader, now),
	       "a packet woke the thread lately");
	takes(LONG);
	TAP_OK(!takes_lately(0) && xp_reader_sleeps(&reader, now),
	       "none woke it for long, although it takes events");
	TAP_OK(!xp_reader_sleeps(&reader, now + LONG), "it takes none any more");
}

int main(void)
{
	test_leaves();
	test_late();
	test_slow();
	test_threads();
	test_receiver();
	test_woken();
	test_sleeps();
	return tap_end();
}
