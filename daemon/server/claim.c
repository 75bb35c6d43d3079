// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * CLAIM: objects that direct programs have themselves, and memory that they register, in the limits
 * of clients, users and the device. A program that uses more than it has claimed uses its own
 * memory only.
 */
#include "claim.h"

#include <errno.h>

#include "daemon/clients/request.h"

void xd_claims_begin(struct xd_client *c, uint32_t claims[XR_CLAIMS])
{
	/* If none is left, the program gets the error when it needs one. */
	for (uint32_t kind = XR_KIND_QP; kind < XR_CLAIMS; kind++)
		if (xd_claim(c, kind, 0, &claims[kind]))
			claims[kind] = 0;
}

void xd_claims_end(struct xd_client *c)
{
	for (uint32_t kind = XR_KIND_QP; kind < XR_CLAIMS; kind++)
		xd_unclaim(c, kind, xd_claimed(c, kind));
}

int xd_do_claim(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_claim_req *q = req->body;

	if (!c->slot)
		return xd_refuse(c, -EINVAL, "the connection has no slot");
	if (q->kind < XR_KIND_QP || q->kind >= XR_CLAIMS || q->reserved)
		return xd_refuse(c, -EINVAL, "kind %u, reserved %u", q->kind, q->reserved);
	if (q->give_back > xd_claimed(c, q->kind) || (q->give_back && q->count))
		return xd_refuse(c, -EINVAL,
				 "give back %u, claim %u: the connection has claimed %u",
				 q->give_back, q->count, xd_claimed(c, q->kind));
	if (!q->give_back)
		return xd_claim(c, q->kind, q->count, &XD_REPLY(rep, xr_claim_rep)->count);
	xd_unclaim(c, q->kind, q->give_back);
	XD_REPLY(rep, xr_claim_rep)->count = 0;
	return 0;
}
