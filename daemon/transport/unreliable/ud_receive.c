// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* UD, IBTA 9.8.3: datagrams into receive queues. One that cannot be received is dropped. */
#include <xroce/gid.h>

#include "daemon/transport/engine.h"
#include "daemon/transport/memory/copy.h"
#include "daemon/transport/memory/guard.h"
#include "daemon/transport/memory/put.h"
#include "daemon/transport/queue/rq.h"
#include "daemon/transport/queue/sq.h"
#include "daemon/transport/rc/responder.h"
#include "daemon/transport/scheduling/flow.h"
#include "daemon/transport/waiting/kept.h"
#include "daemon/transport/waiting/posted.h"
#include "daemon/transport/wire/group.h"
#include "daemon/transport/wire/packet.h"
#include "ud.h"
#include "unreliable.h"

static void fail_receive(struct xt_qp *qp, const struct xt_wc_error *error)
{
	struct xr_cqe cqe = {
		.status = error->status,
		.vendor_err = error->verr,
		.opcode = IBV_WC_RECV,
	};

	xt_qp_note(qp, XT_CAUSE_RECEIVE, error->status, error->verr);
	xt_rq_complete(qp, &cqe, false);
	xt_qp_error(qp, true);
}

/*
 * Value of the completion's `sl`, which has no meaning without VLANs. UCX before 1.18 expects the
 * format of ConnectX there and drops datagrams over IPv4 otherwise: bit 3: UDP; bits 2..0: 1 for
 * IPv6, 2 for IPv4.
 */
static uint8_t header_type(const struct xt_datagram *d)
{
	return 8 | (d->grh[0] >> 4 == 6 ? 1 : 2);
}

/* write: posted write with which the receive completes; NULL: all data is in memory */
static void unreliable_complete_receive(struct xt_qp *qp, const struct xt_datagram *d,
					struct xt_mem_io *write)
{
	struct xr_cqe cqe = {
		.status = IBV_WC_SUCCESS,
		.opcode = IBV_WC_RECV,
		.byte_len = XR_GRH_LEN + d->len,
		.imm_data = d->has_imm ? d->imm : 0,
		.wc_flags = IBV_WC_GRH | (d->has_imm ? IBV_WC_WITH_IMM : 0),
		.src_qpn = d->src_qpn,
		.sl = header_type(d),
	};

	qp->counters.rx_messages++;
	qp->resp.epsn++;
	if (write)
		xt_rq_post(qp, &cqe, d->solicited, write);
	else
		xt_rq_complete(qp, &cqe, d->solicited);
}

/* Stores the payload of a datagram as a list, which has room for XR_MAX_SGE segments. */
static void list_payload(const struct xt_datagram *d, struct xt_seg *out)
{
	const struct xt_seg *from = d->src.seg;
	uint64_t skip = d->src.off;
	uint32_t left;

	for (left = d->len; left; left -= (out++)->len, from++, skip = 0) {
		for (; skip >= from->len; from++)
			skip -= from->len;
		out->data = from->data + skip;
		out->len = from->len - skip < left ? from->len - (uint32_t)skip : left;
	}
}

/*
 * Copies the GRH and the payload to the memory of the receive, by one access if possible. A payload
 * that is still in the memory of a work request takes another one.
 */
static enum xt_side scatter(struct xt_qp *qp, struct xt_datagram *d, struct xt_wc_error *error)
{
	struct xt_seg whole[1 + XR_MAX_SGE];
	struct xt_source src = { .seg = whole, .put = d->src.put, .last = d->src.seg || !d->len };
	struct xt_sgl l = xt_receive_sgl(qp);
	enum xt_side side;

	whole[0] = (struct xt_seg){ d->grh, XR_GRH_LEN };
	if (d->src.seg) {
		list_payload(d, whole + 1);
		return xt_scatter(&l, 0, &src, XR_GRH_LEN + d->len, error);
	}
	side = xt_scatter(&l, 0, &src, XR_GRH_LEN, error);
	if (side != XT_SIDE_NONE)
		return side;
	return xt_scatter(&l, XR_GRH_LEN, &d->src, d->len, error);
}

/* The data of a datagram is in memory, or on its way. */
static enum xt_outcome ud_receive_received(struct xt_qp *qp, const struct xt_datagram *d,
					   enum xt_side side, const struct xt_wc_error *error)
{
	struct xt_mem_io *write;
	enum xt_outcome outcome;

	if (side == XT_SIDE_WAIT)
		return XT_NOT_NOW;
	if (side == XT_SIDE_SOURCE)
		return XT_SOURCE_ERROR;
	if (side == XT_SIDE_NONE) {
		outcome = xt_resp_may_complete(qp, d->src.put, d->posted, qp->rq_ring, &write);
		if (outcome == XT_ACCEPTED)
			unreliable_complete_receive(qp, d, write);
		return outcome;
	}
	/* receives complete in order */
	if (xt_posted(&qp->accesses, XT_RESPONDER))
		return XT_NOT_NOW;
	fail_receive(qp, error);
	return XT_REFUSED;
}

/*
 * Delivers a datagram, IBTA 9.8.3.1, or drops it: XT_REFUSED. *error: XT_SOURCE_ERROR, reading the
 * sender's memory failed
 */
static enum xt_outcome try_deliver(struct xt_qp *qp, struct xt_datagram *d,
				   struct xt_wc_error *error)
{
	struct xt_counters *c = &qp->engine->counters;
	enum xt_side side = XT_SIDE_TARGET;
	enum xt_take take;

	if (d->qkey != qp->attr.qkey) {
		c->qkey_errors++;
		return XT_REFUSED;
	}
	take = xt_rq_take(qp, error);
	if (take == XT_TAKE_EMPTY) {
		c->no_receive++;
		return XT_REFUSED;
	}
	if (take == XT_TAKE_OK && XR_GRH_LEN + (uint64_t)d->len > qp->rq.length) {
		c->unreliable_drops++;
		return XT_REFUSED;
	}
	if (take != XT_TAKE_BAD)
		side = d->posted ? XT_SIDE_NONE : scatter(qp, d, error);
	return ud_receive_received(qp, d, side, error);
}

/* Returns XT_NOT_NOW if it must be held. */
static enum xt_outcome deliver(struct xt_qp *qp, struct xt_datagram *d, struct xt_wc_error *error)
{
	enum xt_outcome outcome;
	struct xt_put put;

	xt_resp_begin_put(&put, qp);
	put.kind = XT_KIND_SEND;
	d->src.put = &put;
	d->src.last = true;
	outcome = try_deliver(qp, d, error);
	xt_resp_finish_put(&put, outcome);
	d->src.put = NULL;
	d->posted |= outcome == XT_POSTED;
	return outcome == XT_POSTED ? XT_NOT_NOW : outcome;
}

/* A datagram that is held */
struct held_datagram {
	struct xt_kept head;
	struct xt_datagram d;
	struct xt_seg payload;
	uint8_t data[];
};

static enum xt_side ud_receive_hold(struct xt_qp *qp, const struct xt_datagram *d,
				    struct xt_wc_error *error)
{
	uint32_t len = d->posted ? 0 : d->len;
	struct held_datagram *item;

	item = (struct held_datagram *)xt_kept_take_block(qp, sizeof(*item) + len);
	if (!item) {
		XT_QP_COUNT(qp, rx_held_lost, 1);
		return XT_SIDE_NONE;
	}
	xt_kept_put_in(qp, &qp->waiting.kept[XT_RESPONDER], &item->head);
	/* mapped memory of the sender may be absent */
	if (xt_guard_copy_segs(item->data, d->src.seg, d->src.off, len)) {
		xt_kept_take_out(qp, &item->head);
		xt_kept_free(qp, &item->head);
		*error = (struct xt_wc_error){ IBV_WC_LOC_PROT_ERR, XR_VERR_MEMORY };
		return XT_SIDE_SOURCE;
	}
	item->d = *d;
	item->payload = (struct xt_seg){ item->data, d->len };
	item->d.src.seg = &item->payload;
	item->d.src.off = 0;
	return XT_SIDE_NONE;
}

void xt_ud_write_failed(struct xt_qp *qp)
{
	struct xt_wc_error error;

	/* the receive that the data was for is the oldest */
	if (xt_rq_take(qp, &error) == XT_TAKE_EMPTY)
		return;
	error = (struct xt_wc_error){ IBV_WC_LOC_PROT_ERR, XR_VERR_MEMORY };
	fail_receive(qp, &error);
}

bool xt_ud_resume(struct xt_qp *qp, struct xt_kept *item)
{
	struct xt_wc_error error;

	return deliver(qp, &((struct held_datagram *)item)->d, &error) != XT_NOT_NOW;
}

enum xt_side xt_ud_deliver(struct xt_qp *qp, struct xt_datagram *d, struct xt_wc_error *error)
{
	enum xt_outcome outcome = XT_NOT_NOW;
	struct xt_payload payload;

	d->posted = false;
	if (!xt_keeps(&qp->waiting, XT_RESPONDER))
		outcome = deliver(qp, d, error);
	if (outcome != XT_NOT_NOW)
		return outcome == XT_SOURCE_ERROR ? XT_SIDE_SOURCE : XT_SIDE_NONE;
	if (!d->src.seg && !d->posted) {
		*error = (struct xt_wc_error){ 0 };
		if (!xt_gather(d->src.qp, d->src.index, 0, d->len, &payload, error))
			return XT_SIDE_SOURCE;
		d->src = (struct xt_source){ .seg = payload.seg };
	}
	return ud_receive_hold(qp, d, error);
}

void xt_ud_rx(struct xt_qp *qp, const struct xt_rx *rx)
{
	struct xt_wc_error error;
	struct xr_deth deth;
	struct xt_datagram d;

	memcpy(&deth, rx->ext, sizeof(deth));
	d.src = (struct xt_source){ .seg = rx->frame->seg, .off = rx->frame->meta.payload_off };
	d.len = rx->len;
	d.qkey = be32toh(deth.qkey);
	d.src_qpn = be32toh(deth.sqpn) & XR_QPN_MASK;
	d.has_imm = rx->flags & XR_EXT_IMMDT;
	d.solicited = rx->solicited;
	if (d.has_imm)
		memcpy(&d.imm, rx->ext + sizeof(deth), sizeof(d.imm));
	xt_grh_of_frame(rx->frame, d.grh);
	xt_ud_deliver(qp, &d, &error);
}

static struct xr_addr destination(const struct xt_frame *frame)
{
	const uint8_t *ip = frame->seg[0].data + frame->meta.ip_off;
	struct xr_addr gid;
	__be32 addr;

	if (frame->meta.ip_version == 4) {
		memcpy(&addr, ip + 16, sizeof(addr));
		xr_gid_set_ipv4(&gid, addr);
	} else {
		memcpy(gid.raw, ip + 24, sizeof(gid.raw));
	}
	return gid;
}

/* The sender gets no copy (IBTA 10.5.2). */
static bool is_sender(const struct xt_qp *qp, const struct xt_rx *rx)
{
	struct xr_deth deth;

	memcpy(&deth, rx->ext, sizeof(deth));
	return rx->frame->self && qp->info.qpn == (be32toh(deth.sqpn) & XR_QPN_MASK);
}

void xt_ud_rx_group(struct xt_engine *e, const struct xt_rx *rx)
{
	struct xr_addr gid = destination(rx->frame);
	const struct xt_group *g = xt_group_find(e->shared->groups, &gid);
	struct xt_qp *qp;
	uint32_t i;

	if (!g && !rx->frame->self)
		e->counters.rx_no_qp++;
	for (i = 0; g && i < g->members; i++) {
		if (g->member[i].engine == e) {
			qp = xt_group_qp(g, i);
			if (qp && xt_may_receive(qp) && !is_sender(qp, rx))
				xt_ud_rx(qp, rx);
		} else if (xt_group_first_of_engine(g, i) && !rx->frame->forwarded) {
			xt_forward(e, g->member[i].engine, rx->frame);
		}
	}
}
