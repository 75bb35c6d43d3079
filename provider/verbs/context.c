// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Contexts: the operations that inline verbs call, open and close. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "provider/base/debug.h"
#include "provider/base/fail.h"
#include "provider/verbs/ah.h"
#include "provider/verbs/child.h"
#include "provider/verbs/context.h"
#include "provider/verbs/context_alloc.h"
#include "provider/verbs/cq.h"
#include "provider/verbs/cq_arm.h"
#include "provider/verbs/device.h"
#include "provider/verbs/direct_path.h"
#include "provider/verbs/dm.h"
#include "provider/verbs/event_socket.h"
#include "provider/verbs/faults.h"
#include "provider/verbs/mr.h"
#include "provider/verbs/mw.h"
#include "provider/verbs/pd.h"
#include "provider/verbs/post.h"
#include "provider/verbs/qp.h"
#include "provider/verbs/query.h"
#include "provider/verbs/request.h"
#include "provider/verbs/srq.h"
#include "provider/verbs/token_file.h"
#include "provider/verbs/xrc.h"

#define OPEN_TIMEOUT_MS 5000
#define CONNECT_TIMEOUT_MS 1000

/* Sets the operations that inline verbs call. An older struct verbs_context lacks some of them. */
static void set_ops(struct ibv_context *ibctx)
{
	struct verbs_context *v = verbs_get_ctx(ibctx);

#define SET(op, fn)                                                                                \
	do {                                                                                       \
		if (v->sz >= sizeof(*v) - offsetof(struct verbs_context, op))                      \
			v->op = fn;                                                                \
	} while (0)
	SET(query_port, xp_query_port);
	SET(open_xrcd, xp_open_xrcd);
	SET(close_xrcd, xp_close_xrcd);
	SET(create_srq_ex, xp_create_srq_ex);
	SET(get_srq_num, xp_get_srq_num);
	SET(open_qp, xp_open_qp);
	SET(query_device_ex, xp_query_device_ex);
	SET(advise_mr, xp_advise_mr);
	SET(alloc_null_mr, xp_alloc_null_mr);
	SET(alloc_dm, xp_alloc_dm);
	SET(free_dm, xp_free_dm);
	SET(reg_dm_mr, xp_reg_dm_mr);
	SET(query_rt_values, xp_query_rt_values);
	SET(create_cq_ex, xp_create_cq_ex);
	SET(modify_cq, xp_modify_cq);
	SET(create_qp_ex, xp_create_qp_ex);
	SET(modify_qp_rate_limit, xp_modify_qp_rate_limit);
	SET(alloc_td, xp_alloc_td);
	SET(dealloc_td, xp_dealloc_td);
	SET(alloc_parent_domain, xp_alloc_parent_domain);
#undef SET
	ibctx->ops.poll_cq = xp_poll_cq;
	ibctx->ops.req_notify_cq = xp_req_notify_cq;
	ibctx->ops.post_send = xp_post_send;
	ibctx->ops.post_recv = xp_post_recv;
	ibctx->ops.post_srq_recv = xp_post_srq_recv;
	ibctx->ops.alloc_mw = xp_alloc_mw;
	ibctx->ops.dealloc_mw = xp_dealloc_mw;
	ibctx->ops.bind_mw = xp_bind_mw;
	ibctx->ops._compat_query_device = xp_query_device;
	ibctx->ops._compat_query_port = xp_query_port_compat;
}

/* ---- open ---------------------------------------------------------------------- */

/*
 * Stores what the HELLO reply contains. The descriptors are: event socket, eventfds of the workers,
 * chunk of the doorbells, userfaultfd. Those that are stored are set to -1 in fds.
 */
static int apply_hello(struct xp_context *ctx, const struct xr_hello_rep *rep, int *fds,
		       unsigned int nfds)
{
	unsigned int used = 0, i;
	struct xp_shm_fds shm_fds;
	void *doorbells;
	int err;

	if (!rep->workers || nfds < 1 + rep->workers ||
	    rep->doorbells.length / sizeof(struct xr_doorbell) < rep->workers)
		return -EPROTO;
	ctx->wake = calloc(rep->workers, sizeof(int));
	if (!ctx->wake)
		return -ENOMEM;
	ctx->async = xp_event_socket_new(fds[used], sizeof(struct xr_async_event));
	if (!ctx->async)
		return -ENOMEM;
	fds[used++] = -1;
	for (i = 0; i < rep->workers; i++) {
		ctx->wake[i] = fds[used];
		fds[used++] = -1;
	}
	ctx->workers = rep->workers;
	shm_fds = (struct xp_shm_fds){ .fd = fds, .n = nfds, .used = used };
	err = xp_shm_map(&ctx->shm, &rep->doorbells, &shm_fds, &doorbells);
	if (err)
		return err;
	ctx->doorbells = doorbells;
	used = shm_fds.used;
	if (rep->has_uffd && used < nfds) {
		ctx->uffd_device = fds[used];
		fds[used] = -1;
	}
	ctx->token_fd = xp_token_file_create(ctx->dev->path, rep->token);
	return ctx->token_fd < 0 ? ctx->token_fd : 0;
}

static int send_hello(struct xp_context *ctx, const uint8_t *token)
{
	int fds[XR_HELLO_MAX_FDS];
	struct xr_hello_rep rep;
	struct xp_call call = {
		.rep = &rep,
		.rep_len = sizeof(rep),
		.rep_fds = fds,
		.rep_room = XR_HELLO_MAX_FDS,
	};
	unsigned int i;
	int err;

	err = xp_conn_hello(&ctx->conn, 0, token, &call);
	if (err)
		return err;
	err = apply_hello(ctx, &rep, fds, call.rep_nfds);
	for (i = 0; i < call.rep_nfds; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
	return err;
}

/*
 * Sends /proc/self/mem and maps now: a program that drops its privileges later could not open them
 * any more, because they would belong to root. On failure, the first registration tries again.
 */
static void send_proc_files(struct xp_context *ctx)
{
	struct ibv_pd *pd = xp_alloc_pd(ctx->ibctx);

	if (!pd)
		return;
	xp_send_proc_files(pd);
	xp_dealloc_pd(pd);
}

static int connect_context(struct xp_context *ctx, const uint8_t *token)
{
	const struct xp_timeouts timeouts = { CONNECT_TIMEOUT_MS, OPEN_TIMEOUT_MS };
	int err = xp_conn_open(&ctx->conn, ctx->dev->path, timeouts);

	if (err)
		return err;
	err = send_hello(ctx, token);
	if (ctx->conn.refused)
		return err;
	if (!err)
		err = xp_request(ctx, XR_MSG_QUERY_DEVICE, NULL, 0, &ctx->attr, sizeof(ctx->attr));
	if (err)
		return ctx->conn.broken ? -EIO : err;
	/* Only the daemon knows objects that can be imported. */
	err = token ? 0 : xp_direct_path_open(ctx);
	if (err)
		return err;
	send_proc_files(ctx);
	err = xp_faults_load(ctx);
	xp_conn_set_timeout(&ctx->conn, 0);
	return ctx->conn.broken ? -EIO : err;
}

/* token: NULL, or that of a context whose objects the new one may import */
static struct ibv_context *open_with_token(struct ibv_device *ibdev, const uint8_t *token)
{
	struct xp_context *ctx = xp_context_alloc((struct xp_device *)ibdev);
	int err;

	if (!ctx)
		return xp_null(xp_refuse_memory("ibv_open_device"));
	err = connect_context(ctx, token);
	if (err) {
		xp_debug_refused(ctx->dev->path, &ctx->conn, err);
		xp_context_free(ctx);
		/* The daemon has exited since the list was made: the device is gone. */
		return xp_null(err == -ECONNREFUSED || err == -ENOENT ? -ENODEV : err);
	}
	ctx->ibctx->async_fd = ctx->async->fd;
	ctx->ibctx->cmd_fd = ctx->token_fd;
	ctx->ibctx->num_comp_vectors = (int)ctx->workers;
	set_ops(ctx->ibctx);
	ctx->open = open_with_token;
	xp_fork_watch(ctx);
	return ctx->ibctx;
}

struct ibv_context *xp_open_device(struct ibv_device *ibdev)
{
	return open_with_token(ibdev, NULL);
}

struct ibv_context *xp_import_device(int fd)
{
	struct ibv_context *ibctx;
	struct xp_token_file t;
	struct xp_device *dev;

	if (!xp_token_file_read(fd, &t))
		return xp_null(xp_refuse("ibv_import_device", EINVAL,
					 "fd %d is not the cmd_fd of a context", fd));
	dev = xp_device_find(t.path);
	if (!dev)
		return xp_null(xp_refuse("ibv_import_device", ENODEV,
					 "the context's device is not in the device list"));
	ibctx = open_with_token(&dev->ibdev, t.token);
	/* On success the verb owns fd. The new context has a token file of its own. */
	if (ibctx)
		close(fd);
	return ibctx;
}

/* ---- close --------------------------------------------------------------------- */

/*
 * Longest wait for the daemon to free the objects that the program has left, in ms: it frees many
 * in steps, and waits for memory that hangs
 */
#define END_MS 1000

/* Afterwards, peers do not access the memory of regions that were not deregistered any more. */
static void wait_for_end(struct xp_context *ctx)
{
	xp_conn_close(&ctx->conn);
	xp_event_socket_wait(ctx->async, END_MS);
}

/* In a child process, ibctx may be the parent's context or the child context. Both are closed. */
int xp_close_device(struct ibv_context *ibctx)
{
	struct xp_context *ctx = xp_ctx(ibctx), *child;

	while (ctx->parent)
		ctx = ctx->parent;
	for (; ctx; ctx = child) {
		child = ctx->child;
		xp_fork_unwatch(ctx);
		xp_direct_path_close(ctx);
		if (xp_health(ctx) == XP_HEALTHY)
			wait_for_end(ctx);
		xp_context_free(ctx);
	}
	return 0;
}
