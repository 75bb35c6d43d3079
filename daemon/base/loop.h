/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The control thread's event loop: epoll and timers. Callbacks run one after the other, so control
 * code needs no locks against itself. Only the control thread may use it.
 */
#ifndef XD_LOOP_H
#define XD_LOOP_H

#include <stdbool.h>
#include <stdint.h>

struct xd_loop;
struct xd_watch; /* one file descriptor */
struct xd_timer;

typedef void (*xd_watch_fn)(void *arg, uint32_t epoll_events);
typedef void (*xd_timer_fn)(void *arg);

struct xd_loop *xd_loop_new(void);
void xd_loop_free(struct xd_loop *loop);
/* Runs until xd_loop_stop(). Returns 0 or -errno. */
int xd_loop_run(struct xd_loop *loop);
void xd_loop_stop(struct xd_loop *loop);

/*
 * Calls fn for each event of a descriptor, which still belongs to the caller. Returns NULL on
 * failure.
 */
struct xd_watch *xd_watch_add(struct xd_loop *loop, int fd, uint32_t epoll_events, xd_watch_fn fn,
			      void *arg);
int xd_watch_set(struct xd_watch *watch, uint32_t epoll_events);
/* fn is not called again. May be called from any callback; NULL allowed. */
void xd_watch_del(struct xd_watch *watch);

/* A one-shot timer, which may be armed again. */
struct xd_timer *xd_timer_new(struct xd_loop *loop, xd_timer_fn fn, void *arg);
void xd_timer_arm(struct xd_timer *timer, uint64_t after_ns); /* replaces an earlier time */
void xd_timer_cancel(struct xd_timer *timer);
void xd_timer_free(struct xd_timer *timer); /* NULL allowed */

/* Calls fn after the callbacks of each wake-up: for work that is not worth a wake-up. */
void xd_loop_set_turn(struct xd_loop *loop, xd_timer_fn fn, void *arg);

/*
 * Returns true if the current callback has run for a millisecond. Work whose amount a client or a
 * peer decides is done in pieces: when this is true, the rest is left to a later callback.
 */
bool xd_loop_must_yield(const struct xd_loop *loop);
/* Begins such a piece, where several functions share a callback, or outside of callbacks. */
void xd_loop_begin_piece(struct xd_loop *loop);

/* Turns of the loop, each from one wait for events to the next: processor time in ns */
struct xd_turns {
	uint64_t count, total, longest;
};
const struct xd_turns *xd_loop_turns(const struct xd_loop *loop);

/*
 * Returns the processor time of this thread in ns since the last call or since the last callback
 * returned that made no call: that of the current callback, and of finding its event.
 */
uint64_t xd_loop_lap(struct xd_loop *loop);

uint64_t xd_now(void);	    /* CLOCK_MONOTONIC, ns */
uint64_t xd_cpu_time(void); /* processor time of the calling thread, ns */

#endif /* XD_LOOP_H */
