/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Pieces that loopback moves, for the files loopback*.c. */
#ifndef XT_LOOPBACK_PIECE_H
#define XT_LOOPBACK_PIECE_H

#include "daemon/transport/qp.h"

struct xt_swqe;

/* The next part of the oldest work request */
struct xt_piece {
	struct xt_swqe *wqe;
	uint32_t index, off, len, packets;
	uint32_t full; /* bytes of all pieces but the last */
	bool first, last;
	struct xt_qp *peer; /* NULL: there is none */
};

/* Returns true if writes of pieces that were moved are posted; see posted.h. */
static inline bool xt_has_posted(const struct xt_qp *qp)
{
	return qp->req.next != qp->req.unacked;
}

/* True if the QP may use integrity regions, also those of its peer. */
static inline bool xt_has_integrity(const struct xt_qp *qp, const struct xt_qp *peer)
{
	return qp->integrity || (peer && __atomic_load_n(&peer->integrity, __ATOMIC_RELAXED));
}

#endif /* XT_LOOPBACK_PIECE_H */
