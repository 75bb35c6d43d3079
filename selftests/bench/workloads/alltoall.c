// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Ranks that exchange messages, each with each, in rounds, as MPI_Alltoall(). All of them poll. If
 * there are more ranks than processors, they yield, as MPI libraries do then.
 *
 *   alltoall [OPTION...] RANK HOST...   see side.h; the hosts of all ranks, in their order
 *
 * Rank R listens on port PORT + R. Rank 0 prints the rounds a second, and their times,
 * without the first one, in which it waits until the others have started.
 */
#include "alltoall.h"

#include <sched.h>
#include <unistd.h>

void rank_idle(struct rank *r)
{
	if (r->yields)
		sched_yield();
}

/* Connects to ranks before this one, and accepts those behind it. */
static void connect_ranks(struct rank *r)
{
	const struct options *o = r->options;
	int listener = side_listen(o->port + (int)r->me), sock;
	uint32_t peer;

	for (peer = 0; peer < r->me; peer++) {
		r->sock[peer] = side_connect(o->arguments[1 + peer], o->port + (int)peer);
		side_tell(r->sock[peer], &r->me, sizeof(r->me));
	}
	for (uint32_t i = r->me + 1; i < r->n; i++) {
		sock = side_accept(listener);
		side_hear(sock, &peer, sizeof(peer));
		MUST(peer > r->me && peer < r->n && !r->sock[peer], "rank");
		r->sock[peer] = sock;
	}
	close(listener);
}

static void open_rank(struct rank *r)
{
	size_t size = r->options->size;

	r->memory_len = 2 * r->n * size;
	r->memory = side_memory(r->memory_len);
	for (uint32_t i = 0; i < r->n; i++) {
		r->out[i] = r->memory + i * size;
		r->in[i] = r->memory + (r->n + i) * size;
	}
	connect_ranks(r);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

/* The stamp of a message. Messages of 8 bytes consist of it. */
static uint64_t number_of(uint64_t round, uint32_t from, uint32_t to, bool last)
{
	return round << 16 | from << 9 | to << 1 | last;
}

static void fill_messages(struct rank *r, uint64_t round, bool last)
{
	for (uint32_t i = 0; i < r->n; i++)
		if (i != r->me)
			stamp(r->out[i], r->options->size, number_of(round, r->me, i, last),
			      r->options->check);
}

/* Rank 0 decides which round is the last one. Returns whether this one is. */
static bool check_messages(struct rank *r, uint64_t round, bool last)
{
	bool all = r->options->check;

	if (r->me)
		last = has_stamp(r->in[0], r->options->size, number_of(round, 0, r->me, true), all);
	for (uint32_t i = 0; i < r->n; i++)
		if (i != r->me)
			MUST(has_stamp(r->in[i], r->options->size,
				       number_of(round, i, r->me, !i && last), all),
			     "content of a message");
	return last;
}

/* All ranks have received everything when it returns. */
static void finish(struct rank *r)
{
	char done = 1;

	for (uint32_t i = 0; i < r->n; i++)
		if (i != r->me)
			side_tell(r->sock[i], &done, 1);
	for (uint32_t i = 0; i < r->n; i++)
		if (i != r->me)
			side_hear(r->sock[i], &done, 1);
}

static void run_rounds(struct rank *r)
{
	const struct exchange *exchange = r->options->tcp ? &exchange_by_tcp : &exchange_by_verbs;
	void *own = exchange->open(r);
	struct meter meter;
	uint64_t began = 0, now;
	bool last = false;

	for (uint64_t round = 1; !last; round++) {
		last = !r->me && began && !meter_runs(&meter, began);
		fill_messages(r, round, last);
		exchange->run(own, r);
		last = check_messages(r, round, last);
		now = now_ns();
		if (began)
			meter_add(&meter, began, now);
		else /* all ranks are there */
			meter_start(&meter, r->options->seconds);
		began = now;
	}
	finish(r);
	if (!r->me)
		meter_print(&meter);
}

int main(int argc, char **argv)
{
	struct options options;
	struct rank r = { .options = &options };

	parse_options(argc, argv, &options, "RANK HOST...");
	MUST(options.arguments[0], "rank");
	r.me = (uint32_t)atoi(options.arguments[0]);
	while (options.arguments[1 + r.n])
		r.n++;
	MUST(r.n > 1 && r.n <= MAX_RANKS && r.me < r.n, "number of ranks");
	MUST(options.size >= sizeof(uint64_t) && options.size % 8 == 0, "size");
	MUST(!options.events, "all ranks poll");
	r.yields = sysconf(_SC_NPROCESSORS_ONLN) < (long)r.n;
	open_rank(&r);
	run_rounds(&r);
	return 0;
}
