/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The workers: threads, each with its own socket (daemon/io/io.h) and engine. All functions
 * are for the control thread. "Paused" means: between xd_worker_pause() and xd_worker_resume().
 */
#ifndef XD_WORKER_H
#define XD_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/control.h>
#include <xroce/ring.h>

#include "daemon/base/histogram.h"
#include "daemon/transport/base/list.h"
#include "daemon/transport/transport.h"

struct xd_faults;
struct xd_io;
struct xd_movers;
struct xd_options;
struct xd_workers;

/* Events of the engines. Called by workers within a round; type: enum ibv_event_type. */
struct xd_engine_events {
	void (*cq)(struct xt_cq *cq);
	void (*async)(struct xt_qp *qp, struct xt_cq *cq, uint32_t type);
	void (*srq)(struct xt_srq *srq, uint32_t type);
	/* Returns the rules that select the program of a QP (daemon/faults/), or NULL. */
	const uint64_t *(*fault_rules)(const struct xt_qp *qp);
};

/* Memory whose accesses finish later (memory/mover.h). Called with the worker's lock held. */
struct xd_worker_memory {
	struct xd_movers *movers;
	void (*begin_round)(struct xd_movers *ms, uint32_t worker);
	bool (*end_round)(struct xd_movers *ms, uint32_t worker);
	bool (*collect)(struct xd_movers *ms, uint32_t worker, uint64_t now, uint64_t *next);
	bool (*arm)(struct xd_movers *ms, uint32_t worker);
	void (*disarm)(struct xd_movers *ms, uint32_t worker);
};

struct xd_workers_config {
	const struct xd_options *opt;
	struct xd_io *io;
	struct xt_shared *shared;
	const struct xd_engine_events *events;
};

/* Creates the workers with their sockets, as many as the way of packets has. Logs errors. */
int xd_workers_open(const struct xd_workers_config *config, struct xd_workers **workers);
/* Starts the threads of the workers. */
int xd_workers_start(struct xd_workers *ws);
/*
 * Ends the threads and closes the sockets; other functions but statistics can still be called.
 * Returns false if a thread hangs in the kernel: call no other function then, and exit soon.
 */
bool xd_workers_stop(struct xd_workers *ws);
void xd_workers_free(struct xd_workers *ws); /* NULL allowed */
unsigned int xd_workers_count(const struct xd_workers *ws);

/*
 * Between pause and resume the control thread acts in the place of the worker: it queries and
 * changes its QPs and its engine. Others look up keys, QPs, SRQs and groups meanwhile, and do not
 * wait. Calls nest, but not for another worker. Tables that all workers use change while they run,
 * see grace.h; no wait for a grace period may begin in a pause.
 */
void xd_worker_pause(struct xd_workers *ws, uint32_t index);
void xd_worker_resume(struct xd_workers *ws, uint32_t index);
/* Does not wake a sleeping worker: for changes that create no work. */
void xd_worker_resume_no_wake(struct xd_workers *ws, uint32_t index);
/* Wakes the worker if it sleeps and has work before its deadline. Memory and doorbells excluded. */
void xd_worker_resume_if_due(struct xd_workers *ws, uint32_t index);
/* Sends the frames that the paused worker's engine has built. */
void xd_worker_flush(struct xd_workers *ws, uint32_t index);

/* All times are ns. */
struct xd_pauses {
	struct xd_histogram duration; /* from the worker's lock to its release */
	/*
	 * Most processor time that the control thread used in a pause. A pause lasts longer if
	 * another thread or the hypervisor has the processor meanwhile.
	 */
	uint64_t longest_cpu;
};
const struct xd_pauses *xd_workers_pauses(const struct xd_workers *ws);

struct xt_engine *xd_worker_engine(struct xd_workers *ws, uint32_t index);
/* Returns the index of the worker that has the engine. */
uint32_t xd_worker_of(const struct xt_engine *e);
/* The argument that the engine passes to callbacks, and the eventfd that ends the worker's sleep */
void *xd_worker_ctx(struct xd_workers *ws, uint32_t index);
int xd_worker_wake_fd(const struct xd_workers *ws, uint32_t index);
/* Before the workers are started */
void xd_workers_set_memory(struct xd_workers *ws, const struct xd_worker_memory *memory);

/* The doorbells of one client at one worker */
struct xd_doorbell {
	/* set by the control thread, changed while paused */
	struct xr_doorbell *shared; /* the bitmap, in memory shared with the client */
	int eventfd;		    /* non-blocking; the client writes to it while armed */
	struct xt_qp **qp;	    /* by doorbell slot, NULL: none */
	uint32_t slots;		    /* of qp[] */
	struct xt_flow flow;	    /* of the client's QPs at this worker */

	/* of the control thread */
	uint32_t *free_slot; /* stack of the slots without QP, the next one on top */
	uint32_t free_slots; /* on the stack */

	/* see doorbells.h */
	struct xt_list link; /* in the list of polled doorbells */
	bool watched, armed;
	uint64_t quiet_at;	      /* when polling ends unless there are new work requests */
	uint32_t middle, leaf;	      /* indices of the words taken into bits1, bits2 */
	uint64_t bits0, bits1, bits2; /* taken from the bitmap and not scanned yet */
};
/*
 * Lets rings of a doorbell with QPs wake the worker. Returns -ENOSPC or -ENOMEM if the eventfd
 * cannot be watched. Paused.
 */
int xd_worker_watch_doorbell(struct xd_workers *ws, uint32_t index, struct xd_doorbell *d);
/* Ends that. Does nothing if the doorbell is not watched. Paused. */
void xd_worker_unwatch_doorbell(struct xd_workers *ws, uint32_t index, struct xd_doorbell *d);
/* Ends the sleep of all workers: each begins a round soon, unless it hangs. */
void xd_workers_wake(struct xd_workers *ws);
/* Reports that a program has connected or disconnected. */
void xd_workers_programs_changed(struct xd_workers *ws);

/* The rules of fault injection, of all workers */
struct xd_faults *xd_workers_faults(struct xd_workers *ws);

struct xd_capture;
/* Writes packets to the capture's rings, one for each worker, from now on. */
void xd_workers_capture(struct xd_workers *ws, struct xd_capture *c);
void xd_workers_end_capture(struct xd_workers *ws, struct xd_capture *c);

struct xd_worker_stats {
	uint64_t rounds, sleeps, starved, rx_batches, tx_kicks, rx_ring_full, tx_ring_full, faults;
	uint32_t rx_buffers; /* that the kernel has to receive into */
	uint64_t rx_gso_frames, rx_gso_packets, tx_gso_frames, tx_gso_packets;
	uint64_t qp_errors;    /* QPs that the engine moved to ERR or SQE */
	uint64_t queue_errors; /* IBV_EVENT_CQ_ERR and IBV_EVENT_SRQ_ERR */
	uint64_t busy_ns, idle_spin_ns;
	uint64_t cpu_ns; /* processor time of the thread */
};
/* May be called while the worker runs. */
void xd_worker_stats(const struct xd_workers *ws, uint32_t index, struct xd_worker_stats *stats);
/*
 * Adds what the engines have counted, and the packets that workers dropped for a reason of reason.h
 * unless stat is NULL.
 */
void xd_workers_sum(struct xd_workers *ws, struct xt_counters *sum,
		    struct xr_stat stat[XR_REASON_COUNT]);

#endif /* XD_WORKER_H */
