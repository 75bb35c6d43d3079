// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "grace.h"

#include <assert.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "worker_internal.h"

static long grace_futex(uint32_t *word, int op, uint32_t value)
{
	return syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

/* ---- rounds, of the worker or of a thread that has its lock ---------------------------------- */

void xd_round_begin(struct xd_worker *w)
{
	__atomic_add_fetch(&w->round, 1, __ATOMIC_SEQ_CST);
}

void xd_round_end(struct xd_worker *w)
{
	__atomic_add_fetch(&w->round, 1, __ATOMIC_SEQ_CST);
	if (__builtin_expect(__atomic_load_n(&w->round_awaited, __ATOMIC_SEQ_CST), 0))
		grace_futex(&w->round, FUTEX_WAKE_PRIVATE, INT_MAX);
}

/* The fence: no lookup of the round comes before its begin. */
void xd_worker_keys_begin(struct xd_worker *w)
{
	__atomic_add_fetch(&w->key_use, 1, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void xd_worker_keys_end(struct xd_worker *w)
{
	__atomic_add_fetch(&w->key_use, 1, __ATOMIC_SEQ_CST);
}

static uint32_t round_of(struct xd_worker *w)
{
	return __atomic_load_n(&w->round, __ATOMIC_SEQ_CST);
}

static void wait_for_round(struct xd_worker *w)
{
	uint32_t seen = round_of(w);

	if (!(seen & 1))
		return;
	__atomic_add_fetch(&w->round_awaited, 1, __ATOMIC_SEQ_CST);
	while (round_of(w) == seen)
		grace_futex(&w->round, FUTEX_WAIT_PRIVATE, seen);
	__atomic_sub_fetch(&w->round_awaited, 1, __ATOMIC_SEQ_CST);
}

/* ---- periods -------------------------------------------------------------------------------- */

/* A period with a higher number than the mark begins later. */
uint64_t xd_grace_mark(struct xd_workers *ws)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&ws->grace.begun, __ATOMIC_SEQ_CST);
}

static bool all_between_rounds(struct xd_workers *ws)
{
	for (unsigned int i = 0; i < ws->count; i++)
		if (round_of(ws->worker[i]) & 1)
			return false;
	return true;
}

static void grace_note_end(struct xd_workers *ws, uint64_t period)
{
	uint64_t last = __atomic_load_n(&ws->grace.ended, __ATOMIC_RELAXED);

	while (last < period && !__atomic_compare_exchange_n(&ws->grace.ended, &last, period, true,
							     __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		;
}

/* Notes a period that ends at once as well, so that nobody waits after this has returned true. */
bool xd_grace_over(struct xd_workers *ws, uint64_t mark)
{
	uint64_t period;

	if (__atomic_load_n(&ws->grace.ended, __ATOMIC_ACQUIRE) > mark)
		return true;
	if (!all_between_rounds(ws))
		return false;
	/* a period must begin before the look by which it ends */
	period = __atomic_add_fetch(&ws->grace.begun, 1, __ATOMIC_SEQ_CST);
	if (!all_between_rounds(ws))
		return false;
	grace_note_end(ws, period);
	return true;
}

void xd_grace_wait(struct xd_workers *ws, uint64_t mark)
{
	uint64_t period;

	if (xd_grace_over(ws, mark))
		return;
	period = __atomic_add_fetch(&ws->grace.begun, 1, __ATOMIC_SEQ_CST);
	for (unsigned int i = 0; i < ws->count; i++)
		wait_for_round(ws->worker[i]);
	grace_note_end(ws, period);
}

/* In a pause, it would wait for the round of the paused worker, which is its own. */
void xd_grace_synchronize(struct xd_workers *ws)
{
	assert(!ws->paused);
	xd_grace_wait(ws, xd_grace_mark(ws));
}
