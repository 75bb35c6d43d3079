// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Spins or sleeps between rounds without work, as spin.h decides. There may be fewer cores than
 * threads that spin (docs/performance-findings.md has measurements). So a spinning worker yields,
 * and a sleeping one has a short scheduling slice, so that its wake-up preempts a spinning program
 * soon.
 */
#include "worker_internal.h"

#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/base/slice.h"

/* ---- pause ------------------------------------------------------------------------------- */

static long worker_idle_futex(uint32_t *word, int op, uint32_t val)
{
	return syscall(SYS_futex, word, op, val, NULL, NULL, 0);
}

void xd_worker_wait_paused(struct xd_worker *w)
{
	uint32_t paused;

	while (__atomic_load_n(&w->pause, __ATOMIC_ACQUIRE) != XD_RUNS) {
		paused = XD_PAUSED;
		__atomic_compare_exchange_n(&w->pause, &paused, XD_AWAITED, false, __ATOMIC_ACQ_REL,
					    __ATOMIC_ACQUIRE);
		worker_idle_futex(&w->pause, FUTEX_WAIT_PRIVATE, XD_AWAITED);
	}
}

void xd_worker_unpause(struct xd_worker *w)
{
	worker_idle_futex(&w->pause, FUTEX_WAKE_PRIVATE, 1);
}

/* ---- sleep ------------------------------------------------------------------------------- */

void xd_worker_wake(struct xd_worker *w)
{
	uint64_t one = 1;

	/* EAGAIN: the counter is full, so a wake-up is pending anyway */
	(void)!write(w->wake_fd, &one, sizeof(one));
}

/*
 * Returns false if there is work already, or if the control thread has changed the deadline. The
 * lock protects the list of doorbells.
 */
static bool announce_sleep(struct xd_worker *w, uint64_t deadline)
{
	const struct xd_worker_memory *memory = &w->all->memory;
	bool quiet;

	pthread_mutex_lock(&w->lock);
	w->asleep = true;
	quiet = xd_doorbells_arm(&w->doorbells);
	quiet &= __atomic_load_n(&w->deadline, __ATOMIC_RELAXED) == deadline;
	if (memory->arm)
		quiet &= memory->arm(memory->movers, w->index);
	pthread_mutex_unlock(&w->lock);
	return quiet && !xd_socket_pending(w->socket);
}

/* woken: epoll reports descriptors, wake_fd or eventfds of doorbells. */
static void announce_awake(struct xd_worker *w, bool woken, uint64_t slept)
{
	const struct xd_worker_memory *memory = &w->all->memory;
	uint64_t value;

	pthread_mutex_lock(&w->lock);
	w->asleep = false;
	xd_doorbells_disarm(&w->doorbells, slept);
	if (memory->disarm)
		memory->disarm(memory->movers, w->index);
	if (woken && xd_doorbells_collect(&w->doorbells))
		(void)!read(w->wake_fd, &value, sizeof(value));
	pthread_mutex_unlock(&w->lock);
}

/*
 * The socket is not in the epoll set: a member of the set stays in the socket's wait queue, so each
 * packet would cost a wake-up callback, also while the worker is awake. A socket with several
 * queues has that cost (xsk.c): its descriptor is a set of theirs.
 */
void xd_worker_sleep(struct xd_worker *w)
{
	struct pollfd fds[] = {
		{ .fd = w->socket->fd, .events = POLLIN },
		{ .fd = w->epoll, .events = POLLIN },
	};
	struct timespec ts, *timeout = NULL;
	uint64_t deadline = __atomic_load_n(&w->deadline, __ATOMIC_RELAXED), now = xd_now(), end;
	bool woken = false;

	if (deadline <= now)
		return;
	if (deadline != XT_NEVER) {
		uint64_t ns = deadline - now;

		ts = (struct timespec){ .tv_sec = (time_t)(ns / 1000000000),
					.tv_nsec = (long)(ns % 1000000000) };
		timeout = &ts;
	}
	if (announce_sleep(w, deadline)) {
		xd_count(&w->stats.sleeps, 1);
		woken = ppoll(fds, 2, timeout, NULL) > 0 && fds[1].revents;
	}
	end = xd_now();
	announce_awake(w, woken, end - now);
	xd_spin_slept(&w->spin, end);
}

/* ---- spin -------------------------------------------------------------------------------- */

/*
 * Sets the scheduling slice; 0 is the scheduler's default. A short slice lets the worker's wake-up
 * preempt the running thread, which bounds the latency. A worker that yields must not have a short
 * slice: a yield costs one slice of virtual time, and two threads that yield to each other
 * alternate only if the cost is the same for both.
 */
static void set_slice(struct xd_worker *w, uint64_t slice_ns)
{
	int err;

	if (slice_ns == w->slice_ns)
		return;
	w->slice_ns = slice_ns;
	err = xd_set_slice(slice_ns);
	if (err)
		xd_log(XD_DEBUG, "worker %u: sched_setattr: %s", w->index, strerror(-err));
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
		set_slice(w, XD_SHORT_SLICE_NS);
	}
	return true;
}
