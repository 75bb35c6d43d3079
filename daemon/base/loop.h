/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The control thread's event loop: epoll and timers. Everything that is not a
 * packet or a doorbell happens here, one callback after the other, so control code needs no locks of its own.
 */
#ifndef XD_LOOP_H
#define XD_LOOP_H

#include <stdint.h>

struct xd_loop;
struct xd_watch; /* one file descriptor */
struct xd_timer;

typedef void (*xd_watch_fn)(void *arg, uint32_t epoll_events);
typedef void (*xd_timer_fn)(void *arg);

struct xd_loop *xd_loop_new(void);
void xd_loop_free(struct xd_loop *loop);
int xd_loop_run(struct xd_loop *loop); /* until xd_loop_stop(); 0 or -errno */
void xd_loop_stop(struct xd_loop *loop);

/* The fd stays the caller's. Removing is safe from within any callback. */
struct xd_watch *xd_watch_add(struct xd_loop *loop, int fd, uint32_t epoll_events, xd_watch_fn fn,
			      void *arg);
int xd_watch_set(struct xd_watch *watch, uint32_t epoll_events);
void xd_watch_del(struct xd_watch *watch); /* NULL allowed */

/* One shot; free or re-arm it when done. */
struct xd_timer *xd_timer_new(struct xd_loop *loop, xd_timer_fn fn, void *arg);
void xd_timer_arm(struct xd_timer *timer, uint64_t after_ns); /* replaces an earlier one */
void xd_timer_cancel(struct xd_timer *timer);
void xd_timer_free(struct xd_timer *timer);

uint64_t xd_now(void); /* CLOCK_MONOTONIC, ns */

#endif /* XD_LOOP_H */
