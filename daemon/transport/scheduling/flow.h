/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Flows: a flow is the share of one client in an engine. Flows send in turn by deficit round robin
 * (M. Shreedhar and G. Varghese, 1995), and the QPs of a flow send in turn within its turns. So
 * the number of QPs of a client does not change its share. The engine's window is divided among the
 * flows that have packets in flight.
 *
 * The unit of the deficit is a byte. A packet costs its length and XT_PACKET_COST, as the work for
 * a packet of any length takes about as long as copying 4 KiB. The flow of a QP is charged for all
 * frames that the QP sends, also ACKs and READ responses, for loopback, and for events. Frames that
 * are sent out of turn reduce the next turns. A flow that exceeds its share by more than a turn
 * also raises its completion events in its turn.
 *
 * Flows compete if several of them send or receive in the same few milliseconds. Windows and rounds
 * are smaller then, as what one flow has in flight or sends in a round delays the others.
 */
#ifndef XT_FLOW_H
#define XT_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/transport/base/list.h"
#include "daemon/transport/waiting/kept_pool.h"

struct xt_cq;
struct xt_engine;
struct xt_qp;

#define XT_PACKET_COST 4096
#define XT_EVENT_COST XT_PACKET_COST /* of a send() to the socket of a program */
#define XT_PIECE_COST 32 /* to find a piece of a group; the mover of the client accesses it */
/* A flow may send this in a turn, 16 packets of 4 KiB, and exceed it by the budget of a QP. */
#define XT_QUANTUM (16 * (XT_PACKET_COST + 4096))

struct xt_flow {
	struct xt_engine *engine;
	struct xt_list link;   /* in engine->flows, while QPs may have something to send */
	struct xt_list active; /* QPs that may have something to send */
	struct xt_list capped; /* QPs that wait only for the flow's window */
	struct xt_list late;   /* CQs whose events wait for the flow's turn */
	int32_t deficit;       /* bytes left in this turn; negative: sent in excess */
	uint32_t inflight;     /* request packets in flight of all QPs */
	uint32_t busy;	       /* QPs that have packets in flight */
	bool of_daemon;	       /* of no client: sends management datagrams */
	bool room;	       /* packets were acknowledged since a QP found the window full */
	uint32_t kept[XT_KEPT_SIZES]; /* blocks of packets that are kept */
};

/* The flow must have no QPs and no events that wait any more when its memory is freed. */
void xt_flow_init(struct xt_flow *f, struct xt_engine *e);
void xt_flow_end(struct xt_flow *f);

/* Schedules the QP: it may have something to send. */
void xt_activate(struct xt_qp *qp);
/* Moves a QP that is not active to the list of those that wait for the flow's window. */
void xt_flow_cap(struct xt_qp *qp);
/* The QP is new. */
void xt_flow_begin(struct xt_qp *qp);
/* The QP moves to another flow of its engine. */
void xt_flow_move(struct xt_qp *qp, struct xt_flow *to);
/* Removes the QP from the lists of its flow. */
void xt_flow_forget(struct xt_qp *qp);
/* Returns true if the QP will be visited: it may have something to send. */
bool xt_flow_has_turn(const struct xt_qp *qp);
/* Takes it out of the list, to be visited out of turn. Returns false if it has no turn. */
bool xt_flow_take_qp(struct xt_qp *qp);
/* Updates how many packets the QP has in flight. */
void xt_flow_set_inflight(struct xt_qp *qp, uint32_t packets);
/* Returns true if the flow's window has no room for n packets of a QP that has `own` in flight. */
bool xt_flow_full(const struct xt_qp *qp, uint32_t own, uint32_t n);
/* The same for the responses of a READ, more than one */
bool xt_flow_full_for_read(const struct xt_qp *qp, uint32_t own, uint32_t n);
void xt_flow_charge(struct xt_flow *f, uint32_t bytes);
/* Returns true if the flow has exceeded its share by more than a turn. */
static inline bool xt_flow_in_debt(const struct xt_flow *f)
{
	return f->deficit < -XT_QUANTUM;
}
/* The event of the CQ waits for the flow's turn. */
void xt_flow_add_late(struct xt_flow *f, struct xt_cq *cq);
/* Returns true if the flow has nothing to do. It has no turn then. */
bool xt_flow_rest(struct xt_flow *f);
/*
 * Returns the flow whose turn it is, NULL: none. It has events to raise or a QP to send, which
 * xt_flow_take() returns and removes from its list.
 */
struct xt_flow *xt_flow_turn(struct xt_engine *e);
struct xt_qp *xt_flow_take(struct xt_flow *f);
/* A packet of the flow was received. */
void xt_flow_received(struct xt_flow *f);

#endif /* XT_FLOW_H */
