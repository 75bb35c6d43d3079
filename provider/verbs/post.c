// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Posting. No system call is made while the worker is awake. */
#include <string.h>
#include <unistd.h>

#include "provider/base/cancel.h"
#include "provider/base/debug.h"
#include "provider/host/host.h"
#include "provider/verbs/ah.h"
#include "provider/verbs/post.h"
#include "provider/verbs/qp.h"
#include "provider/verbs/request.h"

void xp_ring_doorbell(struct xp_qp *qp)
{
	uint64_t one = 1;

	if (qp->ctx->host) {
		xp_doorbell_ring(qp->doorbell, qp->slot);
		qp->ctx->host_ops->kick(qp->ctx->host);
	} else if (xp_doorbell_ring(qp->doorbell, qp->slot)) {
		int saved = errno, cancel = xp_cancel_off();

		/* Fails only if the counter is full, which wakes as well, or the daemon is gone. */
		if (write(qp->wake, &one, sizeof(one)) < 0)
			errno = saved;
		xp_cancel_restore(cancel);
	}
}

_Static_assert(sizeof(struct ibv_sge) == sizeof(struct xr_sge) &&
		       offsetof(struct ibv_sge, length) == offsetof(struct xr_sge, length) &&
		       offsetof(struct ibv_sge, lkey) == offsetof(struct xr_sge, lkey),
	       "struct xr_sge has the layout of struct ibv_sge");

/* ---- send ---------------------------------------------------------------------- */

void xp_wqe_init(struct xr_send_wqe *wqe, uint64_t wr_id, unsigned int opcode, unsigned int flags)
{
	memset(wqe, 0, sizeof(*wqe));
	wqe->wr_id = wr_id;
	wqe->opcode = opcode;
	wqe->flags = flags;
}

void xp_wqe_bind(struct xr_send_wqe *wqe, const struct ibv_mw *mw, uint32_t new_rkey,
		 const struct ibv_mw_bind_info *info)
{
	wqe->bind.mw_rkey = mw->rkey;
	wqe->bind.new_rkey = new_rkey;
	wqe->bind.mr_lkey = info->mr ? info->mr->lkey : 0;
	wqe->bind.access = info->mw_access_flags;
	wqe->remote_addr = info->addr;
	wqe->bind_len = info->length;
}

int xp_wqe_inline(const struct xp_qp *qp, struct xr_send_wqe *wqe, const void *data, size_t len)
{
	if (len > qp->max_inline - wqe->inline_len)
		return EINVAL;
	memcpy((uint8_t *)(wqe + 1) + wqe->inline_len, data, len);
	wqe->inline_len += len;
	return 0;
}

bool xp_wqe_may_inline(const struct xr_send_wqe *wqe)
{
	switch (wqe->opcode) {
	case XR_WR_SEND:
	case XR_WR_SEND_WITH_IMM:
	case XR_WR_SEND_WITH_INV:
	case XR_WR_RDMA_WRITE:
	case XR_WR_RDMA_WRITE_WITH_IMM:
	case XR_WR_ATOMIC_WRITE:
		return true;
	default:
		return false;
	}
}

static int post_copy_inline(const struct xp_qp *qp, struct xr_send_wqe *wqe,
			    const struct ibv_send_wr *wr)
{
	int i, err = xp_wqe_may_inline(wqe) ? 0 : EINVAL;

	for (i = 0; i < wr->num_sge && !err; i++)
		err = xp_wqe_inline(qp, wqe, (void *)(uintptr_t)wr->sg_list[i].addr,
				    wr->sg_list[i].length);
	return err;
}

/* Fills the fields that depend on the operation. Returns 0 or EINVAL. */
static int fill_operation(struct xr_send_wqe *wqe, const struct ibv_send_wr *wr)
{
	switch (wr->opcode) {
	case IBV_WR_SEND:
		return 0;
	case IBV_WR_SEND_WITH_IMM:
		wqe->imm_data = wr->imm_data;
		return 0;
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_LOCAL_INV:
		wqe->invalidate_rkey = wr->invalidate_rkey;
		return 0;
	case IBV_WR_BIND_MW:
		xp_wqe_bind(wqe, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
		return 0;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		wqe->imm_data = wr->imm_data;
		/* fall through */
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_READ:
	case XR_WR_ATOMIC_WRITE: /* IBV_WR_ATOMIC_WRITE since rdma-core 43 */
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		wqe->remote_addr = wr->wr.atomic.remote_addr;
		wqe->rkey = wr->wr.atomic.rkey;
		wqe->atomic.compare_add = wr->wr.atomic.compare_add;
		wqe->atomic.swap = wr->wr.atomic.swap;
		return 0;
	default:
		return EINVAL; /* as drivers of rdma-core do */
	}
	wqe->remote_addr = wr->wr.rdma.remote_addr;
	wqe->rkey = wr->wr.rdma.rkey;
	return 0;
}

/* Returns true if a QP of this type can perform the WR (IBTA 9.8). */
static bool fits_type(const struct xp_qp *qp, const struct ibv_send_wr *wr)
{
	bool send = wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_SEND_WITH_IMM;
	bool write = wr->opcode == IBV_WR_RDMA_WRITE || wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	bool local = wr->opcode == IBV_WR_LOCAL_INV || wr->opcode == IBV_WR_BIND_MW;

	switch (qp->ibqp.qp_type) {
	case IBV_QPT_UD:
		return send && wr->wr.ud.ah && xp_is_of(wr->wr.ud.ah, xp_ah, qp->ctx);
	case IBV_QPT_UC:
		return send || write || local;
	default:
		return true;
	}
}

/* Fills the destination, for QPs without a single peer. */
static void fill_destination(const struct xp_qp *qp, struct xr_send_wqe *wqe,
			     const struct ibv_send_wr *wr)
{
	if (qp->ibqp.qp_type == IBV_QPT_UD) {
		wqe->ud.ah = wr->wr.ud.ah->handle;
		wqe->ud.remote_qpn = wr->wr.ud.remote_qpn;
		wqe->ud.remote_qkey = wr->wr.ud.remote_qkey;
	} else if (qp->ibqp.qp_type == IBV_QPT_XRC_SEND) {
		wqe->xrc_srqn = wr->qp_type.xrc.remote_srqn;
	}
}

int xp_fill_send(const struct xp_qp *qp, struct xr_send_wqe *wqe, const struct ibv_send_wr *wr)
{
	int err;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->max_send_sge ||
	    wr->send_flags & ~XP_SEND_FLAGS)
		return EINVAL;
	xp_wqe_init(wqe, wr->wr_id, wr->opcode, wr->send_flags);
	err = fits_type(qp, wr) ? fill_operation(wqe, wr) : EINVAL;
	if (err)
		return err;
	fill_destination(qp, wqe, wr);
	if (wr->send_flags & IBV_SEND_INLINE)
		return post_copy_inline(qp, wqe, wr);
	wqe->num_sge = wr->num_sge;
	if (wr->num_sge)
		memcpy(wqe + 1, wr->sg_list, wr->num_sge * sizeof(struct xr_sge));
	return 0;
}

int xp_refuse_full(const char *verb, const char *field, uint32_t limit)
{
	return xp_refuse(verb, ENOMEM,
			 "the queue is full: %s is %u, and completions of as many were not polled",
			 field, limit);
}

#define POST "ibv_post_send"

static const char *const type_names[] = {
	[IBV_QPT_RC] = "RC", [IBV_QPT_UC] = "UC", [IBV_QPT_UD] = "UD", [IBV_QPT_XRC_SEND] = "XRC"
};

void xp_explain_send(const char *verb, const struct xp_qp *qp, const struct ibv_send_wr *wr,
		     int err, enum ibv_mw_type mw_type)
{
	if (err == ENOMEM)
		xp_refuse_full(verb, "max_send_wr", qp->sq.limit);
	else if (!xp_can_send(qp->ibqp.state))
		xp_refuse(verb, err, "the QP is in state %d; IBV_QPS_RTS or later", qp->ibqp.state);
	else if (wr->opcode == IBV_WR_BIND_MW && wr->bind_mw.mw->type != mw_type)
		xp_refuse(verb, err,
			  "a window of type %d; ibv_bind_mw is for type 1, this for type 2",
			  (int)wr->bind_mw.mw->type);
	else if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->max_send_sge)
		xp_refuse(verb, err, "num_sge %d, limit %u", wr->num_sge, qp->max_send_sge);
	else if (wr->send_flags & ~XP_SEND_FLAGS)
		xp_refuse(verb, err, "send_flags 0x%x, known 0x%x", wr->send_flags, XP_SEND_FLAGS);
	else if (!fits_type(qp, wr))
		xp_refuse(verb, err, "opcode %d does not fit a QP of type %s%s", (int)wr->opcode,
			  type_names[qp->ibqp.qp_type],
			  qp->ibqp.qp_type == IBV_QPT_UD
				  ? ", or ah is missing or of another context"
				  : "");
	else if (wr->send_flags & IBV_SEND_INLINE)
		xp_refuse(verb, err,
			  "opcode %d with inline data, limit %u bytes; for SEND and WRITE only",
			  (int)wr->opcode, qp->max_inline);
	else
		xp_refuse(verb, err, "opcode %d is not known", (int)wr->opcode);
}

/* @mw_type: type of the windows that may be bound. */
static int post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr,
		     enum ibv_mw_type mw_type)
{
	struct xp_qp *qp = xp_qp(ibqp);
	uint32_t before;
	bool posted;
	int err = 0;

	if (xp_health(xp_qp(ibqp)->ctx) == XP_FORKED) {
		*bad_wr = wr;
		return -xp_refuse(POST, EIO, "%s", XP_FORKED_TEXT);
	}
	xp_lock(&qp->sq_lock);
	before = qp->sq.head;
	for (; wr; wr = wr->next) {
		if (!xp_can_send(ibqp->state) ||
		    (wr->opcode == IBV_WR_BIND_MW && wr->bind_mw.mw->type != mw_type))
			err = EINVAL;
		else if (!xp_ring_room(&qp->sq))
			err = ENOMEM;
		else
			err = xp_fill_send(qp, xp_ring_next(&qp->sq), wr);
		if (err) {
			*bad_wr = wr;
			break;
		}
		xp_ring_push(&qp->sq, wr->wr_id);
	}
	posted = qp->sq.head != before;
	if (posted)
		xp_ring_publish(&qp->sq);
	xp_unlock(&qp->sq_lock);
	if (err)
		xp_explain_send(POST, qp, wr, err, mw_type);
	if (posted)
		xp_ring_doorbell(qp);
	return err;
}

int xp_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	return post_send(ibqp, wr, bad_wr, IBV_MW_TYPE_2);
}

int xp_post_bind(struct ibv_qp *ibqp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return post_send(ibqp, wr, &bad, IBV_MW_TYPE_1);
}

/* ---- receive ------------------------------------------------------------------- */

int xp_fill_recv(struct xr_recv_wqe *wqe, uint32_t max_sge, const struct ibv_recv_wr *wr)
{
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > max_sge)
		return EINVAL;
	wqe->wr_id = wr->wr_id;
	wqe->num_sge = wr->num_sge;
	wqe->reserved = 0;
	if (wr->num_sge)
		memcpy(wqe + 1, wr->sg_list, wr->num_sge * sizeof(struct xr_sge));
	return 0;
}

int xp_refuse_recv(const char *verb, int err, const struct ibv_recv_wr *wr, uint32_t max_sge,
		   uint32_t max_wr)
{
	if (err == ENOMEM)
		return xp_refuse_full(verb, "max_wr", max_wr);
	return xp_refuse(verb, err, "num_sge %d, limit %u", wr->num_sge, max_sge);
}

static void explain_recv(const struct xp_qp *qp, const struct ibv_recv_wr *wr, int err)
{
	const char *verb = "ibv_post_recv";

	if (qp->ibqp.srq)
		xp_refuse(verb, err, "the QP has an SRQ: ibv_post_srq_recv");
	else if (!qp->ibqp.recv_cq)
		xp_refuse(verb, err, "an XRC QP has no receive queue");
	else if (qp->ibqp.state == IBV_QPS_RESET)
		xp_refuse(verb, err, "the QP is in RESET; IBV_QPS_INIT or later");
	else
		xp_refuse_recv(verb, err, wr, qp->max_recv_sge, qp->rq.limit);
}

int xp_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct xp_qp *qp = xp_qp(ibqp);
	bool in_error = false;
	uint32_t before;
	int err = 0;

	if (xp_health(xp_qp(ibqp)->ctx) == XP_FORKED) {
		*bad_wr = wr;
		return -xp_refuse("ibv_post_recv", EIO, "%s", XP_FORKED_TEXT);
	}
	xp_lock(&qp->rq_lock);
	before = qp->rq.head;
	for (; wr; wr = wr->next) {
		if (ibqp->state == IBV_QPS_RESET || ibqp->srq || !ibqp->recv_cq)
			err = EINVAL;
		else if (!xp_ring_room(&qp->rq))
			err = ENOMEM;
		else
			err = xp_fill_recv(xp_ring_next(&qp->rq), qp->max_recv_sge, wr);
		if (err) {
			*bad_wr = wr;
			break;
		}
		xp_ring_push(&qp->rq, wr->wr_id);
	}
	if (qp->rq.head != before) {
		xp_ring_publish(&qp->rq);
		in_error = xp_ring_in_error(&qp->rq, XR_QPS_ERR);
	}
	xp_unlock(&qp->rq_lock);
	/* Workers read receive queues when a message arrives. Flushing needs a doorbell. */
	if (in_error)
		xp_ring_doorbell(qp);
	if (err)
		explain_recv(qp, wr, err);
	return err;
}
