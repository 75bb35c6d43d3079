// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Pauses of one worker, in which the control thread acts in its place. */
#include "worker_internal.h"

#include <assert.h>

#include "daemon/base/loop.h"
#include "daemon/faults/delay_queue.h"

/*
 * The control thread acts as the worker, so it counts as one that uses keys: others may change keys
 * meanwhile.
 */
void xd_worker_pause(struct xd_workers *ws, uint32_t index)
{
	const struct xd_worker_memory *memory = &ws->memory;
	struct xd_worker *w = ws->worker[index];

	if (ws->pause_depth++) {
		assert(ws->paused == w);
		return;
	}
	ws->cpu_at = xd_cpu_time();
	__atomic_store_n(&w->pause, XD_PAUSED, __ATOMIC_RELEASE);
	pthread_mutex_lock(&w->lock);
	ws->paused_at = w->now = xd_now();
	ws->paused = w;
	xd_round_begin(w);
	xd_worker_keys_begin(w);
	if (memory->begin_round)
		memory->begin_round(memory->movers, index);
}

static void note_duration(struct xd_workers *ws)
{
	struct xd_pauses *pauses = &ws->pauses;
	uint64_t ns = xd_now() - ws->paused_at, cpu;

	xd_histogram_add(&pauses->duration, ns);
	/* The processor time is not longer than ns, and reading it takes a system call. */
	if (ns <= pauses->longest_cpu)
		return;
	cpu = xd_cpu_time() - ws->cpu_at;
	cpu = cpu < ns ? cpu : ns;
	if (cpu > pauses->longest_cpu)
		pauses->longest_cpu = cpu;
}

/* changed: the engine may have work now, or an earlier deadline. */
static void pause_release(struct xd_workers *ws, struct xd_worker *w, bool changed)
{
	bool must_wake = changed && w->asleep, must_unpause;

	if (changed)
		__atomic_store_n(&w->deadline, 0, __ATOMIC_RELAXED);
	must_unpause = __atomic_exchange_n(&w->pause, XD_RUNS, __ATOMIC_ACQ_REL) == XD_AWAITED;
	pthread_mutex_unlock(&w->lock);
	note_duration(ws);
	if (must_unpause)
		xd_worker_unpause(w);
	if (must_wake)
		xd_worker_wake(w);
}

void xd_worker_resume_no_wake(struct xd_workers *ws, uint32_t index)
{
	const struct xd_worker_memory *memory = &ws->memory;
	struct xd_worker *w = ws->worker[index];
	bool changed = ws->changed_while_paused;

	if (--ws->pause_depth)
		return;
	/* the worker may sleep, and not be told of the results of new accesses */
	if (memory->end_round)
		changed |= memory->end_round(memory->movers, index);
	ws->paused = NULL;
	ws->changed_while_paused = false;
	xd_worker_keys_end(w);
	xd_round_end(w);
	pause_release(ws, w, changed);
}

void xd_worker_resume(struct xd_workers *ws, uint32_t index)
{
	ws->changed_while_paused = true;
	xd_worker_resume_no_wake(ws, index);
}

/* The pause has left work before the deadline of the worker. */
static bool is_due(const struct xd_worker *w)
{
	uint64_t deadline = __atomic_load_n(&w->deadline, __ATOMIC_RELAXED);

	return xt_engine_next(w->engine) < deadline || xd_delay_next(w->delay) < deadline ||
	       xd_delay_next(w->self) != XT_NEVER || (w->socket && xd_socket_tx_pending(w->socket));
}

void xd_worker_resume_if_due(struct xd_workers *ws, uint32_t index)
{
	if (is_due(ws->worker[index]))
		ws->changed_while_paused = true;
	xd_worker_resume_no_wake(ws, index);
}

void xd_worker_flush(struct xd_workers *ws, uint32_t index)
{
	if (ws->worker[index]->socket) /* open until the workers have stopped */
		xd_socket_tx_flush(ws->worker[index]->socket, false);
}

const struct xd_pauses *xd_workers_pauses(const struct xd_workers *ws)
{
	return &ws->pauses;
}
