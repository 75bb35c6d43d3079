/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Spin lock of CQs and SRQs that several workers use. It is held for a few instructions, by the
 * control thread that moves a ring for some microseconds. A thread that waits longer yields, as the
 * one that has the lock may wait for its processor.
 */
#ifndef XT_SPINLOCK_H
#define XT_SPINLOCK_H

#include <sched.h>

#define XT_SPINS 2000 /* looks at a lock before a yield: some 50 us */

static inline void xt_spin_wait(const int *lock)
{
	for (int i = 1; __atomic_load_n(lock, __ATOMIC_RELAXED); i++) {
		if (i % XT_SPINS)
			__builtin_ia32_pause();
		else
			sched_yield();
	}
}

static inline void xt_spin_lock(int *lock)
{
	while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
		xt_spin_wait(lock);
}

static inline void xt_spin_unlock(int *lock)
{
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

#endif /* XT_SPINLOCK_H */
