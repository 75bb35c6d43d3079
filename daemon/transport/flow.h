/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Flows: a flow is the share of one client in an engine. Flows send in turn by deficit round robin
 * (M. Shreedhar and G. Varghese, 1995), and the QPs of a flow send in turn within its turns. So
 * the number of QPs of a client does not change its share. The engine's window is divided among the
 * flows that have packets in flight.
 *
 * The unit of the deficit is a byte. A packet costs its length and XT_PACKET_COST, as the work for
 * a packet of any length takes about as long as copying 4 KiB. The flow of a QP is charged for all
 * frames that the QP sends, also ACKs and READ responses, and for loopback. What is sent out of
 * turn reduces the next turns.
 */
#ifndef XT_FLOW_H
#define XT_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "list.h"
#include "park_pool.h"

struct xt_engine;
struct xt_qp;

#define XT_PACKET_COST 4096
/* A flow may send this in a turn, 16 packets of 4 KiB, and exceed it by the budget of a QP. */
#define XT_QUANTUM (16 * (XT_PACKET_COST + 4096))

struct xt_flow {
	struct xt_engine *engine;
	struct xt_list link;   /* in engine->flows, while QPs may have something to send */
	struct xt_list active; /* QPs that may have something to send */
	struct xt_list capped; /* QPs that wait only for the flow's window */
	int32_t deficit;       /* bytes left in this turn; negative: sent in excess */
	uint32_t inflight;     /* request packets in flight of all QPs */
	uint32_t busy;	       /* QPs that have packets in flight */
	bool room;	       /* packets were acknowledged since a QP found the window full */
	uint32_t parked[XT_PARK_SIZES]; /* blocks of packets that wait for memory */
};

/* The flow must have no QPs any more when its memory is freed. */
void xt_flow_init(struct xt_flow *f, struct xt_engine *e);
void xt_flow_end(struct xt_flow *f);

/* Schedules the QP: it may have something to send. */
void xt_activate(struct xt_qp *qp);
/* Moves a QP that is not active to the list of those that wait for the flow's window. */
void xt_flow_cap(struct xt_qp *qp);
/* Removes the QP from the lists of its flow. */
void xt_flow_forget(struct xt_qp *qp);
/* Updates how many packets the QP has in flight. */
void xt_flow_set_inflight(struct xt_qp *qp, uint32_t packets);
/* Returns true if the flow's window has no room for n packets of a QP that has `own` in flight. */
bool xt_flow_full(const struct xt_flow *f, uint32_t own, uint32_t n);
/* Charges the flow of a QP for bytes. */
void xt_flow_charge(struct xt_qp *qp, uint32_t bytes);
/*
 * Returns the next QP to send, NULL: none, and removes it from its list. Rotates the flows; each
 * call belongs to the turn of the first flow in the list.
 */
struct xt_qp *xt_flow_next(struct xt_engine *e);

#endif /* XT_FLOW_H */
