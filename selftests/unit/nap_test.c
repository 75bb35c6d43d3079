// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* When a program sleeps in a poll of an empty CQ. */
#include "provider/verbs/nap.h"
#include "selftests/lib/tap.h"

#define US 1000ull
#define MS 1000000ull

/* Polls an empty CQ 10 us after the last poll. Returns whether the program sleeps. */
static bool polls(struct xp_nap *nap, uint64_t now, uint32_t left, uint32_t executed)
{
	struct xp_nap_wrs wrs = { left + executed, left, executed };

	return xp_nap_possible(nap, now, now - 10 * US) && xp_nap_due(nap, now, &wrs);
}

struct pattern {
	uint64_t wr_us;	      /* time for a WR */
	unsigned int batch;   /* every so many WRs, one is signalled */
	uint32_t outstanding; /* after each completion */
};

/*
 * Polls every 10 us for a time. A program with a deep queue posts as many WRs as have completed.
 * Returns the end of that time. *slept: the share of polls in which the program slept, in percent
 */
static uint64_t stream(struct xp_nap *nap, uint64_t from, const struct pattern *p,
		       unsigned int *slept)
{
	uint64_t now = from, step = p->wr_us * p->batch * US, next = from + step;
	unsigned int sleeps = 0, n;
	uint32_t executed;

	for (n = 0; now < from + 40 * MS; now += 10 * US, n++) {
		for (; next <= now; next += step)
			xp_nap_completed(nap, p->batch);
		executed = p->batch - 1 - (uint32_t)((next - now - 1) / (p->wr_us * US));
		sleeps += polls(nap, now, p->outstanding - executed, executed);
	}
	*slept = 100 * sleeps / n;
	return now;
}

static void streams(void)
{
	static const struct {
		struct pattern p;
		unsigned int least, most; /* percent */
	} t[] = {
		{ { 80, 1, 128 }, 90, 100 },  { { 80, 1, 17 }, 90, 100 },
		{ { 80, 1, 14 }, 0, 0 },      { { 2, 1, 128 }, 0, 0 },
		{ { 2, 1, 700 }, 90, 100 },   { { 400, 1, 4 }, 90, 100 },
		{ { 400, 1, 3 }, 0, 0 },      { { 20, 1, 1 }, 0, 0 },
		{ { 5, 100, 400 }, 80, 100 }, { { 80, 20, 128 }, 80, 100 },
		{ { 15, 100, 128 }, 60, 90 }, { { 5, 100, 128 }, 30, 40 },
		{ { 5, 100, 100 }, 5, 15 },   { { 1, 100, 128 }, 0, 0 },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct xp_nap nap = { 0 };
		unsigned int slept;

		stream(&nap, MS, &t[i].p, &slept);
		TAP_OK(slept >= t[i].least && slept <= t[i].most,
		       "%u WRs of %llu us, one of %u signalled: sleeps in %u to %u %% of the "
		       "polls: %u",
		       t[i].p.outstanding, (unsigned long long)t[i].p.wr_us, t[i].p.batch,
		       t[i].least, t[i].most, slept);
	}
}

/* Those that are executed do not count, however long their completion takes. */
static void executed(void)
{
	static const struct pattern rare = { 15, 100, 128 };
	struct xp_nap nap = { 0 };
	unsigned int slept;
	uint64_t now = stream(&nap, MS, &rare, &slept);

	TAP_OK(polls(&nap, now, 50, 50),
	       "50 WRs of 15 us left, 50 until the next completion: sleeps");
	TAP_OK(!polls(&nap, now, 50, 95), "... 5 until the next completion: does not sleep");
	TAP_OK(!polls(&nap, now, 20, 0), "20 left, 100 until the next completion: does not sleep");
	TAP_OK(!polls(&nap, now, 3, 50), "3 left, 50 executed: does not sleep");
	TAP_OK(!polls(&nap, now, 0, 50), "all executed: does not sleep");
}

/* A sleep, with what Linux adds, lasts an eighth of what is left, within limits. */
static void durations(void)
{
	static const struct {
		uint32_t left, least, most;
	} t[] = { { 84, 100000, 110000 },
		  { 160, 240000, 260000 },
		  { 10000, XP_NAP_MAX_NS, XP_NAP_MAX_NS } };
	static const struct pattern p = { 15, 1, 10000 };
	struct xp_nap nap = { 0 };
	unsigned int slept;
	uint64_t now = stream(&nap, MS, &p, &slept);

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct xp_nap_wrs wrs = { .outstanding = t[i].left, .left = t[i].left };

		uint32_t ns = xp_nap_due(&nap, now, &wrs);

		TAP_OK(ns >= t[i].least && ns <= t[i].most,
		       "%u WRs of 15 us left: sleeps for %u ns", t[i].left, ns);
	}
}

/* Earlier measurements do not count once the queue was nearly empty, or was not polled. */
static void later(void)
{
	static const struct pattern large = { 80, 1, 128 };
	struct xp_nap nap = { 0 };
	unsigned int slept;
	uint64_t now = stream(&nap, MS, &large, &slept);

	TAP_OK(slept && polls(&nap, now, 128, 0), "a stream of large WRs: sleeps");
	TAP_OK(polls(&nap, now + 9 * MS, 128, 0), "a sleep that took long: sleeps again");
	now += 10 * MS;
	TAP_OK(!polls(&nap, now, 1, 0) && !polls(&nap, now + US, 128, 0),
	       "few WRs, then many: does not sleep before it has measured again");
	now = stream(&nap, now, &large, &slept);
	TAP_OK(slept, "the stream continues: sleeps");
	TAP_OK(!xp_nap_possible(&nap, now + 2 * MS, now),
	       "2 ms without a poll: does not sleep before it has measured again");
}

/* ---- receives ------------------------------------------------------------------ */

#define SPIN_NS (2 * US) /* time of an empty poll without a sleep */

struct receiver {
	struct xp_recv_nap nap;
	uint64_t now;  /* the time of the next poll */
	uint64_t last; /* end of the last empty poll */
	unsigned int sleeps;
	unsigned int got; /* receives that completed */
	uint64_t longest; /* sleep */
};

struct messages {
	uint64_t ns;	       /* from one to the next */
	uint32_t bytes;	       /* of one */
	uint32_t posted;       /* receives */
	unsigned int answered; /* of 64 messages */
};

/* Polls an empty CQ, and sleeps as long as Linux does. */
static void poll_empty(struct receiver *r)
{
	uint64_t ns = xp_recv_nap_due(&r->nap, r->now, r->last);

	r->sleeps += ns > 0;
	if (ns)
		ns += XP_NAP_SLACK_NS;
	r->longest = ns > r->longest ? ns : r->longest;
	r->last = r->now + ns;
	r->now = r->last + SPIN_NS;
}

static void take(struct receiver *r, const struct messages *m, uint32_t unpolled)
{
	xp_recv_nap_completed(&r->nap, m->bytes, r->got++ % 64 < m->answered,
			      m->posted > unpolled ? m->posted - unpolled : 0);
}

/* Receives messages for a time. The sender waits for nothing. */
static void receive(struct receiver *r, const struct messages *m, uint64_t duration)
{
	uint64_t end = r->now + duration, next = r->now + m->ns, n;

	for (r->sleeps = 0; r->now < end; poll_empty(r)) {
		for (n = next <= r->now ? (r->now - next) / m->ns + 1 : 0; n; n--) {
			take(r, m, n - 1);
			next += m->ns;
		}
	}
}

/* Receives messages of senders that each send the next one when the program has got their last. */
static void serve(struct receiver *r, const struct messages *m, unsigned int senders,
		  uint64_t duration)
{
	uint64_t end = r->now + duration, arrival = r->now;
	unsigned int i, coming = senders;

	for (r->sleeps = 0; r->now < end; poll_empty(r)) {
		if (r->now < arrival + m->ns)
			continue;
		coming = (r->now - arrival) / m->ns;
		coming = coming < senders ? coming : senders;
		for (i = 0; i < coming; i++)
			take(r, m, 0);
		arrival = r->now;
	}
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * The longest sleep, with what Linux adds: 100 us, or a quarter of the time for a message if that
 * is longer, up to 1 ms, and a quarter of the time that the posted receives last.
 */
static uint64_t longest_for(const struct messages *m)
{
	uint64_t ns = lesser(m->ns / 4, MS);

	ns = (ns < 100 * US ? 100 * US : ns) + 50 * US;
	return lesser(ns, m->ns * m->posted / XP_RECV_NAP_SPARE);
}

static void received_streams(void)
{
	static const struct {
		const char *name;
		struct messages m;
		bool sleeps;
	} t[] = {
		{ "64 KiB", { 120 * US, 65536, 512, 0 }, true },
		{ "64 KiB, 6 receives posted", { 120 * US, 65536, 6, 0 }, true },
		{ "64 KiB, 2 receives posted", { 120 * US, 65536, 2, 0 }, false },
		{ "64 KiB at 0.12 Gbit/s", { 4200 * US, 65536, 512, 0 }, true },
		{ "64 KiB at 0.09 Gbit/s", { 5800 * US, 65536, 512, 0 }, false },
		{ "4 KiB", { 7 * US, 4096, 512, 0 }, true },
		{ "4 KiB, 32 receives posted", { 7 * US, 4096, 32, 0 }, false },
		{ "4 KiB, 64 receives posted", { 7 * US, 4096, 64, 0 }, true },
		{ "8 bytes", { 4 * US, 8, 512, 0 }, false },
		{ "8 MiB", { 16 * MS, 8 << 20, 512, 0 }, true },
		{ "4 KiB, each answered", { 7 * US, 4096, 512, 64 }, false },
		{ "4 KiB, one of 8 answered", { 7 * US, 4096, 512, 8 }, false },
		{ "4 KiB, one of 32 answered", { 7 * US, 4096, 512, 2 }, true },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		const struct messages *m = &t[i].m;
		struct receiver r = { .now = MS };

		receive(&r, m, 200 * MS);
		TAP_OK(t[i].sleeps ? r.sleeps * r.longest > 50 * MS : !r.sleeps,
		       "receives of %s: %s (%u)", t[i].name,
		       t[i].sleeps ? "sleeps" : "does not sleep", r.sleeps);
		TAP_OK(r.longest <= longest_for(m) * 11 / 10 &&
			       (!t[i].sleeps || r.longest >= longest_for(m) * 7 / 10),
		       "... as long as rate and posted receives allow");
	}
}

static void end_of_stream(void)
{
	static const struct messages small = { 7 * US, 4096, 512, 0 },
				     large = { 120 * US, 65536, 512, 0 },
				     pingpong = { 10 * US, 4096, 512, 64 };
	struct receiver r = { .now = MS };
	unsigned int sleeps;
	uint64_t end;

	receive(&r, &small, 50 * MS);
	sleeps = r.sleeps;
	for (r.sleeps = 0, end = r.now + 500 * MS; r.now < end;)
		poll_empty(&r);
	TAP_OK(sleeps && r.sleeps <= 1, "a stream of 4 KiB ends: sleeps at most once more (%u)",
	       r.sleeps);
	receive(&r, &large, 50 * MS);
	sleeps = r.sleeps;
	for (r.sleeps = 0, end = r.now + 500 * MS; r.now < end;)
		poll_empty(&r);
	TAP_OK(sleeps && r.sleeps <= 40, "a stream of 64 KiB ends: sleeps for 6 ms at most (%u)",
	       r.sleeps);
	receive(&r, &small, 50 * MS);
	TAP_OK(r.sleeps, "the next stream: sleeps");
	receive(&r, &pingpong, 20 * MS);
	sleeps = r.sleeps;
	receive(&r, &pingpong, 500 * MS);
	TAP_OK(sleeps <= 1 && !r.sleeps,
	       "then a ping-pong: sleeps at most once (%u), then never (%u)", sleeps, r.sleeps);
	r.now += 2 * MS;
	receive(&r, &small, 3 * MS);
	TAP_OK(!r.sleeps, "2 ms without a poll: does not sleep before it has measured again");
}

/* Requests are answered in another way than by send WRs of the QP. */
static void hidden_answers(void)
{
	static const struct messages request = { 5 * US, 4096, 512, 0 };
	struct receiver r = { .now = MS };
	unsigned int unhindered, got;

	r.nap.not_until = UINT64_MAX;
	serve(&r, &request, 4, 1000 * MS);
	unhindered = r.got;
	r = (struct receiver){ .now = MS };
	serve(&r, &request, 4, 1000 * MS);
	TAP_OK(r.sleeps && r.got > unhindered / 10 * 9,
	       "4 senders wait for the program: %u of %u messages, %u sleeps", r.got, unhindered,
	       r.sleeps);
	got = r.got;
	serve(&r, &request, 4, 1000 * MS);
	TAP_OK(r.got - got > unhindered / 100 * 95, "... later %u, %u sleeps", r.got - got,
	       r.sleeps);
}

/* ---- waits --------------------------------------------------------------------- */

static struct xp_usage used;

static struct xp_usage usage(void)
{
	return used;
}

struct waiting {
	struct xp_wait wait;
	uint64_t now;
	uint32_t found;
	unsigned int share; /* of the processor that the thread has, in percent */
	bool blocks;	    /* the rest of the time it sleeps elsewhere */
	uint64_t slept, longest;
	uint64_t first; /* when it slept first, or 0 */
};

/* Polls an empty CQ every 10 us for a time. */
static void wait_for(struct waiting *w, uint64_t duration)
{
	uint64_t end = w->now + duration, ns;

	for (w->slept = w->longest = w->first = 0; w->now < end; w->now += 10 * US + ns) {
		ns = xp_wait_nap_due(&w->wait, w->now, w->found, usage);
		used.cpu_ns += 10 * US * w->share / 100;
		used.sleeps += w->blocks || ns;
		w->slept += ns;
		w->longest = ns > w->longest ? ns : w->longest;
		if (ns && !w->first)
			w->first = w->now;
	}
}

static void waits_alone(void)
{
	struct waiting w = { .now = MS, .share = 99 };

	wait_for(&w, 200 * MS);
	TAP_OK(!w.slept, "a thread that has a processor of its own does not sleep");
	w = (struct waiting){ .now = MS, .share = 10, .blocks = true };
	wait_for(&w, 200 * MS);
	TAP_OK(!w.slept, "nor does one that sleeps elsewhere between polls");
}

static void waits_beside_others(void)
{
	struct waiting a = { .now = 5 * MS, .share = 50 }, b = { .now = 6 * MS, .share = 50 };

	wait_for(&a, 500 * MS);
	wait_for(&b, 500 * MS);
	TAP_OK(a.slept > 20 * MS && a.slept < 50 * MS && a.longest <= XP_WAIT_SLEEP_NS,
	       "a thread beside others sleeps for up to 1 ms in 16: %llu us in 500 ms",
	       (unsigned long long)(a.slept / US));
	TAP_OK(a.first >= 15 * MS && a.first % XP_WAIT_PERIOD_NS < XP_WAIT_SLEEP_NS,
	       "... but not before it has waited for 10 ms");
	TAP_OK(a.first / XP_WAIT_PERIOD_NS == b.first / XP_WAIT_PERIOD_NS,
	       "a thread that has begun to wait later sleeps at the same time");
}

static void finds_completions(void)
{
	struct waiting w = { .now = MS, .share = 50 };
	unsigned int i;

	for (i = 0; i < 40 && !w.slept; i++, w.found++)
		wait_for(&w, 9 * MS);
	TAP_OK(!w.slept, "a completion of any CQ every 9 ms: does not sleep");
	wait_for(&w, 40 * MS);
	w.found++;
	wait_for(&w, MS);
	TAP_OK(w.slept > MS / 2 && w.longest < 150 * US,
	       "a completion after such a sleep: sleeps in each poll");
	wait_for(&w, 20 * MS);
	TAP_OK(w.longest == XP_WAIT_NAP_MAX_NS, "... an eighth of the time that it has waited");
	for (i = 0; i < 45; i++, w.found++)
		wait_for(&w, 5 * MS);
	TAP_OK(w.slept, "... still after 245 ms");
	for (i = 0; i < 10; i++, w.found++)
		wait_for(&w, 5 * MS);
	TAP_OK(!w.slept, "... but not after 295 ms");
}

int main(void)
{
	streams();
	executed();
	durations();
	later();
	received_streams();
	end_of_stream();
	hidden_answers();
	waits_alone();
	waits_beside_others();
	finds_completions();
	return tap_end();
}
