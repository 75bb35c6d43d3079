/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A worker's own: what worker.c (rounds, start and stop), worker_ops.c (the engine's environment) and
 * worker_idle.c (between rounds) share.
 */
#ifndef XD_WORKER_OWN_H
#define XD_WORKER_OWN_H

#include <pthread.h>
#include <stdbool.h>

#include "count.h"
#include "fault.h"
#include "spin.h"
#include "worker.h"
#include "xsk.h"

struct xd_workers {
	struct xd_workers_config config;
	struct xd_worker *worker[XD_MAX_WORKERS];
	unsigned int count;
	unsigned int pause_depth;  /* control thread only */
	bool changed_while_paused; /* likewise */
	bool paused; /* every lock is held: who drives an engine now is the control thread */
};

struct xd_worker {
	pthread_mutex_t lock; /* held during a round */
	uint64_t using_keys;  /* odd: keys that were looked up may be in use; atomic */
	uint32_t wanted;      /* futex: how many wait for the worker to let go */
	bool stop;
	struct xt_engine *engine;
	struct xd_xsk *xsk;
	struct xd_doorbell *doorbells;
	struct xd_workers *all;
	uint32_t index;

	int epoll, kick; /* epoll: bells and kick */
	uint64_t
		deadline; /* the engine's, or of a frame that is held back; atomic outside of a round */
	uint64_t now;

	struct xd_spin spin;
	bool other_programs; /* a bell came or went; under the lock */
	uint64_t slice_ns;   /* as set, 0: the scheduler's own */

	struct xd_inbox *inbox; /* what other workers received for us; NULL: there are none */
	uint32_t forwarded;	/* workers that got a frame from us in this round, by index */

	struct xd_fault fault;
	struct xd_delay *held;
	struct xd_worker_stats stats;
	struct xt_frame frames[XD_XSK_BATCH];

	pthread_t thread;
	bool started;
};

/* ---- worker.c ---- */

/* With a socket and an engine, but no thread */
int xd_worker_new(struct xd_workers *all, uint32_t index, struct xd_worker **worker);
void xd_worker_free(struct xd_worker *w);
int xd_worker_start(struct xd_worker *w);
void xd_worker_stop(struct xd_worker *w);

/* ---- worker_ops.c ---- */

extern const struct xt_ops xd_worker_ops; /* ctx: the worker */

/* Of n frames just received in w->frames, how many go on now; they are in front. */
unsigned int xd_worker_rx_faults(struct xd_worker *w, unsigned int n);
/* Frames that were kept back long enough */
void xd_worker_release_held(struct xd_worker *w);
/* Keys are in use from here on, or no more. */
void xd_worker_turn_keys(struct xd_worker *w);
/* All that got a frame from us in this round */
void xd_worker_wake_forwarded(struct xd_worker *w);

/* ---- worker_idle.c ---- */

/* Somebody wants the world to stop: stay out until that is over, and xd_worker_call_back() says so. */
void xd_worker_let_go(struct xd_worker *w);
void xd_worker_call_back(struct xd_worker *w);
/* One step of spinning; false: it does not pay any more. */
bool xd_worker_spin(struct xd_worker *w);
/* Until a bell, a packet, a kick or the deadline */
void xd_worker_sleep(struct xd_worker *w);
/* Ends its sleep; any thread. */
void xd_worker_wake(struct xd_worker *w);

#endif /* XD_WORKER_OWN_H */
