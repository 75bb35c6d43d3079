// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The floor of SENDs within one host: processes that do what no daemon between two programs can
 * leave out, and nothing else.
 *
 *   floor_local SECONDS BYTES
 *
 * A program posts work requests, another one posts receives. A worker copies the BYTES of each
 * message from the memory of the one to that of the other, and writes a completion for both. The
 * entries have the sizes of those of xroce, and the queues the depths of perftest. The indices are
 * published once for up to 16 entries. Prints "local BYTES MESSAGES-PER-SECOND" and the processor
 * time of worker, sender and receiver in ns a message, tab-separated.
 *
 * All processes yield the processor if they have nothing to do.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../lib/clock.h"
#include "raw.h"

#define SLOTS 512
#define SENDS 128    /* outstanding at most */
#define RECEIVES 512 /* posted */
#define BATCH 16     /* entries for which an index is published once */
#define SEND_SIZE 80 /* a work request with one scatter/gather element */
#define RECEIVE_SIZE 32
#define COMPLETION_SIZE 64
#define STRIDE 128

enum role { WORKER, SENDER, RECEIVER, ROLES };

/* One process writes entries and then the index, another one reads them. */
struct queue {
	uint64_t produced __attribute__((aligned(64)));
	uint8_t entry[SLOTS][STRIDE] __attribute__((aligned(64)));
};

struct shared {
	struct raw_control control;
	struct queue sq, rq, send_cq, recv_cq;
	uint64_t used[ROLES]; /* processor time */
};

static struct shared *shared;
static uint8_t *from, *to;

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* Returns the number of entries behind `index`, at most a batch. */
static uint32_t ready(const struct queue *q, uint64_t index)
{
	uint64_t n = __atomic_load_n(&q->produced, __ATOMIC_ACQUIRE) - index;

	return n < BATCH ? (uint32_t)n : BATCH;
}

static void publish(struct queue *q, uint64_t index)
{
	__atomic_store_n(&q->produced, index, __ATOMIC_RELEASE);
}

static uint8_t *entry_of(struct queue *q, uint64_t index)
{
	return q->entry[index % SLOTS];
}

static void write_entry(struct queue *q, uint64_t index, uint32_t size)
{
	memset(entry_of(q, index), (int)index, size);
}

/* Reads an entry as a whole, as one reads what another process may change. */
static void read_entry(struct queue *q, uint64_t index, uint32_t size)
{
	uint8_t copy[STRIDE];

	memcpy(copy, entry_of(q, index), size);
	__asm__ volatile("" : : "r"(copy) : "memory");
}

/* ---- processes ------------------------------------------------------------------------------- */

static uint64_t carry(uint64_t duration, uint32_t bytes)
{
	uint64_t until = now_ns() + duration, done = 0;
	uint32_t n, i;

	while (now_ns() < until) {
		n = ready(&shared->sq, done);
		if (n > ready(&shared->rq, done))
			n = ready(&shared->rq, done);
		for (i = 0; i < n; i++, done++) {
			read_entry(&shared->sq, done, SEND_SIZE);
			read_entry(&shared->rq, done, RECEIVE_SIZE);
			memcpy(to, from, bytes);
			__asm__ volatile("" : : "r"(to) : "memory");
			write_entry(&shared->send_cq, done, COMPLETION_SIZE);
			write_entry(&shared->recv_cq, done, COMPLETION_SIZE);
		}
		publish(&shared->send_cq, done);
		publish(&shared->recv_cq, done);
		if (!n)
			sched_yield();
	}
	return done;
}

/* Posts `depth` entries, and another one for each completion. */
static void post(struct queue *posts, uint32_t size, struct queue *completions, uint32_t depth)
{
	uint64_t posted = 0, polled = 0;
	uint32_t n, i;

	while (raw_running(&shared->control)) {
		n = ready(completions, polled);
		for (i = 0; i < n; i++)
			read_entry(completions, polled++, COMPLETION_SIZE);
		for (i = 0; i < BATCH && posted < polled + depth; i++)
			write_entry(posts, posted++, size);
		if (i)
			publish(posts, posted);
		else
			sched_yield();
	}
}

/* Starts a program, which ends with this process. */
static void start(enum role role)
{
	pid_t child = fork();

	if (child < 0)
		raw_die("fork", errno);
	if (child)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setsid(); /* as programs and daemons: a group of the scheduler each */
	if (role == SENDER)
		post(&shared->sq, SEND_SIZE, &shared->send_cq, SENDS);
	else
		post(&shared->rq, RECEIVE_SIZE, &shared->recv_cq, RECEIVES);
	shared->used[role] = cpu_ns();
	_exit(0);
}

static void *map(size_t size)
{
	void *area = mmap(NULL, size, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (area == MAP_FAILED)
		raw_die("memory", errno);
	return area;
}

int main(int argc, char **argv)
{
	double seconds = argc == 3 ? atof(argv[1]) : 0;
	uint32_t bytes = argc == 3 ? (uint32_t)atoi(argv[2]) : 0;
	uint64_t begin, done;
	int status;

	if (seconds <= 0 || !bytes) {
		fprintf(stderr, "usage: floor_local SECONDS BYTES\n");
		return 2;
	}
	shared = map(sizeof(*shared));
	from = map(bytes);
	to = map(bytes);
	start(SENDER);
	start(RECEIVER);
	begin = now_ns();
	done = carry((uint64_t)(1e9 * seconds), bytes);
	begin = now_ns() - begin;
	raw_stop(&shared->control);
	shared->used[WORKER] = cpu_ns();
	for (int i = SENDER; i < ROLES; i++)
		if (wait(&status) < 0 || status)
			raw_die("a process failed", ECHILD);
	printf("local\t%u\t%.0f", bytes, (double)done * 1e9 / (double)begin);
	for (int i = 0; i < ROLES; i++)
		printf("\t%.0f", (double)shared->used[i] / (double)done);
	printf("\n");
	return 0;
}
