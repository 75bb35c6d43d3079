// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "loop.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "heap.h"

#define EVENTS 32
/*
 * Work that can be divided is done for this time in ns, then others are served: the callbacks of a
 * turn take 32 times as long at most, and the answer to a request two turns.
 */
#define PIECE 1000000

struct xd_watch {
	struct xd_loop *loop;
	int fd; /* -1: deleted, freed after the batch of events */
	uint32_t events;
	xd_watch_fn fn;
	void *arg;
	struct xd_watch *next_dead;
};

struct xd_timer {
	struct xd_heap_node node; /* first */
	struct xd_loop *loop;
	xd_timer_fn fn;
	void *arg;
};

struct xd_loop {
	int epoll;
	bool stop;
	struct xd_watch *dead;
	struct xd_heap timers; /* that are armed */
	uint32_t all_timers;
	xd_timer_fn turn;
	void *turn_arg;
	uint64_t begun; /* time at which the current piece of work began */
	uint64_t lap;	/* processor time of the thread at the last lap */
	struct xd_turns turns;
};

static uint64_t loop_ns_of(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

uint64_t xd_now(void)
{
	return loop_ns_of(CLOCK_MONOTONIC);
}

uint64_t xd_cpu_time(void)
{
	return loop_ns_of(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t xd_loop_lap(struct xd_loop *loop)
{
	uint64_t begin = loop->lap;

	loop->lap = xd_cpu_time();
	return loop->lap - begin;
}

void xd_loop_begin_piece(struct xd_loop *loop)
{
	loop->begun = xd_now();
}

bool xd_loop_must_yield(const struct xd_loop *loop)
{
	return xd_now() - loop->begun > PIECE;
}

const struct xd_turns *xd_loop_turns(const struct xd_loop *loop)
{
	return &loop->turns;
}

struct xd_loop *xd_loop_new(void)
{
	struct xd_loop *loop = calloc(1, sizeof(*loop));

	if (!loop)
		return NULL;
	loop->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll < 0) {
		free(loop);
		return NULL;
	}
	return loop;
}

static void free_dead(struct xd_loop *loop)
{
	struct xd_watch *w;

	while ((w = loop->dead)) {
		loop->dead = w->next_dead;
		free(w);
	}
}

void xd_loop_free(struct xd_loop *loop)
{
	if (!loop)
		return;
	free_dead(loop);
	xd_heap_free(&loop->timers);
	close(loop->epoll);
	free(loop);
}

void xd_loop_stop(struct xd_loop *loop)
{
	loop->stop = true;
}

/* ---- file descriptors ----------------------------------------------------------- */

struct xd_watch *xd_watch_add(struct xd_loop *loop, int fd, uint32_t events, xd_watch_fn fn,
			      void *arg)
{
	struct xd_watch *w = calloc(1, sizeof(*w));
	struct epoll_event ev = { .events = events, .data.ptr = w };

	if (!w)
		return NULL;
	*w = (struct xd_watch){ .loop = loop, .fd = fd, .events = events, .fn = fn, .arg = arg };
	if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &ev)) {
		free(w);
		return NULL;
	}
	return w;
}

int xd_watch_set(struct xd_watch *w, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = w };

	if (events == w->events)
		return 0;
	if (epoll_ctl(w->loop->epoll, EPOLL_CTL_MOD, w->fd, &ev))
		return -errno;
	w->events = events;
	return 0;
}

/* Keeps the memory until the end of the batch, which may have an event of this watch. */
void xd_watch_del(struct xd_watch *w)
{
	if (!w)
		return;
	epoll_ctl(w->loop->epoll, EPOLL_CTL_DEL, w->fd, NULL);
	w->fd = -1;
	w->next_dead = w->loop->dead;
	w->loop->dead = w;
}

/* ---- timers ------------------------------------------------------------------------ */

/* Makes room for the timer, so that arming it cannot fail. */
struct xd_timer *xd_timer_new(struct xd_loop *loop, xd_timer_fn fn, void *arg)
{
	struct xd_timer *t;

	if (xd_heap_reserve(&loop->timers, loop->all_timers + 1))
		return NULL;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	*t = (struct xd_timer){ .loop = loop, .fn = fn, .arg = arg };
	loop->all_timers++;
	return t;
}

void xd_timer_cancel(struct xd_timer *t)
{
	if (t)
		xd_heap_clear(&t->loop->timers, &t->node);
}

void xd_timer_arm(struct xd_timer *t, uint64_t after_ns)
{
	xd_heap_set(&t->loop->timers, &t->node, xd_now() + after_ns);
}

void xd_timer_free(struct xd_timer *t)
{
	if (!t)
		return;
	xd_timer_cancel(t);
	t->loop->all_timers--;
	free(t);
}

static struct xd_timer *first_timer(const struct xd_loop *loop)
{
	return (struct xd_timer *)xd_heap_first(&loop->timers);
}

/* Clients decide how many timers are due at once: the rest waits for the next turn. */
static void loop_run_timers(struct xd_loop *loop)
{
	uint64_t begun = xd_now(), now = begun;
	struct xd_timer *t;

	while ((t = first_timer(loop)) && t->node.when <= begun && now - begun <= PIECE) {
		xd_timer_cancel(t);
		loop->begun = now;
		t->fn(t->arg);
		xd_loop_lap(loop);
		now = xd_now();
	}
}

static int timeout_ms(const struct xd_loop *loop)
{
	const struct xd_timer *t = first_timer(loop);
	uint64_t now = xd_now();

	if (!t)
		return -1;
	return t->node.when <= now ? 0 : (int)((t->node.when - now + 999999) / 1000000);
}

void xd_loop_set_turn(struct xd_loop *loop, xd_timer_fn fn, void *arg)
{
	loop->turn = fn;
	loop->turn_arg = arg;
}

static void count_turn(struct xd_turns *t, uint64_t ns)
{
	t->count++;
	t->total += ns;
	if (ns > t->longest)
		t->longest = ns;
}

static void run_watches(struct xd_loop *loop, struct epoll_event *ev, int n)
{
	for (int i = 0; i < n; i++) {
		struct xd_watch *w = ev[i].data.ptr;
		uint64_t lap = loop->lap;

		xd_loop_begin_piece(loop);
		if (w->fd >= 0)
			w->fn(w->arg, ev[i].events);
		/* Reading the time is a system call: once is enough if it was just charged. */
		if (loop->lap == lap)
			xd_loop_lap(loop);
	}
	free_dead(loop);
}

int xd_loop_run(struct xd_loop *loop)
{
	struct epoll_event ev[EVENTS];
	uint64_t begin;

	xd_loop_lap(loop);
	while (!loop->stop) {
		int n = epoll_wait(loop->epoll, ev, EVENTS, timeout_ms(loop));

		if (n < 0 && errno != EINTR)
			return -errno;
		begin = loop->lap;
		run_watches(loop, ev, n);
		loop_run_timers(loop);
		if (loop->turn)
			loop->turn(loop->turn_arg);
		count_turn(&loop->turns, loop->lap - begin);
	}
	loop->stop = false; /* tests run a loop more than once */
	return 0;
}
