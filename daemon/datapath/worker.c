// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* One worker: its rounds, its socket, its engine and its thread. */
#include "worker_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/base/options.h"
#include "daemon/base/process.h"
#include "daemon/faults/delay_queue.h"
#include "inbox.h"

#define RX_BATCHES 4 /* per round, before the engine may send again; 1 while clients compete */
/* A busy worker finds doorbells that it does not poll this late. */
#define COLLECT_NS 50000
/* A worker whose packets the kernel does not take tries again this late, if it has no work. */
#define TX_RETRY_NS 100000

/* ---- a round ------------------------------------------------------------------------------ */

static bool ring(struct xt_qp *qp, void *arg)
{
	struct xd_worker *w = arg;

	return xt_qp_doorbell(qp, w->now);
}

/* Returns true if there was work. wake_fd stays readable: it is for sleeping workers. */
static bool scan_doorbells(struct xd_worker *w)
{
	if (xd_doorbells_unpolled(&w->doorbells) && (w->idle || w->collect_at <= w->now)) {
		w->collect_at = w->now + COLLECT_NS;
		xd_doorbells_collect(&w->doorbells);
	}
	return xd_doorbells_scan(&w->doorbells, w->now, ring, w);
}

static unsigned int receive(struct xd_worker *w)
{
	unsigned int batches = xt_engine_short_rounds(w->engine) ? 1 : RX_BATCHES;
	unsigned int total = 0, n, i;

	for (i = 0; i < batches && (!i || !xd_worker_hurried(w)); i++) {
		n = xd_socket_recv(w->socket, w->frames, XD_BATCH, w->now);
		if (!n)
			break;
		total += n;
		xd_count(&w->stats.rx_batches, 1);
		if (xd_worker_captures(w))
			xd_worker_capture_rx(w, n);
		if (xd_faults_on(w->all->faults, XD_FAULT_RX))
			n = xd_worker_rx_faults(w, n);
		xt_engine_rx(w->engine, w->frames, n, w->now);
		xd_socket_recv_done(w->socket);
		/* a batch is not full if the next frame has more packets than there was room for */
		if (n < XD_BATCH && !xd_socket_pending(w->socket))
			break;
	}
	return total;
}

static unsigned int receive_forwarded(struct xd_worker *w)
{
	unsigned int n = w->inbox ? xd_inbox_take(w->inbox, w->frames) : 0;

	if (n) {
		xt_engine_rx(w->engine, w->frames, n, w->now);
		xd_inbox_release(w->inbox, n);
	}
	return n;
}

/* Returns true if accesses to memory have finished. *next: see struct xd_worker_memory. */
static bool collect_memory(struct xd_worker *w, uint64_t *next)
{
	const struct xd_worker_memory *memory = &w->all->memory;

	*next = XT_NEVER;
	return memory->collect && memory->collect(memory->movers, w->index, w->now, next);
}

/*
 * Returns true if there is a reason for the next round at once. If the kernel takes no packets, the
 * engine cannot send either. Trying again and again would keep the processor from a thread that
 * makes room: a NAPI thread of the peer's interface waited for it for seconds.
 */
static bool goes_on(struct xd_worker *w)
{
	bool stalled = xd_socket_tx_stalled(w->socket);

	if (stalled && w->deadline < w->now + TX_RETRY_NS)
		w->deadline = w->now + TX_RETRY_NS;
	return w->deadline <= w->now || (!stalled && xd_socket_tx_pending(w->socket));
}

/*
 * Returns true if packets may wait for the next round, to leave in one GSO frame with those of that
 * round. Beside other clients they do not wait.
 */
static bool sends_more(const struct xd_worker *w)
{
	return w->deadline <= w->now && !xt_engine_competes(w->engine) && !xd_worker_hurried(w);
}

static uint64_t carried_within_host(const struct xd_worker *w)
{
	return xt_engine_counters(w->engine)->loopback_operations;
}

/* Returns true if the round had work or the next one has. *start: when it had the lock */
static bool do_round(struct xd_worker *w, uint64_t *start)
{
	const struct xd_worker_memory *memory = &w->all->memory;
	uint64_t next_delayed, next_memory, carried;
	bool due, worked, received;

	pthread_mutex_lock(&w->lock);
	xd_worker_keys_begin(w);
	if (memory->begin_round)
		memory->begin_round(memory->movers, w->index);
	*start = w->now = xd_now();
	if (__atomic_load_n(&w->programs_changed, __ATOMIC_RELAXED)) {
		__atomic_store_n(&w->programs_changed, false, __ATOMIC_RELAXED);
		xd_spin_reset_backoff(&w->spin);
	}
	due = w->deadline <= w->now;
	carried = carried_within_host(w);
	worked = scan_doorbells(w);
	received = receive(w) > 0;
	received |= receive_forwarded(w) > 0;
	received |= xd_worker_receive_self(w);
	worked |= received;
	worked |= collect_memory(w, &next_memory);
	xd_worker_release_delayed(w);
	w->deadline = xt_engine_run(w->engine, w->now);
	if (xd_worker_inject(w) || xd_delay_next(w->self) != XT_NEVER)
		w->deadline = w->now;
	if (memory->end_round)
		memory->end_round(memory->movers, w->index);
	xd_socket_tx_flush(w->socket, sends_more(w));
	if (xd_worker_captures(w))
		xd_worker_capture_round(w);
	xd_worker_wake_forwarded(w);
	next_delayed = xd_delay_next(w->delay);
	if (next_delayed < w->deadline)
		w->deadline = next_delayed;
	if (next_memory < w->deadline)
		w->deadline = next_memory;
	xd_count(&w->stats.rounds, 1);
	w->idle = !worked;
	w->carried_one = !received && carried_within_host(w) - carried == 1;
	due |= goes_on(w);
	xd_worker_keys_end(w);
	xd_worker_unlock(w);
	return worked || due;
}

static void *worker_main(void *arg)
{
	struct xd_worker *w = arg;
	uint64_t start, now;
	char name[20];

	snprintf(name, sizeof(name), "xroced/%u", w->index);
	xd_thread_name(name);
	xd_spin_init(&w->spin, w->all->config.opt->spin_us * 1000ull, xd_now());
	while (!__atomic_load_n(&w->stop, __ATOMIC_ACQUIRE)) {
		xd_worker_wait_paused(w);
		if (do_round(w, &start)) {
			now = xd_now();
			xd_spin_worked(&w->spin, now);
			if (w->carried_one)
				xd_spin_look(&w->spin, now);
			xd_count(&w->stats.busy_ns, now - start);
		} else if (!xd_worker_spin(w)) {
			xd_worker_sleep(w);
		}
	}
	return NULL;
}

/* ---- start and stop ----------------------------------------------------------------------- */

static int watch_wake_fd(struct xd_worker *w)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = NULL };

	return epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->wake_fd, &ev) ? -errno : 0;
}

void xd_worker_free(struct xd_worker *w)
{
	if (!w)
		return;
	xt_engine_free(w->engine);
	xd_worker_close_socket(w);
	xd_delay_free(w->delay);
	xd_delay_free(w->self);
	xd_inbox_free(w->inbox);
	if (w->epoll >= 0)
		close(w->epoll);
	if (w->wake_fd >= 0)
		close(w->wake_fd);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

static int tune_engine(struct xd_worker *w)
{
	const struct xd_workers_config *c = &w->all->config;
	struct xt_tuning t = XT_TUNING_DEFAULT;

	xd_io_tune(c->io, w->index, w->socket, &t);
	t.uc_rate = c->opt->uc_rate * 1000;
	return xt_engine_tune(w->engine, &t);
}

int xd_worker_new(struct xd_workers *all, uint32_t index, struct xd_worker **out)
{
	struct xd_worker *w = calloc(1, sizeof(*w));
	int err;

	if (!w)
		return -ENOMEM;
	pthread_mutex_init(&w->lock, NULL);
	w->all = all;
	w->holder = w;
	w->index = index;
	w->epoll = epoll_create1(EPOLL_CLOEXEC);
	w->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	xd_doorbells_init(&w->doorbells, w->epoll);
	w->delay = xd_delay_new();
	w->self = xd_delay_new();
	w->engine = xt_engine_new(&xd_worker_ops, w, all->config.shared);
	err = w->epoll < 0 || w->wake_fd < 0 || !w->delay || !w->self || !w->engine ? -ENOMEM : 0;
	if (!err)
		err = xd_io_open(all->config.io, index, &all->config.shared->receivers, &w->socket);
	if (!err)
		err = tune_engine(w);
	if (!err)
		err = watch_wake_fd(w);
	if (err) {
		xd_worker_free(w);
		return err;
	}
	*out = w;
	return 0;
}

int xd_worker_start(struct xd_worker *w)
{
	int err = pthread_create(&w->thread, NULL, worker_main, w);

	w->started = !err;
	return -err;
}

void xd_worker_stop(struct xd_worker *w)
{
	__atomic_store_n(&w->stop, true, __ATOMIC_RELEASE);
	xd_worker_wake(w);
}

bool xd_worker_join(struct xd_worker *w, const struct timespec *until)
{
	if (!w->started)
		return true;
	w->started = pthread_timedjoin_np(w->thread, NULL, until);
	return !w->started;
}

void xd_worker_close_socket(struct xd_worker *w)
{
	xd_socket_close(w->socket);
	w->socket = NULL;
}
