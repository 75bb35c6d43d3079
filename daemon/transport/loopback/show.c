// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "daemon/transport/rc/build.h"
#include "show.h"

#include "daemon/transport/memory/copy.h"
#include "daemon/transport/queue/sq.h"
#include "daemon/transport/queue/wr_kind.h"

/* The bytes of a work request, if they are mapped. Errors have been found before. */
static void add_payload(struct xt_qp *qp, uint32_t index, uint32_t off, uint32_t len,
			struct xt_packet *p)
{
	struct xt_wc_error error;

	if (xt_wqe_is_mapped(qp, index) && xt_gather(qp, index, off, len, &p->payload, &error))
		return;
	p->payload.n = 0;
	p->payload.len = len;
}

static uint32_t packet_len(const struct xt_qp *qp, const struct xt_swqe *w, uint32_t off)
{
	return w->length - off < qp->mtu ? w->length - off : qp->mtu;
}

static void show_begin(const struct xt_qp *qp, const struct xt_swqe *w, uint32_t psn,
		       struct xt_packet *p)
{
	xt_packet_init(p, 0, psn);
	if (qp->info.type == XR_QPT_XRC_SEND)
		xt_ext_xrceth(p, w->srqn);
}

static void daemon_loopback_show_data(struct xt_qp *qp, const struct xt_cursor *at)
{
	const struct xt_swqe *w = xt_swqe(qp, at->index);
	uint32_t off = (at->psn - w->psn) << qp->mtu_shift;
	struct xt_packet p;

	show_begin(qp, w, at->psn, &p);
	xt_req_data_headers(qp, at, &p);
	p.ackreq = !xt_unreliable(qp) && at->psn + 1 == w->psn + w->npsn;
	add_payload(qp, at->index, off, packet_len(qp, w, off), &p);
	xt_show(qp, &p);
}

/* A request of one packet. An ATOMIC WRITE has 8 bytes of payload, which must be mapped. */
static void daemon_loopback_show_single(struct xt_qp *qp, const struct xt_shown *s)
{
	const struct xt_cursor at = { s->index, s->psn, s->packets };
	struct xt_swqe *w = xt_swqe(qp, s->index);
	struct xt_wc_error error = w->error;
	struct xt_packet p;

	if (w->kind == XT_KIND_ATOMIC_WRITE && !xt_wqe_is_mapped(qp, s->index))
		return;
	show_begin(qp, w, s->psn, &p);
	if (xt_req_build(qp, &at, &p))
		xt_show(qp, &p);
	w->error = error;
}

void xt_show_requests(struct xt_qp *qp, const struct xt_shown *s)
{
	const struct xt_swqe *w = xt_swqe(qp, s->index);
	struct xt_cursor at = { s->index, s->psn, 1 };

	if (w->kind != XT_KIND_SEND && w->kind != XT_KIND_WRITE) {
		daemon_loopback_show_single(qp, s);
		return;
	}
	for (; at.psn != s->psn + s->packets; at.psn++)
		daemon_loopback_show_data(qp, &at);
}

void xt_show_ack(struct xt_qp *peer, uint32_t psn, uint32_t syndrome)
{
	struct xt_packet p;

	xt_packet_init(&p, XR_OP_ACK, psn);
	xt_ext_aeth(&p, syndrome, peer->resp.msn);
	xt_show(peer, &p);
}

void xt_show_atomic_ack(struct xt_qp *peer, uint32_t psn, uint64_t old)
{
	__be64 value = htobe64(old);
	struct xt_packet p;

	xt_packet_init(&p, XR_OP_ATOMIC_ACK, psn);
	xt_ext_aeth(&p, XR_AETH_ACK | XR_AETH_CREDITS_INVALID, peer->resp.msn);
	xt_ext_put(&p, &value, sizeof(value));
	xt_show(peer, &p);
}

static uint8_t show_response_opcode(bool first, bool last)
{
	if (first)
		return last ? XR_OP_READ_RESP_ONLY : XR_OP_READ_RESP_FIRST;
	return last ? XR_OP_READ_RESP_LAST : XR_OP_READ_RESP_MIDDLE;
}

void xt_show_responses(struct xt_qp *qp, struct xt_qp *peer, const struct xt_shown *s)
{
	const struct xt_swqe *w = xt_swqe(qp, s->index);
	uint32_t i, off = (s->psn - w->psn) << qp->mtu_shift;
	struct xt_packet p;

	for (i = 0; i < s->packets; i++, off += qp->mtu) {
		xt_packet_init(&p, show_response_opcode(!i, i + 1 == s->packets), s->psn + i);
		if (p.opcode != XR_OP_READ_RESP_MIDDLE)
			xt_ext_aeth(&p, XR_AETH_ACK | XR_AETH_CREDITS_INVALID, peer->resp.msn);
		if (w->kind == XT_KIND_READ)
			add_payload(qp, s->index, off, packet_len(qp, w, off), &p);
		xt_show(peer, &p);
	}
}

void xt_show_datagram(struct xt_qp *qp, const struct xt_packet *packet, uint32_t index)
{
	struct xt_packet p = *packet;

	if (!p.payload.n)
		add_payload(qp, index, 0, xt_swqe(qp, index)->length, &p);
	xt_show(qp, &p);
}
