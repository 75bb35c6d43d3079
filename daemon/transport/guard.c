// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "guard.h"

#include <errno.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <string.h>

#include "memory.h"

#define PAGE 4096u

/* Where the calling thread goes on after a fault */
static __thread struct {
	sigjmp_buf at;
	const uint8_t *fault;
	bool set;
} landing;

static inline void begin(void)
{
	landing.set = true;
	atomic_signal_fence(memory_order_seq_cst);
}

static inline void end(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	landing.set = false;
}

void xt_guard_fault(const void *addr)
{
	if (!landing.set)
		return;
	landing.set = false;
	landing.fault = addr;
	siglongjmp(landing.at, 1);
}

/* Not inlined: the copy changes its variables between sigsetjmp() and siglongjmp(). */
static __attribute__((noinline)) void copy(void *to, const void *from, size_t len)
{
	xt_copy(to, from, len);
}

int xt_guard_copy(void *to, const void *from, size_t len)
{
	if (sigsetjmp(landing.at, 0))
		return -EFAULT;
	begin();
	copy(to, from, len);
	end();
	return 0;
}

int xt_guard_move(void *to, const void *from, size_t len, bool *src_failed)
{
	if (sigsetjmp(landing.at, 0)) {
		*src_failed = landing.fault >= (const uint8_t *)from &&
			      landing.fault < (const uint8_t *)from + len;
		return -EFAULT;
	}
	begin();
	memmove(to, from, len);
	end();
	return 0;
}

int xt_guard_probe(const uint8_t *p, size_t len)
{
	const volatile uint8_t *at = p;
	size_t off;

	if (sigsetjmp(landing.at, 0))
		return -EFAULT;
	begin();
	for (off = 0; off < len; off += PAGE - ((uintptr_t)(p + off) & (PAGE - 1)))
		(void)at[off];
	end();
	return 0;
}

int xt_guard_cmp_swap(uint64_t *p, uint64_t compare, uint64_t swap, uint64_t *old)
{
	if (sigsetjmp(landing.at, 0))
		return -EFAULT;
	begin();
	*old = compare;
	__atomic_compare_exchange_n(p, old, swap, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	end();
	return 0;
}

int xt_guard_fetch_add(uint64_t *p, uint64_t add, uint64_t *old)
{
	if (sigsetjmp(landing.at, 0))
		return -EFAULT;
	begin();
	*old = __atomic_fetch_add(p, add, __ATOMIC_SEQ_CST);
	end();
	return 0;
}

int xt_guard_store(uint64_t *p, uint64_t value)
{
	if (sigsetjmp(landing.at, 0))
		return -EFAULT;
	begin();
	__atomic_store_n(p, value, __ATOMIC_SEQ_CST);
	end();
	return 0;
}
