// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Extended queue pairs: WRs built by function calls. Builders write ring entries after head, which
 * the daemon does not read before wr_complete(). So an error and wr_abort() have nothing to undo.
 */
#include <string.h>

#include <xroce/wire.h>

#include "provider/base/debug.h"
#include "provider/base/fail.h"
#include "provider/verbs/ah.h"
#include "provider/verbs/child.h"
#include "provider/verbs/pd.h"
#include "provider/verbs/post.h"
#include "provider/verbs/qp.h"
#include "provider/verbs/request.h"
#include "provider/verbs/xrc.h"

/* ---- a batch ------------------------------------------------------------------- */

static struct xp_qp *qp_ex_of(struct ibv_qp_ex *ex)
{
	return xp_qp(&ex->qp_base);
}

static bool forked(const struct xp_qp *qp)
{
	return xp_health(qp->ctx) == XP_FORKED;
}

static void wr_start(struct ibv_qp_ex *ex)
{
	struct xp_qp *qp = qp_ex_of(ex);

	/* In a child process the lock may have been held when the parent forked. */
	if (!forked(qp))
		xp_lock(&qp->sq_lock);
	qp->staged = 0;
	qp->wqe = NULL;
	qp->batch_err = forked(qp) ? EIO : 0;
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct xp_qp *qp = qp_ex_of(ex);
	bool posted = qp->staged && !qp->batch_err;
	int err = qp->batch_err;

	if (forked(qp))
		return -xp_refuse("ibv_wr_complete", EIO, "%s", XP_FORKED_TEXT);
	if (posted) {
		xp_ring_push_staged(&qp->sq, qp->staged);
		xp_ring_publish(&qp->sq);
	}
	xp_unlock(&qp->sq_lock);
	if (posted)
		xp_ring_doorbell(qp);
	return err;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	if (!forked(qp_ex_of(ex)))
		xp_unlock(&qp_ex_of(ex)->sq_lock);
}

/* ---- operations ---------------------------------------------------------------- */

#define WR "ibv_wr_*"

/* Records the first error of the batch, which will not be posted. Returns NULL. */
static void *fail_batch(struct xp_qp *qp, int err)
{
	if (!qp->batch_err)
		qp->batch_err = err < 0 ? -err : err;
	qp->wqe = NULL;
	return NULL;
}

/* Starts the next entry. Returns NULL after an error. */
static struct xr_send_wqe *qp_ex_begin(struct ibv_qp_ex *ex, enum xr_wr_opcode opcode, uint64_t op)
{
	/* Inline data is set by its own setters, whether or not the flag is set. */
	unsigned int flags = ex->wr_flags & ~(unsigned int)IBV_SEND_INLINE;
	struct xp_qp *qp = qp_ex_of(ex);

	if (qp->batch_err)
		return NULL;
	if (!xp_can_send(qp->ibqp.state))
		return fail_batch(qp, xp_refuse(WR, EINVAL, "the QP is in state %d; RTS or later",
						(int)qp->ibqp.state));
	if (!(qp->send_ops & op))
		return fail_batch(qp, xp_refuse(WR, EINVAL,
						"operation 0x%llx is not in send_ops_flags 0x%llx",
						(unsigned long long)op,
						(unsigned long long)qp->send_ops));
	if (flags & ~XP_SEND_FLAGS)
		return fail_batch(qp, xp_refuse(WR, EINVAL, "wr_flags 0x%x, known 0x%x", flags,
						XP_SEND_FLAGS));
	if (xp_ring_room(&qp->sq) <= qp->staged)
		return fail_batch(qp, xp_refuse_full(WR, "max_send_wr", qp->sq.limit));
	qp->wqe = xp_ring_stage(&qp->sq, qp->staged++, ex->wr_id);
	xp_wqe_init(qp->wqe, ex->wr_id, opcode, flags);
	return qp->wqe;
}

static void refuse_inline(struct xp_qp *qp, size_t length)
{
	fail_batch(qp,
		   xp_refuse(WR, EINVAL,
			     "inline data of %zu bytes or more, limit %u; for SEND and WRITE only",
			     length, qp->max_inline));
}

static void put_remote(struct xr_send_wqe *wqe, uint32_t rkey, uint64_t remote_addr)
{
	if (!wqe)
		return;
	wqe->rkey = rkey;
	wqe->remote_addr = remote_addr;
}

static void put_imm(struct xr_send_wqe *wqe, __be32 imm_data)
{
	if (wqe)
		wqe->imm_data = imm_data;
}

static void put_invalidate(struct xr_send_wqe *wqe, uint32_t rkey)
{
	if (wqe)
		wqe->invalidate_rkey = rkey;
}

static void put_atomic(struct xr_send_wqe *wqe, uint64_t compare_add, uint64_t swap)
{
	if (!wqe)
		return;
	wqe->atomic.compare_add = compare_add;
	wqe->atomic.swap = swap;
}

/* IBV_QP_EX_WITH_FLUSH, which verbs.h has since rdma-core 45 */
#define WITH_FLUSH (1u << 11)
#define BEGIN(op) qp_ex_begin(ex, XR_WR_##op, IBV_QP_EX_WITH_##op)

static void wr_send(struct ibv_qp_ex *ex)
{
	BEGIN(SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm_data)
{
	put_imm(BEGIN(SEND_WITH_IMM), imm_data);
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	put_invalidate(BEGIN(SEND_WITH_INV), rkey);
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	put_remote(BEGIN(RDMA_WRITE), rkey, remote_addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			      __be32 imm_data)
{
	struct xr_send_wqe *wqe = BEGIN(RDMA_WRITE_WITH_IMM);

	put_remote(wqe, rkey, remote_addr);
	put_imm(wqe, imm_data);
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	put_remote(BEGIN(RDMA_READ), rkey, remote_addr);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			      uint64_t compare, uint64_t swap)
{
	struct xr_send_wqe *wqe = BEGIN(ATOMIC_CMP_AND_SWP);

	put_remote(wqe, rkey, remote_addr);
	put_atomic(wqe, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
				uint64_t add)
{
	struct xr_send_wqe *wqe = BEGIN(ATOMIC_FETCH_AND_ADD);

	put_remote(wqe, rkey, remote_addr);
	put_atomic(wqe, add, 0);
}

static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			    const void *value)
{
	struct xr_send_wqe *wqe = BEGIN(ATOMIC_WRITE);

	put_remote(wqe, rkey, remote_addr);
	if (!wqe)
		return;
	wqe->flags |= XR_SEND_INLINE;
	if (xp_wqe_inline(qp_ex_of(ex), wqe, value, sizeof(uint64_t)))
		refuse_inline(qp_ex_of(ex), sizeof(uint64_t));
}

static void wr_flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, size_t len,
		     uint8_t type, uint8_t level)
{
	struct xr_send_wqe *wqe = qp_ex_begin(ex, XR_WR_FLUSH, WITH_FLUSH);

	put_remote(wqe, rkey, remote_addr);
	if (!wqe)
		return;
	if (!type || type & ~(XR_FLUSH_GLOBAL | XR_FLUSH_PERSISTENT) || level > XR_FLUSH_MR ||
	    (len > UINT32_MAX && level == XR_FLUSH_RANGE)) {
		fail_batch(qp_ex_of(ex),
			   xp_refuse(WR, EINVAL, "type 0x%x, level %u, length %zu of a FLUSH", type,
				     level, len));
		return;
	}
	wqe->flush.length = len;
	wqe->flush.type = type;
	wqe->flush.level = level;
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	put_invalidate(BEGIN(LOCAL_INV), rkey);
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	struct xr_send_wqe *wqe = BEGIN(BIND_MW);

	if (wqe)
		xp_wqe_bind(wqe, mw, rkey, info);
}

/* Not in send_ops of any QP. */
static void wr_send_tso(struct ibv_qp_ex *ex, void *hdr, uint16_t hdr_sz, uint16_t mss)
{
	fail_batch(qp_ex_of(ex), xp_refuse(WR, EOPNOTSUPP, "TSO is not supported"));
}

/* ---- setters ------------------------------------------------------------------- */

/* Returns the entry that a setter changes. Returns NULL after an error or without a builder. */
static struct xr_send_wqe *current(struct xp_qp *qp)
{
	if (qp->wqe)
		return qp->wqe;
	return fail_batch(qp, qp->batch_err
				      ? qp->batch_err
				      : xp_refuse(WR, EINVAL, "a setter without an operation"));
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t remote_qpn,
			   uint32_t remote_qkey)
{
	struct xp_qp *qp = qp_ex_of(ex);
	struct xr_send_wqe *wqe = current(qp);

	if (wqe && !xp_is_of(ah, xp_ah, qp->ctx))
		wqe = fail_batch(qp, xp_refuse(WR, EINVAL, "ah is of another context"));
	if (!wqe)
		return;
	wqe->ud.ah = ah->handle;
	wqe->ud.remote_qpn = remote_qpn;
	wqe->ud.remote_qkey = remote_qkey;
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t remote_srqn)
{
	struct xr_send_wqe *wqe = current(qp_ex_of(ex));

	if (wqe)
		wqe->xrc_srqn = remote_srqn;
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t num_sge, const struct ibv_sge *list)
{
	struct xp_qp *qp = qp_ex_of(ex);
	struct xr_send_wqe *wqe = current(qp);

	if (!wqe)
		return;
	if (num_sge > qp->max_send_sge) {
		fail_batch(qp, xp_refuse(WR, EINVAL, "num_sge %zu, limit %u", num_sge,
					 qp->max_send_sge));
		return;
	}
	wqe->num_sge = num_sge;
	memcpy(wqe + 1, list, num_sge * sizeof(struct xr_sge));
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };

	wr_set_sge_list(ex, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *buf)
{
	struct xp_qp *qp = qp_ex_of(ex);
	struct xr_send_wqe *wqe = current(qp);
	size_t i;
	int err;

	if (!wqe)
		return;
	err = xp_wqe_may_inline(wqe) ? 0 : EINVAL;
	wqe->flags |= XR_SEND_INLINE;
	wqe->inline_len = 0;
	for (i = 0; i < n && !err; i++)
		err = xp_wqe_inline(qp, wqe, buf[i].addr, buf[i].length);
	if (err)
		refuse_inline(qp, i ? buf[i - 1].length : 0);
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct ibv_data_buf buf = { .addr = addr, .length = length };

	wr_set_inline_data_list(ex, 1, &buf);
}

static void set_builders(struct ibv_qp_ex *ex)
{
	ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	ex->wr_bind_mw = wr_bind_mw;
	ex->wr_local_inv = wr_local_inv;
	ex->wr_rdma_read = wr_rdma_read;
	ex->wr_rdma_write = wr_rdma_write;
	ex->wr_rdma_write_imm = wr_rdma_write_imm;
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	ex->wr_send_inv = wr_send_inv;
	ex->wr_send_tso = wr_send_tso;
	ex->wr_set_ud_addr = wr_set_ud_addr;
	ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	/*
	 * Programs such as librpma see by these two whether the QP has the operation, as rdma_rxe,
	 * the other provider that has them, leaves them NULL for a QP that was created without.
	 */
	if (qp_ex_of(ex)->send_ops & IBV_QP_EX_WITH_ATOMIC_WRITE)
		ex->wr_atomic_write = wr_atomic_write;
	if (qp_ex_of(ex)->send_ops & WITH_FLUSH)
		qp_ex_of(ex)->ex_45.wr_flush = wr_flush;
}

/* ---- create -------------------------------------------------------------------- */

#define COMP_MASK                                                                                  \
	(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)

#define UD_OPS (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)
#define UC_OPS                                                                                     \
	(UD_OPS | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |                 \
	 IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW)
#define RC_OPS                                                                                     \
	(UC_OPS | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |                   \
	 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV |                      \
	 IBV_QP_EX_WITH_ATOMIC_WRITE | WITH_FLUSH)

static uint64_t ops_of(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
	case IBV_QPT_XRC_SEND:
		return RC_OPS;
	case IBV_QPT_UC:
		return UC_OPS;
	case IBV_QPT_UD:
		return UD_OPS;
	default:
		return 0;
	}
}

/* A sender of multicast never gets a copy of its own datagrams, with or without the flag. */
static uint32_t create_flags_of(enum ibv_qp_type type)
{
	return type == IBV_QPT_UD ? IBV_QP_CREATE_BLOCK_SELF_MCAST_LB : 0;
}

static struct ibv_qp *refuse_attr(const struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t mask = attr->comp_mask;

	if (mask & ~COMP_MASK)
		return xp_null(xp_refuse("ibv_create_qp_ex", EOPNOTSUPP,
					 "comp_mask 0x%x, known 0x%x", mask, COMP_MASK));
	if (mask & IBV_QP_INIT_ATTR_CREATE_FLAGS &&
	    attr->create_flags & ~create_flags_of(attr->qp_type))
		return xp_null(xp_refuse("ibv_create_qp_ex", EOPNOTSUPP,
					 "create_flags 0x%x, supported by qp_type %d: 0x%x",
					 attr->create_flags, (int)attr->qp_type,
					 create_flags_of(attr->qp_type)));
	return xp_null(xp_refuse("ibv_create_qp_ex", EOPNOTSUPP,
				 "send_ops_flags 0x%llx, supported by qp_type %d: 0x%llx",
				 (unsigned long long)attr->send_ops_flags, (int)attr->qp_type,
				 (unsigned long long)ops_of(attr->qp_type)));
}

struct ibv_qp *xp_create_qp_ex(struct ibv_context *ibctx, struct ibv_qp_init_attr_ex *attr)
{
	struct xp_context *ctx = xp_ctx(xp_process_context(ibctx));
	uint32_t mask = attr->comp_mask;
	struct ibv_qp *ibqp;
	struct xp_qp *qp;

	if (attr->qp_type == IBV_QPT_XRC_RECV)
		return xp_create_target_qp(ctx, attr);
	if (mask & ~COMP_MASK ||
	    (mask & IBV_QP_INIT_ATTR_CREATE_FLAGS &&
	     attr->create_flags & ~create_flags_of(attr->qp_type)) ||
	    (mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS &&
	     attr->send_ops_flags & ~ops_of(attr->qp_type)))
		return refuse_attr(attr);
	if (!(mask & IBV_QP_INIT_ATTR_PD) || !xp_is_of(attr->pd, xp_own_pd, ctx))
		return xp_null(xp_refuse("ibv_create_qp_ex", EINVAL,
					 "pd is missing or of another context"));
	/* It starts like struct ibv_qp_init_attr. ibv_create_qp_ex() relies on that, too. */
	ibqp = xp_create_qp(attr->pd, (struct ibv_qp_init_attr *)attr);
	if (!ibqp || !(mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		return ibqp;
	qp = xp_qp(ibqp);
	qp->extended = true;
	qp->send_ops = attr->send_ops_flags;
	set_builders(&qp->ex);
	return ibqp;
}

struct ibv_qp_ex *xp_qp_to_qp_ex(struct ibv_qp *ibqp)
{
	struct xp_qp *qp = xp_qp(ibqp);

	return qp->extended ? &qp->ex : NULL;
}
