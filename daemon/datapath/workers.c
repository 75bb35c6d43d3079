// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* All workers of the device: start and stop, statistics. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/faults/delay_queue.h"
#include "inbox.h"
#include "worker_internal.h"

#define STOP_SECONDS 1 /* for all workers to end their rounds */

/* ---- doorbells ----------------------------------------------------------------------------- */

int xd_worker_watch_doorbell(struct xd_workers *ws, uint32_t index, struct xd_doorbell *d)
{
	return xd_doorbell_watch(&ws->worker[index]->doorbells, d);
}

void xd_worker_unwatch_doorbell(struct xd_workers *ws, uint32_t index, struct xd_doorbell *d)
{
	xd_doorbell_unwatch(&ws->worker[index]->doorbells, d);
}

void xd_workers_wake(struct xd_workers *ws)
{
	for (unsigned int i = 0; i < ws->count; i++)
		xd_worker_wake(ws->worker[i]);
}

void xd_workers_programs_changed(struct xd_workers *ws)
{
	for (unsigned int i = 0; i < ws->count; i++)
		__atomic_store_n(&ws->worker[i]->programs_changed, true, __ATOMIC_RELAXED);
}

/* ---- start and stop ------------------------------------------------------------------------ */

static int make_workers(struct xd_workers *ws, unsigned int n)
{
	int err;

	for (; ws->count < n; ws->count++) {
		err = xd_worker_new(ws, ws->count, &ws->worker[ws->count]);
		if (err)
			return err;
	}
	for (unsigned int i = 0; n > 1 && i < n; i++) {
		ws->worker[i]->inbox = xd_inbox_new();
		if (!ws->worker[i]->inbox)
			return -ENOMEM;
	}
	return 0;
}

int xd_workers_open(const struct xd_workers_config *config, struct xd_workers **out)
{
	struct xd_workers *ws = calloc(1, sizeof(*ws));
	int err;

	if (!ws)
		return -ENOMEM;
	ws->config = *config;
	ws->faults = xd_faults_new();
	err = ws->faults ? make_workers(ws, xd_io_workers(config->io)) : -ENOMEM;
	if (err) {
		xd_workers_free(ws);
		return err;
	}
	*out = ws;
	return 0;
}

int xd_workers_start(struct xd_workers *ws)
{
	int err = 0;

	for (unsigned int i = 0; !err && i < ws->count; i++)
		err = xd_worker_start(ws->worker[i]);
	return err;
}

bool xd_workers_stop(struct xd_workers *ws)
{
	struct timespec until;
	bool ended = true;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += STOP_SECONDS;
	for (unsigned int i = 0; i < ws->count; i++)
		xd_worker_stop(ws->worker[i]);
	for (unsigned int i = 0; i < ws->count; i++)
		ended &= xd_worker_join(ws->worker[i], &until);
	for (unsigned int i = 0; i < ws->count; i++)
		xd_worker_close_socket(ws->worker[i]);
	return ended;
}

void xd_workers_free(struct xd_workers *ws)
{
	if (!ws)
		return;
	while (ws->count)
		xd_worker_free(ws->worker[--ws->count]);
	xd_faults_free(ws->faults);
	free(ws);
}

/* ---- queries and settings ------------------------------------------------------------------ */

unsigned int xd_workers_count(const struct xd_workers *ws)
{
	return ws->count;
}

struct xt_engine *xd_worker_engine(struct xd_workers *ws, uint32_t index)
{
	return ws->worker[index]->engine;
}

uint32_t xd_worker_of(const struct xt_engine *e)
{
	return ((const struct xd_worker *)xt_engine_ctx(e))->index;
}

void *xd_worker_ctx(struct xd_workers *ws, uint32_t index)
{
	return ws->worker[index];
}

int xd_worker_wake_fd(const struct xd_workers *ws, uint32_t index)
{
	return ws->worker[index]->wake_fd;
}

void xd_workers_set_memory(struct xd_workers *ws, const struct xd_worker_memory *memory)
{
	ws->memory = *memory;
}

struct xd_faults *xd_workers_faults(struct xd_workers *ws)
{
	return ws->faults;
}

/* The worker is paused. */
static void add_drops(const struct xd_worker *w, struct xr_stat stat[XR_REASON_COUNT])
{
	const struct xt_counters *engine = xt_engine_counters(w->engine);
	struct xd_socket_stats x;

	xd_socket_stats(w->socket, &x);
	stat[XR_NO_METADATA].packets += x.rx_no_metadata;
	stat[XR_TOO_LONG].packets += x.rx_too_long;
	stat[XR_GSO_PACKET].packets += x.rx_gso_refused;
	stat[XR_ICRC].packets += engine->rx_icrc_errors;
	stat[XR_UDP_CHECKSUM].packets += engine->rx_udp_checksum_errors;
}

void xd_workers_sum(struct xd_workers *ws, struct xt_counters *sum,
		    struct xr_stat stat[XR_REASON_COUNT])
{
	for (unsigned int i = 0; i < ws->count; i++) {
		xd_worker_pause(ws, i);
		xt_counters_add(sum, xt_engine_counters(ws->worker[i]->engine));
		if (stat)
			add_drops(ws->worker[i], stat);
		xd_worker_resume_no_wake(ws, i);
	}
}

static uint64_t thread_time(const struct xd_worker *w)
{
	struct timespec ts = { 0 };
	clockid_t clock;

	if (!w->started || pthread_getcpuclockid(w->thread, &clock) || clock_gettime(clock, &ts))
		return 0;
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

void xd_worker_stats(const struct xd_workers *ws, uint32_t index, struct xd_worker_stats *stats)
{
	const struct xd_worker *w = ws->worker[index];
	struct xd_socket_stats x;

	xd_socket_stats(w->socket, &x);
	*stats = (struct xd_worker_stats){
		.rounds = xd_counted(&w->stats.rounds),
		.sleeps = xd_counted(&w->stats.sleeps),
		.rx_batches = xd_counted(&w->stats.rx_batches),
		.faults = xd_counted(&w->stats.faults),
		.starved = xd_counted(&w->stats.starved),
		.qp_errors = xd_counted(&w->stats.qp_errors),
		.queue_errors = xd_counted(&w->stats.queue_errors),
		.busy_ns = xd_counted(&w->stats.busy_ns),
		.idle_spin_ns = xd_counted(&w->stats.idle_spin_ns),
		.cpu_ns = thread_time(w),
		.tx_kicks = x.tx_kicks,
		.rx_gso_frames = x.rx_gso_frames,
		.rx_gso_packets = x.rx_gso_packets,
		.tx_gso_frames = x.tx_gso_frames,
		.tx_gso_packets = x.tx_gso_packets,
		.tx_ring_full = x.tx_full,
		.rx_ring_full = x.rx_ring_full,
		.rx_buffers = x.rx_buffers,
	};
}
