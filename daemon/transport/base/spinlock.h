/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Spin lock of CQs and SRQs that engines of several workers share; held for a few instructions. */
#ifndef XT_SPINLOCK_H
#define XT_SPINLOCK_H

static inline void xt_spin_lock(int *lock)
{
	while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
		while (__atomic_load_n(lock, __ATOMIC_RELAXED))
			__builtin_ia32_pause();
}

static inline void xt_spin_unlock(int *lock)
{
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

#endif /* XT_SPINLOCK_H */
