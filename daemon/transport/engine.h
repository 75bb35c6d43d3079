/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An engine, and what its parts have in common. transport.h is the interface for its host, and
 * host.h says what the host does for it. In this folder is what uses all parts:
 *
 *   engine.c      rounds, in which QPs send
 *   rx.c          received frames to QPs
 *   qp.c          creation and destruction of QPs, doorbells, statistics
 *   modify.c      states and attributes that programs set
 *   flush.c       QPs that have failed: stopped, and flushed
 *   resume.c      QPs whose memory has become ready, or whose missing packets have arrived
 *   inject.c      errors of QPs for tests
 *
 * The parts are in rooms, each of which calls only those above it in this list:
 *
 *   base/         lists, numbers, CRC: nothing of QPs
 *   scheduling/   whose turn it is, rates, timers; what parts of a QP report to the engine
 *   memory/       regions, keys, payload from and to memory
 *   wire/         packets, ICRC, address handles, multicast groups
 *   queue/        work queues and completion queues
 *   waiting/      packets and writes that wait for memory
 *   rc/           reliable connections
 *   loopback/     connected QPs of one daemon
 *   unreliable/   UC and UD
 */
#ifndef XT_ENGINE_H
#define XT_ENGINE_H

#include "daemon/transport/scheduling/flow.h"
#include "daemon/transport/base/list.h"
#include "daemon/transport/waiting/kept_pool.h"
#include "daemon/transport/scheduling/part.h"
#include "daemon/transport/scheduling/timer.h"
#include "transport.h"
#include "daemon/transport/memory/usage.h"

/* Packets that a flow may have in flight however many flows there are; see xt_flow_full() */
#define XT_MIN_WINDOW 32
/* Packets (loopback: 4 KiB each) that one QP may send before the next QP is scheduled */
#define XT_QP_BUDGET 32

struct xt_rx;

struct xt_engine {
	const struct xt_ops *ops;
	void *ctx;
	struct xt_shared *shared;
	uint64_t now;
	struct xt_list flows;	  /* flows that may have something to send, in the order of turns */
	struct xt_flow flow;	  /* of QPs that were created without one */
	struct xt_list acks_due;  /* QPs that have responses to send */
	struct xt_list failed;	  /* QPs that have failed, and are to be stopped and flushed */
	struct xt_list resumed;	  /* QPs whose accesses to memory have finished */
	struct xt_list polls;	  /* QPs that wait for accesses to end, see ending.h */
	struct xt_list dropped;	  /* struct xt_kept of QPs that were stopped, to be freed */
	uint32_t flows_in_flight; /* flows that have packets in flight */
	const struct xt_flow *received; /* of the last packet */
	/* The two flows that had a turn or received last, the latest first; for other threads */
	struct xt_last_flow {
		const struct xt_flow *flow;
		uint64_t at;
	} last[2];
	uint64_t compete_until;
	uint64_t lossy_until;	/* packets were lost shortly before */
	struct xt_pace uc_pace; /* of the UC QPs together */
	bool tx_full;		/* tx_get failed in this round */
	bool lock_failed;	/* another engine was busy: it may wait for this one */
	struct xt_tuning tuning;
	bool entered; /* by another engine, see xt_engine_enter() */
	struct xt_heap retry_timers, rate_timers, event_timers;
	uint32_t qp_count;	/* of the control thread; also QPs that are not added yet */
	uint32_t moderated_cqs; /* of the control thread; CQs that have room in event_timers */
	struct xt_kept_pool kept;
	struct xt_counters counters;
	uint32_t show_len; /* see xt_engine_show() */
	uint8_t shown[XT_MAX_FRAME];
	uint8_t bounce[4096]; /* payload of a packet from memory that is not mapped */
	struct xt_usage_entry usage[XT_USAGE_PLACES]; /* by xt_key.place */
};

/* Schedules the QP's ACK or NAK, which is sent before QPs are scheduled to send. */
void xt_schedule_response(struct xt_qp *qp);
/* A packet to or from a QP of the engine was lost. */
void xt_engine_lossy(struct xt_engine *e);
/* type: enum ibv_event_type */
void xt_event(struct xt_qp *qp, uint32_t type);
/*
 * Processes a packet of a connected QP. Returns false if the packet must wait for memory and be
 * processed again.
 */
bool xt_rx_connected(struct xt_qp *qp, struct xt_rx *rx);
/* Passes a frame to the engine of its QP. The NIC's hash may choose another worker's queue. */
void xt_forward(struct xt_engine *e, struct xt_engine *other, const struct xt_frame *frame);

/*
 * Takes the lock of another engine, so that one of its QPs can be used for loopback. Does nothing
 * if both are the same engine. Returns false if the lock is not available now.
 */
bool xt_engine_enter(struct xt_engine *e, struct xt_engine *other);
void xt_engine_leave(struct xt_engine *e, struct xt_engine *other);

#endif /* XT_ENGINE_H */
