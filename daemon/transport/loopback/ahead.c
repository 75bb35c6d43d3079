// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Data of READs over loopback that is read ahead. */
#include "daemon/transport/rc/check.h"
#include "daemon/transport/rc/execute.h"
#include "ahead.h"
#include "piece.h"
#include "daemon/transport/qp.h"
#include "daemon/transport/queue/rings.h"
#include "daemon/transport/queue/sq.h"
#include "daemon/transport/queue/wr_kind.h"

/* READs behind the current one whose data is read ahead */
#define AHEAD_READS 16

/* Returns true if all these bytes are in one segment of the peer that must be waited for. */
static bool ahead_waits(struct xt_qp *peer, struct xr_key_use *use, struct xt_mem_at *at)
{
	use->access = XR_ACCESS_REMOTE_READ;
	return xt_resp_check(peer, use, at) < 0 && xt_mem_waits(at->mem, at->off, use->len);
}

/* Starts to read the data of a READ that is posted, but not loaded; see xt_sq_read_ahead(). */
static bool ahead_fetch_read(struct xt_qp *qp, struct xt_qp *peer, uint32_t index)
{
	const uint8_t *slot = xt_ring_entry(qp->sq_ring, index, qp->sq_depth, qp->sq_stride);
	struct xr_key_use use = { 0 };
	struct xr_send_wqe wqe;
	struct xt_mem_at at;
	struct xr_sge sge;

	memcpy(&wqe, slot, sizeof(wqe));
	if (xt_wr_opcode(wqe.opcode)->kind != XT_KIND_READ || wqe.num_sge != 1 ||
	    !qp->max_send_sge || wqe.flags & (XR_SEND_INLINE | XR_SEND_FENCE))
		return false;
	memcpy(&sge, slot + sizeof(wqe), sizeof(sge));
	use.key = wqe.rkey;
	use.va = wqe.remote_addr;
	use.len = sge.length;
	return sge.length && sge.length <= XT_MEM_IO_MAX && ahead_waits(peer, &use, &at) &&
	       xt_mem_fetch(&qp->accesses.reads[XT_READS_SEND_AHEAD], index, at.mem, at.off,
			    use.len);
}

/*
 * An earlier WRITE may change what a READ returns, so data is read ahead behind READs only. READs
 * are executed in order, so none is read ahead of an earlier one.
 */
void xt_loopback_read_ahead(struct xt_qp *qp, struct xt_qp *peer, const struct xt_piece *p)
{
	struct xt_reads *ahead = &qp->accesses.reads[XT_READS_SEND_AHEAD];
	uint32_t index = p->index, end = index + 1 + AHEAD_READS;
	struct xr_key_use use = {
		.key = p->wqe->rkey,
		.va = p->wqe->remote_addr + p->off,
		.len = p->len,
	};
	struct xt_mem_at at;

	/* pieces are shorter than what would be read */
	if (qp->attr.rate_limit || xt_has_integrity(qp, peer))
		return;
	if (p->wqe->kind == XT_KIND_SEND || p->wqe->kind == XT_KIND_WRITE)
		xt_sq_read_ahead(qp, index);
	if (p->wqe->kind != XT_KIND_READ || !p->last || qp->info.state != XR_QPS_RTS)
		return;
	if (xt_diff(end, qp->sq.producer) > 0)
		end = qp->sq.producer;
	if (!ahead_waits(peer, &use, &at) || !xt_reads_look_ahead(ahead, index, end))
		return;
	while (xt_reads_may_fetch(ahead, end) && ahead_fetch_read(qp, peer, ahead->item))
		ahead->item++;
}
