// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Processes responses at the requester: IBTA 9.7.5 and 9.7.6. An ACK acknowledges all earlier
 * requests except READs and atomics, which only their own responses complete. An ACK beyond a READ
 * or atomic that has no response yet means that the response was lost.
 */
#include <xroce/probes.h>

#include "completer.h"
#include "daemon/transport/memory/copy.h"
#include "daemon/transport/memory/put.h"
#include "early.h"
#include "daemon/transport/engine.h"
#include "daemon/transport/wire/packet.h"
#include "place.h"
#include "daemon/transport/qp.h"
#include "requester.h"
#include "resend.h"
#include "rtt.h"
#include "sent.h"
#include "daemon/transport/queue/sq.h"
#include "daemon/transport/scheduling/timer.h"
#include "daemon/transport/queue/wr_kind.h"

#define SEQ_NAK (XR_AETH_NAK | XR_NAK_PSN_SEQUENCE)

/* IBTA table 46, in microseconds */
static const uint32_t rnr_timer_us[32] = {
	655360, 10,    20,    30,    40,    60,	    80,	    120,    160,    240,    320,
	480,	640,   960,   1280,  1920,  2560,   3840,   5120,   7680,   10240,  15360,
	20480,	30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520,
};

/* Credit codes of an ACK, IBTA table 47 */
const uint16_t xt_credits[XR_AETH_CREDITS_INVALID] = {
	0,    1,    2,	  3,	4,    6,     8,	    12,	   16,	  24,	32,
	48,   64,   96,	  128,	192,  256,   384,   512,   768,	  1024, 1536,
	2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
};

static void learn_credits(struct xt_qp *qp, uint32_t aeth)
{
	struct xt_requester *r = &qp->req;
	uint32_t code = aeth >> 24 & XR_AETH_VALUE_MASK;
	uint32_t lsn;

	if (code == XR_AETH_CREDITS_INVALID) {
		r->credits = false;
		return;
	}
	/* never decreases: the ACK may be late, or its credit count rounded down */
	lsn = ((aeth & XR_PSN_MASK) + xt_credits[code]) & XR_PSN_MASK;
	if (!r->credits || xr_psn_diff(lsn, r->lsn) > 0) {
		r->lsn = lsn;
		/* needed if the ACK acknowledges nothing new */
		xt_activate(qp);
	}
	r->credits = true;
}

void xt_req_progress(struct xt_qp *qp, uint32_t packets)
{
	struct xt_requester *r = &qp->req;
	uint32_t window = r->window + packets;

	xt_rtt_acked(qp, r->unacked);
	r->retry_left = qp->attr.retry_cnt;
	r->rnr_left = qp->attr.rnr_retry;
	r->probes = r->looks = 0;
	r->window = window < r->most ? window : r->most;
	qp->req.stalled = false;
	if (r->wait == XT_WAIT_RNR)
		r->wait = XT_WAIT_NONE;
	/*
	 * responses to packets sent before a retry moved `unacked` past `next`: do not send those
	 * again
	 */
	if (xt_diff(r->unacked, r->next) > 0)
		xt_req_go_back(qp);
	xt_req_acked(qp);
	xt_activate(qp);
}

/*
 * Moves `unacked` to psn, or to the first READ or atomic whose response is missing. Returns false
 * in the latter case, and if the QP went to ERR.
 */
static bool acked(struct xt_qp *qp, uint32_t psn)
{
	struct xt_requester *r = &qp->req;
	uint32_t before = r->unacked, end;
	struct xt_swqe *w;

	while (qp->sq.retired != qp->sq.loaded) {
		w = xt_swqe(qp, qp->sq.retired);
		end = w->psn + w->npsn;
		if (xt_diff(psn, w->psn) <= 0 || xt_kind_of(w)->rd_atomic)
			break;
		if (xt_diff(psn, end) < 0) {
			r->unacked = psn;
			break;
		}
		r->unacked = end;
		if (!xt_sq_retire(qp))
			return false;
	}
	if (r->unacked != before)
		xt_req_progress(qp, r->unacked - before);
	return r->unacked == psn;
}

/* The oldest request needs a response, and the peer has executed all requests before a PSN. */
static void response_missing(struct xt_qp *qp, uint32_t psn)
{
	xt_req_executed(qp, psn);
	if (xt_early_check(qp, XT_REQUESTER) != XT_EARLY_DUE)
		xt_req_response_lost(qp);
}

/* A response has arrived: those that came before it may count now. */
static void go_on(struct xt_qp *qp)
{
	if (!acked(qp, qp->req.executed) && xt_may_send(qp))
		response_missing(qp, qp->req.executed);
	else if (xt_may_send(qp))
		xt_early_check(qp, XT_REQUESTER);
}

/* Returns true if retired work requests have not completed, so that no other one may fail. */
static bool must_wait(const struct xt_qp *qp)
{
	return qp->sq.completed != qp->sq.retired;
}

/* ---- NAKs -------------------------------------------------------------------------------- */

void xt_req_rnr(struct xt_qp *qp, uint32_t code)
{
	static const struct xt_wc_error exceeded = {
		IBV_WC_RNR_RETRY_EXC_ERR,
		XR_VERR_NAK | XR_AETH_RNR_NAK << 8,
	};
	struct xt_requester *r = &qp->req;

	XT_QP_COUNT(qp, rnr_naks_received, 1);
	XR_PROBE2(nak_received, qp->info.qpn, XR_AETH_RNR_NAK | code);
	if (r->wait == XT_WAIT_RNR)
		return;
	if (!r->rnr_left) {
		xt_sq_fail(qp, exceeded);
		return;
	}
	if (qp->attr.rnr_retry != 7)
		r->rnr_left--;
	/* an RNR NAK proves that the peer is alive */
	r->retry_left = qp->attr.retry_cnt;
	xt_req_go_back(qp);
	r->wait = XT_WAIT_RNR;
	xt_timer_set_retry(qp, qp->engine->now + rnr_timer_us[code & XR_AETH_VALUE_MASK] * 1000ull);
}

void xt_req_nak(struct xt_qp *qp, uint32_t code)
{
	static const uint32_t status[] = {
		[XR_NAK_INVALID_REQUEST] = IBV_WC_REM_INV_REQ_ERR,
		[XR_NAK_REMOTE_ACCESS] = IBV_WC_REM_ACCESS_ERR,
		[XR_NAK_REMOTE_OPERATIONAL] = IBV_WC_REM_OP_ERR,
		[XR_NAK_INVALID_RD_REQUEST] = IBV_WC_REM_INV_RD_REQ_ERR,
	};
	struct xt_wc_error error = { IBV_WC_BAD_RESP_ERR, XR_VERR_NAK | code << 8 };

	XR_PROBE2(nak_received, qp->info.qpn, XR_AETH_NAK | code);
	if (code == XR_NAK_PSN_SEQUENCE) {
		XT_QP_COUNT(qp, seq_naks_received, 1);
		xt_req_lost(qp);
		return;
	}
	XT_QP_COUNT(qp, invalid_naks_received, code == XR_NAK_INVALID_REQUEST);
	XT_QP_COUNT(qp, access_naks_received, code == XR_NAK_REMOTE_ACCESS);
	XT_QP_COUNT(qp, operational_naks_received, code == XR_NAK_REMOTE_OPERATIONAL);
	XT_QP_COUNT(qp, rd_naks_received, code == XR_NAK_INVALID_RD_REQUEST);
	if (code < sizeof(status) / sizeof(status[0]))
		error.status = status[code];
	xt_sq_fail(qp, error);
}

/* Returns false if it must wait, because it may let the oldest work request fail. */
static bool rx_nak(struct xt_qp *qp, const struct xt_rx *rx, uint32_t psn, uint32_t aeth)
{
	struct xt_requester *r = &qp->req;
	uint32_t value = aeth >> 24 & XR_AETH_VALUE_MASK;
	bool asks = aeth >> 24 == SEQ_NAK;

	if (xt_diff(psn, r->unacked) < 0)
		return true;
	if (psn != r->unacked && !acked(qp, psn)) {
		if (!xt_may_send(qp))
			return true;
		/* An error is sent only once, and the timeout of the program may be infinite. */
		if (!asks)
			xt_early_keep(qp, rx, psn, xt_place_response);
		response_missing(qp, psn);
		if (asks && psn == r->executed && xt_may_send(qp))
			xt_req_next_lost(qp);
		return true;
	}
	if (must_wait(qp))
		return false;
	switch (aeth >> 24 & XR_AETH_TYPE_MASK) {
	case XR_AETH_RNR_NAK:
		xt_req_rnr(qp, value);
		break;
	case XR_AETH_NAK:
		xt_req_nak(qp, value);
		break;
	}
	return true;
}

/* Returns false if a NAK must wait. */
static bool rx_ack(struct xt_qp *qp, const struct xt_rx *rx, uint32_t psn, uint32_t aeth)
{
	struct xt_requester *r = &qp->req;

	if ((aeth >> 24 & XR_AETH_TYPE_MASK) != XR_AETH_ACK)
		return rx_nak(qp, rx, psn, aeth);
	if (xt_diff(psn + 1, r->unacked) <= 0)
		return true;
	if (acked(qp, psn + 1))
		xt_req_check_rest(qp);
	else if (xt_may_send(qp))
		response_missing(qp, psn + 1);
	return true;
}

/* ---- data of READs and atomics -------------------------------------------------------------- */

/* Returns false if the response must wait. */
static bool bad_response(struct xt_qp *qp)
{
	static const struct xt_wc_error error = { IBV_WC_BAD_RESP_ERR, XR_VERR_BAD_RESPONSE };

	if (must_wait(qp))
		return false;
	xt_sq_fail(qp, error);
	return true;
}

/*
 * Acknowledges all requests before a response with data and returns the request that it belongs to;
 * NULL if the response is a duplicate or an earlier one is missing.
 */
static struct xt_swqe *completer_expected(struct xt_qp *qp, const struct xt_rx *rx, uint32_t psn)
{
	struct xt_requester *r = &qp->req;

	if (xt_diff(psn, r->unacked) < 0)
		return NULL;
	if (psn != r->unacked && !acked(qp, psn)) {
		if (xt_may_send(qp)) {
			xt_early_keep(qp, rx, psn, xt_place_response);
			response_missing(qp, psn);
		}
		return NULL;
	}
	return qp->sq.retired == qp->sq.loaded ? NULL : xt_swqe(qp, qp->sq.retired);
}

/* Advances the oldest request by response packets, of the same request on the wire. */
static void accept_response(struct xt_qp *qp, struct xt_swqe *w, uint32_t packets)
{
	struct xt_requester *r = &qp->req;
	bool whole_span = xt_req_read_span(qp, w, r->unacked) <= packets;
	/* after a retry, the request may not have been resent and counted yet */
	bool counted = xt_diff(r->next, r->unacked) > 0, later;

	r->unacked += packets;
	later = xt_diff(r->executed, r->unacked) >= 0;
	if (whole_span && counted)
		r->rd_inflight--;
	if (r->unacked == w->psn + w->npsn && !xt_sq_retire(qp))
		return;
	xt_req_progress(qp, packets);
	if (__builtin_expect(later, false))
		go_on(qp);
}

static bool read_response_fits(const struct xt_qp *qp, const struct xt_swqe *w,
			       const struct xt_rx *rx)
{
	uint32_t i = qp->req.unacked - w->psn;
	uint32_t left = w->length - (i << qp->mtu_shift);

	if (xt_kind_of(w)->response == XT_RESPONSE_EMPTY)
		return rx->opcode == XR_OP_READ_RESP_ONLY && !rx->len;
	if (xt_kind_of(w)->response != XT_RESPONSE_READ)
		return false;
	if (__builtin_expect(rx->packets > 1, false))
		return i + rx->packets < w->npsn &&
		       rx->packets < xt_req_read_span(qp, w, qp->req.unacked);
	/* retries may split a READ differently, but its last packet is always a LAST or ONLY */
	if (i + 1 == w->npsn && !(rx->flags & XR_OPF_END))
		return false;
	return rx->len == (left < qp->mtu ? left : qp->mtu);
}

/*
 * Accepts a response whose data was stored, or whose writes are to be started. Returns false if it
 * must be held.
 */
static bool stored(struct xt_put *put, struct xt_swqe *w, uint32_t packets, enum xt_side side,
		   const struct xt_wc_error *error)
{
	struct xt_qp *qp = put->qp;

	if (side == XT_SIDE_NONE) {
		xt_put_commit(put);
		accept_response(qp, w, packets);
		return true;
	}
	xt_put_drop(put);
	if (side == XT_SIDE_WAIT || must_wait(qp))
		return false;
	xt_sq_fail(qp, *error);
	return true;
}

static bool rx_read_response(struct xt_qp *qp, const struct xt_rx *rx, uint32_t psn)
{
	struct xt_swqe *w = completer_expected(qp, rx, psn);
	struct xt_source src = {
		.seg = rx->frame->seg,
		.off = rx->frame->meta.payload_off,
		.last = rx->flags & XR_OPF_END,
		.placed = rx->placed,
	};
	struct xt_wc_error error;
	struct xt_put put;
	enum xt_side side;
	struct xt_sgl l;

	if (!w)
		return true;
	if (!read_response_fits(qp, w, rx))
		return bad_response(qp);
	xt_put_begin(&put, qp, XT_REQUESTER, psn);
	src.put = &put;
	l = xt_swqe_sgl(qp, qp->sq.retired);
	side = xt_scatter(&l, (uint64_t)(psn - w->psn) << qp->mtu_shift, &src, rx->len, &error);
	return stored(&put, w, rx->packets, side, &error);
}

enum xt_side xt_req_store_atomic(struct xt_put *put, uint64_t value, struct xt_wc_error *error)
{
	struct xt_sgl l = xt_swqe_sgl(put->qp, put->qp->sq.retired);
	struct xt_seg seg = { (uint8_t *)&value, sizeof(value) };
	struct xt_source src = { .seg = &seg, .put = put, .last = true };

	return xt_scatter(&l, 0, &src, sizeof(value), error);
}

static bool rx_atomic_ack(struct xt_qp *qp, const struct xt_rx *rx, uint32_t psn)
{
	struct xt_swqe *w = completer_expected(qp, rx, psn);
	struct xt_wc_error error;
	struct xt_put put;
	enum xt_side side;
	__be64 orig;

	if (!w)
		return true;
	if (xt_kind_of(w)->response != XT_RESPONSE_ATOMIC)
		return bad_response(qp);
	memcpy(&orig, rx->ext + sizeof(struct xr_aeth), sizeof(orig));
	xt_put_begin(&put, qp, XT_REQUESTER, psn);
	side = xt_req_store_atomic(&put, be64toh(orig), &error);
	return stored(&put, w, 1, side, &error);
}

bool xt_completer_rx(struct xt_qp *qp, const struct xt_rx *rx)
{
	bool done = true;
	struct xt_requester *r = &qp->req;
	uint32_t before = r->unacked;
	uint32_t psn = r->unacked + xr_psn_diff(rx->psn, r->unacked & XR_PSN_MASK);
	uint32_t aeth = 0;

	/* drop PSNs never sent (IBTA 9.7.5.1.3) and old ones; `unacked` - 1 may have credits */
	if (!xt_may_send(qp) || xt_diff(psn, r->max) >= 0 || xt_diff(psn + 1, r->unacked) < 0)
		return true;
	if (rx->flags & XR_EXT_AETH) {
		memcpy(&aeth, rx->ext, sizeof(aeth));
		aeth = be32toh(aeth);
		if ((aeth >> 24 & XR_AETH_TYPE_MASK) == XR_AETH_ACK)
			learn_credits(qp, aeth);
	}
	if (__builtin_expect(r->sent.count, 0))
		xt_sent_answered(&r->sent, psn - (aeth >> 24 == SEQ_NAK));
	switch (rx->opcode) {
	case XR_OP_ACK:
		done = rx_ack(qp, rx, psn, aeth);
		break;
	case XR_OP_ATOMIC_ACK:
		done = rx_atomic_ack(qp, rx, psn);
		break;
	default:
		done = rx_read_response(qp, rx, psn);
		break;
	}
	if (!done || !xt_may_send(qp))
		return done;
	xt_req_update(qp, r->unacked != before);
	xt_req_check_drained(qp);
	xt_qp_store_psns(qp);
	return true;
}
