// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Programs exit without closing their devices, some of them as soon as they have sent or received
 * their last message. The ACK of that may wait for an answer, and the last counters are not stored
 * yet.
 */
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

/* Time for a round of another thread, which may have the engine just then */
#define WAIT_NS 10000000
#define ATTEMPTS 100

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct xp_host *hosts; /* that are open */

void xp_exit_add(struct xp_host *h)
{
	h->process = getpid();
	pthread_mutex_lock(&list_lock);
	h->next_host = hosts;
	hosts = h;
	pthread_mutex_unlock(&list_lock);
}

void xp_exit_remove(struct xp_host *h)
{
	struct xp_host **at;

	pthread_mutex_lock(&list_lock);
	for (at = &hosts; *at && *at != h; at = &(*at)->next_host)
		;
	if (*at)
		*at = h->next_host;
	pthread_mutex_unlock(&list_lock);
}

/* Another thread may hold the lock for long, or be the one that exits, in a signal handler. */
static bool program_exit_enter(struct xp_host *h)
{
	const struct timespec a_while = { .tv_nsec = WAIT_NS / ATTEMPTS };

	for (int i = 0; i < ATTEMPTS; i++) {
		if (!pthread_mutex_trylock(&h->lock))
			return true;
		nanosleep(&a_while, NULL);
	}
	return false;
}

__attribute__((destructor)) static void program_exit_end(void)
{
	if (pthread_mutex_trylock(&list_lock))
		return;
	for (struct xp_host *h = hosts; h; h = h->next_host) {
		/* A child has a copy of what its parent had. */
		if (h->process != getpid() || !program_exit_enter(h))
			continue;
		xp_host_send_waiting(h);
		xp_view_store_sums(h);
		pthread_mutex_unlock(&h->lock);
	}
	pthread_mutex_unlock(&list_lock);
}
