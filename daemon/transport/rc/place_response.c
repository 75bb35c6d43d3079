// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "place.h"

#include "daemon/transport/memory/copy.h"
#include "daemon/transport/qp.h"
#include "daemon/transport/queue/wr_kind.h"
#include "daemon/transport/waiting/posted.h"

bool xt_place_response(struct xt_qp *qp, const struct xt_rx *rx, uint32_t psn)
{
	const struct xt_send_queue *sq = &qp->sq;
	const struct xt_swqe *w = xt_swqe(qp, sq->retired);
	uint32_t i = psn - w->psn;
	struct xt_sgl l;

	if (sq->retired == sq->loaded || xt_posted(&qp->accesses, XT_REQUESTER) ||
	    xt_kind_of(w)->response != XT_RESPONSE_READ || i + 1 >= w->npsn || rx->len != qp->mtu)
		return false;
	l = xt_swqe_sgl(qp, sq->retired);
	return xt_scatter_mapped(&l, (uint64_t)i << qp->mtu_shift, rx);
}
