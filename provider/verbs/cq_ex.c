// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Extended completion queues. A completion is copied out of the ring when the program moves to it,
 * so that the program may call any verb between start_poll() and end_poll(). The CQ is locked from
 * one to the other, since the copy belongs to the thread that polls.
 */

#include "provider/base/clock.h"
#include "provider/base/debug.h"
#include "provider/base/fail.h"
#include "provider/verbs/child.h"
#include "provider/verbs/cq.h"
#include "provider/verbs/pd.h"
#include "provider/verbs/request.h"

#define WC_FLAGS                                                                                   \
	(IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM |                    \
	 IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL |                         \
	 IBV_WC_EX_WITH_DLID_PATH_BITS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |                     \
	 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
#define COMP_MASK (IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD)
#define CREATE_FLAGS (IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)

/* ---- polling ------------------------------------------------------------------- */

static struct xp_cq *cq_ex_of(struct ibv_cq_ex *ex)
{
	return xp_cq(ibv_cq_ex_to_cq(ex));
}

static int next_poll(struct ibv_cq_ex *ex)
{
	struct xp_cq *cq = cq_ex_of(ex);
	int err = xp_cq_poll_one(cq, &cq->current, false);

	if (!err) {
		ex->status = cq->current.status;
		ex->wr_id = cq->current.wr_id;
	}
	return err;
}

static void end_poll(struct ibv_cq_ex *ex)
{
	xp_unlock(&cq_ex_of(ex)->polling);
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct xp_cq *cq = cq_ex_of(ex);
	int err;

	if (attr->comp_mask)
		return -xp_refuse("ibv_start_poll", EINVAL, "comp_mask 0x%x, must be 0",
				  attr->comp_mask);
	/* In a child process the lock may have been held when the parent forked. */
	if (xp_health(cq->ctx) == XP_FORKED)
		return -xp_refuse("ibv_start_poll", EIO, "%s", XP_FORKED_TEXT);
	xp_lock(&cq->polling);
	err = xp_cq_poll_one(cq, &cq->current, true);
	if (err) {
		end_poll(ex);
		return err;
	}
	ex->status = cq->current.status;
	ex->wr_id = cq->current.wr_id;
	return 0;
}

/* ---- fields of the completion -------------------------------------------------- */

#define READ(type, name, value)                                                                    \
	static type read_##name(struct ibv_cq_ex *ex)                                              \
	{                                                                                          \
		return value;                                                                      \
	}
READ(enum ibv_wc_opcode, opcode, cq_ex_of(ex)->current.opcode)
READ(uint32_t, vendor_err, cq_ex_of(ex)->current.vendor_err)
READ(uint32_t, byte_len, cq_ex_of(ex)->current.byte_len)
READ(__be32, imm_data, cq_ex_of(ex)->current.imm_data) /* or the invalidated R_Key */
READ(uint32_t, qp_num, cq_ex_of(ex)->current.qpn)
READ(uint32_t, src_qp, cq_ex_of(ex)->current.src_qpn)
READ(unsigned int, wc_flags, cq_ex_of(ex)->current.wc_flags)
READ(uint8_t, sl, cq_ex_of(ex)->current.sl)
READ(uint64_t, completion_ts, cq_ex_of(ex)->current.timestamp)
/* RoCE has no LIDs. */
READ(uint32_t, slid, 0)
READ(uint8_t, dlid_path_bits, 0)

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *ex)
{
	uint64_t age = xp_clock() - cq_ex_of(ex)->current.timestamp;
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return ts.tv_sec * XP_NS_PER_S + ts.tv_nsec - age;
}

static void set_accessors(struct ibv_cq_ex *ex)
{
	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_wc_flags = read_wc_flags;
	ex->read_byte_len = read_byte_len;
	ex->read_imm_data = read_imm_data;
	ex->read_qp_num = read_qp_num;
	ex->read_src_qp = read_src_qp;
	ex->read_slid = read_slid;
	ex->read_sl = read_sl;
	ex->read_dlid_path_bits = read_dlid_path_bits;
	ex->read_completion_ts = read_completion_ts;
	ex->read_completion_wallclock_ns = read_completion_wallclock_ns;
}

/* ---- create -------------------------------------------------------------------- */

struct ibv_cq_ex *xp_create_cq_ex(struct ibv_context *ibctx, struct ibv_cq_init_attr_ex *attr)
{
	uint32_t flags = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? attr->flags : 0;
	struct ibv_pd *parent = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD ? attr->parent_domain
									   : NULL;
	struct xp_context *ctx = xp_ctx(xp_process_context(ibctx));
	struct xp_cq *cq;

	if (attr->comp_mask & ~COMP_MASK || flags & ~CREATE_FLAGS ||
	    attr->wc_flags & ~(uint64_t)WC_FLAGS)
		return xp_null(xp_refuse(
			"ibv_create_cq_ex", EOPNOTSUPP,
			"comp_mask 0x%x, known 0x%x; flags 0x%x, supported 0x%x; wc_flags "
			"0x%llx, supported 0x%x",
			attr->comp_mask, COMP_MASK, flags, CREATE_FLAGS,
			(unsigned long long)attr->wc_flags, WC_FLAGS));
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD &&
	    (!parent || !xp_is_of(parent, xp_own_pd, ctx) || !xp_pd(parent)->base))
		return xp_null(xp_refuse("ibv_create_cq_ex", EINVAL,
					 "parent_domain is no parent domain of this context"));
	cq = xp_cq_create(ctx, attr, parent,
			  flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN ? XR_CQF_IGNORE_OVERRUN : 0);
	if (!cq)
		return NULL;
	cq->parent = parent;
	cq->polling.unneeded = (parent && xp_pd_get(parent)) ||
			       flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	set_accessors(&cq->ex);
	return &cq->ex;
}
