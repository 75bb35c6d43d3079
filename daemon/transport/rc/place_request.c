// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Payload of early requests. To know where it belongs, the packets behind the gap are followed from
 * message to message: the first packet of a WRITE has the address, and SENDs take the posted
 * receives in order. If a single packet is missing between two others, their opcodes tell what it
 * is.
 */
#include <endian.h>

#include "daemon/transport/memory/copy.h"
#include "check.h"
#include "execute.h"
#include "daemon/transport/memory/guard.h"
#include "daemon/transport/waiting/kept.h"
#include "place.h"
#include "daemon/transport/qp.h"
#include "daemon/transport/queue/rq.h"
#include "daemon/transport/queue/wr_kind.h"
#include "daemon/transport/waiting/posted.h"

/* Bytes that a packet will write in its turn: it is missing, or kept with its payload. */
struct place_request_range {
	uint64_t addr;
	uint32_t len, key;
	uint32_t first, last; /* PSNs of these packets, as several may write the same bytes */
};

#define RANGES 16

/* What is known of the requests behind a gap */
struct xt_known {
	struct xt_kept head;
	uint32_t end;	  /* one beyond the last packet that is known */
	uint32_t start;	  /* first packet of its message */
	uint8_t kind;	  /* enum xt_wr_kind of its message; XT_KIND_NONE: there was none */
	bool ended;	  /* its message has no more packets */
	bool lost;	  /* it cannot be known where later packets belong */
	bool taken;	  /* the message is a SEND, and has the receive that was taken */
	bool counted;	  /* `receive` is valid */
	uint32_t receive; /* index of the message's receive, or of the next one after its end */
	struct xr_sge to; /* memory of the message; lkey: a WRITE's R_Key, 0: several SGEs */
	uint32_t ranges;
	struct place_request_range range[RANGES];
};

_Static_assert(sizeof(struct xt_known) <= XT_KEPT_SMALL_BLOCK, "fits a small block");

/* ---- ranges ------------------------------------------------------------------------------- */

/* Drops the ranges of packets that have been executed. */
static void prune(const struct xt_qp *qp, struct xt_known *k)
{
	for (uint32_t i = 0; i < k->ranges;)
		if (xt_diff(k->range[i].last, qp->resp.epsn) < 0)
			k->range[i] = k->range[--k->ranges];
		else
			i++;
}

/* Ranges with different keys may be the same memory. */
static bool may_overlap(const struct place_request_range *a, const struct place_request_range *b)
{
	return a->key != b->key || (a->addr < b->addr + b->len && b->addr < a->addr + a->len);
}

/* Returns true if packets of earlier messages may write some of these bytes later. */
static bool others_write(const struct xt_qp *qp, struct xt_known *k,
			 const struct place_request_range *r)
{
	prune(qp, k);
	for (uint32_t i = 0; i < k->ranges; i++)
		if (xt_diff(k->range[i].first, k->start) < 0 && may_overlap(&k->range[i], r))
			return true;
	return false;
}

static bool contains(const struct place_request_range *a, const struct place_request_range *b)
{
	return a->key == b->key && a->addr <= b->addr && b->addr - a->addr + b->len <= a->len;
}

/* r is behind all ranges, or was added when its packet was found to be missing. */
static void place_request_add_range(const struct xt_qp *qp, struct xt_known *k,
				    const struct place_request_range *r)
{
	prune(qp, k);
	for (uint32_t i = 0; i < k->ranges; i++)
		if (contains(&k->range[i], r)) {
			if (xt_diff(r->last, k->range[i].last) > 0)
				k->range[i].last = r->last;
			return;
		}
	if (k->ranges == RANGES)
		k->lost = true;
	else
		k->range[k->ranges++] = *r;
}

/* The bytes of a packet of the message */
static struct place_request_range range_of(const struct xt_qp *qp, const struct xt_known *k,
					   uint32_t psn, uint32_t len)
{
	uint64_t off = (uint64_t)(psn - k->start) << qp->mtu_shift;

	return (struct place_request_range){ k->to.addr + off, len, k->to.lkey, psn, psn };
}

/* ---- messages ----------------------------------------------------------------------------- */

/* Begins at the expected packet. */
static void place_request_begin(const struct xt_qp *qp, struct xt_known *k)
{
	const struct xt_responder *resp = &qp->resp;
	const struct xt_receive *rq = &qp->rq;

	k->end = resp->epsn;
	k->kind = resp->kind;
	k->ended = resp->kind == XT_KIND_NONE;
	k->start = k->ended ? resp->epsn : resp->epsn - (resp->done >> qp->mtu_shift);
	k->lost = false;
	k->taken = resp->kind == XT_KIND_SEND;
	k->counted = qp->rq_ring;
	k->receive = rq->consumer;
	k->ranges = 0;
	k->to = (struct xr_sge){ 0 };
	if (resp->kind == XT_KIND_WRITE)
		k->to = (struct xr_sge){ resp->va, resp->length, resp->rkey };
	else if (k->taken && rq->num_sge == 1)
		k->to = *qp->rq_sge;
}

/* Returns NULL if there is no block for it. */
static struct xt_known *known_of(struct xt_qp *qp)
{
	struct xt_list *list = &qp->waiting.known;
	struct xt_known *k = (struct xt_known *)list->next;

	if (!xt_list_empty(list) && xt_diff(k->end, qp->resp.epsn) > 0)
		return k;
	if (xt_list_empty(list)) {
		k = (struct xt_known *)xt_kept_take_block(qp, sizeof(*k));
		if (!k)
			return NULL;
		xt_kept_put_in(qp, list, &k->head);
	}
	place_request_begin(qp, k);
	return k;
}

/*
 * Returns false if the WRITE will be refused. Its whole range is checked before the first byte
 * (IBTA 9.7.4.1.5).
 */
static bool place_request_begin_write(const struct xt_qp *qp, struct xt_known *k,
				      const struct xt_rx *rx)
{
	struct xr_reth reth;
	struct xr_key_use use;
	struct xt_mem_at at;

	memcpy(&reth, rx->ext, sizeof(reth));
	k->to = (struct xr_sge){ be64toh(reth.va), be32toh(reth.len), be32toh(reth.rkey) };
	use = (struct xr_key_use){
		.key = k->to.lkey,
		.access = XR_ACCESS_REMOTE_WRITE,
		.va = k->to.addr,
		.len = k->to.length,
	};
	return xt_resp_permits(qp, &use, &at);
}

static void place_request_begin_message(struct xt_qp *qp, struct xt_known *k,
					const struct xt_rx *rx, uint32_t psn)
{
	k->start = psn;
	k->kind = xt_op_kinds[rx->opcode];
	k->ended = k->taken = false;
	if (k->kind == XT_KIND_SEND)
		k->lost = !k->counted || !xt_rq_peek(qp, k->receive, &k->to);
	else
		k->lost = k->kind != XT_KIND_WRITE || !place_request_begin_write(qp, k, rx);
}

/* immediate: a WRITE has immediate data, with which it takes a receive */
static void end_message(struct xt_known *k, bool immediate)
{
	k->ended = true;
	k->receive += k->kind == XT_KIND_SEND || immediate;
}

/* One packet is missing before rx. It is of the same message, or ends the one before. */
static void place_request_skip(struct xt_qp *qp, struct xt_known *k, const struct xt_rx *rx)
{
	bool start = rx->flags & XR_OPF_START;
	struct place_request_range r;

	/* a message of one packet and of any kind, or the packet with the address of a WRITE */
	if (k->ended && (start || xt_op_kinds[rx->opcode] != XT_KIND_SEND)) {
		k->lost = true;
		return;
	}
	if (k->ended)
		place_request_begin_message(qp, k, rx, k->end);
	r = range_of(qp, k, k->end, qp->mtu);
	place_request_add_range(qp, k, &r);
	if (!start)
		return;
	k->counted &= k->kind == XT_KIND_SEND; /* a WRITE may have immediate data */
	end_message(k, false);
}

/* rx is the next packet. */
static void place_request_pass(struct xt_qp *qp, struct xt_known *k, const struct xt_rx *rx,
			       uint32_t psn)
{
	bool start = rx->flags & XR_OPF_START;

	if (start != k->ended || (!start && xt_op_kinds[rx->opcode] != k->kind))
		k->lost = true;
	else if (start)
		place_request_begin_message(qp, k, rx, psn);
	if (rx->flags & XR_OPF_END)
		end_message(k, rx->flags & XR_EXT_IMMDT);
	k->end = psn + 1;
}

/*
 * Returns true if the packet is of the message of the last packet that is known. A packet behind
 * that one becomes the last one.
 */
static bool follow(struct xt_qp *qp, struct xt_known *k, const struct xt_rx *rx, uint32_t psn)
{
	int32_t missing = xt_diff(psn, k->end);

	if (k->lost || missing > 1)
		return false;
	if (missing < 0)
		return k->kind != XT_KIND_NONE && xt_diff(psn, k->start) >= 0;
	if (missing)
		place_request_skip(qp, k, rx);
	if (!k->lost)
		place_request_pass(qp, k, rx, psn);
	return !k->lost;
}

/* ---- payload ------------------------------------------------------------------------------ */

static bool place_write(const struct xt_qp *qp, const struct xt_known *k, const struct xt_rx *rx,
			uint64_t off)
{
	struct xr_key_use use = {
		.key = k->to.lkey,
		.access = XR_ACCESS_REMOTE_WRITE,
		.va = k->to.addr + off,
		.len = rx->len,
	};
	const struct xt_frame *f = rx->frame;
	struct xt_mem_at at;

	return off + rx->len < k->to.length && xt_resp_permits(qp, &use, &at) &&
	       XT_UNORDERED(xt_mem_place(&at, f->seg, f->meta.payload_off, rx->len));
}

static bool place_send(struct xt_qp *qp, const struct xt_known *k, const struct xt_rx *rx,
		       uint64_t off)
{
	struct xt_sgl l = { .qp = qp, .pd = qp->info.pd, .n = 1, .sge = &k->to };
	uint64_t length = k->to.length;

	if (k->taken) {
		l = xt_receive_sgl(qp);
		length = qp->rq.length;
	}
	return off + rx->len <= length && xt_scatter_mapped(&l, off, rx);
}

static bool rc_place(struct xt_qp *qp, struct xt_known *k, const struct xt_rx *rx,
		     const struct place_request_range *r)
{
	uint64_t off = (uint64_t)(r->first - k->start) << qp->mtu_shift;

	if (rx->flags & XR_OPF_END || rx->len != qp->mtu || others_write(qp, k, r))
		return false;
	return k->kind == XT_KIND_WRITE ? place_write(qp, k, rx, off) : place_send(qp, k, rx, off);
}

bool xt_place_request(struct xt_qp *qp, const struct xt_rx *rx, uint32_t psn)
{
	struct xt_known *k;
	struct place_request_range r;

	/* earlier writes of a program's private memory come first */
	if (qp->info.type == XR_QPT_XRC_RECV || xt_posted(&qp->accesses, XT_RESPONDER))
		return false;
	k = known_of(qp);
	if (!k || !follow(qp, k, rx, psn))
		return false;
	r = range_of(qp, k, psn, rx->len);
	if (rc_place(qp, k, rx, &r))
		return true;
	place_request_add_range(qp, k, &r);
	return false;
}

void xt_place_lose(struct xt_qp *qp)
{
	if (!xt_list_empty(&qp->waiting.known))
		((struct xt_known *)qp->waiting.known.next)->lost = true;
}

void xt_place_end(struct xt_qp *qp)
{
	struct xt_kept *known = (struct xt_kept *)qp->waiting.known.next;

	if (xt_list_empty(&qp->waiting.known))
		return;
	xt_kept_take_out(qp, known);
	xt_kept_free(qp, known);
}
