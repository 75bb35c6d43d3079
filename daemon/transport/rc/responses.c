// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Responses of the responder, IBTA 9.7.5. ACKs are coalesced: one ACK acknowledges all requests of
 * a batch, and is sent after the READ responses that precede it. READs and atomics are kept for as
 * long as the peer may repeat them.
 */
#include <errno.h>

#include <xroce/probes.h>

#include "check.h"
#include "completer.h"
#include "daemon/transport/memory/copy.h"
#include "daemon/transport/engine.h"
#include "daemon/transport/memory/guard.h"
#include "daemon/transport/wire/packet.h"
#include "daemon/transport/qp.h"
#include "rd.h"
#include "execute.h"
#include "responses.h"
#include "daemon/transport/queue/rq.h"
#include "daemon/transport/memory/use.h"
#include "daemon/transport/waiting/posted.h"
#include "daemon/transport/queue/wr_kind.h"

/* ---- duplicates ----------------------------------------------------------------------------- */

static uint32_t repeat_room(const struct xt_qp *qp)
{
	return qp->many_rd ? XT_MAX_RD_ATOMIC : XT_FEW_RD_ATOMIC;
}

/* Returns the entry that a duplicate repeats; NULL: it was dropped, or is of another kind. */
static struct xt_rd *find_rd(struct xt_qp *qp, uint32_t psn, enum xt_wr_kind kind, uint32_t *index)
{
	const struct xt_responder *resp = &qp->resp;
	struct xt_rd *rd;

	for (*index = resp->rd_tail - resp->rd_kept; *index != resp->rd_tail; ++*index) {
		rd = xt_rd_at(qp, *index);
		if (psn - rd->psn < rd->npsn)
			return rd->kind == kind ? rd : NULL;
	}
	return NULL;
}

/*
 * Sends response packets of an entry again, unless they are still to be sent anyway. If too many
 * are to be sent again, the peer has to repeat its request once more.
 */
static void responses_repeat(struct xt_qp *qp, const struct xt_repeat *again)
{
	struct xt_responder *resp = &qp->resp;
	int32_t ahead = xt_diff(again->index, resp->rd_cur);
	uint32_t i;

	if (ahead > 0 || (ahead == 0 && again->first >= resp->rd_pos))
		return;
	for (i = resp->repeat_head; i != resp->repeat_tail; i++)
		if (xt_repeat_at(qp, i)->index == again->index &&
		    xt_repeat_at(qp, i)->first == again->first)
			return;
	if (resp->repeat_tail - resp->repeat_head == repeat_room(qp))
		return;
	*xt_repeat_at(qp, resp->repeat_tail++) = *again;
	xt_activate(qp);
}

/* IBTA 9.7.5.1.4: a repeated READ must request the original one or a part of it. */
static void duplicate_read(struct xt_qp *qp, const struct xt_request *rq, uint32_t psn)
{
	struct xt_repeat again;
	struct xt_rd *rd = find_rd(qp, psn, XT_KIND_READ, &again.index);
	uint64_t off;

	if (!rd)
		return;
	again.first = again.next = psn - rd->psn;
	again.end = again.first + rq->packets;
	off = (uint64_t)again.first << qp->mtu_shift;
	if (rq->rkey == rd->rkey && rq->va == rd->va + off && rq->total <= rd->len - off &&
	    (again.end == rd->npsn) == (rq->total == rd->len - off))
		responses_repeat(qp, &again);
}

void xt_resp_duplicate(struct xt_qp *qp, const struct xt_request *rq, enum xt_wr_kind kind,
		       uint32_t psn)
{
	struct xt_repeat again = { .end = 1 };

	XT_QP_COUNT(qp, rx_duplicates, 1);
	if (!xt_kinds[kind].rd_atomic)
		xt_resp_schedule_ack(qp);
	else if (kind == XT_KIND_READ)
		duplicate_read(qp, rq, psn);
	else if (find_rd(qp, psn, kind, &again.index))
		responses_repeat(qp, &again);
}

/* ---- scheduling ---------------------------------------------------------------------------- */

void xt_resp_schedule(struct xt_qp *qp, enum xt_ack_due due)
{
	struct xt_responder *resp = &qp->resp;

	resp->also_ack |= resp->ack_due == XT_ACK_DUE_ACK;
	resp->also_ack &= due == XT_ACK_DUE_SEQ_NAK;
	resp->ack_due = due;
	xt_schedule_response(qp);
}

void xt_resp_schedule_ack(struct xt_qp *qp)
{
	struct xt_responder *resp = &qp->resp;

	/*
	 * A NAK that is due acknowledges all earlier requests as well. But it has no credits, and
	 * if it is lost, an ACK shows that more is missing.
	 */
	resp->also_ack |= resp->ack_due == XT_ACK_DUE_SEQ_NAK;
	if (resp->ack_due == XT_ACK_DUE_NONE)
		xt_resp_schedule(qp, XT_ACK_DUE_ACK);
}

/* ---- sending --------------------------------------------------------------------------------- */

static uint32_t ack_syndrome(struct xt_qp *qp)
{
	uint32_t credits, code;

	if (!qp->rq_ring)
		return XR_AETH_ACK | XR_AETH_CREDITS_INVALID;
	credits = xt_rq_credits(qp);
	for (code = XR_AETH_CREDITS_INVALID - 1; xt_credits[code] > credits; code--)
		;
	return XR_AETH_ACK | code;
}

/* Returns true if an ACK in front of posted writes acknowledges enough. */
static bool worth_ack(const struct xt_qp *qp, uint32_t psn)
{
	return xt_diff(psn, qp->resp.acked) >= XT_ACK_EVERY;
}

/* psn: of an ACK; msn: messages before it. Returns false if there is no room. */
static bool send_aeth(struct xt_qp *qp, enum xt_ack_due due, uint32_t psn, uint32_t msn)
{
	const struct xt_responder *resp = &qp->resp;
	uint32_t syndrome;
	struct xt_packet p;

	xt_packet_init(&p, XR_OP_ACK, resp->epsn);
	switch (due) {
	case XT_ACK_DUE_ACK:
		syndrome = ack_syndrome(qp);
		p.psn = psn;
		break;
	case XT_ACK_DUE_SEQ_NAK:
		syndrome = XR_AETH_NAK | XR_NAK_PSN_SEQUENCE;
		break;
	case XT_ACK_DUE_RNR_NAK:
		syndrome = XR_AETH_RNR_NAK | resp->rnr_timer;
		break;
	default:
		syndrome = XR_AETH_NAK | resp->nak_code;
		p.psn = resp->nak_psn;
		break;
	}
	xt_ext_aeth(&p, syndrome, msn);
	if (!xt_send(qp, &p))
		return false;
	if (due != XT_ACK_DUE_ACK)
		XR_PROBE2(nak_sent, qp->info.qpn, syndrome);
	return true;
}

/* Returns false if there is no room. */
static bool send_ack(struct xt_qp *qp)
{
	struct xt_responder *resp = &qp->resp;
	uint32_t psn = resp->epsn, msn = resp->msn;
	uint8_t due = resp->ack_due;

	if (xt_posted(&qp->accesses, XT_RESPONDER)) {
		psn = xt_posted_first(&qp->accesses, XT_RESPONDER);
		msn = xt_posted_msn(&qp->accesses);
		if (due != XT_ACK_DUE_ACK || !worth_ack(qp, psn))
			return true; /* sent when more of the data is in memory */
	}
	/* the missing packets may have arrived late */
	if (due == XT_ACK_DUE_SEQ_NAK && xt_diff(resp->epsn, resp->seen) >= 0)
		due = XT_ACK_DUE_ACK;
	if (due == XT_ACK_DUE_SEQ_NAK && resp->also_ack &&
	    !send_aeth(qp, XT_ACK_DUE_ACK, psn - 1, msn))
		return false;
	resp->also_ack = false;
	if (!send_aeth(qp, due, psn - 1, msn))
		return false;
	XT_QP_COUNT(qp, seq_naks_sent, due == XT_ACK_DUE_SEQ_NAK);
	XT_QP_COUNT(qp, rnr_naks_sent, due == XT_ACK_DUE_RNR_NAK);
	resp->nak_sent |= due == XT_ACK_DUE_SEQ_NAK;
	if (psn == resp->epsn)
		resp->ack_due = XT_ACK_DUE_NONE;
	resp->acked = psn;
	resp->unacked = 0;
	return true;
}

/* Results of gather_response() that are not NAK codes */
#define GATHERED -1
#define MUST_WAIT -2

/*
 * Reads the payload of response packets from a position on. Keys may have changed since the request
 * was received.
 */
static int gather_response(struct xt_qp *qp, uint32_t index, uint32_t pos, uint32_t packets,
			   struct xt_payload *out)
{
	const struct xt_rd *rd = xt_rd_at(qp, index);
	uint64_t off = (uint64_t)pos << qp->mtu_shift;
	uint64_t left = rd->len - off;
	uint32_t most = packets * qp->mtu, len = left < most ? left : most;
	struct xr_key_use use = {
		.key = rd->rkey,
		.access = XR_ACCESS_REMOTE_READ,
		.va = rd->va + off,
		.len = len,
	};
	const struct xt_fetch f = {
		.reads = &qp->accesses.reads[XT_READS_RESPOND],
		.item = index,
		.psn = rd->psn + pos,
		.rest = left,
	};
	struct xt_mem_at at;
	int nak, err;

	if (!len)
		return GATHERED;
	qp->resp.pd = rd->pd;
	nak = xt_resp_check(qp, &use, &at);
	if (nak >= 0)
		return nak;
	err = XT_UNORDERED(xt_gather_mem(&f, &at, len, out));
	if (err == -EINPROGRESS)
		return MUST_WAIT;
	return err ? XR_NAK_REMOTE_OPERATIONAL : GATHERED;
}

/* Returns true if all data of a READ is in one segment that must be waited for. */
static bool responses_waits(struct xt_qp *qp, const struct xt_rd *rd, struct xt_mem_at *at)
{
	struct xr_key_use use = {
		.key = rd->rkey,
		.access = XR_ACCESS_REMOTE_READ,
		.va = rd->va,
		.len = rd->len,
	};

	qp->resp.pd = rd->pd;
	return rd->kind == XT_KIND_READ && xt_resp_check(qp, &use, at) < 0 &&
	       xt_mem_waits(at->mem, at->off, rd->len);
}

/* Returns false if the next READ cannot be read ahead, by one access. */
static bool responses_fetch_read(struct xt_qp *qp, struct xt_reads *ahead)
{
	const struct xt_rd *rd = xt_rd_at(qp, ahead->item);
	struct xt_mem_at at;

	if (rd->kind != XT_KIND_READ || !rd->len)
		return true;
	return rd->len <= XT_MEM_IO_MAX && responses_waits(qp, rd, &at) &&
	       xt_mem_fetch(ahead, ahead->item, at.mem, at.off, rd->len);
}

/*
 * Reads the payload of the READs behind the current one ahead. Their keys are checked again when
 * their turn comes. READs are executed in order, so none is read ahead of an earlier one.
 */
static void responses_read_ahead(struct xt_qp *qp)
{
	struct xt_reads *ahead = &qp->accesses.reads[XT_READS_RESPOND_AHEAD];
	struct xt_responder *resp = &qp->resp;
	struct xt_mem_at at;

	if (resp->rd_cur + 1 == resp->rd_tail ||
	    !xt_reads_look_ahead(ahead, resp->rd_cur, resp->rd_tail) ||
	    !xt_reads_may_fetch(ahead, resp->rd_tail) ||
	    !xt_reads_all(&qp->accesses.reads[XT_READS_RESPOND], resp->rd_cur) ||
	    !responses_waits(qp, xt_rd_at(qp, resp->rd_cur), &at))
		return;
	while (xt_reads_may_fetch(ahead, resp->rd_tail) && responses_fetch_read(qp, ahead))
		ahead->item++;
}

/* packets: in one frame */
static uint8_t responses_response_opcode(const struct xt_rd *rd, const struct xt_repeat *at,
					 uint32_t packets)
{
	bool first = at->next == at->first, last = at->next + packets == at->end;

	if (xt_kinds[rd->kind].response == XT_RESPONSE_ATOMIC)
		return XR_OP_ATOMIC_ACK;
	if (first)
		return last ? XR_OP_READ_RESP_ONLY : XR_OP_READ_RESP_FIRST;
	return last ? XR_OP_READ_RESP_LAST : XR_OP_READ_RESP_MIDDLE;
}

/* Drops repetitions of entries that are not kept: the peer's later requests show it has them. */
static bool repeats(struct xt_qp *qp)
{
	struct xt_responder *resp = &qp->resp;
	uint32_t kept = resp->rd_tail - resp->rd_kept;

	while (resp->repeat_head != resp->repeat_tail &&
	       xt_diff(xt_repeat_at(qp, resp->repeat_head)->index, kept) < 0)
		resp->repeat_head++;
	return resp->repeat_head != resp->repeat_tail;
}

/*
 * at: what was sent. A repetition may overtake the first responses to the same READ. The peer then
 * counts the READ as complete, and may send another one in its place.
 */
static void responses_next_response(struct xt_qp *qp, const struct xt_repeat *at,
				    const struct xt_rd *rd, uint32_t packets)
{
	struct xt_responder *resp = &qp->resp;
	struct xt_repeat *again = xt_repeat_at(qp, resp->repeat_head);
	bool is_next = at->index == resp->rd_cur && at->next == resp->rd_pos;

	resp->rd_pos += is_next ? packets : 0;
	if (is_next && resp->rd_pos == rd->npsn) {
		if (rd->kind == XT_KIND_READ)
			xt_use_remote(qp, XT_USE_REMOTE_READ, rd->rkey, rd->len);
		resp->rd_pos = 0;
		resp->rd_cur++;
	}
	if (at == again)
		resp->repeat_head += ++again->next == again->end;
}

/* Refuses an accepted READ whose memory or key has become invalid. */
static void refuse_response(struct xt_qp *qp, uint32_t psn, uint32_t nak)
{
	struct xt_responder *resp = &qp->resp;

	/* if the QP is in ERR already, this NAK replaces the one that was due */
	if (xt_may_receive(qp))
		xt_resp_refuse(qp, nak);
	resp->nak_code = nak;
	resp->nak_psn = psn;
	resp->rd_cur = resp->rd_tail;
	xt_resp_schedule(qp, XT_ACK_DUE_NAK);
}

/*
 * Drops a repetition whose memory cannot be read: its key may have been invalidated legitimately
 * since the response was sent. Only new requests are refused with a NAK (IBTA 9.7.5).
 */
static bool drop_repetition(struct xt_responder *resp)
{
	if (resp->repeat_head == resp->repeat_tail)
		return false;
	resp->repeat_head++;
	return true;
}

/*
 * Sends the first responses to a READ as a large frame. Returns the number of packets, 0 if the
 * peer has no room, 1 if the next one is to be sent as a packet.
 */
static uint32_t send_large_response(struct xt_qp *qp, const struct xt_repeat *at)
{
	const struct xt_rd *rd = xt_rd_at(qp, at->index);
	uint32_t n = rd->kind == XT_KIND_READ ? xt_large_packets(qp, at->end - 1 - at->next) : 1;
	struct xt_packet p;

	if (n <= 1)
		return n;
	xt_packet_init(&p, responses_response_opcode(rd, at, n), rd->psn + at->next);
	p.packets = n;
	if (p.opcode != XR_OP_READ_RESP_MIDDLE)
		xt_ext_aeth(&p, ack_syndrome(qp), qp->resp.msn);
	if (gather_response(qp, at->index, at->next, n, &p.payload) != GATHERED || !xt_send(qp, &p))
		return 1;
	responses_next_response(qp, at, rd, n);
	return n;
}

enum sent { SENT, SENT_INSTEAD, SENT_NOT, SENT_LATER };

/*
 * SENT_INSTEAD: a NAK is due instead, or nothing. SENT_NOT: there is no room, or it must wait.
 * SENT_LATER: the peer has no room. *packets: that were sent
 */
static enum sent send_response(struct xt_qp *qp, uint32_t *packets)
{
	struct xt_responder *resp = &qp->resp;
	const struct xt_repeat fresh = { resp->rd_cur, 0, resp->rd_pos,
					 xt_rd_at(qp, resp->rd_cur)->npsn };
	const struct xt_repeat *at = repeats(qp) ? xt_repeat_at(qp, resp->repeat_head) : &fresh;
	const struct xt_rd *rd = xt_rd_at(qp, at->index);
	__be64 orig = htobe64(rd->value);
	struct xt_packet p;
	int nak = GATHERED;

	*packets = at == &fresh ? send_large_response(qp, at) : 1;
	if (*packets != 1)
		return *packets ? SENT : SENT_LATER;
	xt_packet_init(&p, responses_response_opcode(rd, at, 1), rd->psn + at->next);
	if (p.opcode != XR_OP_READ_RESP_MIDDLE)
		xt_ext_aeth(&p, ack_syndrome(qp), resp->msn);
	qp->accesses.reads[XT_READS_RESPOND].repeats = at != &fresh;
	if (xt_kinds[rd->kind].response == XT_RESPONSE_READ)
		nak = gather_response(qp, at->index, at->next, 1, &p.payload);
	if (__builtin_expect(qp->accesses.reads[XT_READS_RESPOND].used, false) && nak < 0 &&
	    at == &fresh)
		responses_read_ahead(qp);
	if (nak >= 0) {
		if (!drop_repetition(resp))
			refuse_response(qp, p.psn, nak);
		return SENT_INSTEAD;
	}
	if (nak == MUST_WAIT)
		return SENT_NOT;
	if (p.opcode == XR_OP_ATOMIC_ACK)
		xt_ext_put(&p, &orig, sizeof(orig));
	if (!xt_send(qp, &p))
		return SENT_NOT;
	responses_next_response(qp, at, rd, 1);
	return SENT;
}

/*
 * Returns true if the next response depends on posted writes: an atomic's is the result of one, and
 * a READ may read what earlier requests write.
 */
static bool is_behind_posted(struct xt_qp *qp)
{
	const struct xt_responder *resp = &qp->resp;

	return xt_posted(&qp->accesses, XT_RESPONDER) && resp->rd_cur != resp->rd_tail &&
	       xt_diff(xt_posted_first(&qp->accesses, XT_RESPONDER),
		       xt_rd_at(qp, resp->rd_cur)->psn) <= 0;
}

uint32_t xt_resp_run(struct xt_qp *qp, uint32_t budget, bool *more)
{
	struct xt_responder *resp = &qp->resp;
	enum sent sent;
	uint32_t cost = 0, packets;

	/* a QP in ERR sends only its last NAK and the READ responses before it */
	if (!xt_may_receive(qp) && resp->ack_due != XT_ACK_DUE_NAK)
		return 0;
	while (resp->rd_cur != resp->rd_tail || repeats(qp)) {
		if (!repeats(qp) && is_behind_posted(qp))
			return cost;
		if (cost >= budget || qp->engine->tx_full) {
			*more = true;
			return cost;
		}
		sent = send_response(qp, &packets);
		if (sent == SENT_LATER) {
			*more = true;
			return cost;
		}
		if (sent == SENT_NOT && !qp->engine->tx_full)
			return cost; /* its payload is being read */
		cost += sent == SENT ? packets : 0;
	}
	if (resp->ack_due != XT_ACK_DUE_NONE && !send_ack(qp))
		*more = true;
	return cost;
}
