// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Wakes the progress thread. */
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

void xp_progress_wake(struct xp_host *h)
{
	const uint64_t one = 1;

	/* no cancellation point; full: a wake-up is pending */
	syscall(SYS_write, h->wake_fd, &one, sizeof(one));
}

void xp_progress_due(struct xp_host *h, bool left)
{
	uint64_t next = left ? 0 : __atomic_load_n(&h->next, __ATOMIC_SEQ_CST);
	uint64_t wakes_at = __atomic_load_n(&h->wakes_at, __ATOMIC_SEQ_CST);

	if (next >= wakes_at || pthread_equal(pthread_self(), h->thread) ||
	    __atomic_load_n(&h->progress, __ATOMIC_RELAXED) == XP_TICKS)
		return;
	/* Until it runs, nobody else need wake it. */
	__atomic_store_n(&h->wakes_at, 0, __ATOMIC_RELAXED);
	xp_progress_wake(h);
}
