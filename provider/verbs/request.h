/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Requests of a context to the daemon. All functions return 0, the error in the reply, or -EIO if
 * the daemon is gone, and then mark the context XP_GONE.
 */
#ifndef XP_REQUEST_H
#define XP_REQUEST_H

#include "provider/verbs/context.h"

int xp_call(struct xp_context *ctx, struct xp_call *call);

/* A request with a fixed size body each way and no descriptors */
int xp_request(struct xp_context *ctx, uint32_t type, const void *req, size_t req_len, void *rep,
	       size_t rep_len);

/* A piece of shared memory in a reply */
struct xp_piece {
	const struct xr_shm_ref *ref; /* field of the reply; length 0: none */
	void *ptr;		      /* out: address, or NULL */
};

/* Like xp_call(), and maps the pieces. They are in the order of the reply's descriptors. */
int xp_call_map(struct xp_context *ctx, struct xp_call *call, struct xp_piece *piece,
		unsigned int n);

/*
 * Sends DESTROY_*, DEALLOC_*, DEREG_*, ... of a handle. Succeeds if the daemon is gone, since its
 * objects are gone too.
 * @rep: receives the event counts, or NULL.
 */
int xp_release(struct xp_context *ctx, uint32_t type, uint32_t handle, struct xr_destroy_rep *rep);

/* Marks a healthy context XP_GONE. */
void xp_set_gone(struct xp_context *ctx);

/* Checks whether the daemon closed the connection, at most every few milliseconds. */
void xp_check_health(struct xp_context *ctx);

#endif /* XP_REQUEST_H */
