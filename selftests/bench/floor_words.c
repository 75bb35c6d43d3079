// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Words that two programs exchange, see floor.c */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "../lib/clock.h"
#include "daemon/base/slice.h"
#include "floor.h"
#include "place.h"
#include "times.h"

#define IS_ACK PLACE_IS_ACK /* in a word */
#define END_MS 10	    /* a sleeping worker notices the end this late */

static bool writes;    /* words are WRITEs: the programs wait for the acknowledgement */
static bool placed;    /* by an XDP program */
static int wake_fd[2]; /* of sleeping workers */

/* The last word and the last acknowledgement in a batch; 0: none */
struct words {
	uint64_t word, ack;
};

static void take_word(void *arg, const uint8_t *data, uint32_t len, bool last)
{
	struct words *got = arg;
	uint64_t word;

	memcpy(&word, data + RAW_HEADER, sizeof(word));
	if (word & IS_ACK)
		got->ack = word & ~IS_ACK;
	else
		got->word = word;
}

static void build_word(void *arg, uint8_t *const *chunk)
{
	memcpy(chunk[0] + RAW_HEADER, arg, sizeof(uint64_t));
	if (placed)
		place_crc(chunk[0]);
}

/* Sleeps unless the program has stored another word than that one. */
static void sleep_until_woken(struct raw_side *side, unsigned me, uint64_t sent)
{
	struct pollfd fds[] = {
		{ .fd = side->fd, .events = POLLIN },
		{ .fd = wake_fd[me], .events = POLLIN },
	};
	uint64_t count;

	__atomic_store_n(&shared->asleep[me].word, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&shared->to_worker[me].word, __ATOMIC_SEQ_CST) == sent)
		poll(fds, 2, END_MS);
	store(&shared->asleep[me].word, 0);
	if (fds[1].revents && read(wake_fd[me], &count, sizeof(count)) < 0)
		raw_die("eventfd", errno);
}

static void send_word(struct raw_side *side, uint64_t word)
{
	if (!raw_send(side, ACK_SIZE, 1, build_word, &word))
		raw_die("no room for a frame", ENOBUFS);
}

/* Returns true if it carried a word. */
static bool carry_words(struct raw_side *side, unsigned me, uint64_t *sent)
{
	uint64_t word;
	struct words got = { 0 };
	bool received, posted;

	raw_reap(side);
	received = raw_receive(side, take_word, &got);
	if (got.ack)
		store(&shared->acked[me].word, got.ack);
	if (got.word)
		store(&shared->to_program[me].word, got.word);
	if (got.word)
		send_word(side, got.word | IS_ACK);
	word = load(&shared->to_worker[me].word);
	posted = word != *sent;
	if (posted)
		send_word(side, word);
	*sent = word;
	if (posted || got.word)
		raw_kick(side);
	return received || posted;
}

/* Carries words between the program of its side and the other worker. */
static void carry(struct raw_side *side, unsigned me)
{
	uint64_t sent = 0;

	if (writes)
		xd_set_slice(XD_SHORT_SLICE_NS); /* its wake-up preempts a spinning thread */
	while (running()) {
		if (carry_words(side, me, &sent))
			continue;
		if (writes)
			sleep_until_woken(side, me, sent);
		else
			sched_yield();
	}
}

/* Carries words between the two programs. */
static void carry_within_host(void)
{
	uint64_t carried[2] = { 0, 0 }, word;
	bool idle;

	while (running()) {
		idle = true;
		for (int i = 0; i < 2; i++) {
			word = load(&shared->to_worker[i].word);
			if (word == carried[i])
				continue;
			store(&shared->to_program[!i].word, word);
			carried[i] = word;
			idle = false;
		}
		if (idle)
			sched_yield();
	}
}

/* Returns false at the end. */
static bool wait_for(const uint64_t *word, uint64_t value, bool yields)
{
	while (load(word) != value) {
		if (!running())
			return false;
		if (yields)
			sched_yield();
	}
	return true;
}

/* Hands a word to the worker of program @me, and waits until a WRITE is acknowledged. */
static void post(unsigned me, uint64_t word)
{
	uint64_t one = 1;

	__atomic_store_n(&shared->to_worker[me].word, word, __ATOMIC_SEQ_CST);
	if (__atomic_exchange_n(&shared->asleep[me].word, 0, __ATOMIC_SEQ_CST) &&
	    write(wake_fd[me], &one, sizeof(one)) < 0)
		raw_die("eventfd", errno);
	if (writes)
		wait_for(&shared->acked[me].word, word, true);
}

/* @in: the word that the other program sends */
static void reply(const uint64_t *in)
{
	uint64_t n = 1;

	while (wait_for(in, n, !writes))
		post(1, n++);
}

static void ask(const uint64_t *in, uint64_t duration)
{
	struct times times;
	uint64_t until = now_ns() + duration, begin, n = 1;

	if (!times_new(&times))
		raw_die("memory", ENOMEM);
	while (now_ns() < until) {
		begin = now_ns();
		post(0, n);
		if (!wait_for(in, n++, !writes))
			break;
		times_add(&times, now_ns() - begin);
	}
	raw_stop(&shared->control);
	times_print(&times);
}

/* Opens the socket of a host, and returns the memory with the words that it receives. */
static const uint64_t *open_side(struct raw_side *side, char **where, unsigned me)
{
	if (placed)
		return place_open(side, where[0], where[1], RING);
	raw_open(side, where[0], where[1], RING);
	return &shared->to_program[me].word;
}

void floor_words(char **where, uint64_t duration, enum word_kind kind)
{
	struct raw_side side;
	const uint64_t *in;
	pid_t peer;

	writes = kind != SEND_WORDS;
	placed = kind == PLACE_WORDS;
	for (int i = 0; i < 2; i++)
		wake_fd[i] = eventfd(0, EFD_NONBLOCK);
	peer = new_process();
	in = open_side(&side, where + (peer ? 0 : 2), peer ? 0 : 1);
	raw_wait_for_peers(&shared->control, 2, peer);
	if (!new_process()) {
		if (peer)
			ask(in, duration);
		else
			reply(in);
		exit(0);
	}
	carry(&side, peer ? 0 : 1);
	wait_for_all(peer ? 2 : 1);
	if (!peer)
		_exit(0);
}

void floor_words_within_host(uint64_t duration)
{
	if (!new_process()) {
		reply(&shared->to_program[1].word);
		exit(0);
	}
	if (!new_process()) {
		ask(&shared->to_program[0].word, duration);
		exit(0);
	}
	carry_within_host();
	wait_for_all(2);
}
