// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Checks of completions, packets and memory. */
#include <stdio.h>

#include <arpa/inet.h>

#include "selftests/lib/parse.h"
#include "sim.h"

/* ---- atomics ------------------------------------------------------------- */

/* The results of all atomics on a word must be consistent with one order of execution. */
void atomic_done(struct sim_op *op, uint64_t old, bool known)
{
	struct counter *c = op->counter;

	if (c->count == c->room) {
		c->room = c->room ? 2 * c->room : 16;
		c->result = realloc(c->result, c->room * sizeof(*c->result));
	}
	c->result[c->count++] = (struct atomic_result){
		.old = old,
		.compare = op->compare,
		.operand = op->operand,
		.known = known,
	};
	if (known && c->swaps && old != op->compare)
		c->guess = old;
}

static bool takes_effect(const struct counter *c, const struct atomic_result *r, uint64_t value)
{
	return r->known ? r->old == value && (!c->swaps || r->compare == value)
			: !c->swaps || r->compare == value;
}

/*
 * Searches an order of the atomics that leads from the initial value to the one in memory. Known
 * results come first; failed atomics, which may or may not have been executed, fill the gaps.
 * Values do not repeat, so there is no choice among known results.
 */
static bool walk(const struct counter *c, bool *used, uint64_t value, uint64_t final, unsigned left)
{
	unsigned i, known;

	for (known = 0; known < 2; known++)
		for (i = 0; i < c->count; i++) {
			const struct atomic_result *r = &c->result[i];
			uint64_t next = c->swaps ? r->operand : value + r->operand;

			if (used[i] || r->known == !!known || !takes_effect(c, r, value))
				continue;
			used[i] = true;
			if (walk(c, used, next, final, left - r->known))
				return true;
			used[i] = false;
			if (r->known)
				return false;
		}
	return !left && value == final;
}

/* A swap that failed to match must have returned a value that the word had at some time. */
static bool misses_are_valid(const struct counter *c)
{
	unsigned i, k;

	for (i = 0; i < c->count; i++) {
		const struct atomic_result *r = &c->result[i];
		bool seen = r->old == c->initial;

		if (!r->known || r->old == r->compare)
			continue;
		for (k = 0; k < c->count; k++)
			seen |= c->result[k].operand == r->old;
		if (!seen)
			return false;
	}
	return true;
}

static void verify_counter(struct host *h, struct counter *c)
{
	struct world *w = h->w;
	unsigned i, left = 0, unknown = 0;
	bool *used, ok;
	uint64_t final;

	for (i = 0; i < c->count; i++) {
		const struct atomic_result *r = &c->result[i];

		unknown += !r->known;
		left += r->known && (!c->swaps || r->old == r->compare);
	}
	memcpy(&final, h->mem + c->off, sizeof(final));
	memcpy(h->shadow + c->off, &final, sizeof(final));
	CHECK(w, !c->swaps || misses_are_valid(c),
	      "atomic returned a value that the word never had");
	if (unknown > 12) /* too many orders to try */
		return;
	used = calloc(c->count + 1, sizeof(*used));
	/* Swaps that failed to match have no effect. */
	for (i = 0; i < c->count; i++)
		used[i] = c->swaps && c->result[i].known &&
			  c->result[i].old != c->result[i].compare;
	ok = walk(c, used, c->initial, final, left);
	free(used);
	if (!ok && w->verbose)
		for (i = 0; i < c->count; i++)
			sim_trace(w, "%s old %016llx compare %016llx operand %016llx",
				  c->result[i].known ? "known  " : "unknown",
				  (unsigned long long)c->result[i].old,
				  (unsigned long long)c->result[i].compare,
				  (unsigned long long)c->result[i].operand);
	CHECK(w, ok,
	      "host %u: results of %u atomics (%u unknown) fit no order from %016llx to %016llx",
	      h->index, c->count, unknown, (unsigned long long)c->initial,
	      (unsigned long long) final);
}

/* ---- scratch words, accessed in program order ---------------------------- */

uint64_t scratch_tag(const struct sim_qp *q, unsigned index, uint32_t word)
{
	return (uint64_t)q->id << 48 | (uint64_t)(index + 1) << 16 | word;
}

static bool writes_word(const struct sim_op *op, uint32_t word)
{
	return op->scratch && op->opcode == XR_WR_RDMA_WRITE && op->word <= word &&
	       word < op->word + op->words;
}

/*
 * True if a READ may return @seen: the value of the last WRITE before it, or of a later WRITE that
 * was posted before the READ completed and is not separated from it by a fence.
 */
static bool read_may_see(const struct sim_qp *q, unsigned read, uint32_t word, uint64_t seen)
{
	unsigned i;
	int last = -1;

	for (i = 0; i < read; i++)
		if (writes_word(&q->ops[i], word))
			last = i;
	if (seen == (last < 0 ? scratch_tag(q, -1u, word) : scratch_tag(q, last, word)))
		return true;
	for (i = read + 1; i < q->op_next && !(q->ops[i].flags & XR_SEND_FENCE); i++)
		if (writes_word(&q->ops[i], word) && seen == scratch_tag(q, i, word))
			return true;
	/* WRITEs may have been in flight at an earlier RESET. */
	for (i = 0; i < read; i++)
		if (q->ops[i].state == OP_ABORTED && writes_word(&q->ops[i], word) &&
		    seen == scratch_tag(q, i, word))
			return true;
	return false;
}

static void verify_scratch_read(struct sim_qp *q, struct sim_op *op, const uint8_t *got)
{
	uint64_t seen;
	uint32_t i;

	for (i = 0; i < op->words; i++) {
		memcpy(&seen, got + 8 * i, 8);
		if (q->op_base || op->word + i >= SCRATCH_WORDS)
			continue;
		CHECK(q->w, read_may_see(q, op - q->ops, op->word + i, seen),
		      "qp %u: READ %u of scratch word %u saw %016llx", q->id,
		      (unsigned)(op - q->ops), op->word + i, (unsigned long long)seen);
	}
}

/* At the end each word has the value of the last successful WRITE, or of one that failed. */
static void verify_scratch(struct sim_qp *q)
{
	struct host *h = q->peer->host;
	uint32_t word;
	uint64_t seen;
	unsigned i;

	for (word = 0; word < SCRATCH_WORDS; word++) {
		uint8_t *at = h->mem + q->scratch_off + 8 * word;
		uint64_t want = scratch_tag(q, -1u, word);
		bool found;

		memcpy(&seen, at, 8);
		for (i = 0; i < q->op_next; i++)
			if (writes_word(&q->ops[i], word) && q->ops[i].state == OP_DONE)
				want = scratch_tag(q, i, word);
		found = seen == want;
		for (i = 0; i < q->op_next; i++)
			found |= writes_word(&q->ops[i], word) && q->ops[i].state != OP_DONE &&
				 seen == scratch_tag(q, i, word);
		CHECK(q->w, found, "qp %u: scratch word %u is %016llx instead of %016llx", q->id,
		      word, (unsigned long long)seen, (unsigned long long)want);
		memcpy(h->shadow + q->scratch_off + 8 * word, &seen, 8);
	}
}

/* ---- sends --------------------------------------------------------------- */

static void same_bytes(struct sim_qp *q, const char *what, unsigned index, const uint8_t *got,
		       const uint8_t *want, uint32_t len)
{
	uint32_t i = 0;

	if (!len || !memcmp(got, want, len))
		return;
	while (got[i] == want[i])
		i++;
	sim_fail(q->w, "qp %u: %s %u: byte %u of %u is %02x instead of %02x", q->id, what, index, i,
		 len, got[i], want[i]);
}

static void verify_write(struct sim_qp *q, struct sim_op *op)
{
	struct host *h = q->peer->host;

	if (op->scratch)
		return;
	same_bytes(q, "WRITE", op - q->ops, h->mem + op->remote.off, op->data, op->len);
	memcpy(h->shadow + op->remote.off, op->data, op->len);
}

static void verify_read(struct sim_qp *q, struct sim_op *op)
{
	const uint8_t *want = op->data;
	uint8_t got[8 * SCRATCH_WORDS];
	uint32_t done = 0;
	unsigned i;

	for (i = 0; i < op->nsge; i++) {
		struct piece *p = &op->sge[i];

		if (op->scratch)
			memcpy(got + done, q->host->mem + p->off, p->len);
		else
			same_bytes(q, "READ", op - q->ops, q->host->mem + p->off, want + done,
				   p->len);
		memcpy(q->host->shadow + p->off, q->host->mem + p->off, p->len);
		done += p->len;
	}
	if (op->scratch)
		verify_scratch_read(q, op, got);
}

static void verify_atomic(struct sim_qp *q, struct sim_op *op)
{
	uint8_t bytes[8];
	uint32_t done = 0;
	uint64_t old;
	unsigned i;

	for (i = 0; i < op->nsge; i++) {
		memcpy(bytes + done, q->host->mem + op->sge[i].off, op->sge[i].len);
		memcpy(q->host->shadow + op->sge[i].off, bytes + done, op->sge[i].len);
		done += op->sge[i].len;
	}
	memcpy(&old, bytes, 8);
	atomic_done(op, old, true);
}

static void send_succeeded(struct sim_qp *q, struct sim_op *op)
{
	CHECK(q->w, op->state == OP_POSTED, "qp %u: request %u completes in state %u", q->id,
	      (unsigned)(op - q->ops), op->state);
	if (is_unreliable(q) && !is_local_op(op)) {
		unreliable_sent(q, op);
		op->state = OP_DONE;
		q->w->ops_done++;
		return;
	}
	CHECK(q->w, !op->broken, "qp %u: invalid request %u (%s) succeeded", q->id,
	      (unsigned)(op - q->ops), break_name(op->broken));
	switch (op->opcode) {
	case XR_WR_RDMA_WRITE:
	case XR_WR_RDMA_WRITE_WITH_IMM:
	case XR_WR_ATOMIC_WRITE:
		verify_write(q, op);
		break;
	case XR_WR_RDMA_READ:
		verify_read(q, op);
		break;
	case XR_WR_ATOMIC_CMP_AND_SWP:
	case XR_WR_ATOMIC_FETCH_AND_ADD:
		verify_atomic(q, op);
		break;
	}
	op->state = OP_DONE;
	q->w->ops_done++;
	op_release(q, op);
	if (!op->takes_recv) {
		free(op->data);
		op->data = NULL;
	}
}

/* True if @op failed locally or follows an invalid request, so it must have had no effect. */
static bool had_no_effect(const struct sim_qp *q, const struct sim_op *op)
{
	const struct sim_op *o;

	if (op->broken >= BREAK_LKEY)
		return true;
	for (o = q->ops + q->op_base; o < op; o++)
		if (o->broken)
			return true;
	return false;
}

/* A responder that refuses a request without a completion must raise an event. */
static void verify_event(const struct sim_qp *q, const struct sim_op *op, uint32_t status)
{
	const struct sim_qp *p = q->peer;

	if (!p->qp || op->broken < BREAK_SRQN || op->broken > BREAK_ALIGN)
		return;
	if (status == IBV_WC_REM_ACCESS_ERR)
		CHECK(q->w, p->async[IBV_EVENT_QP_ACCESS_ERR] == 1, "qp %u: no access error event",
		      p->id);
	if (status == IBV_WC_REM_INV_REQ_ERR)
		CHECK(q->w, p->async[IBV_EVENT_QP_REQ_ERR] == 1, "qp %u: no request error event",
		      p->id);
}

static void send_failed(struct sim_qp *q, struct sim_op *op)
{
	op->state = OP_FAILED;
	q->w->errors_seen++;
	if (is_unreliable(q)) {
		unreliable_failed(q, op);
		return;
	}
	if (had_no_effect(q, op)) {
		op_release(q, op);
		return;
	}
	op_lose(q, op);
	if (op->counter && !op->broken)
		atomic_done(op, 0, false);
}

static uint32_t status_of(unsigned broken)
{
	switch (broken) {
	case BREAK_RKEY_INDEX ... BREAK_RANGE_WRAP:
		return IBV_WC_REM_ACCESS_ERR;
	case BREAK_SRQN:
	case BREAK_ALIGN:
	case BREAK_RECV_SMALL:
		return IBV_WC_REM_INV_REQ_ERR;
	case BREAK_RECV_LKEY:
		return IBV_WC_REM_OP_ERR;
	case BREAK_RNR:
		return IBV_WC_RNR_RETRY_EXC_ERR;
	case BREAK_LKEY ... BREAK_LKEY_PD:
		return IBV_WC_LOC_PROT_ERR;
	case BREAK_TOO_LONG:
		return IBV_WC_LOC_LEN_ERR;
	default:
		return IBV_WC_LOC_QP_OP_ERR;
	}
}

/* True if a valid request may fail with this status. */
static bool valid_may_fail(const struct sim_qp *q, uint32_t status)
{
	const struct conn *c = q->conn;

	if (!c->broken)
		return false;
	if (status == IBV_WC_WR_FLUSH_ERR)
		return q->in_error;
	if (status == IBV_WC_RETRY_EXC_ERR)
		return true;
	/* With few RNR retries a late receive may exhaust them. */
	if (status == IBV_WC_RNR_RETRY_EXC_ERR)
		return c->rnr_retry != 7;
	if (c->script == SCRIPT_DEREG || c->script == SCRIPT_FAULT)
		return status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_LOC_PROT_ERR ||
		       status == IBV_WC_REM_OP_ERR;
	return false;
}

static bool send_may_fail(const struct sim_qp *q, const struct sim_op *op, uint32_t status)
{
	if (q->sq_error)
		return status == IBV_WC_WR_FLUSH_ERR;
	if (is_unreliable(q))
		return (q->in_error && status == IBV_WC_WR_FLUSH_ERR) ||
		       (unreliable_fails_locally(q, op) && status == status_of(op->broken));
	if (op->broken && status == status_of(op->broken))
		return true;
	/*
	 * The peer's NAK may have been lost, and a peer in ERR sends no other. Operations that
	 * still wait when the connection is closed had no receives, because the peer gave up.
	 */
	if (q->conn->script == SCRIPT_BREAK && q->conn->victim == q - q->conn->qp &&
	    q->conn->phase == CONN_RUNNING && q->conn->rnr_retry == 7 &&
	    (op->broken || !world_is_lossy(q->w)))
		return op->broken && world_is_lossy(q->w) && status == IBV_WC_RETRY_EXC_ERR;
	return valid_may_fail(q, status);
}

static uint32_t wc_opcode(const struct sim_op *op)
{
	static const uint8_t opcodes[] = {
		[XR_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
		[XR_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
		[XR_WR_SEND] = IBV_WC_SEND,
		[XR_WR_SEND_WITH_IMM] = IBV_WC_SEND,
		[XR_WR_RDMA_READ] = IBV_WC_RDMA_READ,
		[XR_WR_ATOMIC_CMP_AND_SWP] = IBV_WC_COMP_SWAP,
		[XR_WR_ATOMIC_FETCH_AND_ADD] = IBV_WC_FETCH_ADD,
		[XR_WR_FLUSH] = 8, /* IBV_WC_FLUSH since rdma-core 45 */
		[XR_WR_ATOMIC_WRITE] = IBV_WC_ATOMIC_WRITE,
		[XR_WR_BIND_MW] = IBV_WC_BIND_MW,
		[XR_WR_LOCAL_INV] = IBV_WC_LOCAL_INV,
	};

	return opcodes[op->opcode];
}

static void send_completion(struct sim_qp *q, const struct xr_cqe *cqe)
{
	unsigned index = cqe->wr_id & 0x7fffffff;
	struct sim_op *op;

	CHECK(q->w, index >= q->op_head && index < q->op_next,
	      "qp %u: completion of request %u, but %u..%u are posted", q->id, index, q->op_head,
	      q->op_next);
	CHECK(q->w, cqe->wqe_index == index - q->op_base, "qp %u: request %u has wqe_index %u",
	      q->id, index, cqe->wqe_index);
	for (; q->op_head != index; q->op_head++) {
		op = &q->ops[q->op_head];
		CHECK(q->w, !q->sig_all && !(op->flags & XR_SEND_SIGNALED) && !q->sq_error,
		      "qp %u: completion of request %u, but none of %u before it", q->id, index,
		      q->op_head);
		send_succeeded(q, op);
	}
	op = &q->ops[index];
	q->op_head++;
	if (cqe->status != IBV_WC_SUCCESS) {
		CHECK(q->w, send_may_fail(q, op, cqe->status),
		      "qp %u: request %u (%s) failed: %s, vendor_err %x", q->id, index,
		      break_name(op->broken), ibv_wc_status_str(cqe->status), cqe->vendor_err);
		verify_event(q, op, cqe->status);
		q->sq_error = true;
		q->conn->broken = q->conn->broken || !is_unreliable(q);
		send_failed(q, op);
		return;
	}
	CHECK(q->w, !q->sq_error, "qp %u: request %u succeeds after an error", q->id, index);
	CHECK(q->w, q->sig_all || op->flags & XR_SEND_SIGNALED,
	      "qp %u: request %u was not signalled", q->id, index);
	CHECK(q->w, cqe->opcode == wc_opcode(op), "qp %u: request %u has opcode %u", q->id, index,
	      cqe->opcode);
	CHECK(q->w, op->opcode < XR_WR_RDMA_READ || cqe->byte_len == op->len,
	      "qp %u: request %u has byte_len %u instead of %u", q->id, index, cqe->byte_len,
	      op->len);
	send_succeeded(q, op);
}

/* Unsignalled operations at the end of the queue are complete once the ring is consumed. */
void verify_unsignalled(struct sim_qp *q)
{
	unsigned i;

	if (!q->qp || !q->sq.queue || q->op_head == q->op_next ||
	    q->scq->consumer != q->scq->queue->producer || q->sq.queue->consumer != q->sq.producer)
		return;
	for (i = q->op_head; i < q->op_next; i++)
		if (q->sig_all || q->ops[i].flags & XR_SEND_SIGNALED || q->sq_error)
			return;
	for (; q->op_head < q->op_next; q->op_head++)
		send_succeeded(q, &q->ops[q->op_head]);
}

/* ---- receives ------------------------------------------------------------ */

static void verify_receive(struct sim_qp *q, struct sim_recv *r, const struct sim_op *op)
{
	uint32_t done = 0, n;
	unsigned i;

	for (i = 0; i < r->nsge && done < op->len; i++, done += n) {
		struct piece *p = &r->sge[i];

		n = p->len < op->len - done ? p->len : op->len - done;
		same_bytes(q, "receive", r - q->recvs, q->host->mem + p->off, op->data + done, n);
		memcpy(q->host->shadow + p->off, op->data + done, n);
	}
}

static void recv_succeeded(struct sim_qp *q, struct sim_recv *r, const struct xr_cqe *cqe)
{
	unsigned index = cqe->wr_id & 0x7fffffff;
	struct sim_op *op = r->op;
	bool imm, send;

	CHECK(q->w, op && op->state != OP_PLANNED && (op->state != OP_ABORTED || !q->peer->qp),
	      "qp %u: receive %u completes, but no message was sent for it", q->id, index);
	CHECK(q->w, !op->received, "qp %u: receive %u has a duplicate message", q->id, index);
	CHECK(q->w, !r->broken && op->broken != BREAK_RECV_SMALL && op->broken < BREAK_LKEY,
	      "qp %u: invalid receive %u succeeded", q->id, index);
	send = op->opcode == XR_WR_SEND || op->opcode == XR_WR_SEND_WITH_IMM;
	imm = op->opcode != XR_WR_SEND;
	CHECK(q->w, cqe->opcode == (send ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM),
	      "qp %u: receive %u has opcode %u", q->id, index, cqe->opcode);
	CHECK(q->w, cqe->byte_len == op->len, "qp %u: receive %u has byte_len %u instead of %u",
	      q->id, index, cqe->byte_len, op->len);
	CHECK(q->w, cqe->wc_flags == (imm ? IBV_WC_WITH_IMM : 0), "qp %u: receive %u has flags %x",
	      q->id, index, cqe->wc_flags);
	CHECK(q->w, !imm || cqe->imm_data == op->imm, "qp %u: receive %u has a wrong immediate",
	      q->id, index);
	CHECK(q->w, cqe->src_qpn == q->peer->qpn, "qp %u: receive %u is from %x", q->id, index,
	      cqe->src_qpn);
	if (send)
		verify_receive(q, r, op);
	else if (op->state == OP_POSTED)
		same_bytes(q, "WRITE with immediate", index, q->host->mem + op->remote.off,
			   op->data, op->len);
	op->received = true;
	r->state = OP_DONE;
	host_release(q->host, (void *)(uintptr_t)cqe->wr_id);
}

static bool recv_may_fail(const struct sim_qp *q, const struct sim_recv *r, uint32_t status)
{
	if (status == IBV_WC_WR_FLUSH_ERR)
		return q->in_error && (q->conn->broken || q->conn->phase != CONN_RUNNING);
	if (q->rq_error)
		return false;
	if (r->broken == BREAK_RECV_LKEY)
		return status == IBV_WC_LOC_PROT_ERR;
	if (r->op && r->op->broken == BREAK_RECV_SMALL)
		return status == IBV_WC_LOC_LEN_ERR;
	if (q->conn->script == SCRIPT_DEREG || q->conn->script == SCRIPT_FAULT)
		return q->conn->broken && status == IBV_WC_LOC_PROT_ERR;
	return false;
}

/* The SRQ of a completion; NULL: completion of the QP's RQ */
static struct sim_srq *srq_of(const struct sim_qp *q, const struct xr_cqe *cqe)
{
	unsigned i;

	for (i = 0; q->type == XR_QPT_XRC_RECV && i < q->host->srqs; i++)
		if (q->host->srq[i].xt.number == cqe->srqn)
			return &q->host->srq[i];
	CHECK(q->w, !cqe->srqn, "qp %u: completion of unknown SRQ %06x", q->id, cqe->srqn);
	return q->srq;
}

static struct sim_recv *own_completed(struct sim_qp *q, const struct xr_cqe *cqe)
{
	unsigned index = cqe->wr_id & 0x7fffffff;

	CHECK(q->w, index == q->recv_head && index < q->recv_next,
	      "qp %u: completion of receive %u, oldest is %u of %u", q->id, index, q->recv_head,
	      q->recv_next);
	CHECK(q->w, cqe->wqe_index == index - q->recv_base, "qp %u: receive %u has wqe_index %u",
	      q->id, index, cqe->wqe_index);
	return &q->recvs[q->recv_head++];
}

static struct sim_recv *recv_completion(struct sim_qp *q, struct sim_srq *s,
					const struct xr_cqe *cqe)
{
	struct sim_recv *r = s ? srq_completed(s, cqe) : own_completed(q, cqe);
	unsigned index = cqe->wr_id & 0x7fffffff;

	if (cqe->status == IBV_WC_SUCCESS) {
		CHECK(q->w, !q->rq_error, "qp %u: receive %u succeeds after an error", q->id,
		      index);
		if (is_unreliable(q)) {
			r->op = unreliable_received(q, r, cqe);
			return r;
		}
		if (s) /* with an SRQ, the message is known only now */
			r->op = next_message(q, s);
		recv_succeeded(q, r, cqe);
		return r;
	}
	CHECK(q->w, recv_may_fail(q, r, cqe->status), "qp %u: receive %u failed: %s, vendor_err %x",
	      q->id, index, ibv_wc_status_str(cqe->status), cqe->vendor_err);
	q->rq_error = true;
	q->w->errors_seen++;
	r->state = OP_FAILED;
	host_lose(q->host, (void *)(uintptr_t)cqe->wr_id);
	return r;
}

/* IBTA 11.4.2.2: an event is due for a solicited receive, or for any error on either queue. */
static void update_event_due(struct sim_cq *cq, const struct sim_op *op, const struct xr_cqe *cqe)
{
	if (cqe->status != IBV_WC_SUCCESS || (op && op->flags & XR_SEND_SOLICITED))
		cq->event_due = true;
}

void verify_solicited(struct sim_cq *cq)
{
	CHECK(cq->host->w, cq->event == cq->event_due,
	      "%s event of a CQ armed for solicited completions",
	      cq->event ? "unexpected" : "missing");
	cq->event = cq->event_due = false;
	host_arm(cq);
}

static struct sim_qp *owner_of(struct host *h, uint32_t qpn)
{
	struct world *w = h->w;
	unsigned i;

	for (i = 0; i < 2 * w->conns; i++) {
		struct sim_qp *q = &w->conn[i / 2].qp[i % 2];

		if (q->host == h && q->qpn == qpn)
			return q;
	}
	return NULL;
}

void verify_completion(struct sim_cq *cq, const struct xr_cqe *cqe)
{
	struct world *w = cq->host->w;
	struct sim_qp *q = owner_of(cq->host, cqe->qpn);
	const struct sim_op *message = NULL;
	struct sim_srq *s;

	CHECK(w, q && q->qp, "completion of unknown QP %06x", cqe->qpn);
	TRACE(w, "qp %u: polled %s %u: %s, vendor_err %x, byte_len %u", q->id,
	      cqe->is_recv ? "receive" : "request", (unsigned)cqe->wr_id & 0x7fffffff,
	      ibv_wc_status_str(cqe->status), cqe->vendor_err, cqe->byte_len);
	s = cqe->is_recv ? srq_of(q, cqe) : NULL;
	CHECK(w, cqe->wr_id >> 32 == (s ? s->id : q->id) && (cqe->wr_id >> 31 & 1) == cqe->is_recv,
	      "qp %u: completion has wr_id %llx", q->id, (unsigned long long)cqe->wr_id);
	CHECK(w,
	      cq == (s && s->cq	    ? s->cq
		     : cqe->is_recv ? q->rcq
				    : q->scq),
	      "qp %u: completion in the wrong CQ", q->id);
	CHECK(w, cqe->timestamp <= w->now, "qp %u: timestamp of completion is in the future",
	      q->id);
	if (cqe->is_recv)
		message = recv_completion(q, s, cqe)->op;
	else
		send_completion(q, cqe);
	update_event_due(cq, message, cqe);
	/* The rings have room again. */
	if (q->step == NEVER && q->conn->phase == CONN_RUNNING)
		q->step = w->now + rng_between(&w->sched, 200, q->conn->pace);
}

/* ---- packets -----------------------------------------------------------------------------------
 */

static unsigned be16_at(const uint8_t *p)
{
	return p[0] << 8 | p[1];
}

static bool ipv4_sum_ok(const uint8_t *ip)
{
	uint32_t sum = 0;
	unsigned i;

	for (i = 0; i < 20; i += 2)
		sum += be16_at(ip + i);
	return (sum & 0xffff) + (sum >> 16) == 0xffff;
}

/* Ethernet, VLAN, IPv6, UDP, BTH, longest extended headers of a packet with payload, ICRC */
#define MAX_OVERHEAD (14 + 4 + 40 + 8 + 12 + 20 + 4)

static uint32_t mtu_of(const struct sim_qp *q)
{
	return q->type == XR_QPT_UD ? 4096 : q->conn->mtu;
}

/* Token bucket, one token per byte. A frame may always be sent when the bucket is full. */
static void verify_rate(struct sim_qp *q, uint32_t len)
{
	double most = q->burst, rate = q->rate / 8e6; /* bytes, bytes per ns */

	if (most < mtu_of(q) + MAX_OVERHEAD)
		most = mtu_of(q) + MAX_OVERHEAD;
	q->tokens = q->tokens_at ? q->tokens + (double)(q->w->now - q->tokens_at) * rate : most;
	q->tokens_at = q->w->now;
	if (q->tokens > most)
		q->tokens = most;
	q->tokens -= len;
	/* Send times are rounded. */
	CHECK(q->w, q->tokens > -16, "qp %u: %.0f bytes above its rate limit", q->id, -q->tokens);
}

/* The sender: the source QP of a datagram, else the connected peer */
static struct sim_qp *sender_of(struct host *h, const struct sim_qp *to, const uint8_t *bth)
{
	uint16_t flags = xr_opcodes[bth[0]].flags;
	__be32 sqpn;

	if (!(flags & XR_EXT_DETH))
		return to->peer;
	memcpy(&sqpn, bth + ext_off(flags, XR_EXT_DETH) + 4, sizeof(sqpn));
	return owner_of(h, ntohl(sqpn) & XR_QPN_MASK);
}

/* Returns the destination QP. For multicast the sender represents the members. */
static struct sim_qp *receiver_of(struct host *h, struct host *dest, const struct xt_frame *frame,
				  const uint8_t *bth)
{
	struct world *w = h->w;
	unsigned i;

	if (!dest)
		return frame->meta.qpn == XR_MULTICAST_QPN ? sender_of(h, NULL, bth) : NULL;
	for (i = 0; i < 2 * w->conns; i++) {
		struct sim_qp *q = &w->conn[i / 2].qp[i % 2];

		if (q->qpn == frame->meta.qpn && q->host == dest &&
		    (q->type == XR_QPT_UD ? dest != h : q->peer->host == h))
			return q;
	}
	return NULL;
}

/* Checks a packet that an engine sends. @dest: destination host; NULL: multicast */
void verify_packet(struct world *w, struct host *h, struct host *dest, const struct xt_frame *frame)
{
	const uint8_t *eth = frame->seg[0].data, *ip = eth + frame->meta.ip_off;
	const uint8_t *bth = eth + frame->meta.bth_off;
	bool request = xr_opcodes[bth[0]].flags & XR_OPF_REQUEST;
	struct sim_qp *to, *from;
	uint8_t mac[6];

	host_mac(h, mac);
	CHECK(w, !memcmp(eth + 6, mac, 6), "wrong source MAC address");
	CHECK(w, frame->meta.ip_version == 6 || ipv4_sum_ok(ip), "wrong IPv4 checksum");
	CHECK(w, be16_at(bth + 2) == XR_DEFAULT_PKEY, "P_Key %04x", be16_at(bth + 2));
	CHECK(w, bth[1] & XR_BTH_MIGREQ, "MigReq is 0");
	CHECK(w, be16_at(bth - 8) >= 0xc000, "UDP source port %u", be16_at(bth - 8));
	to = receiver_of(h, dest, frame, bth);
	CHECK(w, to, "packet for QP %06x, which has no peer on this host", frame->meta.qpn);
	from = sender_of(h, to, bth);
	CHECK(w, from && from->type == (is_xrc(to) ? to->peer->type : to->type),
	      "packet for QP %06x from a QP of another type", frame->meta.qpn);
	CHECK(w, to->type == XR_QPT_UD || !to->conn->local, "packet of a loopback connection");
	CHECK(w, frame->meta.payload_len <= mtu_of(to), "payload of %u bytes, path MTU %u",
	      frame->meta.payload_len, mtu_of(to));
	CHECK(w, !from->quiet || !request, "qp %u: request after the send queue was drained",
	      from->id);
	if (from->rate && request)
		verify_rate(from, frame->len);
}

/* ---- checks at the end --------------------------------------------------- */

static void verify_messages(struct sim_qp *q)
{
	unsigned i;

	for (i = 0; i < q->op_next; i++) {
		const struct sim_op *op = &q->ops[i];

		CHECK(q->w, op->state != OP_POSTED, "qp %u: request %u never completed", q->id, i);
		CHECK(q->w,
		      !op->takes_recv || op->state != OP_DONE || op->received || is_unreliable(q) ||
			      q->peer->op_base || q->op_base || !q->peer->qp,
		      "qp %u: request %u succeeded, but was not received", q->id, i);
	}
	CHECK(q->w, q->async[IBV_EVENT_COMM_EST] <= 1, "qp %u: %u COMM_EST events", q->id,
	      q->async[IBV_EVENT_COMM_EST]);
	for (i = 0; i < q->recv_next; i++)
		CHECK(q->w, q->recvs[i].state != OP_POSTED, "qp %u: receive %u never completed",
		      q->id, i);
}

static void verify_memory(struct host *h)
{
	uint32_t i;

	/* Memory of failed operations is undefined, except in removed regions. */
	for (i = 0; i < h->claim_count; i++) {
		const struct claim *c = &h->claims[i];

		if (c->lost && c->exclusive && !c->frozen)
			memcpy(h->shadow + c->off, h->mem + c->off, c->len);
	}
	if (!memcmp(h->mem, h->shadow, h->size))
		return;
	for (i = 0; h->mem[i] == h->shadow[i]; i++)
		;
	sim_fail(h->w,
		 "host %u: byte %u of memory is %02x instead of %02x without a request to write it",
		 h->index, i, h->mem[i], h->shadow[i]);
}

void verify_end(struct world *w)
{
	unsigned i, k;

	for (i = 0; i < 2 * w->conns; i++)
		verify_messages(&w->conn[i / 2].qp[i % 2]);
	for (i = 0; i < 2 * w->conns; i++)
		if (is_unreliable(&w->conn[i / 2].qp[i % 2]))
			unreliable_verify_end(&w->conn[i / 2].qp[i % 2]);
	for (i = 0; i < 2 * w->conns; i++)
		verify_scratch(&w->conn[i / 2].qp[i % 2]);
	for (i = 0; i < w->hosts; i++) {
		for (k = 0; k < w->host[i].srqs; k++)
			srq_verify_end(&w->host[i].srq[k]);
		for (k = 0; k < w->host[i].counters; k++)
			verify_counter(&w->host[i], &w->host[i].counter[k]);
		verify_memory(&w->host[i]);
	}
}
