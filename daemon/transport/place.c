// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "place.h"

#include "copy.h"
#include "execute.h"
#include "qp.h"
#include "wr_kind.h"

/*
 * Returns true if a packet is certainly in the middle of the message that is being received. A
 * SEND does not say how long it is. But if a packet in the middle of a message follows one of this
 * message, or is behind a single packet that is missing, no message ends between them.
 */
static bool in_message(struct xt_responder *resp, const struct xt_rx *rx, uint32_t psn)
{
	uint32_t known = xt_diff(resp->known, resp->epsn) > 0 ? resp->known : resp->epsn;

	if (resp->kind == XT_KIND_NONE || xt_op_kinds[rx->opcode] != resp->kind ||
	    rx->flags & (XR_OPF_START | XR_OPF_END) || xt_diff(psn, known) > 1)
		return false;
	if (xt_diff(psn, known) >= 0)
		resp->known = psn + 1;
	return true;
}

static bool place_write(struct xt_qp *qp, const struct xt_rx *rx, uint64_t off)
{
	struct xr_key_use use = {
		.key = qp->resp.rkey,
		.access = XR_ACCESS_REMOTE_WRITE,
		.va = qp->resp.va + off,
		.len = rx->len,
	};
	struct xt_mem_at at;

	return off + rx->len < qp->resp.length && xt_resp_check(qp, &use, &at) < 0 &&
	       xt_mem_place(&at, rx->frame->seg, rx->frame->meta.payload_off, rx->len);
}

static bool place_send(struct xt_qp *qp, const struct xt_rx *rx, uint64_t off)
{
	struct xt_sgl l = xt_receive_sgl(qp);

	return off + rx->len <= qp->rq.length && xt_scatter_mapped(&l, off, rx);
}

bool xt_place_request(struct xt_qp *qp, const struct xt_rx *rx, uint32_t psn)
{
	const struct xt_responder *resp = &qp->resp;
	uint64_t off = resp->done + ((uint64_t)(psn - resp->epsn) << qp->mtu_shift);

	/* earlier writes of a program's private memory come first */
	if (qp->info.type == XR_QPT_XRC_RECV || xt_posted(&qp->park, XT_PARK_RESPONDER) ||
	    !in_message(&qp->resp, rx, psn) || rx->len != qp->mtu)
		return false;
	return resp->kind == XT_KIND_WRITE ? place_write(qp, rx, off) : place_send(qp, rx, off);
}

bool xt_place_response(struct xt_qp *qp, const struct xt_rx *rx, uint32_t psn)
{
	const struct xt_requester *r = &qp->req;
	const struct xt_swqe *w = xt_swqe(qp, r->retired);
	uint32_t i = psn - w->psn;
	struct xt_sgl l;

	if (r->retired == r->loaded || xt_posted(&qp->park, XT_PARK_REQUESTER) ||
	    xt_kind_of(w)->response != XT_RESPONSE_READ || i + 1 >= w->npsn || rx->len != qp->mtu)
		return false;
	l = xt_swqe_sgl(qp, r->retired);
	return xt_scatter_mapped(&l, (uint64_t)i << qp->mtu_shift, rx);
}
