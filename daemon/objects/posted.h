/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Hardware takes a send work request when its doorbell rings, so programs rely on it that a message
 * is sent which they have posted before they modify or destroy the QP, disconnect or exit. The
 * worker may not have looked at the doorbell yet. So what was posted is sent first, as far as the
 * window and the peer's credits permit, without waiting for any response.
 */
#ifndef XD_POSTED_H
#define XD_POSTED_H

#include <stddef.h>

#include "daemon/clients/reply.h"
#include "daemon/transport/transport.h"

struct xd_client;
struct xd_qp;

/* Sends a little of it at once. Returns true if the worker goes on to send more, up to *mark. */
bool xd_qp_send_posted(struct xd_qp *qp, struct xt_send_mark *mark);
/*
 * The same for a QP, or its connection, that a client destroys or leaves behind. A client that ends
 * has the time for some QPs only, as others wait for it: the workers have sent most of it by then.
 */
void xd_qp_send_last(struct xd_client *c, struct xd_qp *qp);

/* Executes a request, and returns 0, -errno or XD_LATER. */
typedef int (*xd_posted_fn)(struct xd_client *c, const void *request, struct xd_reply *rep);
/*
 * Calls then() when that is sent, at most a second later; the request is copied. Returns the result
 * of then(), or XD_LATER.
 */
int xd_after_posted(struct xd_qp *qp, const void *request, size_t length, struct xd_reply *rep,
		    xd_posted_fn then);

#endif /* XD_POSTED_H */
