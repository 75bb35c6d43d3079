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
#include "daemon/transport/wire/frame_copy.h"
#include "inbox.h"

#define RX_BATCHES 4 /* per round, before the engine may send again; 1 while clients compete */
/* A busy worker finds doorbells that it does not poll this late. */
#define COLLECT_NS 50000
/* A worker whose packets the kernel does not take tries again this late, if it has no work. */
#define TX_RETRY_NS 100000

/* ---- stages of a round ---------------------------------------------------------------------- */

/* What the stages of a round tell later ones */
struct round {
	uint64_t carried;     /* messages that the engine had carried within this host before */
	uint64_t next_memory; /* when accesses to memory must be collected again */
	bool due;	      /* the deadline of the worker had come */
	bool received;	      /* frames */
	bool worked;	      /* any work had come in */
};

static uint64_t carried_within_host(const struct xd_worker *w)
{
	return xt_engine_counters(w->engine)->loopback_operations;
}

/* A program has connected or disconnected: what was learned about spins no longer holds. */
static void note_programs(struct xd_worker *w)
{
	if (!__atomic_load_n(&w->programs_changed, __ATOMIC_RELAXED))
		return;
	__atomic_store_n(&w->programs_changed, false, __ATOMIC_RELAXED);
	xd_spin_reset_backoff(&w->spin);
}

/*
 * First: the lock keeps the control thread away, keys may be looked up from now on, and all stages
 * have the same time. Movers are not woken for each access before wake_movers().
 */
static void begin_round(struct xd_worker *w, struct round *r)
{
	const struct xd_worker_memory *memory = &w->all->memory;

	pthread_mutex_lock(&w->lock);
	xd_round_begin(w);
	xd_worker_keys_begin(w);
	if (memory->begin_round)
		memory->begin_round(memory->movers, w->index);
	w->now = xd_now();
	note_programs(w);
	r->due = w->deadline <= w->now;
	r->carried = carried_within_host(w);
}

static bool ring(struct xt_qp *qp, void *arg)
{
	struct xd_worker *w = arg;

	return xt_qp_doorbell(qp, w->now);
}

/*
 * Before the engine runs, which then sends what was posted. wake_fd stays readable: it is for
 * sleeping workers.
 */
static void scan_doorbells(struct xd_worker *w, struct round *r)
{
	if (xd_doorbells_unpolled(&w->doorbells) && (w->idle || w->collect_at <= w->now)) {
		w->collect_at = w->now + COLLECT_NS;
		xd_doorbells_collect(&w->doorbells);
	}
	r->worked |= xd_doorbells_scan(&w->doorbells, w->now, ring, w);
}

/*
 * Before the engine runs, so that one run answers all packets of the round. A capture shows packets
 * as they came, so it gets them before faults are applied.
 */
static void worker_receive(struct xd_worker *w, struct round *r)
{
	unsigned int batches = xt_engine_short_rounds(w->engine) ? 1 : RX_BATCHES;
	unsigned int n, i;

	for (i = 0; i < batches; i++) {
		n = xd_socket_recv(w->socket, w->frames, XD_BATCH, w->now);
		if (!n)
			break;
		r->received = true;
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
}

/* The same for packets that other workers received, captured, and applied faults to. */
static void receive_forwarded(struct xd_worker *w, struct round *r)
{
	unsigned int n = w->inbox ? xd_inbox_take(w->inbox, w->frames) : 0;

	if (n) {
		xt_engine_rx(w->engine, w->frames, n, w->now);
		xd_inbox_release(w->inbox, n);
		r->received = true;
	}
}

/* The same for frames within the device. Those that this round sends are for the next one. */
static void receive_self(struct xd_worker *w, struct round *r)
{
	r->received |= xd_worker_receive_self(w);
}

/* Before the engine runs, which goes on with the steps that waited for these accesses. */
static void collect_memory(struct xd_worker *w, struct round *r)
{
	const struct xd_worker_memory *memory = &w->all->memory;

	r->next_memory = XT_NEVER;
	if (memory->collect)
		r->worked |= memory->collect(memory->movers, w->index, w->now, &r->next_memory);
}

static void worker_send_copy(struct xd_worker *w, const struct xt_frame *from)
{
	struct xt_frame to = { .meta = from->meta };

	if (from->self && xd_worker_send_self(w, from))
		return;
	if (!xd_socket_tx_get(w->socket, from->len, &to))
		return;
	xt_frame_fill(&to, from->seg[0].data);
	if (xd_worker_captures(w))
		xd_worker_capture_tx(w, &to);
	xd_socket_tx_put(w->socket, &to);
}

/* Before the engine runs: delayed frames are older than those that it sends now. */
static void release_delayed(struct xd_worker *w)
{
	struct xt_frame f;

	while (xd_delay_due(w->delay, XD_FAULT_RX, w->now, &f))
		xt_engine_rx(w->engine, &f, 1, w->now);
	while (xd_delay_due(w->delay, XD_FAULT_TX, w->now, &f))
		worker_send_copy(w, &f);
}

/* After all that came in, which it answers, and before all that follows from what it does. */
static void run_engine(struct xd_worker *w)
{
	w->deadline = xt_engine_run(w->engine, w->now);
	if (xd_delay_next(w->self) != XT_NEVER)
		w->deadline = w->now;
}

/* After the engine has run: an engine that is sending must not be called. */
static void inject_errors(struct xd_worker *w)
{
	if (xd_worker_inject(w))
		w->deadline = w->now;
}

/* Before packets leave, so that movers access memory while this thread is in the kernel. */
static void wake_movers(struct xd_worker *w)
{
	const struct xd_worker_memory *memory = &w->all->memory;

	if (memory->end_round)
		memory->end_round(memory->movers, w->index);
}

/*
 * Once for all packets of the round. They may wait for the next round, to leave in one GSO frame
 * with those of that round. They do not wait beside other clients, nor for the end of a pause.
 */
static void send_packets(struct xd_worker *w)
{
	bool more = w->deadline <= w->now && !xt_engine_competes(w->engine) &&
		    __atomic_load_n(&w->pause, __ATOMIC_RELAXED) == XD_RUNS;

	xd_socket_tx_flush(w->socket, more);
}

/* Behind the packets, which do not wait for it, and with the counters of the whole round. */
static void update_captures(struct xd_worker *w)
{
	if (xd_worker_captures(w))
		xd_worker_capture_round(w);
}

/* Behind the packets as well: each wake-up is a system call. */
static void wake_forwarded(struct xd_worker *w)
{
	xd_worker_wake_forwarded(w);
}

static void limit_deadline(struct xd_worker *w, uint64_t at)
{
	if (at < w->deadline)
		w->deadline = at;
}

/*
 * Behind every stage that adds work. If the kernel takes no packets, the engine cannot send either.
 * Trying again and again would keep the processor from a thread that makes room: a NAPI thread of
 * the peer's interface waited for it for seconds.
 */
static void set_deadline(struct xd_worker *w, struct round *r)
{
	bool stalled = xd_socket_tx_stalled(w->socket);

	limit_deadline(w, xd_delay_next(w->delay));
	limit_deadline(w, r->next_memory);
	if (stalled && w->deadline < w->now + TX_RETRY_NS)
		w->deadline = w->now + TX_RETRY_NS;
	r->due |= w->deadline <= w->now || (!stalled && xd_socket_tx_pending(w->socket));
}

/* Last: other threads may have the lock and change keys. */
static void end_round(struct xd_worker *w, const struct round *r)
{
	xd_count(&w->stats.rounds, 1);
	w->idle = !r->worked && !r->received;
	w->carried_one = !r->received && carried_within_host(w) - r->carried == 1;
	xd_worker_keys_end(w);
	xd_round_end(w);
	xd_worker_unlock(w);
}

/* ---- the rounds ----------------------------------------------------------------------------- */

/*
 * Each stage says why it is at its place. Returns true if the round had work or the next one has.
 * *start: when it had the lock
 */
static bool worker_do_round(struct xd_worker *w, uint64_t *start)
{
	struct round r = { 0 };

	begin_round(w, &r);
	*start = w->now;

	scan_doorbells(w, &r);
	worker_receive(w, &r);
	receive_forwarded(w, &r);
	receive_self(w, &r);
	collect_memory(w, &r);
	release_delayed(w);

	run_engine(w);

	inject_errors(w);
	wake_movers(w);
	send_packets(w);
	update_captures(w);
	wake_forwarded(w);

	set_deadline(w, &r);
	end_round(w, &r);
	return r.worked || r.received || r.due;
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
		if (worker_do_round(w, &start)) {
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
