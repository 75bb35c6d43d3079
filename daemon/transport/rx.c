// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Received frames: checks them and dispatches them to QPs. */

#include <xroce/gid.h>

#include "daemon/transport/wire/checksum.h"
#include "daemon/transport/rc/completer.h"
#include "daemon/transport/rc/early.h"
#include "engine.h"
#include "daemon/transport/scheduling/flow.h"
#include "flush.h"
#include "daemon/transport/wire/icrc.h"
#include "daemon/transport/wire/packet.h"
#include "qp.h"
#include "daemon/transport/rc/responder.h"
#include "daemon/transport/unreliable/unreliable.h"

/* The metadata is not trusted: every offset that is used below is checked here. */
static bool rx_parse(struct xt_frame *frame, struct xt_rx *rx)
{
	const struct xr_meta *m = &frame->meta;
	uint32_t word, end;
	struct xr_bth bth;

	if (!frame->nseg || m->bth_off + XR_BTH_HLEN > frame->seg[0].len)
		return false;
	memcpy(&bth, frame->seg[0].data + m->bth_off, sizeof(bth));
	rx->frame = frame;
	rx->opcode = bth.opcode;
	rx->flags = xr_opcodes[bth.opcode].flags;
	rx->solicited = bth.flags & XR_BTH_SE;
	rx->ext = frame->seg[0].data + m->bth_off + XR_BTH_HLEN;
	rx->len = m->payload_len;
	rx->packets = frame->packets > 1 ? frame->packets : 1;
	word = be32toh(bth.ack_psn);
	rx->ackreq = word & XR_BTH_ACKREQ;
	rx->psn = word & XR_PSN_MASK;
	rx->placed = rx->posted = false;

	end = m->payload_off + m->payload_len + xt_pad_count(rx->ext - XR_BTH_HLEN) + XR_ICRC_LEN;
	return (be16toh(bth.pkey) & XR_PKEY_MASK) == (XR_DEFAULT_PKEY & XR_PKEY_MASK) &&
	       rx->flags && m->payload_off <= frame->seg[0].len && end <= frame->len &&
	       m->payload_off == m->bth_off + XR_BTH_HLEN + xr_opcodes[rx->opcode].ext_len;
}

/*
 * Returns true if the frame's addresses are those of the QP's path. A loopback peer sends no
 * frames, or the device itself has received them: else one with our own source address is forged.
 */
static bool rx_from_peer(const struct xt_qp *qp, const struct xt_frame *frame)
{
	const struct xt_path *path = &qp->path;
	const uint8_t *ip = frame->seg[0].data + frame->meta.ip_off;

	if (path->loopback || frame->self != path->self ||
	    frame->meta.ip_version != path->ip_version)
		return false;
	if (path->ip_version == 4)
		return xr_gid_is_ipv4(&path->dgid) &&
		       !memcmp(ip + 12, path->dgid.raw + XR_GID_IPV4_OFF, 4) &&
		       !memcmp(ip + 16, path->sgid.raw + XR_GID_IPV4_OFF, 4);
	return !memcmp(ip + 8, path->dgid.raw, 16) && !memcmp(ip + 24, path->sgid.raw, 16);
}

/*
 * Checks the opcode's class against the QP's type. Connected types accept frames of their peer
 * only. XRC initiators accept responses, and targets accept requests.
 */
static bool rx_fits(const struct xt_qp *qp, const struct xt_rx *rx)
{
	bool request = rx->flags & XR_OPF_REQUEST;

	switch (rx->opcode & XR_CLASS_MASK) {
	case XR_CLASS_RC:
		return qp->info.type == XR_QPT_RC && rx_from_peer(qp, rx->frame);
	case XR_CLASS_UC:
		return qp->info.type == XR_QPT_UC && rx_from_peer(qp, rx->frame);
	case XR_CLASS_XRC:
		return qp->info.type == (request ? XR_QPT_XRC_RECV : XR_QPT_XRC_SEND) &&
		       rx_from_peer(qp, rx->frame);
	case XR_CLASS_UD:
		return qp->info.type == XR_QPT_UD;
	default:
		return false;
	}
}

bool xt_rx_connected(struct xt_qp *qp, struct xt_rx *rx)
{
	if (qp->info.type == XR_QPT_UC)
		return xt_uc_rx(qp, rx);
	if (rx->flags & XR_OPF_REQUEST)
		return xt_responder_rx(qp, rx);
	return xt_completer_rx(qp, rx);
}

/* A large frame begins with a FIRST or MIDDLE packet, and has not been on a wire. */
static bool may_be_large(const struct xt_qp *qp, const struct xt_rx *rx)
{
	return qp->info.type == XR_QPT_RC && rx->flags & XR_OPF_FULL_MTU &&
	       rx->len == rx->packets * qp->mtu;
}

static void to_qp(struct xt_engine *e, struct xt_qp *qp, struct xt_rx *rx)
{
	if (!rx_fits(qp, rx) ||
	    (__builtin_expect(rx->packets > 1, false) && !may_be_large(qp, rx))) {
		e->counters.rx_malformed++;
		return;
	}
	if (!xt_may_receive(qp)) {
		e->counters.rx_qp_state++;
		return;
	}
	xt_flow_received(qp->flow);
	qp->counters.rx_packets += rx->packets;
	qp->counters.rx_bytes += rx->frame->len;
	/* from here on the opcode is the operation without the class */
	rx->opcode &= ~XR_CLASS_MASK;
	if (qp->info.type == XR_QPT_UD) {
		xt_ud_rx(qp, rx);
		return;
	}
	if (__builtin_expect(rx->frame->inject.kind != XT_INJECT_NONE, false)) {
		xt_qp_inject(qp, rx->frame->inject, true);
		if (!xt_may_receive(qp))
			return;
	}
	/* UC: in the order of their arrival */
	if ((qp->info.type == XR_QPT_UC && xt_keeps(&qp->waiting, XT_RESPONDER)) ||
	    !xt_rx_connected(qp, rx))
		xt_early_hold(qp, rx);
}

/*
 * The engine that receives a frame checks it, also for a QP of another engine, so that invalid
 * frames use no room there. The UDP checksum comes last: in most packets it is 0, which costs
 * nothing to check.
 */
static bool is_intact(struct xt_engine *e, struct xt_frame *frame)
{
	if (frame->forwarded)
		return true;
	if (__builtin_expect(frame->unsealed, false) && xt_frame_fits(frame))
		return true;
	if (!xt_icrc_accept(frame)) {
		e->counters.rx_icrc_errors++;
		return false;
	}
	if (!xt_udp_checksum_ok(frame)) {
		e->counters.rx_udp_checksum_errors++;
		return false;
	}
	return true;
}

static void rx_group(struct xt_engine *e, const struct xt_rx *rx)
{
	if (!is_intact(e, rx->frame))
		return;
	if ((rx->opcode & XR_CLASS_MASK) != XR_CLASS_UD)
		e->counters.rx_malformed++;
	else
		xt_ud_rx_group(e, rx);
}

static void rx_one(struct xt_engine *e, struct xt_frame *frame)
{
	struct xt_qp *qp;
	struct xt_rx rx;

	e->counters.rx_packets += frame->packets > 1 ? frame->packets : 1;
	e->counters.rx_bytes += frame->len;
	if (!rx_parse(frame, &rx)) {
		e->counters.rx_malformed++;
		return;
	}
	if (frame->meta.qpn == XR_MULTICAST_QPN) {
		rx_group(e, &rx);
		return;
	}
	qp = xt_qp_by_num(e->shared->qps, frame->meta.qpn);
	if (!qp) {
		e->counters.rx_no_qp++;
		return;
	}
	if (!is_intact(e, frame))
		return;
	if (qp->engine != e) {
		xt_forward(e, qp->engine, frame);
		return;
	}
	if (rx.opcode == XR_OPCODE_CNP)
		e->counters.cnps_received++;
	else
		to_qp(e, qp, &rx);
}

void xt_engine_rx(struct xt_engine *e, struct xt_frame *frames, unsigned n, uint64_t now)
{
	unsigned i;

	e->now = now;
	xt_flush_failed(e); /* QPs that another engine has marked */
	for (i = 0; i < n; i++)
		rx_one(e, &frames[i]);
	xt_flush_failed(e);
}
