// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "guard.h"

#include <errno.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <string.h>

#include "daemon/transport/base/bytes.h"
#include "daemon/transport/transport.h"

#define PAGE 4096u

/*
 * Whether the signal mask has to be restored after a fault. ThreadSanitizer blocks all signals in
 * handlers, in spite of SA_NODEFER.
 */
#ifdef __SANITIZE_THREAD__
#define SAVE_MASK 1
#else
#define SAVE_MASK 0
#endif

/*
 * The place to which the calling thread jumps after a fault. A handler must not allocate it, as it
 * would for a thread that has not used it before, if the library was loaded at run time.
 */
static __thread __attribute__((tls_model("initial-exec"))) struct {
	sigjmp_buf at;
	const uint8_t *fault;
	bool set;
} landing;

static inline void guard_begin(void)
{
	landing.set = true;
	atomic_signal_fence(memory_order_seq_cst);
}

static inline void guard_end(void)
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

/*
 * ThreadSanitizer holds a lock of its own during atomic accesses with an order. A fault would leave
 * it locked, so absent pages have to fault before.
 */
#ifdef __SANITIZE_THREAD__
static __attribute__((no_sanitize("thread"), noinline)) void fault_before(const void *p)
{
	(void)*(const volatile uint8_t *)p;
}
#else
#define fault_before(p) ((void)(p))
#endif

/* ---- copies ---------------------------------------------------------------------------------- */

#define STORE(type, to, from)                                                                      \
	do {                                                                                       \
		type word;                                                                         \
		memcpy(&word, from, sizeof(word));                                                 \
		fault_before(to);                                                                  \
		__atomic_store_n((type *)(void *)(to), word, __ATOMIC_RELEASE);                    \
	} while (0)

/*
 * Stores at most 8 bytes in their order, each store after all stores before it. Words that are
 * aligned are not torn.
 */
static void store_tail(uint8_t *to, const uint8_t *from, size_t n)
{
	uintptr_t alignment = (uintptr_t)to | n;
	size_t step = alignment & 3 ? 1 : alignment & 7 ? 4 : 8;

	for (; n; n -= step, to += step, from += step) {
		if (step == 8)
			STORE(uint64_t, to, from);
		else if (step == 4)
			STORE(uint32_t, to, from);
		else
			STORE(uint8_t, to, from);
	}
}

static size_t head_of(size_t len)
{
	return len > XT_GUARD_TAIL ? len - XT_GUARD_TAIL : 0;
}

/* Not inlined: these change their variables between sigsetjmp() and siglongjmp(). */

static __attribute__((noinline)) void copy(void *to, const void *from, size_t len)
{
	xt_copy(to, from, len);
}

static __attribute__((noinline)) void place(uint8_t *to, const uint8_t *from, size_t len)
{
	size_t head = head_of(len);

	xt_copy(to, from, head);
	store_tail(to + head, from + head, len - head);
}

static __attribute__((noinline)) void move(uint8_t *to, const uint8_t *from, size_t len)
{
	size_t head = head_of(len);
	uint8_t tail[XT_GUARD_TAIL];

	memcpy(tail, from + head, len - head);
	if (to + head <= from || from + head <= to)
		xt_copy(to, from, head);
	else
		memmove(to, from, head);
	store_tail(to + head, tail, len - head);
}

int xt_guard_copy(void *to, const void *from, size_t len)
{
	if (sigsetjmp(landing.at, SAVE_MASK))
		return -EFAULT;
	guard_begin();
	copy(to, from, len);
	guard_end();
	return 0;
}

int xt_guard_copy_segs(uint8_t *to, const struct xt_seg *from, uint64_t skip, size_t len)
{
	int err = 0;
	size_t run;

	for (; len && !err; from++, skip = 0, to += run, len -= run) {
		for (; skip >= from->len; from++)
			skip -= from->len;
		run = from->len - skip < len ? from->len - skip : len;
		err = xt_guard_copy(to, from->data + skip, run);
	}
	return err;
}

int xt_guard_place(void *to, const void *from, size_t len)
{
	if (sigsetjmp(landing.at, SAVE_MASK))
		return -EFAULT;
	guard_begin();
	place(to, from, len);
	guard_end();
	return 0;
}

int xt_guard_move(void *to, const void *from, size_t len, bool *src_failed)
{
	if (sigsetjmp(landing.at, SAVE_MASK)) {
		*src_failed = landing.fault >= (const uint8_t *)from &&
			      landing.fault < (const uint8_t *)from + len;
		return -EFAULT;
	}
	guard_begin();
	move(to, from, len);
	guard_end();
	return 0;
}

int xt_guard_probe(const uint8_t *p, size_t len)
{
	const volatile uint8_t *at = p;
	size_t off;

	if (sigsetjmp(landing.at, SAVE_MASK))
		return -EFAULT;
	guard_begin();
	for (off = 0; off < len; off += PAGE - ((uintptr_t)(p + off) & (PAGE - 1)))
		(void)at[off];
	guard_end();
	return 0;
}

int xt_guard_cmp_swap(uint64_t *p, uint64_t compare, uint64_t swap, uint64_t *old)
{
	if (sigsetjmp(landing.at, SAVE_MASK))
		return -EFAULT;
	guard_begin();
	*old = compare;
	fault_before(p);
	__atomic_compare_exchange_n(p, old, swap, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	guard_end();
	return 0;
}

int xt_guard_fetch_add(uint64_t *p, uint64_t add, uint64_t *old)
{
	if (sigsetjmp(landing.at, SAVE_MASK))
		return -EFAULT;
	guard_begin();
	fault_before(p);
	*old = __atomic_fetch_add(p, add, __ATOMIC_SEQ_CST);
	guard_end();
	return 0;
}

int xt_guard_store(uint64_t *p, uint64_t value)
{
	if (sigsetjmp(landing.at, SAVE_MASK))
		return -EFAULT;
	guard_begin();
	fault_before(p);
	__atomic_store_n(p, value, __ATOMIC_SEQ_CST);
	guard_end();
	return 0;
}
