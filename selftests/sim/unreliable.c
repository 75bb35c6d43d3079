// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * UC and UD: a message may be lost, but one that arrives is complete and as it was sent. Without
 * faults every message that has a receive arrives once and in order; with faults it may arrive late
 * or twice.
 */
#include <endian.h>

#include "sim.h"

/* Number of steps that a program waits for its peers to post receives */
#define MAX_WAIT 30

/* ---- destinations -------------------------------------------------------- */

static uint32_t bit_of(const struct sim_qp *q)
{
	return 1u << q->id;
}

static struct sim_qp *qp_by_id(struct world *w, unsigned id)
{
	return &w->conn[id / 2].qp[id % 2];
}

static uint32_t members(struct sim_qp *from, unsigned group)
{
	struct world *w = from->w;
	uint32_t bits = 0;
	unsigned i;

	for (i = 0; i < 2 * w->conns; i++) {
		struct sim_qp *q = qp_by_id(w, i);

		/* The sender gets no copy (IBTA 10.5.2). */
		if (q != from && q->qp && q->groups & 1u << group)
			bits |= bit_of(q);
	}
	return bits;
}

/* Any UD QP; the peer is the most likely one. */
static struct sim_qp *choose_target(struct sim_qp *q)
{
	struct world *w = q->w;
	struct sim_qp *to = qp_by_id(w, rng_below(&w->sched, 2 * w->conns));

	return to->type == XR_QPT_UD ? to : q->peer;
}

void unreliable_aim(struct sim_qp *q, struct sim_op *op)
{
	struct rng *r = &q->w->sched;
	uint32_t place;

	if (op->to)
		return;
	op->to = q->type == XR_QPT_UD ? choose_target(q) : q->peer;
	op->targets = bit_of(op->to);
	if (q->type == XR_QPT_UC)
		return;
	place = op->to->host->index;
	op->remote_qpn = op->to->qpn;
	if (rng_chance(r, 25)) {
		op->group = rng_between(r, 1, MAX_GROUPS);
		op->targets = members(q, op->group - 1);
		op->remote_qpn = XR_MULTICAST_QPN;
		place = MAX_HOSTS + op->group - 1;
	}
	op->ah = host_ah(q, place);
}

/* ---- receives reserved for messages -------------------------------------- */

/* True if the QP has a receive that is not reserved for another message. */
static bool has_receive(const struct sim_qp *q)
{
	return q->srq || (int)(q->recv_next - q->promised) > 0;
}

static void promise(struct sim_qp *q, const struct sim_op *op, int n)
{
	unsigned i;

	for (i = 0; i < 2 * q->w->conns; i++)
		if (op->targets & 1u << i)
			qp_by_id(q->w, i)->promised += n;
}

/* Without faults a program waits for receives, for a limited number of steps. */
bool unreliable_may_post(struct sim_qp *q, struct sim_op *op)
{
	bool wait = !world_is_lossy(q->w) && q->waited < MAX_WAIT;
	unsigned i;

	unreliable_aim(q, op);
	if (op->broken || !op->takes_recv || op->promised)
		return true;
	for (i = 0; i < 2 * q->w->conns; i++) {
		struct sim_qp *to = qp_by_id(q->w, i);

		if (!(op->targets & 1u << i) || has_receive(to))
			continue;
		if (wait && may_post(to)) {
			q->waited++;
			return false;
		}
		to->overdrawn = true;
	}
	q->waited = 0;
	promise(q, op, 1);
	op->promised = true;
	return true;
}

/* ---- sends --------------------------------------------------------------- */

/* True for errors that complete the sender's WR with an error; others are silent. */
bool unreliable_fails_locally(const struct sim_qp *q, const struct sim_op *op)
{
	return op->broken >= BREAK_LKEY || (op->broken == BREAK_TOO_LONG && q->type == XR_QPT_UD);
}

static bool listens(const struct sim_qp *q)
{
	return q->qp && q->conn->phase == CONN_RUNNING && !q->conn->broken && !q->in_error &&
	       !q->srq;
}

/* Short messages may be equal, so a received one cannot be matched to one that was sent. */
static bool is_like_others(const struct sim_op *op)
{
	return op->opcode == XR_WR_SEND && op->len < 8;
}

void unreliable_sent(struct sim_qp *q, struct sim_op *op)
{
	unsigned i;

	CHECK(q->w, !unreliable_fails_locally(q, op), "qp %u: invalid request %u (%s) succeeded",
	      q->id, (unsigned)(op - q->ops), break_name(op->broken));
	host_release(q->host, op);
	/* Packets in flight may still write to the memory. */
	host_lose(q->peer->host, &op->remote);
	if (op->broken || is_like_others(op) || q->conn->broken || world_is_lossy(q->w))
		return;
	for (i = 0; i < 2 * q->w->conns; i++)
		if (op->targets & 1u << i && listens(qp_by_id(q->w, i)))
			op->expected |= 1u << i;
}

/* The message was not sent, or not completely. */
void unreliable_failed(struct sim_qp *q, struct sim_op *op)
{
	if (op->promised)
		promise(q, op, -1);
	op->promised = false;
	if (op->broken >= BREAK_LKEY)
		op_release(q, op);
	else
		op_lose(q, op);
}

/*
 * Moves a QP in SQE back to RTS, as the program does after an error once all work requests have
 * completed.
 */
void unreliable_recover(struct sim_qp *q)
{
	if (!q->in_sqe || q->op_head != q->op_next || !q->sq_error)
		return;
	qp_modify(q, XR_QPS_RTS);
	q->sq_error = false;
}

/* ---- receives ------------------------------------------------------------ */

static void take_bytes(const struct host *h, const struct sim_recv *r, uint32_t len, uint8_t *out)
{
	uint32_t done = 0, n;
	unsigned i;

	for (i = 0; i < r->nsge && done < len; i++, done += n) {
		n = r->sge[i].len < len - done ? r->sge[i].len : len - done;
		memcpy(out + done, h->mem + r->sge[i].off, n);
	}
}

/* Copies the data to the shadow. A UC receive may also have data of an earlier, lost message. */
static void accept(struct sim_qp *q, const struct sim_recv *r, uint32_t len)
{
	uint32_t left = q->type == XR_QPT_UD ? len : r->len, n;
	unsigned i;

	for (i = 0; i < r->nsge; i++, left -= n) {
		n = r->sge[i].len < left ? r->sge[i].len : left;
		memcpy(q->host->shadow + r->sge[i].off, q->host->mem + r->sge[i].off, n);
	}
}

/* IBTA A17.4.5.2: an IPv6 header, or 20 undefined bytes and an IPv4 header */
static struct sim_qp *sender_of(struct sim_qp *q, const uint8_t *grh, uint32_t qpn)
{
	struct world *w = q->w;
	bool v6 = grh[0] >> 4 == 6;
	unsigned host = (v6 ? grh[23] : grh[35]) - 1, i;

	CHECK(w, v6 || grh[20] == 0x45, "qp %u: datagram without IP header", q->id);
	for (i = 0; i < 2 * w->conns; i++) {
		struct sim_qp *from = qp_by_id(w, i);

		if (from->type == XR_QPT_UD && from->host->index == host && from->qpn == qpn)
			return from;
	}
	sim_fail(w, "qp %u: datagram from unknown QP %06x of host %u", q->id, qpn, host);
}

static bool is_message(const struct sim_qp *q, const struct sim_op *op, const struct xr_cqe *cqe,
		       const uint8_t *data, uint32_t len)
{
	bool imm = cqe->wc_flags & IBV_WC_WITH_IMM, send = cqe->opcode == IBV_WC_RECV;
	unsigned opcode = !send ? XR_WR_RDMA_WRITE_WITH_IMM
			  : imm ? XR_WR_SEND_WITH_IMM
				: XR_WR_SEND;

	if (op->state == OP_PLANNED || op->state == OP_FAILED || op->broken)
		return false;
	if (op->opcode != opcode || op->len != len || !(op->targets & bit_of(q)))
		return false;
	return (!imm || op->imm == cqe->imm_data) && (!send || !memcmp(op->data, data, len));
}

/*
 * Returns the operation whose message was received. Without faults it must be in order, unless it
 * is like others: one to a group may be taken for one to this QP only, which are not in order.
 */
static struct sim_op *find(struct sim_qp *q, struct sim_qp *from, const struct xr_cqe *cqe,
			   const uint8_t *data, uint32_t len)
{
	struct sim_op *late = NULL;
	unsigned i;

	for (i = 0; i < from->op_next; i++) {
		struct sim_op *op = &from->ops[i];

		if (!is_message(q, op, cqe, data, len))
			continue;
		if (!world_is_lossy(q->w) && is_like_others(op)) {
			if (op->got & bit_of(q))
				continue;
			return op;
		}
		if (i >= q->received_upto[from->id][op->group])
			return op;
		late = op;
	}
	return world_is_lossy(q->w) ? late : NULL;
}

struct sim_op *unreliable_received(struct sim_qp *q, struct sim_recv *r, const struct xr_cqe *cqe)
{
	unsigned index = cqe->wr_id & 0x7fffffff, header = q->type == XR_QPT_UD ? XR_GRH_LEN : 0;
	uint32_t len = cqe->byte_len - header;
	uint8_t data[RECV_ROOM + 1024];
	struct sim_qp *from = q->peer;
	struct sim_op *op;

	CHECK(q->w, cqe->opcode == IBV_WC_RECV_RDMA_WITH_IMM || cqe->byte_len <= r->len,
	      "qp %u: receive %u of %u bytes has %u", q->id, index, r->len, cqe->byte_len);
	take_bytes(q->host, r, r->len, data);
	if (header)
		from = sender_of(q, data, cqe->src_qpn);
	CHECK(q->w, cqe->src_qpn == from->qpn, "qp %u: receive %u is from %x", q->id, index,
	      cqe->src_qpn);
	CHECK(q->w, !(cqe->wc_flags & IBV_WC_GRH) == !header, "qp %u: receive %u has flags %x",
	      q->id, index, cqe->wc_flags);
	op = find(q, from, cqe, data + header, len);
	CHECK(q->w, op, "qp %u: receive %u has %u bytes that qp %u did not send, or out of order",
	      q->id, index, len, from->id);
	CHECK(q->w, world_is_lossy(q->w) || !(op->got & bit_of(q)),
	      "qp %u: receive %u has a duplicate message", q->id, index);
	CHECK(q->w,
	      op->opcode != XR_WR_RDMA_WRITE_WITH_IMM ||
		      !memcmp(q->host->mem + op->remote.off, op->data, len),
	      "qp %u: receive %u completed before its WRITE was in memory", q->id, index);
	op->got |= bit_of(q);
	if (!is_like_others(op))
		q->received_upto[from->id][op->group] = op - from->ops + 1;
	accept(q, r, cqe->byte_len);
	r->state = OP_DONE;
	host_release(q->host, (void *)(uintptr_t)cqe->wr_id);
	return op;
}

/* ---- checks at the end --------------------------------------------------- */

/* True if the QP had receives and no error, so that messages to it must arrive. */
static bool must_receive(const struct sim_qp *q)
{
	const struct conn *c = q->conn;

	return !q->overdrawn && !c->broken && (!c->script || c->script == SCRIPT_SQD);
}

static void verify_arrival(struct sim_qp *q, const struct sim_op *op, struct sim_qp *to)
{
	unsigned index = op - q->ops;

	if (!(op->expected & bit_of(to)) || !must_receive(to) || q->host->cut || to->host->cut)
		return;
	q->w->arrivals++;
	if (op->takes_recv)
		CHECK(q->w, op->got & bit_of(to), "qp %u: request %u never arrived at qp %u", q->id,
		      index, to->id);
	else
		CHECK(q->w, !memcmp(to->host->mem + op->remote.off, op->data, op->len),
		      "qp %u: WRITE %u never arrived", q->id, index);
}

void unreliable_verify_end(struct sim_qp *q)
{
	unsigned i, k;

	for (i = 0; i < q->op_next; i++)
		for (k = 0; k < 2 * q->w->conns && !is_local_op(&q->ops[i]); k++)
			verify_arrival(q, &q->ops[i], qp_by_id(q->w, k));
}
