// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cover.h"

#define COVERED(ns, passed) ((ns)*5 >= (passed)*4)
/* Less does not tell what a program does: a call may poll once. */
#define LOOK_NS 25000u
/* A poll so long ago may not be the last one that tells about the program. */
#define LATE_NS 500000u
/* A thread gets a processor sooner than this: some time slices of the other threads */
#define WAITS_NS 50000000u
/* In a time of at least WATCH_NS, a thread that had a processor for less had no time to poll. */
#define HARDLY_RAN_NS 20000u
#define WATCH_NS 50000u
/* Clock of a thread's processor time, see include/linux/posix-timers.h of the kernel */
#define CPU_CLOCK(tid) ((clockid_t)(~(unsigned int)(tid) << 3 | 6))

static uint64_t cpu_ns_of(clockid_t clock)
{
	struct timespec ts = { 0 };

	(void)clock_gettime(clock, &ts);
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
	pid_t tid = (pid_t)syscall(SYS_gettid);
	uint64_t cpu_ns = cpu_ns_of(CLOCK_THREAD_CPUTIME_ID), passed = now - c->at,
		 ran = cpu_ns - c->cpu_ns;
	long blocked = times_blocked();
	bool knows = tid == c->tid && blocked == c->blocked;

	__atomic_store_n(&c->tid, tid, __ATOMIC_RELAXED);
	c->at = now;
	c->cpu_ns = cpu_ns;
	c->blocked = blocked;
	return knows && passed > ran ? passed - ran : 0;
}

void xp_cover_add(struct xp_cover *c, uint64_t begin, uint64_t end, uint64_t most)
{
	uint64_t gap = c->to ? begin - c->to : 0, counts = gap, missed;

	if (gap > most) {
		counts = most + waited(c, begin);
		missed = __atomic_load_n(&c->missed, __ATOMIC_RELAXED);
		if (missed > c->to && counts < missed + most - c->to)
			counts = missed + most - c->to;
		counts = counts < gap ? counts : gap;
	}
	__atomic_store_n(&c->ns, c->ns + counts + (end - begin), __ATOMIC_RELAXED);
	__atomic_store_n(&c->to, end, __ATOMIC_RELAXED);
}

void xp_cover_miss(struct xp_cover *c, uint64_t now, uint64_t most)
{
	uint64_t last = __atomic_load_n(&c->missed, __ATOMIC_RELAXED);
	uint64_t to = __atomic_load_n(&c->to, __ATOMIC_RELAXED);

	if (now <= (last > to ? last : to) + most)
		__atomic_store_n(&c->missed, now, __ATOMIC_RELAXED);
}

void xp_cover_start(const struct xp_cover *c, struct xp_cover_look *l)
{
	l->ns = __atomic_load_n(&c->ns, __ATOMIC_RELAXED);
	l->to = __atomic_load_n(&c->to, __ATOMIC_RELAXED);
}

static enum xp_polls look_at_rounds(const struct xp_cover *c, struct xp_cover_look *l,
				    uint64_t entered, uint64_t polled, uint64_t now)
{
	uint64_t ns = __atomic_load_n(&c->ns, __ATOMIC_RELAXED);
	uint64_t to = __atomic_load_n(&c->to, __ATOMIC_RELAXED);
	uint64_t passed = to > l->to ? to - l->to : 0, covered = ns - l->ns;
	/* a round that sends a large message takes longer than the time between two looks */
	uint64_t inside = entered && entered < now ? now - entered : 0;

	if (passed + inside < LOOK_NS)
		return XP_POLLS_UNKNOWN;
	/* The break before a round that is under way is not known yet: the next look sees it. */
	if (!inside)
		xp_cover_start(c, l);
	if (!COVERED(covered + inside, passed + inside))
		return XP_POLLS_NOT;
	return inside || now <= polled + LATE_NS ? XP_POLLS : XP_POLLS_UNKNOWN;
}

/* Returns true if the thread has a processor or waits for one. */
static bool is_runnable(pid_t tid)
{
	char path[64], text[256], *state;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	/* "TID (NAME) STATE ..." */
	state = strrchr(text, ')');
	return state && !strncmp(state, ") R", 3);
}

/*
 * The program has not polled for some time. The first look at it makes a system call, the second
 * one four. A thread that slept may count as well, if it has just been woken.
 */
static bool cover_waits(const struct xp_cover *c, struct xp_cover_look *l, uint64_t polled,
			uint64_t now)
{
	if (polled != l->polled) {
		l->polled = polled;
		l->since = now;
		l->tid = __atomic_load_n(&c->tid, __ATOMIC_RELAXED);
		if (l->tid)
			l->cpu_ns = cpu_ns_of(CPU_CLOCK(l->tid));
		return false;
	}
	if (!l->tid || now > polled + WAITS_NS || now < l->since + WATCH_NS)
		return false;
	if (cpu_ns_of(CPU_CLOCK(l->tid)) - l->cpu_ns < HARDLY_RAN_NS && is_runnable(l->tid))
		return true;
	l->tid = 0; /* until it polls again */
	return false;
}

enum xp_polls xp_cover_look(const struct xp_cover *c, struct xp_cover_look *l, uint64_t entered,
			    uint64_t polled, uint64_t now)
{
	enum xp_polls polls = look_at_rounds(c, l, entered, polled, now);

	if (polls != XP_POLLS && cover_waits(c, l, polled, now))
		return XP_POLLS_WAITS;
	return polls;
}
