/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A spin lock for posting and polling, which take a few hundred instructions: sleeping on a futex
 * would take longer. It yields the processor early, since on a machine with few of them the holder
 * may not be running.
 *
 * Order of locks, outermost first: the mutex of struct ibv_context; the lock of a CQ; the lock of
 * the connection, of a ring, or of an event socket. The other mutexes of verbs.h are not nested. No
 * lock is held while code of the program runs, with two exceptions: `polling` of an extended CQ
 * from ibv_start_poll() to ibv_end_poll(), which is taken before all others; and sq_lock of an
 * extended QP from ibv_wr_start() to ibv_wr_complete().
 */
#ifndef XP_LOCK_H
#define XP_LOCK_H

#include <sched.h>
#include <stdbool.h>
#include <sys/single_threaded.h>

struct xp_lock {
	int held;
	bool unneeded; /* the program promised to use the object from one thread at a time */
};

static inline void xp_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static inline void xp_lock(struct xp_lock *l)
{
	unsigned int spins = 0;

	if (l->unneeded)
		return;
	/*
	 * While the process has one thread, a store is enough. An exchange would also wait for the
	 * stores before it, to cache lines that the daemon has read. A thread that starts later
	 * sees that the lock is held.
	 */
	if (__libc_single_threaded && !__atomic_load_n(&l->held, __ATOMIC_RELAXED)) {
		__atomic_store_n(&l->held, 1, __ATOMIC_RELAXED);
		return;
	}
	while (__atomic_exchange_n(&l->held, 1, __ATOMIC_ACQUIRE)) {
		while (__atomic_load_n(&l->held, __ATOMIC_RELAXED)) {
			if (++spins % 64 == 0)
				sched_yield();
			else
				xp_cpu_relax();
		}
	}
}

static inline void xp_unlock(struct xp_lock *l)
{
	if (l->unneeded)
		return;
	__atomic_store_n(&l->held, 0, __ATOMIC_RELEASE);
}

#endif /* XP_LOCK_H */
