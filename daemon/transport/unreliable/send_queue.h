/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The send queue of a QP of type UC or UD */
#ifndef XT_SEND_QUEUE_H
#define XT_SEND_QUEUE_H

#include "daemon/transport/queue/sq.h"

/*
 * Returns the work request to send from; NULL: none may be sent now, or it has failed, and the QP
 * is in SQE.
 */
struct xt_swqe *xt_unreliable_current(struct xt_qp *qp);
/*
 * Completes the oldest work request after its last packet. Returns false if the QP is in ERR now.
 */
bool xt_unreliable_finish(struct xt_qp *qp, const struct xt_swqe *w);

#endif /* XT_SEND_QUEUE_H */
