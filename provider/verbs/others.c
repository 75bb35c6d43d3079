// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <sys/single_threaded.h>
#include <time.h>

#include "provider/base/clock.h"
#include "provider/verbs/others.h"

static const void *last; /* `look` of the thread that was the last to be about to pause */
static __thread struct {
	uint64_t at;	    /* CLOCK_MONOTONIC */
	uint64_t others_ns; /* what other threads had used then */
} look;

static uint64_t cpu_time(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * XP_NS_PER_S + ts.tv_nsec;
}

bool xp_is_single_threaded(void)
{
	return __libc_single_threaded;
}

void xp_others_note(void)
{
	if (__atomic_load_n(&last, __ATOMIC_RELAXED) != &look)
		__atomic_store_n(&last, &look, __ATOMIC_RELAXED);
}

static void look_now(uint64_t now)
{
	look.at = now;
	look.others_ns = cpu_time(CLOCK_PROCESS_CPUTIME_ID) - cpu_time(CLOCK_THREAD_CPUTIME_ID);
}

void xp_others_before(uint64_t now)
{
	if (now - look.at >= XP_OTHERS_NS)
		look_now(now);
}

bool xp_others_waited(uint64_t now)
{
	uint64_t elapsed = now - look.at, before = look.others_ns;
	int64_t used;

	if (elapsed < XP_OTHERS_NS)
		return false;
	look_now(now);
	used = (int64_t)(look.others_ns - before);
	return used >= (int64_t)XP_OTHERS_NS && used >= (int64_t)(elapsed / XP_OTHERS_PART) &&
	       __atomic_load_n(&last, __ATOMIC_RELAXED) == &look;
}
