/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shared by the worker's files:
 *
 *   worker.c          rounds, start and end of the thread
 *   worker_ops.c      callbacks of the engine
 *   worker_idle.c     between rounds: spins, sleeps, waits for the end of a pause
 *   worker_lock.c     locks of other workers, for loopback
 *   grace.c           waits for the end of rounds
 *   pause.c           pauses of a worker by the control thread
 *   worker_self.c     frames to QPs of this device
 *   worker_faults.c   injected faults
 *   worker_capture.c  packet capture
 *   workers.c         all workers together: start, end, statistics
 */
#ifndef XD_WORKER_INTERNAL_H
#define XD_WORKER_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "daemon/faults/faults.h"
#include "daemon/io/count.h"
#include "daemon/io/io.h"
#include "doorbells.h"
#include "spin.h"
#include "worker.h"

struct xd_workers {
	struct xd_workers_config config;
	struct xd_worker_memory memory;
	struct xd_worker *worker[XR_MAX_WORKERS];
	unsigned int count;
	struct xd_faults *faults;
	struct {
		uint64_t begun, ended; /* numbers of the last periods; atomic */
	} grace;		       /* see grace.h */

	/* of the control thread */
	struct xd_worker *paused; /* NULL: none is */
	unsigned int pause_depth;
	bool changed_while_paused;
	uint64_t paused_at; /* when it had the lock */
	uint64_t cpu_at;    /* its processor time before it asked for the lock */
	struct xd_pauses pauses;
};

enum xd_pause {
	XD_RUNS,
	XD_PAUSED,  /* the control thread waits for the lock or holds it */
	XD_AWAITED, /* ... and the worker waits for the end of the pause */
};

#define XD_INJECTIONS 64 /* of one round; others are lost */

struct xd_injection {
	uint32_t qpn;
	struct xt_inject inject;
};

struct xd_worker {
	pthread_mutex_t lock;	/* held during a round */
	uint32_t round;		/* odd in a round; atomic, a futex */
	uint32_t round_awaited; /* threads that wait for the end of a round; atomic */
	/*
	 * Odd while keys that were looked up may be in use; atomic. Even also in a round, while the
	 * worker waits for the others (quiesce_keys()). It has a pointer to the key that it changes
	 * then, so a grace period waits for `round` and not for this.
	 */
	uint64_t key_use;
	uint32_t pause;		  /* futex: enum xd_pause */
	struct xd_worker *waiter; /* waits in its round for a lock that this one has; atomic */
	struct xd_worker *holder; /* who has the lock, if any worker; atomic */
	bool failed;		  /* to take the lock that it wanted last; atomic */
	bool gave_up;		  /* ... or another one in this round; under the lock */
	bool stop;		  /* atomic */
	bool asleep;		  /* it sleeps, or is about to; under the lock */
	struct xt_engine *engine;
	struct xd_socket *socket;
	struct xd_doorbell_list doorbells;
	struct xd_workers *all;
	uint32_t index;

	int epoll, wake_fd; /* epoll waits for the eventfds of doorbells and for wake_fd */
	/*
	 * Next deadline of engine and delay queue. The control thread sets 0, under the lock, and
	 * wakes the worker if it sleeps.
	 */
	uint64_t deadline;   /* atomic */
	uint64_t now;	     /* at the start of the round or the pause, CLOCK_MONOTONIC in ns */
	bool idle;	     /* the last round had no work */
	bool carried_one;    /* it only carried one message between programs of this host */
	uint64_t collect_at; /* when doorbells that are not polled must be collected */

	struct xd_spin spin;
	bool programs_changed; /* a program has connected or disconnected; atomic */
	uint64_t slice_ns;     /* scheduling slice in force, 0: the scheduler's default */

	struct xd_inbox *inbox; /* NULL for the only worker */
	/* bit by index: workers that got a frame in this round */
	uint64_t forwarded[XR_MAX_WORKERS / 64 + 1];

	struct xd_delay *delay; /* frames that injected faults delay */
	struct xd_delay *self;	/* frames that were sent to QPs of this device */
	bool self_full;		/* no more frames can be added to them */
	/* errors that are injected because of frames that were sent in this round */
	uint32_t injections;
	struct xd_injection injection[XD_INJECTIONS];
	struct xd_tap *taps; /* of captures; NULL: no capture */
	struct xd_worker_stats stats;
	struct xt_frame frames[XD_BATCH];

	pthread_t thread;
	bool started;
};

/* ---- worker.c ---- */

/* Creates a worker with its socket and engine, without its thread. */
int xd_worker_new(struct xd_workers *all, uint32_t index, struct xd_worker **worker);
void xd_worker_free(struct xd_worker *w); /* NULL allowed */
int xd_worker_start(struct xd_worker *w);
/* Asks the thread to end. */
void xd_worker_stop(struct xd_worker *w);
/* Returns false if the thread has not ended at that time, CLOCK_REALTIME. */
bool xd_worker_join(struct xd_worker *w, const struct timespec *until);
/* Afterwards no packet is received or sent. The thread does not run, or the process ends soon. */
void xd_worker_close_socket(struct xd_worker *w);

/* ---- grace.c ---- */

/* Enclose every round, and what the control thread does in the worker's place. */
void xd_round_begin(struct xd_worker *w);
void xd_round_end(struct xd_worker *w);
/* Enclose every use of keys; see op_quiesce_keys(). */
void xd_worker_keys_begin(struct xd_worker *w);
void xd_worker_keys_end(struct xd_worker *w);

/* ---- worker_ops.c ---- */

extern const struct xt_ops xd_worker_ops; /* ctx: struct xd_worker */

/* Wakes the workers that got a frame in this round. */
void xd_worker_wake_forwarded(struct xd_worker *w);

/* ---- worker_lock.c ---- */

#define XD_LOCK_SPINS 2000 /* steps of a worker that waits for another one */

/*
 * In a round: takes the lock of another worker as well. Returns false if that one is busy, also if
 * it waits for this worker and goes first. The round should end then.
 */
bool xd_worker_enter(struct xd_worker *w, struct xd_worker *other);
void xd_worker_leave(struct xd_worker *other);
/* Ends a round, and leaves the lock to a worker that waits for it. */
void xd_worker_unlock(struct xd_worker *w);

/* ---- worker_faults.c ---- */

/* Applies faults to w->frames[0..n); returns the number of frames left, moved to the front. */
unsigned int xd_worker_rx_faults(struct xd_worker *w, unsigned int n);
/* The same for one frame. Returns false if it is not to be received now. */
bool xd_worker_rx_fault(struct xd_worker *w, struct xt_frame *f);
/* xt_ops.refusal; the value of XT_INJECT_ASK is the queue that received the frame. */
struct xt_inject xd_worker_refusal(void *ctx, const struct xt_frame *f);
/* Applies faults to a frame that is to be sent; returns false if it is not to be sent now. */
bool xd_worker_tx_fault(struct xd_worker *w, struct xt_frame *f);
/* Injects errors into QPs that have sent. Returns true if there were any. */
bool xd_worker_inject(struct xd_worker *w);

/* ---- worker_self.c ---- */

/*
 * Sends a frame to QPs of this device, which receive it in the next round. Returns false if it is
 * to be sent to others as well.
 */
bool xd_worker_send_self(struct xd_worker *w, const struct xt_frame *f);
/* Receives such frames. Returns true if there were any. */
bool xd_worker_receive_self(struct xd_worker *w);

/* ---- worker_capture.c ---- */

static inline bool xd_worker_captures(const struct xd_worker *w)
{
	return __builtin_expect(!!w->taps, false);
}
/* Captures w->frames[0..n), which were just received. */
void xd_worker_capture_rx(struct xd_worker *w, unsigned int n);
/* Captures a frame that is sent now. */
void xd_worker_capture_tx(struct xd_worker *w, const struct xt_frame *f);
/* Captures a packet that loopback replaces. */
void xd_worker_capture_local(struct xd_worker *w, const struct xt_frame *f);
/* At the end of a round: publishes the counters that a capture can wait for, prepares the rings. */
void xd_worker_capture_round(struct xd_worker *w);

/* ---- worker_idle.c ---- */

/* Blocks while the control thread pauses the worker. */
void xd_worker_wait_paused(struct xd_worker *w);
/* Ends xd_worker_wait_paused(), after w->pause was cleared. */
void xd_worker_unpause(struct xd_worker *w);
/* Spins one step; returns false if the worker should sleep instead. */
bool xd_worker_spin(struct xd_worker *w);
/* Sleeps until a doorbell, a packet, xd_worker_wake() or the deadline. */
void xd_worker_sleep(struct xd_worker *w);
/* Ends the worker's sleep. Any thread. */
void xd_worker_wake(struct xd_worker *w);

#endif /* XD_WORKER_INTERNAL_H */
