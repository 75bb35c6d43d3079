/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a worker does between rounds when there is nothing to do; spin.h decides. With fewer
 * cores than spinners (docs/performance.md has the figures) who spins yields, who sleeps is woken in
 * place of a program that spins, and a short slice keeps the tail of such wake-ups short.
 */
#include "worker_internal.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "doorbells.h"

#define SLICE_NS 100000u /* the smallest there is; ignored before kernel 6.12 */

static long futex(uint32_t *word, int op, uint32_t val)
{
	return syscall(SYS_futex, word, op, val, NULL, NULL, 0);
}

void xd_worker_let_go(struct xd_worker *w)
{
	uint32_t wanted;

	while ((wanted = __atomic_load_n(&w->wanted, __ATOMIC_ACQUIRE)))
		futex(&w->wanted, FUTEX_WAIT_PRIVATE, wanted);
}

void xd_worker_call_back(struct xd_worker *w)
{
	futex(&w->wanted, FUTEX_WAKE_PRIVATE, 1);
}

/* false: something rang meanwhile. The lock keeps the list of bells still. */
static bool announce_sleep(struct xd_worker *w)
{
	bool quiet = true;

	pthread_mutex_lock(&w->lock);
	for (struct xd_doorbell *b = w->doorbells; b; b = b->next)
		quiet &= xd_doorbell_arm(b);
	pthread_mutex_unlock(&w->lock);
	return quiet && !xd_xsk_pending(w->xsk);
}

static void announce_awake(struct xd_worker *w)
{
	pthread_mutex_lock(&w->lock);
	for (struct xd_doorbell *b = w->doorbells; b; b = b->next)
		xd_doorbell_disarm(b);
	pthread_mutex_unlock(&w->lock);
}

/* Bells and kicks that woke us */
static void take_wakeups(struct xd_worker *w)
{
	struct epoll_event ev[8];
	uint64_t value;
	int n = epoll_wait(w->epoll, ev, 8, 0);

	for (int i = 0; i < n; i++)
		if (ev[i].data.fd == w->kick)
			(void)!read(w->kick, &value, sizeof(value));
}

/*
 * The AF_XDP socket is no member of the epoll set: who waits by epoll stays in the socket's wait
 * queue, and each arriving packet would call it, also while we are awake.
 */
void xd_worker_sleep(struct xd_worker *w)
{
	struct pollfd fds[] = {
		{ .fd = xd_xsk_fd(w->xsk), .events = POLLIN },
		{ .fd = w->epoll, .events = POLLIN },
	};
	struct timespec ts, *timeout = NULL;
	/* the control thread may bring it forward at any time, but then kicks us too */
	uint64_t deadline = __atomic_load_n(&w->deadline, __ATOMIC_RELAXED), now = xd_now();

	if (deadline <= now)
		return;
	if (deadline != XT_NEVER) {
		uint64_t ns = deadline - now;

		ts = (struct timespec){ .tv_sec = (time_t)(ns / 1000000000),
					.tv_nsec = (long)(ns % 1000000000) };
		timeout = &ts;
	}
	if (announce_sleep(w)) {
		xd_count(&w->stats.sleeps, 1);
		if (ppoll(fds, 2, timeout, NULL) > 0 && fds[1].revents)
			take_wakeups(w);
	}
	announce_awake(w);
	xd_spin_slept(&w->spin, xd_now());
}

/*
 * A short slice lets a wake-up preempt whoever runs, and bounds how long we wait. Who yields must
 * not have one: a yield costs a slice of virtual time, and two that yield to each other
 * take turns only if it costs both the same. slice_ns 0: the scheduler's own.
 */
static void set_slice(struct xd_worker *w, uint64_t slice_ns)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
		uint32_t util_min, util_max;
	} attr = { .size = sizeof(attr), .policy = SCHED_OTHER, .runtime = slice_ns };

	if (slice_ns == w->slice_ns)
		return;
	w->slice_ns = slice_ns;
	attr.nice = getpriority(PRIO_PROCESS, 0); /* as it was: we may not lower it */
	if (syscall(SYS_sched_setattr, 0, &attr, 0))
		xd_log(XD_DEBUG, "worker %u: sched_setattr: %s", w->index, strerror(errno));
}

bool xd_worker_spin(struct xd_worker *w)
{
	uint64_t before = xd_now(), after;

	switch (xd_spin_next(&w->spin, before)) {
	case XD_IDLE_SLEEP:
		return false;
	case XD_IDLE_PAUSE:
		__builtin_ia32_pause();
		return true;
	case XD_IDLE_YIELD:
		break;
	}
	set_slice(w, 0);
	sched_yield();
	after = xd_now();
	xd_count(&w->stats.idle_spin_ns, after - before);
	if (xd_spin_yielded(&w->spin, before, after)) {
		xd_count(&w->stats.starved, 1);
		set_slice(w, SLICE_NS);
	}
	return true;
}

void xd_worker_wake(struct xd_worker *w)
{
	uint64_t one = 1;

	/* full is as good as rung */
	(void)!write(w->kick, &one, sizeof(one));
}
