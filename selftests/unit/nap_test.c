// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* When a program sleeps in a poll of an empty CQ. */
#include "provider/verbs/nap.h"
#include "selftests/lib/tap.h"

#define US 1000ull
#define MS 1000000ull

/* Polls an empty CQ 10 us after the last poll. Returns whether the program sleeps. */
static bool polls(struct xp_nap *nap, uint64_t now, uint32_t outstanding)
{
	return xp_nap_possible(nap, now, now - 10 * US) && xp_nap_due(nap, now, outstanding);
}

struct pattern {
	uint64_t wr_us;	    /* time for a WR */
	unsigned int batch; /* every so many WRs, one is signalled */
	uint32_t outstanding;
};

/*
 * Polls every 10 us for a time. A program with a deep queue always has as many outstanding WRs.
 * Returns the end of that time. *slept: how often the program slept
 */
static uint64_t stream(struct xp_nap *nap, uint64_t from, const struct pattern *p,
		       unsigned int *slept)
{
	uint64_t now = from, step = p->wr_us * p->batch * US, next = from + step;

	for (*slept = 0; now < from + 20 * MS; now += 10 * US) {
		for (; next <= now; next += step)
			xp_nap_completed(nap, p->batch);
		*slept += polls(nap, now, p->outstanding);
	}
	return now;
}

static void streams(void)
{
	static const struct {
		struct pattern p;
		bool sleeps;
	} t[] = {
		{ { 80, 1, 128 }, true },  { { 80, 1, 17 }, true },   { { 80, 1, 15 }, false },
		{ { 2, 1, 128 }, false },  { { 2, 1, 700 }, true },   { { 400, 1, 5 }, true },
		{ { 400, 1, 4 }, false },  { { 20, 1, 1 }, false },   { { 5, 100, 128 }, false },
		{ { 5, 100, 400 }, true }, { { 80, 20, 128 }, true }, { { 80, 20, 34 }, false },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct xp_nap nap = { 0 };
		unsigned int slept;

		stream(&nap, MS, &t[i].p, &slept);
		TAP_OK(t[i].sleeps ? slept > 1000 : !slept,
		       "%u WRs of %llu us, one of %u signalled: %s", t[i].p.outstanding,
		       (unsigned long long)t[i].p.wr_us, t[i].p.batch,
		       t[i].sleeps ? "sleeps" : "does not sleep");
	}
}

/* What was measured before says nothing once the queue has been nearly empty, or was not polled. */
static void later(void)
{
	static const struct pattern large = { 80, 1, 128 };
	struct xp_nap nap = { 0 };
	unsigned int slept;
	uint64_t now = stream(&nap, MS, &large, &slept);

	TAP_OK(slept && polls(&nap, now, 128), "a stream of large WRs: sleeps");
	TAP_OK(polls(&nap, now + 9 * MS, 128), "a sleep that took long: sleeps again");
	now += 10 * MS;
	TAP_OK(!polls(&nap, now, 1) && !polls(&nap, now + US, 128),
	       "few WRs, then many: does not sleep before it has measured again");
	now = stream(&nap, now, &large, &slept);
	TAP_OK(slept, "the stream continues: sleeps");
	TAP_OK(!xp_nap_possible(&nap, now + 2 * MS, now),
	       "2 ms without a poll: does not sleep before it has measured again");
}

int main(void)
{
	streams();
	later();
	return tap_end();
}
