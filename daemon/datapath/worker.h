/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Workers: one thread for each RX queue, with its AF_XDP socket and its engine.
 */
#ifndef XD_WORKER_H
#define XD_WORKER_H

#include <stdint.h>

#include <xroce/control.h>
#include <xroce/ring.h>

#include "daemon/transport/transport.h"

struct xd_device;
struct xd_worker;

/* Makes sockets, engines and threads for dev->workers queues. */
int xd_workers_start(struct xd_device *dev);
void xd_workers_stop(struct xd_device *dev);

/* No worker is inside a round between the two; calls nest. Control thread only. */
void xd_workers_pause(struct xd_device *dev);
void xd_workers_resume(struct xd_device *dev);
/*
 * The same where nothing was changed that gives a worker work: keys, or nothing at all. Sleeping
 * ones sleep on.
 */
void xd_workers_resume_quietly(struct xd_device *dev);

struct xt_engine *xd_worker_engine(struct xd_worker *w);

/* The doorbells of one client at one worker. World stopped. */
struct xd_doorbell {
	struct xr_doorbell *db; /* shared with the client */
	int eventfd;		/* non-blocking; rung by the client when the worker sleeps */
	struct xt_qp **qp;	/* by doorbell slot, NULL: none */
	uint32_t slots;		/* of qp[] */
	struct xd_doorbell *next, **pprev; /* the worker's list */
};
/* -ENOSPC, -ENOMEM: the worker would sleep through it. */
int xd_worker_add_doorbell(struct xd_worker *w, struct xd_doorbell *bell);
void xd_worker_del_doorbell(struct xd_worker *w, struct xd_doorbell *bell); /* not added: nothing */

/* Fault injection of all workers. World stopped. */
void xd_workers_set_fault(struct xd_device *dev, const struct xr_fault_config *config);

struct xd_worker_stats {
	uint64_t rounds, sleeps, starved, rx_batches, tx_kicks, rx_ring_full, tx_ring_full, faults;
	uint64_t busy_ns, idle_spin_ns;
};
void xd_worker_stats(const struct xd_worker *w, struct xd_worker_stats *stats);
/* Adds the packets that were refused for a reason which XDP cannot see. World stopped. */
void xd_workers_refused(const struct xd_device *dev, struct xr_stat stat[XR_REASON_COUNT]);

#endif /* XD_WORKER_H */
