// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A stream from one worker to another one, see floor.c */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../lib/clock.h"
#include "floor.h"

#define NAP_US 150 /* as of the provider */

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

struct ack {
	uint64_t received; /* packets, all before this one */
	bool asks;	   /* for this one: a NAK */
};

static void take_ack(void *arg, const uint8_t *data, uint32_t len, bool last)
{
	struct stream *s = arg;
	struct ack ack;

	if (len != ACK_SIZE)
		return;
	memcpy(&ack, data + RAW_HEADER, sizeof(ack));
	s->asked = ack.asks || (s->asked && ack.received == s->acked);
	s->acked = ack.received;
}

static void build_ack(void *arg, uint8_t *const *chunk)
{
	memcpy(chunk[0] + RAW_HEADER, arg, sizeof(struct ack));
}

void floor_acknowledge(struct stream *s, bool asks)
{
	struct ack ack = { .received = s->sent, .asks = asks };

	if (s->may_acknowledge && !s->may_acknowledge(s))
		return;
	raw_send(&s->side, ACK_SIZE, 1, build_ack, &ack);
	raw_kick(&s->side);
}

static void send_stream(struct stream *s)
{
	while (running()) {
		raw_reap(&s->side);
		if (raw_receive(&s->side, take_ack, s))
			store(&shared->completed.word, s->acked * s->payload / MESSAGE);
		if (!s->send(s))
			sched_yield();
	}
}

/* Acknowledges each batch. */
static void receive_for(struct stream *s, uint64_t duration)
{
	uint64_t until = now_ns() + duration;

	while (now_ns() < until) {
		uint32_t got = raw_receive(&s->side, s->take, s);

		if (s->release)
			got += s->release(s);
		raw_reap(&s->side);
		if (got)
			floor_acknowledge(s, false);
		else
			sched_yield();
	}
}

static void poll_completions(void)
{
	uint64_t last = 0, now;

	while (running()) {
		now = load(&shared->completed.word);
		if (now == last)
			usleep(NAP_US);
		last = now;
	}
}

void floor_end(enum role role)
{
	shared->used[role] = cpu_ns();
	_exit(0);
}

void floor_program(void)
{
	if (new_process())
		return;
	poll_completions();
	floor_end(PROGRAM);
}

static double mean(uint64_t sum, uint64_t n)
{
	return n ? (double)sum / (double)n : 0;
}

void floor_report(uint64_t packets, uint32_t frame, uint64_t ns)
{
	raw_stop(&shared->control);
	shared->used[RECEIVER] = cpu_ns();
	wait_for_all(2);
	printf("floor\t%u\t%.0f", frame, (double)packets / ((double)ns / 1e9));
	for (int i = 0; i < ROLES; i++)
		printf("\t%.0f", mean(shared->used[i], packets));
	printf("\t%.1f\t%.0f\t%.0f\n", mean(1000 * shared->repeat.frames, packets),
	       mean(shared->repeat.in_flight, shared->repeat.asked),
	       mean(shared->repeat.gap_ns, shared->repeat.gaps));
}

void floor_stream(char **where, uint64_t duration, struct stream *s, uint32_t frame)
{
	pid_t sender = new_process();
	uint64_t begin;

	where += sender ? 0 : 2;
	s->open(s, where[0], where[1]);
	raw_take_cpu(sender ? 1 : 0); /* the program shares the receiver's, which has time left */
	raw_wait_for_peers(&shared->control, 2, sender);
	if (!sender) {
		send_stream(s);
		floor_end(SENDER);
	}
	floor_program();
	begin = now_ns();
	receive_for(s, duration);
	floor_report(s->sent, frame, now_ns() - begin);
}
