// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The lock of posting and polling, before and after a second thread starts. */
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

#include "provider/verbs/lock.h"
#include "selftests/lib/tap.h"

#define TURNS 20000

static struct xp_lock lock;
static bool entered;
static uint32_t turns; /* under the lock */

static void *enter(void *arg)
{
	xp_lock(&lock);
	__atomic_store_n(&entered, true, __ATOMIC_RELAXED);
	xp_unlock(&lock);
	return arg;
}

static void *take_turns(void *arg)
{
	for (int i = 0; i < TURNS; i++) {
		xp_lock(&lock);
		turns++;
		xp_unlock(&lock);
	}
	return arg;
}

int main(void)
{
	pthread_t thread;
	bool early;

	TAP_OK(__libc_single_threaded, "the process has one thread");
	xp_lock(&lock);
	pthread_create(&thread, NULL, enter, NULL);
	usleep(20000);
	early = __atomic_load_n(&entered, __ATOMIC_RELAXED);
	xp_unlock(&lock);
	pthread_join(thread, NULL);
	TAP_OK(!early && entered, "a lock taken before another thread starts keeps it out");
	pthread_create(&thread, NULL, take_turns, NULL);
	take_turns(NULL);
	pthread_join(thread, NULL);
	TAP_OK(turns == 2 * TURNS, "two threads exclude each other");
	return tap_end();
}
