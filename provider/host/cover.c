// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <sys/resource.h>
#include <time.h>

#include "cover.h"

#define COVERED(ns, passed) ((ns)*5 >= (passed)*4)
/* Less does not tell what a program does: a call may poll once. */
#define LOOK_NS 25000u

static uint64_t thread_cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static long times_blocked(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw;
}

/*
 * Returns the time that this thread has waited for a processor since its last long break; 0 if it
 * slept meanwhile, or if it was another thread. Yields count as waiting.
 */
static uint64_t waited(struct xp_cover *c, uint64_t now)
{
	pthread_t self = pthread_self();
	uint64_t cpu_ns = thread_cpu_ns(), passed = now - c->at, ran = cpu_ns - c->cpu_ns;
	long blocked = times_blocked();
	bool knows = pthread_equal(self, c->thread) && blocked == c->blocked;

	c->thread = self;
	c->at = now;
	c->cpu_ns = cpu_ns;
	c->blocked = blocked;
	return knows && passed > ran ? passed - ran : 0;
}

void xp_cover_add(struct xp_cover *c, uint64_t begin, uint64_t end, uint64_t most)
{
	uint64_t gap = begin - c->to, counts = gap;

	if (gap > most) {
		counts = most + waited(c, begin);
		counts = counts < gap ? counts : gap;
	}
	__atomic_store_n(&c->ns, c->ns + counts + (end - begin), __ATOMIC_RELAXED);
	__atomic_store_n(&c->to, end, __ATOMIC_RELAXED);
}

void xp_cover_start(const struct xp_cover *c, struct xp_cover_look *l)
{
	l->ns = __atomic_load_n(&c->ns, __ATOMIC_RELAXED);
	l->to = __atomic_load_n(&c->to, __ATOMIC_RELAXED);
}

enum xp_polls xp_cover_look(const struct xp_cover *c, struct xp_cover_look *l, uint64_t entered,
			    uint64_t now)
{
	uint64_t ns = __atomic_load_n(&c->ns, __ATOMIC_RELAXED);
	uint64_t to = __atomic_load_n(&c->to, __ATOMIC_RELAXED);
	uint64_t passed, covered;

	/* a round that sends a large message takes longer than the time between two looks */
	if (entered && entered < now) {
		ns += now - entered;
		to = now;
	}
	passed = to > l->to ? to - l->to : 0;
	if (passed < LOOK_NS)
		return XP_POLLS_UNKNOWN;
	/* ns falls if the round at the last look was not one of the program. */
	covered = ns > l->ns ? ns - l->ns : 0;
	*l = (struct xp_cover_look){ ns, to };
	return COVERED(covered, passed) ? XP_POLLS : XP_POLLS_NOT;
}
