/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A worker's life: rounds, and who may stop them. */
#include "worker_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/device.h"
#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/base/options.h"
#include "daemon/base/privileges.h"
#include "doorbells.h"
#include "delay.h"
#include "inbox.h"
#include "xdp.h"

#define RX_BATCHES 4 /* before the engine gets to send again */

/* ---- a round ------------------------------------------------------------------------------ */

static void ring(struct xt_qp *qp, void *arg)
{
	struct xd_worker *w = arg;

	xt_qp_doorbell(qp, w->now);
}

static unsigned int scan_bells(struct xd_worker *w)
{
	unsigned int n = 0;

	for (struct xd_doorbell *b = w->bells; b; b = b->next)
		n += xd_doorbell_scan(b, ring, w);
	return n;
}

static unsigned int receive(struct xd_worker *w)
{
	unsigned int total = 0, n, i;

	for (i = 0; i < RX_BATCHES; i++) {
		n = xd_xsk_recv(w->xsk, w->frames, XD_XSK_BATCH);
		if (!n)
			break;
		total += n;
		xd_count(&w->stats.rx_batches, 1);
		if (xd_fault_on(&w->fault, XR_FAULT_RX))
			n = xd_worker_rx_faults(w, n);
		xt_engine_rx(w->engine, w->frames, n, w->now);
		xd_xsk_recv_done(w->xsk);
		if (n < XD_XSK_BATCH)
			break;
	}
	return total;
}

static unsigned int take_forwarded(struct xd_worker *w)
{
	unsigned int n = w->inbox ? xd_inbox_take(w->inbox, w->frames) : 0;

	if (n) {
		xt_engine_rx(w->engine, w->frames, n, w->now);
		xd_inbox_release(w->inbox, n);
	}
	return n;
}

/* Returns whether there was anything to do. */
static bool round_of(struct xd_worker *w)
{
	bool due, worked;
	uint64_t held;

	pthread_mutex_lock(&w->lock);
	xd_worker_turn_keys(w);
	w->now = xd_now();
	if (w->other_programs) {
		w->other_programs = false;
		xd_spin_forget(&w->spin);
	}
	due = w->deadline <= w->now;
	worked = scan_bells(w) > 0;
	worked |= receive(w) > 0;
	worked |= take_forwarded(w) > 0;
	xd_worker_release_held(w);
	w->deadline = xt_engine_run(w->engine, w->now);
	xd_xsk_tx_flush(w->xsk);
	xd_worker_wake_forwarded(w);
	held = xd_delay_next(w->held);
	if (held < w->deadline)
		w->deadline = held;
	xd_count(&w->stats.rounds, 1);
	due |= w->deadline <= w->now;
	xd_worker_turn_keys(w);
	pthread_mutex_unlock(&w->lock);
	return worked || due || xd_xsk_tx_pending(w->xsk);
}

static void *worker_main(void *arg)
{
	struct xd_worker *w = arg;
	uint64_t begun, now;
	int err;

	err = xd_privileges_drop(XD_ROLE_WORKER);
	if (err)
		xd_log(XD_WARN, "worker %u keeps its privileges: %s", w->index, strerror(-err));
	xd_spin_init(&w->spin, w->dev->opt->spin_us * 1000ull, xd_now());
	while (!__atomic_load_n(&w->stop, __ATOMIC_ACQUIRE)) {
		xd_worker_let_go(w);
		if (round_of(w)) {
			begun = w->now;
			now = xd_now();
			xd_spin_worked(&w->spin, now);
			xd_count(&w->stats.busy_ns, now - begun);
		} else if (!xd_worker_spin(w)) {
			xd_worker_sleep(w);
		}
	}
	return NULL;
}

/* ---- stopping the world ------------------------------------------------------------------------ */

static unsigned int pause_depth;  /* control thread only */
static bool changed_while_paused; /* since it stopped; the same */
bool xd_workers_paused;

void xd_workers_pause(struct xd_device *dev)
{
	if (pause_depth++)
		return;
	for (unsigned int i = 0; i < dev->workers; i++) {
		__atomic_store_n(&dev->worker[i]->wanted, 1, __ATOMIC_RELEASE);
		pthread_mutex_lock(&dev->worker[i]->lock);
	}
	xd_workers_paused = true;
}

static void resume_workers(struct xd_device *dev)
{
	if (--pause_depth)
		return;
	xd_workers_paused = false;
	for (unsigned int i = dev->workers; i-- > 0;) {
		struct xd_worker *w = dev->worker[i];

		/* control work may have given the engine something to do, or a new deadline */
		if (changed_while_paused)
			__atomic_store_n(&w->deadline, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&w->wanted, 0, __ATOMIC_RELEASE);
		pthread_mutex_unlock(&w->lock);
		xd_worker_call_back(w);
		if (changed_while_paused)
			xd_worker_wake(w);
	}
	changed_while_paused = false;
}

void xd_workers_resume(struct xd_device *dev)
{
	changed_while_paused = true;
	resume_workers(dev);
}

void xd_workers_resume_quietly(struct xd_device *dev)
{
	resume_workers(dev);
}

/* ---- bells ---------------------------------------------------------------------------------------- */

int xd_worker_add_doorbell(struct xd_worker *w, struct xd_doorbell *bell)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET, .data.fd = bell->eventfd };

	/* edge-triggered: each ring is an edge, and nobody need read the count */
	if (epoll_ctl(w->epoll, EPOLL_CTL_ADD, bell->eventfd, &ev))
		return -errno;
	bell->next = w->bells;
	bell->pprev = &w->bells;
	if (w->bells)
		w->bells->pprev = &bell->next;
	w->bells = bell;
	w->other_programs = true;
	return 0;
}

void xd_worker_del_doorbell(struct xd_worker *w, struct xd_doorbell *bell)
{
	if (!bell->pprev)
		return;
	*bell->pprev = bell->next;
	if (bell->next)
		bell->next->pprev = bell->pprev;
	bell->pprev = NULL;
	w->other_programs = true;
	epoll_ctl(w->epoll, EPOLL_CTL_DEL, bell->eventfd, NULL);
}

/* ---- start and stop --------------------------------------------------------------------------------- */

static int open_socket(struct xd_worker *w)
{
	struct xd_device *dev = w->dev;
	struct xd_xsk_config cfg = {
		.ifname = dev->ifname,
		.queue = w->index,
		.ring_size = dev->opt->ring_size,
		.multi_buffer = xd_xdp_multi_buffer(dev),
	};
	int err = -EOPNOTSUPP;

	if (dev->opt->attach == XD_ATTACH_AUTO || dev->opt->attach == XD_ATTACH_ZEROCOPY) {
		cfg.zerocopy = true;
		err = xd_xsk_open(&w->xsk, &cfg);
		/* who has the queue has it for copies too: no second wait for it */
		if (err == -EBUSY || (err && dev->opt->attach == XD_ATTACH_ZEROCOPY))
			return err;
	}
	if (err) {
		xd_xdp_no_zerocopy(dev, err);
		cfg.zerocopy = false;
		err = xd_xsk_open(&w->xsk, &cfg);
	}
	return err ? err : xd_xdp_xsk_set(dev, w->index, xd_xsk_fd(w->xsk));
}

static int watch_kick(struct xd_worker *w)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = w->kick };

	return epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->kick, &ev) ? -errno : 0;
}

static void worker_free(struct xd_worker *w)
{
	if (!w)
		return;
	xt_engine_free(w->engine);
	xd_xsk_close(w->xsk);
	xd_delay_free(w->held);
	xd_inbox_free(w->inbox);
	if (w->epoll >= 0)
		close(w->epoll);
	if (w->kick >= 0)
		close(w->kick);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

/* What is in flight towards us must fit the rings, a long packet in two frames. */
static int tune_engine(struct xd_worker *w)
{
	uint32_t room = w->dev->opt->ring_size / (xd_xdp_multi_buffer(w->dev) ? 2 : 1);
	struct xt_tuning t = XT_TUNING_DEFAULT;

	if (t.engine_window > room)
		t.engine_window = room;
	if (t.window > room)
		t.window = room;
	if (t.read_packets > t.window)
		t.read_packets = t.window;
	return xt_engine_tune(w->engine, &t);
}

static int worker_new(struct xd_device *dev, uint32_t index, struct xd_worker **out)
{
	struct xd_worker *w = calloc(1, sizeof(*w));
	int err;

	if (!w)
		return -ENOMEM;
	pthread_mutex_init(&w->lock, NULL);
	w->dev = dev;
	w->index = index;
	w->epoll = epoll_create1(EPOLL_CLOEXEC);
	w->kick = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	w->held = xd_delay_new();
	w->engine = xt_engine_new(&xd_worker_ops, w, &dev->shared);
	err = w->epoll < 0 || w->kick < 0 || !w->held || !w->engine ? -ENOMEM : 0;
	if (!err)
		err = xd_fault_init(&w->fault, &dev->opt->fault);
	if (!err)
		err = tune_engine(w);
	if (!err)
		err = open_socket(w);
	if (!err)
		err = watch_kick(w);
	if (err) {
		worker_free(w);
		return err;
	}
	*out = w;
	return 0;
}

int xd_workers_start(struct xd_device *dev)
{
	unsigned int n = dev->workers;
	int err;

	for (dev->workers = 0; dev->workers < n; dev->workers++) {
		err = worker_new(dev, dev->workers, &dev->worker[dev->workers]);
		if (err) {
			xd_log(XD_ERR, "AF_XDP socket for queue %u of %s: %s%s", dev->workers,
			       dev->ifname, strerror(-err),
			       err == -EBUSY ? " (another program has it)" : "");
			return err;
		}
	}
	for (unsigned int i = 0; n > 1 && i < n; i++) {
		dev->worker[i]->inbox = xd_inbox_new();
		if (!dev->worker[i]->inbox)
			return -ENOMEM;
	}
	for (unsigned int i = 0; i < n; i++) {
		err = pthread_create(&dev->worker[i]->thread, NULL, worker_main, dev->worker[i]);
		if (err)
			return -err;
		dev->worker[i]->started = true;
	}
	return 0;
}

void xd_workers_stop(struct xd_device *dev)
{
	for (unsigned int i = 0; i < dev->workers; i++) {
		struct xd_worker *w = dev->worker[i];

		if (!w->started)
			continue;
		__atomic_store_n(&w->stop, true, __ATOMIC_RELEASE);
		xd_worker_wake(w);
		pthread_join(w->thread, NULL);
	}
	while (dev->workers)
		worker_free(dev->worker[--dev->workers]);
}

struct xt_engine *xd_worker_engine(struct xd_worker *w)
{
	return w->engine;
}

void xd_workers_set_fault(struct xd_device *dev, const struct xr_fault_config *config)
{
	for (unsigned int i = 0; i < dev->workers; i++)
		xd_fault_init(&dev->worker[i]->fault, config);
}

void xd_workers_refused(const struct xd_device *dev, struct xr_stat stat[XR_REASON_COUNT])
{
	struct xd_xsk_stats x;

	for (unsigned int i = 0; i < dev->workers; i++) {
		xd_xsk_stats(dev->worker[i]->xsk, &x);
		stat[XR_TOO_LONG].packets += x.rx_too_long;
		stat[XR_ICRC].packets += xt_engine_counters(dev->worker[i]->engine)->rx_icrc_errors;
	}
}

void xd_worker_stats(const struct xd_worker *w, struct xd_worker_stats *stats)
{
	struct xd_xsk_stats x;

	xd_xsk_stats(w->xsk, &x);
	*stats = (struct xd_worker_stats){
		.rounds = xd_counted(&w->stats.rounds),
		.sleeps = xd_counted(&w->stats.sleeps),
		.rx_batches = xd_counted(&w->stats.rx_batches),
		.faults = xd_counted(&w->stats.faults),
		.starved = xd_counted(&w->stats.starved),
		.busy_ns = xd_counted(&w->stats.busy_ns),
		.idle_spin_ns = xd_counted(&w->stats.idle_spin_ns),
		.tx_kicks = x.tx_kicks,
		.tx_ring_full = x.tx_full,
		.rx_ring_full = x.rx_ring_full + x.rx_fill_empty,
	};
}
