/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Processes that were killed, until they have ended. One that hangs in the kernel ends when the
 * kernel lets it, which may be never.
 */
#ifndef XD_REAPER_H
#define XD_REAPER_H

#include <stdint.h>

struct xd_loop;
struct xd_reaper;
struct xd_watch;

/* Embedded in the struct of what is kept until the process has ended */
struct xd_killed {
	struct xd_reaper *reaper;
	void (*ended)(struct xd_killed *k); /* control thread; frees it */
	int pidfd;
	struct xd_watch *watch;
	struct xd_killed *next, **pprev;
};

/* Returns NULL if there is no memory or no descriptor. */
struct xd_reaper *xd_reaper_new(struct xd_loop *loop);
/* Forgets the processes that have not ended, as if they had. NULL allowed. */
void xd_reaper_free(struct xd_reaper *r);
/*
 * Calls k->ended() when the process has ended, and takes over its pidfd. -1: there is no process.
 * Any thread.
 */
void xd_reaper_add(struct xd_killed *k, int pidfd);

#endif /* XD_REAPER_H */
