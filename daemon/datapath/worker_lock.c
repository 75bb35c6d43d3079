// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A worker takes the lock of another one for loopback, while it holds its own. Two workers that
 * want each other's lock must not both wait: each would fail at the end of its time, try again, and
 * fail again. So a worker that waits tells the one that holds the lock. If that one wants a lock
 * itself, one of the two gives way: the one that succeeded last time, so that they take turns. A
 * round in which a worker has failed ends early, and between two rounds a worker leaves its lock
 * free until the one that waits has it. Each wait is limited, as the other thread may not run.
 */
#include "worker_internal.h"

#include <sched.h>

static bool is_awaited(const struct xd_worker *w)
{
	return __atomic_load_n(&w->waiter, __ATOMIC_RELAXED);
}

/* Each circle of waiting workers has one that gives way to the one that waits for it. */
static bool gives_way(const struct xd_worker *w)
{
	const struct xd_worker *to = __atomic_load_n(&w->waiter, __ATOMIC_ACQUIRE);
	bool failed;

	if (!to)
		return false;
	failed = __atomic_load_n(&to->failed, __ATOMIC_RELAXED);
	return w->failed != failed ? failed : w->index > to->index;
}

/* Tells the worker that holds a lock, if no other one has. */
static struct xd_worker *worker_lock_announce(struct xd_worker *w, const struct xd_worker *other)
{
	struct xd_worker *holder = __atomic_load_n(&other->holder, __ATOMIC_RELAXED);

	if (!is_awaited(holder))
		__atomic_store_n(&holder->waiter, w, __ATOMIC_RELEASE);
	return holder;
}

static void withdraw(struct xd_worker *w, struct xd_worker *holder)
{
	struct xd_worker *waiter = w;

	__atomic_compare_exchange_n(&holder->waiter, &waiter, NULL, false, __ATOMIC_RELEASE,
				    __ATOMIC_RELAXED);
}

static bool worker_lock_wait_for(struct xd_worker *w, struct xd_worker *other)
{
	struct xd_worker *told = NULL, *holder;
	bool taken = false;

	for (int i = 0; i < XD_LOCK_SPINS && !taken && !gives_way(w); i++) {
		holder = worker_lock_announce(w, other);
		if (told && told != holder)
			withdraw(w, told);
		told = holder;
		__builtin_ia32_pause();
		taken = !pthread_mutex_trylock(&other->lock);
	}
	if (told)
		withdraw(w, told);
	return taken;
}

bool xd_worker_enter(struct xd_worker *w, struct xd_worker *other)
{
	bool taken = !pthread_mutex_trylock(&other->lock) || worker_lock_wait_for(w, other);

	w->gave_up |= !taken;
	__atomic_store_n(&w->failed, !taken, __ATOMIC_RELAXED);
	if (taken)
		__atomic_store_n(&other->holder, w, __ATOMIC_RELAXED);
	return taken;
}

void xd_worker_leave(struct xd_worker *other)
{
	__atomic_store_n(&other->holder, other, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&other->lock);
}

/* A thread that does not take the lock may wait for this processor. */
void xd_worker_unlock(struct xd_worker *w)
{
	bool yield = w->gave_up;

	w->gave_up = false;
	pthread_mutex_unlock(&w->lock);
	for (int i = 0; i < XD_LOCK_SPINS && is_awaited(w); i++)
		__builtin_ia32_pause();
	if (is_awaited(w)) {
		/* it tells again when it runs */
		__atomic_store_n(&w->waiter, NULL, __ATOMIC_RELAXED);
		yield = true;
	}
	if (yield)
		sched_yield();
}
