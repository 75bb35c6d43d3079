// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Send work requests: copies them from the ring once, checks them, and completes them. */
#include <errno.h>
#include <stdlib.h>

#include "daemon/transport/wire/ah.h"
#include "daemon/transport/memory/copy.h"
#include "cq_event.h"
#include "daemon/transport/engine.h"
#include "daemon/transport/qp.h"
#include "rings.h"
#include "sq.h"
#include "daemon/transport/memory/use.h"
#include "wr_kind.h"

static void sq_free_memory(struct xt_sq_memory *m)
{
	free(m->swqe);
	free(m->sge);
	*m = (struct xt_sq_memory){ 0 };
}

void xt_sq_reset(struct xt_qp *qp, uint32_t psn, uint32_t read_packets)
{
	uint32_t completed = qp->sq.completed;

	qp->sq = (struct xt_send_queue){
		.completed = completed,
		.retired = completed,
		.cur = completed,
		.loaded = completed,
		.producer = qp->sq.producer,
		.rd_last = completed,
		.load_psn = psn,
		.read_packets = (uint8_t)read_packets,
	};
}

int xt_sq_prepare(struct xt_qp *qp)
{
	struct xt_sq_memory *m = &qp->prepared;

	if (qp->swqe || m->swqe || !qp->sq_ring)
		return 0;
	m->swqe = malloc((size_t)qp->sq_depth * sizeof(*m->swqe));
	m->sge = malloc((size_t)qp->sq_depth * qp->max_send_sge * sizeof(*m->sge) + 1);
	if (m->swqe && m->sge)
		return 0;
	sq_free_memory(m);
	return -ENOMEM;
}

int xt_sq_alloc(struct xt_qp *qp)
{
	int err = xt_sq_prepare(qp);

	if (err || qp->swqe || !qp->sq_ring)
		return err;
	qp->swqe = qp->prepared.swqe;
	qp->swqe_sge = qp->prepared.sge;
	qp->prepared = (struct xt_sq_memory){ 0 };
	return 0;
}

void xt_sq_free(struct xt_qp *qp)
{
	sq_free_memory(&qp->prepared);
	free(qp->swqe);
	free(qp->swqe_sge);
	qp->swqe = NULL;
	qp->swqe_sge = NULL;
}

bool xt_sq_poll(struct xt_qp *qp)
{

	if (qp->ring_bad || !qp->sq_ring)
		return false;
	if (!xt_ring_poll(qp->sq_ring, &qp->sq.producer, qp->sq.completed, qp->sq_depth)) {
		xt_qp_fatal(qp);
		return false;
	}
	return true;
}

/* ---- checking ------------------------------------------------------------------------ */

static bool bad(struct xt_swqe *w, uint32_t status, uint32_t verr)
{
	w->error.status = status;
	w->error.verr = verr;
	return false;
}

static bool length_fits(const struct xt_swqe *w, uint64_t length)
{
	uint32_t fixed = xt_kind_of(w)->fixed_length;

	return fixed ? length == fixed : length <= XR_MAX_MSG_SIZE;
}

static bool sq_copy_inline(struct xt_qp *qp, struct xt_swqe *w, const struct xr_send_wqe *wqe)
{
	if (!xt_kind_of(w)->inline_ok || wqe->inline_len > qp->max_inline)
		return bad(w, IBV_WC_LOC_QP_OP_ERR, XR_VERR_BAD_INLINE);
	if (!length_fits(w, wqe->inline_len))
		return bad(w, IBV_WC_LOC_LEN_ERR, XR_VERR_BAD_LENGTH);
	w->num_sge = 0;
	w->length = wqe->inline_len;
	return true;
}

static bool copy_sges(struct xt_qp *qp, struct xt_swqe *w, const struct xr_send_wqe *wqe,
		      const uint8_t *slot)
{
	struct xr_sge *sge = xt_swqe_sge(qp, qp->sq.loaded);
	uint32_t access = xt_kind_of(w)->local_access;
	uint64_t length = 0;
	struct xt_sgl l;
	uint32_t i;

	if (wqe->num_sge > qp->max_send_sge)
		return bad(w, IBV_WC_LOC_QP_OP_ERR, XR_VERR_BAD_SGE_COUNT);
	w->num_sge = wqe->num_sge;
	memcpy(sge, slot + sizeof(*wqe), w->num_sge * sizeof(*sge));
	for (i = 0; i < w->num_sge; i++)
		length += sge[i].length;
	if (!length_fits(w, length))
		return bad(w, IBV_WC_LOC_LEN_ERR, XR_VERR_BAD_LENGTH);
	w->length = length;

	/*
	 * Keys are checked again with each packet. Checking all of them before the first packet
	 * keeps a request that must fail from being executed in part.
	 */
	l = xt_swqe_sgl(qp, qp->sq.loaded);
	return (!access && w->length <= qp->mtu) || xt_check_sgl(&l, access, &w->error);
}

static bool check_datagram(struct xt_qp *qp, struct xt_swqe *w)
{
	const struct xt_ah *ah = xt_ah_get(qp->ahs, w->ah);

	if (w->length > qp->mtu)
		return bad(w, IBV_WC_LOC_LEN_ERR, XR_VERR_BAD_LENGTH);
	if (!ah || ah->pd != qp->info.pd)
		return bad(w, IBV_WC_LOC_QP_OP_ERR, XR_VERR_AH);
	/* IBTA 10.2.5: a Q_Key with the high-order bit set selects the QP's own */
	if (w->remote_qkey & XR_QKEY_PRIVILEGED)
		w->remote_qkey = qp->attr.qkey;
	return true;
}

/* Returns false with w->error set if the work request must complete with an error. */
static bool sq_check(struct xt_qp *qp, struct xt_swqe *w, const struct xr_send_wqe *wqe,
		     const uint8_t *slot)
{
	const struct xt_wr_opcode *row = xt_wr_opcode(wqe->opcode);
	bool ok;

	if (!(row->qp_types & 1u << qp->info.type))
		return bad(w, IBV_WC_LOC_QP_OP_ERR, XR_VERR_BAD_OPCODE);
	w->kind = row->kind;
	if (xt_kind_of(w)->rd_atomic && !qp->attr.max_rd_atomic)
		return bad(w, IBV_WC_LOC_QP_OP_ERR, XR_VERR_BAD_OPCODE);
	if (xt_kind_of(w)->load)
		xt_kind_of(w)->load(w, wqe);
	if (wqe->flags & XR_SEND_INLINE)
		ok = sq_copy_inline(qp, w, wqe);
	else if (xt_kind_of(w)->no_data)
		return true;
	else
		ok = copy_sges(qp, w, wqe, slot);
	return ok && (qp->info.type != XR_QPT_UD || check_datagram(qp, w));
}

/* Assigns PSNs and message sequence numbers, IBTA 9.7.2 and 9.7.7.2. */
static void sq_number(struct xt_qp *qp, struct xt_swqe *w)
{
	struct xt_send_queue *sq = &qp->sq;
	uint32_t messages = 1;

	if (w->kind == XT_KIND_LOCAL)
		return;
	w->npsn = (w->length + (uint64_t)qp->mtu - 1) >> qp->mtu_shift;
	if (!w->npsn)
		w->npsn = 1;
	if (w->kind == XT_KIND_READ)
		messages = (w->npsn + sq->read_packets - 1) / sq->read_packets;
	sq->load_psn += w->npsn;
	sq->ssn += messages;
	w->ssn = sq->ssn;
	if (xt_kind_of(w)->rd_atomic)
		sq->rd_last = sq->loaded + 1;
}

static void sq_load(struct xt_qp *qp)
{
	struct xt_send_queue *sq = &qp->sq;
	struct xt_swqe *w = xt_swqe(qp, sq->loaded);
	const uint8_t *slot = xt_ring_entry(qp->sq_ring, sq->loaded, qp->sq_depth, qp->sq_stride);
	struct xr_send_wqe wqe;

	memcpy(&wqe, slot, sizeof(wqe));
	*w = (struct xt_swqe){
		.wr_id = wqe.wr_id,
		.remote_addr = wqe.remote_addr,
		.rkey = wqe.rkey,
		.srqn = wqe.xrc_srqn & XR_QPN_MASK,
		.imm = wqe.imm_data,
		.opcode = wqe.opcode,
		.flags = wqe.flags,
		.ah = wqe.ud.ah,
		.remote_qpn = wqe.ud.remote_qpn & XR_QPN_MASK,
		.remote_qkey = wqe.ud.remote_qkey,
		.psn = sq->load_psn,
		.rd_before = sq->rd_last,
	};
	if (sq_check(qp, w, &wqe, slot))
		sq_number(qp, w);
	sq->loaded++;
}

struct xt_swqe *xt_sq_current(struct xt_qp *qp)
{
	const struct xt_send_queue *sq = &qp->sq;

	if (sq->cur == sq->loaded) {
		if (sq->loaded == sq->producer || qp->info.state != XR_QPS_RTS)
			return NULL;
		sq_load(qp);
	}
	return xt_swqe(qp, sq->cur);
}

struct xt_swqe *xt_sq_following(struct xt_qp *qp)
{
	const struct xt_send_queue *sq = &qp->sq;

	if (sq->cur + 1 == sq->loaded) {
		if (sq->loaded == sq->producer)
			return NULL;
		sq_load(qp);
	}
	return xt_swqe(qp, sq->cur + 1);
}

/* ---- reading ahead ------------------------------------------------------------------- */

/* Messages behind the current one whose payload is read ahead */
#define AHEAD_MESSAGES 16

/*
 * Starts to read the payload of a work request that is posted, but not loaded: a SEND or WRITE of
 * one SGE that one access can read, without a fence. It is checked again when its turn comes.
 */
static bool read_message(struct xt_qp *qp, uint32_t index)
{
	const uint8_t *slot = xt_ring_entry(qp->sq_ring, index, qp->sq_depth, qp->sq_stride);
	struct xr_send_wqe wqe;
	struct xr_sge sge;
	uint8_t kind;

	memcpy(&wqe, slot, sizeof(wqe));
	kind = xt_wr_opcode(wqe.opcode)->kind;
	if ((kind != XT_KIND_SEND && kind != XT_KIND_WRITE) || wqe.num_sge != 1 ||
	    !qp->max_send_sge || wqe.flags & (XR_SEND_INLINE | XR_SEND_FENCE))
		return false;
	memcpy(&sge, slot + sizeof(wqe), sizeof(sge));
	return sge.length && sge.length <= XT_MEM_IO_MAX && xt_fetch_sge(qp, index, &sge);
}

void xt_sq_read_ahead(struct xt_qp *qp, uint32_t index)
{
	struct xt_reads *ahead = &qp->accesses.reads[XT_READS_SEND_AHEAD];
	uint32_t end = index + 1 + AHEAD_MESSAGES;

	if (xt_diff(end, qp->sq.producer) > 0)
		end = qp->sq.producer;
	if (qp->info.state != XR_QPS_RTS || !xt_reads_look_ahead(ahead, index, end))
		return;
	while (xt_reads_may_fetch(ahead, end) && read_message(qp, ahead->item))
		ahead->item++;
}

/* ---- completing ---------------------------------------------------------------------- */

static bool sq_complete(struct xt_qp *qp, uint32_t index, uint64_t wr_id, uint8_t opcode,
			uint32_t length, const struct xt_wc_error *error)
{
	struct xr_cqe cqe = {
		.wr_id = wr_id,
		.timestamp = qp->engine->now,
		.status = error->status,
		.opcode = xt_wr_opcode(opcode)->wc_opcode,
		.vendor_err = error->verr,
		.byte_len = length,
		.qpn = qp->info.qpn,
		.wqe_index = index,
	};

	return !xt_cq_push(qp->flow, qp->send_cq, &cqe, false);
}

static const struct xt_wc_error success = { IBV_WC_SUCCESS, XR_VERR_NONE };

static void sq_count_use(struct xt_qp *qp, const struct xt_swqe *w)
{
	bool written = xt_kind_of(w)->local_access;

	xt_use_local(qp, written ? XT_USE_LOCAL_WRITE : XT_USE_LOCAL_READ,
		     xt_swqe_sge(qp, qp->sq.completed), w->num_sge, w->length);
}

static bool complete_one(struct xt_qp *qp)
{
	struct xt_send_queue *sq = &qp->sq;
	struct xt_swqe *w = xt_swqe(qp, sq->completed);
	bool ok = true;

	if (qp->sq_sig_all || (w->flags & XR_SEND_SIGNALED))
		ok = sq_complete(qp, sq->completed, w->wr_id, w->opcode, w->length, &success);
	if (ok) {
		sq_count_use(qp, w);
		sq->completed++;
		qp->counters.tx_messages++;
		xt_ring_publish(qp->sq_ring, sq->completed);
	} else {
		xt_qp_completion_lost(qp);
	}
	return ok;
}

static bool complete_executed(struct xt_qp *qp, uint64_t wr_id, uint32_t length)
{
	struct xr_cqe *cqe = xt_cq_begin(qp->send_cq);

	if (!cqe)
		return sq_complete(qp, qp->sq.completed, wr_id, XR_WR_SEND, length, &success);
	*cqe = (struct xr_cqe){
		.wr_id = wr_id,
		.timestamp = qp->engine->now,
		.opcode = IBV_WC_SEND,
		.byte_len = length,
		.qpn = qp->info.qpn,
		.wqe_index = qp->sq.completed,
	};
	xt_cq_end(qp->flow, qp->send_cq, false);
	return true;
}

bool xt_sq_executed(struct xt_qp *qp, uint64_t wr_id, uint32_t length, bool signaled)
{
	struct xt_send_queue *sq = &qp->sq;

	if (signaled && !complete_executed(qp, wr_id, length)) {
		xt_qp_completion_lost(qp);
		return false;
	}
	sq->cur = sq->loaded = sq->retired = ++sq->completed;
	qp->counters.tx_messages++;
	return true;
}

void xt_sq_publish(struct xt_qp *qp)
{
	xt_ring_publish(qp->sq_ring, qp->sq.completed);
}

/* Returns true if data of a work request, or of an earlier one, is not in memory. */
static bool sq_is_posted(struct xt_qp *qp, uint32_t index)
{
	const struct xt_swqe *w = xt_swqe(qp, index);

	const struct xt_list *posted = &qp->accesses.posted[XT_REQUESTER];

	return __builtin_expect(!xt_list_empty(posted), false) &&
	       xt_diff(w->psn + w->npsn, XT_IO_OF(posted->next)->psn) > 0;
}

bool xt_sq_complete(struct xt_qp *qp)
{

	while (qp->sq.completed != qp->sq.retired && !sq_is_posted(qp, qp->sq.completed))
		if (!complete_one(qp))
			return false;
	return true;
}

bool xt_sq_retire(struct xt_qp *qp)
{
	struct xt_send_queue *sq = &qp->sq;
	struct xt_swqe *w;

	do
		w = xt_swqe(qp, ++sq->retired);
	while (sq->retired != sq->loaded && w->kind == XT_KIND_LOCAL && w->done);
	/* a retry may have moved `cur` back before local WRs that are now retired */
	if (xt_diff(sq->cur, sq->retired) < 0)
		sq->cur = sq->retired;
	return xt_sq_complete(qp);
}

void xt_sq_fail(struct xt_qp *qp, struct xt_wc_error error)
{

	/* the first failure counts */
	if (!xt_may_send(qp))
		return;
	/* what the QP gives up may still write data of READs: the flush completes it */
	qp->sq.failure = error;
	xt_qp_note(qp, XT_CAUSE_REQUEST, error.status, error.verr);
	if (xt_unreliable(qp))
		xt_qp_sq_error(qp);
	else
		xt_qp_error(qp, true);
}

/* Entries never loaded from the ring need only their wr_id and opcode here. */
static void sq_flush_one(struct xt_qp *qp, uint32_t index)
{
	static const struct xt_wc_error flushed = { IBV_WC_WR_FLUSH_ERR, XR_VERR_NONE };
	struct xr_send_wqe wqe;
	struct xt_swqe *w;

	if (xt_diff(index, qp->sq.loaded) < 0) {
		w = xt_swqe(qp, index);
		sq_complete(qp, index, w->wr_id, w->opcode, 0, &flushed);
		return;
	}
	memcpy(&wqe, xt_ring_entry(qp->sq_ring, index, qp->sq_depth, qp->sq_stride), sizeof(wqe));
	sq_complete(qp, index, wqe.wr_id, wqe.opcode, 0, &flushed);
}

/*
 * Completes the oldest work request if it has failed, or if it has changed a key and waited for
 * accesses to end.
 */
static void complete_first(struct xt_qp *qp)
{
	struct xt_send_queue *sq = &qp->sq;
	const struct xt_wc_error error = sq->failure;
	struct xt_swqe *w;

	sq->failure.status = 0;
	if (sq->completed == sq->loaded)
		return;
	w = xt_swqe(qp, sq->completed);
	if (error.status) {
		if (!sq_complete(qp, sq->completed++, w->wr_id, w->opcode, w->length, &error))
			xt_qp_completion_lost(qp);
	} else if (w->kind == XT_KIND_LOCAL && w->executed && qp->info.state == XR_QPS_ERR) {
		complete_one(qp);
	}
}

bool xt_sq_flush(struct xt_qp *qp, uint32_t most)
{
	struct xt_send_queue *sq = &qp->sq;

	if (!qp->sq_ring)
		return false;
	/* if the producer index is corrupt, flushes up to the last valid one */
	xt_sq_poll(qp);
	complete_first(qp);
	for (; sq->completed != sq->producer && most; sq->completed++, most--)
		sq_flush_one(qp, sq->completed);
	sq->cur = sq->loaded = sq->retired = sq->completed;
	xt_ring_publish(qp->sq_ring, sq->completed);
	return sq->completed != sq->producer;
}
