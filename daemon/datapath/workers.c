// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* All workers of the device: start and stop, pause and resume, statistics. */
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/base/options.h"
#include "inbox.h"
#include "worker_internal.h"

#define STOP_SECONDS 1 /* for all workers to end their rounds */

/* ---- pause and resume ---------------------------------------------------------------------- */

void xd_workers_pause(struct xd_workers *ws)
{
	if (ws->pause_depth++)
		return;
	/* all workers end their rounds at the same time */
	for (unsigned int i = 0; i < ws->count; i++)
		__atomic_store_n(&ws->worker[i]->pause, 1, __ATOMIC_RELEASE);
	for (unsigned int i = 0; i < ws->count; i++) {
		pthread_mutex_lock(&ws->worker[i]->lock);
		if (!i)
			ws->paused_at = xd_now();
	}
	ws->paused = true;
}

void xd_workers_resume_no_wake(struct xd_workers *ws)
{
	if (--ws->pause_depth)
		return;
	ws->paused = false;
	for (unsigned int i = ws->count; i-- > 0;) {
		struct xd_worker *w = ws->worker[i];

		/* the engine may have work now, or an earlier deadline */
		if (ws->changed_while_paused)
			__atomic_store_n(&w->deadline, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&w->pause, 0, __ATOMIC_RELEASE);
		pthread_mutex_unlock(&w->lock);
	}
	xd_histogram_add(&ws->pauses, xd_now() - ws->paused_at);
	for (unsigned int i = ws->count; i-- > 0;) {
		xd_worker_unpause(ws->worker[i]);
		if (ws->changed_while_paused)
			xd_worker_wake(ws->worker[i]);
	}
	ws->changed_while_paused = false;
}

void xd_workers_resume(struct xd_workers *ws)
{
	ws->changed_while_paused = true;
	xd_workers_resume_no_wake(ws);
}

/* ---- doorbells ----------------------------------------------------------------------------- */

int xd_worker_add_doorbell(struct xd_workers *ws, uint32_t index, struct xd_doorbell *d)
{
	struct xd_worker *w = ws->worker[index];
	int err = xd_doorbell_add(&w->doorbells, d);

	if (!err)
		w->programs_changed = true;
	return err;
}

void xd_worker_del_doorbell(struct xd_workers *ws, uint32_t index, struct xd_doorbell *d)
{
	struct xd_worker *w = ws->worker[index];

	xd_doorbell_del(&w->doorbells, d);
	w->programs_changed = true;
}

/* ---- start and stop ------------------------------------------------------------------------ */

static unsigned int count_queues(const struct xd_workers_config *c)
{
	struct ethtool_channels ch = { .cmd = ETHTOOL_GCHANNELS };
	struct ifreq ifr = { 0 };
	unsigned int n = 1;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	memcpy(ifr.ifr_name, c->ifname, sizeof(ifr.ifr_name));
	ifr.ifr_data = (void *)&ch;
	if (fd >= 0 && !ioctl(fd, SIOCETHTOOL, &ifr) && ch.combined_count + ch.rx_count)
		n = ch.combined_count + ch.rx_count;
	if (fd >= 0)
		close(fd);
	if (n > XD_MAX_WORKERS) {
		xd_log(XD_WARN,
		       "%s has %u RX queues, but at most %u are served: steer UDP port %u to these",
		       c->ifname, n, XD_MAX_WORKERS, XR_UDP_PORT);
		n = XD_MAX_WORKERS;
	}
	return c->opt->queues && c->opt->queues < n ? c->opt->queues : n;
}

static int make_workers(struct xd_workers *ws, unsigned int n)
{
	int err;

	for (; ws->count < n; ws->count++) {
		err = xd_worker_new(ws, ws->count, &ws->worker[ws->count]);
		if (err) {
			xd_log(XD_ERR, "AF_XDP socket for queue %u of %s: %s%s", ws->count,
			       ws->config.ifname, strerror(-err),
			       err == -EBUSY ? " (in use by another program)" : "");
			return err;
		}
	}
	for (unsigned int i = 0; n > 1 && i < n; i++) {
		ws->worker[i]->inbox = xd_inbox_new();
		if (!ws->worker[i]->inbox)
			return -ENOMEM;
	}
	return 0;
}

int xd_workers_start(const struct xd_workers_config *config, struct xd_workers **out)
{
	struct xd_workers *ws = calloc(1, sizeof(*ws));
	int err;

	if (!ws)
		return -ENOMEM;
	ws->config = *config;
	err = make_workers(ws, count_queues(config));
	for (unsigned int i = 0; !err && i < ws->count; i++)
		err = xd_worker_start(ws->worker[i]);
	if (err) {
		if (xd_workers_stop(ws))
			xd_workers_free(ws);
		return err;
	}
	*out = ws;
	return 0;
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
	free(ws);
}

/* ---- queries and settings ------------------------------------------------------------------ */

const struct xd_histogram *xd_workers_pauses(const struct xd_workers *ws)
{
	return &ws->pauses;
}

unsigned int xd_workers_count(const struct xd_workers *ws)
{
	return ws->count;
}

struct xt_engine *xd_worker_engine(struct xd_workers *ws, uint32_t index)
{
	return ws->worker[index]->engine;
}

void xd_workers_set_fault(struct xd_workers *ws, const struct xr_fault_config *config)
{
	for (unsigned int i = 0; i < ws->count; i++)
		xd_fault_init(&ws->worker[i]->fault, config);
}

void xd_workers_drops(const struct xd_workers *ws, struct xr_stat stat[XR_REASON_COUNT])
{
	const struct xt_counters *engine;
	struct xd_xsk_stats x;

	for (unsigned int i = 0; i < ws->count; i++) {
		xd_xsk_stats(ws->worker[i]->xsk, &x);
		stat[XR_NO_METADATA].packets += x.rx_no_metadata;
		stat[XR_TOO_LONG].packets += x.rx_too_long;
		engine = xt_engine_counters(ws->worker[i]->engine);
		stat[XR_ICRC].packets += engine->rx_icrc_errors;
		stat[XR_UDP_CHECKSUM].packets += engine->rx_udp_checksum_errors;
	}
}

void xd_worker_stats(const struct xd_workers *ws, uint32_t index, struct xd_worker_stats *stats)
{
	const struct xd_worker *w = ws->worker[index];
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
