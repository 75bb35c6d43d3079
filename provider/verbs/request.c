// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Requests of a context to the daemon. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "provider/base/cancel.h"
#include "provider/base/clock.h"
#include "provider/base/debug.h"
#include "provider/host/host.h"
#include "provider/memory/tiers.h"
#include "provider/verbs/device.h"
#include "provider/verbs/request.h"

#define HEALTH_INTERVAL_NS (5 * XP_NS_PER_MS)

void xp_set_gone(struct xp_context *ctx)
{
	int healthy = XP_HEALTHY;

	if (__atomic_compare_exchange_n(&ctx->health, &healthy, XP_GONE, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE))
		xp_debug("%s: the daemon is gone", ctx->dev->ibdev.name);
}

void xp_check_health(struct xp_context *ctx)
{
	uint64_t now, last = __atomic_load_n(&ctx->checked_ns, __ATOMIC_RELAXED);
	struct timespec ts;
	int cancel;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	now = ts.tv_sec * XP_NS_PER_S + ts.tv_nsec;
	if (now - last < HEALTH_INTERVAL_NS)
		return;
	__atomic_store_n(&ctx->checked_ns, now, __ATOMIC_RELAXED);
	cancel = xp_cancel_off();
	if (xp_health(ctx) == XP_HEALTHY && xp_conn_hung_up(&ctx->conn))
		xp_set_gone(ctx);
	xp_cancel_restore(cancel);
}

static const char *const request_names[] = {
#define X(NAME, name, body, flags) [XR_MSG_##NAME] = #NAME,
	XR_MESSAGES(X)
#undef X
};

static void request_explain(const struct xp_context *ctx, uint32_t type, int err)
{
	char request[sizeof(ctx->dev->ibdev.name) + 32];

	snprintf(request, sizeof(request), "%s: request %s", ctx->dev->ibdev.name,
		 request_names[type]);
	xp_refuse(request, err, "%s",
		  xp_health(ctx) != XP_HEALTHY ? xp_health_text(ctx)
		  : ctx->conn.why[0]	       ? ctx->conn.why
					       : "the daemon gave no reason");
}

/* Needs conn_lock. */
static int call_locked(struct xp_context *ctx, struct xp_call *call)
{
	int err;

	if (xp_health(ctx) != XP_HEALTHY)
		err = -EIO;
	else if (ctx->host && ctx->host_ops->serves(call->type))
		err = ctx->host_ops->call(ctx->host, call);
	else
		err = xp_conn_call(&ctx->conn, call);
	if (err)
		request_explain(ctx, call->type, err);
	if (!ctx->conn.broken)
		return err;
	xp_set_gone(ctx);
	return -EIO;
}

/*
 * Allocates the pages of a piece, so that the memory cgroup of the program is charged, not that of
 * the daemon. If that fails, a page is allocated at its first use.
 */
static void populate_piece(const struct xp_piece *piece)
{
	if (piece->ptr)
		xp_populate((uintptr_t)piece->ptr, piece->ref->length, false);
}

/* Pieces of direct contexts are memory of the program already. */
static int request_map_piece(struct xp_context *ctx, uint32_t type, struct xp_piece *piece,
			     struct xp_shm_fds *fds)
{
	if (!ctx->host || !ctx->host_ops->serves(type))
		return xp_shm_map(&ctx->shm, piece->ref, fds, &piece->ptr);
	piece->ptr = piece->ref->length ? (void *)(uintptr_t)piece->ref->offset : NULL;
	return 0;
}

int xp_call_map(struct xp_context *ctx, struct xp_call *call, struct xp_piece *piece,
		unsigned int n)
{
	struct xp_shm_fds shm_fds = { 0 };
	int fds[XR_MSG_MAX_FDS], err, cancel;
	unsigned int i;

	/* In a child process the lock may have been held when the parent forked. */
	if (xp_health(ctx) != XP_HEALTHY) {
		request_explain(ctx, call->type, -EIO);
		return -EIO;
	}
	if (n) {
		call->rep_fds = fds;
		call->rep_room = XR_MSG_MAX_FDS;
	}
	cancel = xp_cancel_off();
	pthread_mutex_lock(&ctx->conn_lock);
	err = call_locked(ctx, call);
	shm_fds.fd = fds;
	shm_fds.n = call->rep_nfds;
	for (i = 0; i < n && !err; i++)
		err = request_map_piece(ctx, call->type, &piece[i], &shm_fds);
	pthread_mutex_unlock(&ctx->conn_lock);
	if (n)
		xp_close_fds(fds, call->rep_nfds);
	for (i = 0; i < n && !err; i++)
		populate_piece(&piece[i]);
	xp_cancel_restore(cancel);
	return err;
}

int xp_call(struct xp_context *ctx, struct xp_call *call)
{
	return xp_call_map(ctx, call, NULL, 0);
}

int xp_request(struct xp_context *ctx, uint32_t type, const void *req, size_t req_len, void *rep,
	       size_t rep_len)
{
	struct xp_call call = {
		.type = type,
		.req = req,
		.req_len = req_len,
		.rep = rep,
		.rep_len = rep_len,
	};

	return xp_call(ctx, &call);
}

int xp_release(struct xp_context *ctx, uint32_t type, uint32_t handle, struct xr_destroy_rep *rep)
{
	struct xr_handle_req req = { .handle = handle };
	int err = xp_request(ctx, type, &req, sizeof(req), rep, rep ? sizeof(*rep) : 0);

	if (err && xp_health(ctx) != XP_HEALTHY) {
		/* The number of events sent is unknown; none of them may be delivered. */
		if (rep)
			*rep = (struct xr_destroy_rep){ UINT32_MAX, UINT32_MAX };
		return 0;
	}
	return err;
}
