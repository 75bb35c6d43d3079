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

#define XD_MAX_WORKERS 16

struct xd_options;
struct xd_workers;
struct xd_xdp;

/* Events of the engines, reported by workers in the middle of a round. type: enum ibv_event_type */
struct xd_engine_events {
	void (*cq)(struct xt_cq *cq);
	void (*async)(struct xt_qp *qp, struct xt_cq *cq, uint32_t type);
	void (*srq)(struct xt_srq *srq, uint32_t type);
};

struct xd_workers_config {
	const struct xd_options *opt;
	const char *ifname;
	struct xd_xdp *xdp;
	struct xt_shared *shared;
	const struct xd_engine_events *events;
};

/* Makes a socket, an engine and a thread for each RX queue to be served. Errors are logged. */
int xd_workers_start(const struct xd_workers_config *config, struct xd_workers **workers);
void xd_workers_stop(struct xd_workers *ws); /* NULL allowed */
unsigned int xd_workers_count(const struct xd_workers *ws);

/* No worker is inside a round between the two; calls nest. Control thread only. */
void xd_workers_pause(struct xd_workers *ws);
void xd_workers_resume(struct xd_workers *ws);
/* The same for changes that create no work, such as keys: sleeping workers sleep on. */
void xd_workers_resume_no_wake(struct xd_workers *ws);

/* Of one worker, by its index */
struct xt_engine *xd_worker_engine(struct xd_workers *ws, uint32_t index);

/* The doorbells of one client at one worker. World stopped. */
struct xd_doorbell {
	struct xr_doorbell *db; /* shared with the client */
	int eventfd;		/* non-blocking; rung by the client when the worker sleeps */
	struct xt_qp **qp;	/* by doorbell slot, NULL: none */
	uint32_t slots;		/* of qp[] */
	struct xd_doorbell *next, **pprev; /* the worker's list */
};
/* -ENOSPC, -ENOMEM: the worker would sleep through it. */
int xd_worker_add_doorbell(struct xd_workers *ws, uint32_t index, struct xd_doorbell *db);
void xd_worker_del_doorbell(struct xd_workers *ws, uint32_t index,
			    struct xd_doorbell *db); /* not added: nothing */

/* Fault injection of all workers. World stopped. */
void xd_workers_set_fault(struct xd_workers *ws, const struct xr_fault_config *config);

struct xd_worker_stats {
	uint64_t rounds, sleeps, starved, rx_batches, tx_kicks, rx_ring_full, tx_ring_full, faults;
	uint64_t busy_ns, idle_spin_ns;
};
void xd_worker_stats(const struct xd_workers *ws, uint32_t index, struct xd_worker_stats *stats);
/* Adds the packets that were refused for a reason which XDP cannot see. World stopped. */
void xd_workers_refused(const struct xd_workers *ws, struct xr_stat stat[XR_REASON_COUNT]);

#endif /* XD_WORKER_H */
