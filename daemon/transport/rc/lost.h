/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is lost of what is in flight, by PSN:
 *
 *     unacked           executed      lost            next
 *        |-----------------|------------|---------------|
 *         some READ responses  requests    may be under way
 *
 * The requester keeps the responses that come early (early.h), so it sees all gaps, and requests
 * them together: the first gap of each READ request on the wire at once, the next one of the same
 * request when that one is filled. `rdma_rxe` drops a repeated READ that begins before an earlier
 * repetition of the same READ: if a second gap were requested together with the first one, the
 * first one could not be requested again if its response was lost again. Of requests, the peer
 * names only the first one that is missing; resend.c says how many behind it are sent again.
 *
 * What was sent again is sent once more if it is lost again: it was passed (sent.h), a part behind
 * its beginning has come, or it is overdue.
 */
#ifndef XT_LOST_H
#define XT_LOST_H

#include "early.h"
#include "daemon/transport/qp.h"
#include "daemon/transport/queue/sq.h"

/* A walk through it */
struct xt_lost {
	struct xt_early_gap gap;
	uint32_t index;	     /* of the work request of `psn` */
	uint32_t psn;	     /* next one to look at in the gap */
	uint32_t behind;     /* PSN behind the last READ request with a gap */
	struct xt_sent *old; /* record of what was returned last; NULL: it was sent once */
};

void xt_lost_begin(struct xt_qp *qp, struct xt_lost *l);
/* Returns false if nothing else is to be sent again now. */
bool xt_lost_next(struct xt_qp *qp, struct xt_lost *l, struct xt_cursor *at);
/* What xt_lost_next() returned was sent. */
void xt_lost_sent(struct xt_qp *qp, const struct xt_lost *l, const struct xt_cursor *at);

#endif /* XT_LOST_H */
