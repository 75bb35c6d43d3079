// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Contexts: allocation by libibverbs, so that verbs that we lack meet its own
 * refusals; the slots that inline verbs call.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "provider/provider.h"

#define OPEN_TIMEOUT_MS 5000
#define HEALTH_INTERVAL_NS 5000000ull

uint64_t xp_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

/* ---- requests ------------------------------------------------------------------ */

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
	now = ts.tv_sec * 1000000000ull + ts.tv_nsec;
	if (now - last < HEALTH_INTERVAL_NS)
		return;
	__atomic_store_n(&ctx->checked_ns, now, __ATOMIC_RELAXED);
	cancel = xp_cancel_off();
	if (xp_health(ctx) == XP_HEALTHY && xp_conn_hung_up(&ctx->conn))
		xp_set_gone(ctx);
	xp_cancel_restore(cancel);
}

/* Under conn.lock */
static int call_locked(struct xp_context *ctx, struct xp_call *call)
{
	int err = xp_health(ctx) == XP_HEALTHY ? xp_conn_call(&ctx->conn, call) : -EIO;

	if (ctx->conn.broken)
		xp_set_gone(ctx);
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

int xp_call_map(struct xp_context *ctx, struct xp_call *call, struct xp_piece *piece,
		unsigned int n)
{
	int fds[XR_MSG_MAX_FDS], err, cancel;
	unsigned int i, used = 0;

	/* The parent may have held the lock when it forked. */
	if (xp_health(ctx) != XP_HEALTHY)
		return -EIO;
	if (n) {
		call->rep_fds = fds;
		call->rep_room = XR_MSG_MAX_FDS;
	}
	cancel = xp_cancel_off();
	pthread_mutex_lock(&ctx->conn.lock);
	err = call_locked(ctx, call);
	for (i = 0; i < n && !err; i++)
		err = xp_shm_map(&ctx->shm, piece[i].ref, fds, call->rep_nfds, &used,
				 &piece[i].ptr);
	pthread_mutex_unlock(&ctx->conn.lock);
	if (n)
		xp_close_fds(fds, call->rep_nfds);
	xp_cancel_restore(cancel);
	return err;
}

int xp_release(struct xp_context *ctx, uint32_t type, uint32_t handle, struct xr_destroy_rep *rep)
{
	struct xr_handle_req req = { .handle = handle };
	int err = xp_request(ctx, type, &req, sizeof(req), rep, rep ? sizeof(*rep) : 0);

	if (err && xp_health(ctx) != XP_HEALTHY) {
		/* How many events it sent is not known: none of them may be delivered. */
		if (rep)
			*rep = (struct xr_destroy_rep){ UINT32_MAX, UINT32_MAX };
		return 0;
	}
	return err;
}

/* ---- allocation ---------------------------------------------------------------- */

#define ROOM 4096 /* for struct verbs_context as the running libibverbs knows it */

ptrdiff_t xp_context_distance;

/* Our struct, then libibverbs' verbs_context: *ibctx is found by the device that it names. */
static void *alloc_by_libibverbs(struct ibv_device *ibdev, size_t front, struct ibv_context **ibctx)
{
	void *(*init)(struct ibv_device *, int, size_t, struct verbs_context *,
		      uint32_t) = xp_real_symbol("_verbs_init_and_alloc_context");
	struct ibv_context *c;
	uint8_t *block;
	size_t off, sz;

	if (!init)
		return NULL;
	block = init(ibdev, -1, front + ROOM, (struct verbs_context *)front, 0);
	if (!block)
		return NULL;
	for (off = front + sizeof(sz); off + sizeof(*c) <= front + ROOM; off += sizeof(void *)) {
		c = (struct ibv_context *)(block + off);
		memcpy(&sz, block + off - sizeof(sz), sizeof(sz));
		if (c->device == ibdev && c->abi_compat == __VERBS_ABI_IS_EXTENDED &&
		    sz == off - front + sizeof(*c)) {
			*ibctx = c;
			return block;
		}
	}
	free(block);
	return NULL;
}

/* A libibverbs without that function: all verbs that we lack stay empty slots. */
static void *alloc_by_ourselves(struct ibv_device *ibdev, size_t front, struct ibv_context **ibctx)
{
	uint8_t *block = calloc(1, front + sizeof(struct verbs_context));
	struct verbs_context *v;

	if (!block)
		return NULL;
	v = (struct verbs_context *)(block + front);
	v->sz = sizeof(*v);
	v->context.device = ibdev;
	v->context.cmd_fd = -1;
	v->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	pthread_mutex_init(&v->context.mutex, NULL);
	*ibctx = &v->context;
	return block;
}

static struct xp_context *alloc_context(struct xp_device *dev)
{
	size_t front = (sizeof(struct xp_context) + 63) & ~(size_t)63;
	struct ibv_context *ibctx;
	struct xp_context *ctx;
	void *block;

	block = alloc_by_libibverbs(&dev->ibdev, front, &ibctx);
	if (!block)
		block = alloc_by_ourselves(&dev->ibdev, front, &ibctx);
	if (!block)
		return NULL;
	ctx = block;
	ctx->block = block;
	ctx->ibctx = ibctx;
	ctx->dev = dev;
	ctx->conn.fd = -1;
	ctx->uffd_device = -1;
	ctx->ticket = -1;
	xp_context_distance = (char *)ibctx - (char *)ctx;
	return ctx;
}

/* The slots of inline verbs. Those that an older libibverbs lacks are not there to be set. */
static void set_slots(struct ibv_context *ibctx)
{
	struct verbs_context *v = verbs_get_ctx(ibctx);

#define SET(slot, fn)                                                                              \
	do {                                                                                       \
		if (v->sz >= sizeof(*v) - offsetof(struct verbs_context, slot))                    \
			v->slot = fn;                                                              \
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

/* Also of a context that was never wholly open */
static void free_context(struct xp_context *ctx)
{
	struct verbs_context *v = verbs_get_ctx(ctx->ibctx);
	unsigned int i;

	xp_conn_close(&ctx->conn);
	xp_pipe_free(ctx->async);
	xp_shm_unmap_all(&ctx->shm);
	for (i = 0; ctx->wake && i < ctx->workers; i++)
		close(ctx->wake[i]);
	free(ctx->wake);
	if (ctx->uffd_device >= 0)
		close(ctx->uffd_device);
	if (ctx->ticket >= 0)
		close(ctx->ticket);
	pthread_mutex_destroy(&ctx->ibctx->mutex);
	free(v->priv);
	free(ctx->block);
}

/* ---- open and close ------------------------------------------------------------ */

/* fds: event pipe, eventfds of the workers, doorbells, userfaultfd */
static int take_hello(struct xp_context *ctx, const struct xr_hello_rep *rep, int *fds,
		      unsigned int nfds)
{
	unsigned int used = 0, i;
	void *doorbells;
	int err;

	if (rep->version != XR_PROTOCOL_VERSION || !rep->workers || nfds < 1 + rep->workers ||
	    rep->doorbells.length / sizeof(struct xr_doorbell) < rep->workers)
		return -EPROTO;
	ctx->wake = calloc(rep->workers, sizeof(int));
	if (!ctx->wake)
		return -ENOMEM;
	ctx->async = xp_pipe_new(fds[used], sizeof(struct xr_async_event));
	if (!ctx->async)
		return -ENOMEM;
	fds[used++] = -1;
	for (i = 0; i < rep->workers; i++) {
		ctx->wake[i] = fds[used];
		fds[used++] = -1;
	}
	ctx->workers = rep->workers;
	err = xp_shm_map(&ctx->shm, &rep->doorbells, fds, nfds, &used, &doorbells);
	if (err)
		return err;
	ctx->doorbells = doorbells;
	if (rep->has_uffd && used < nfds) {
		ctx->uffd_device = fds[used];
		fds[used++] = -1;
	}
	ctx->ticket = xp_make_ticket(ctx->dev, rep->token);
	return ctx->ticket < 0 ? ctx->ticket : 0;
}

/* token: of the context to import from, or NULL */
static int say_hello(struct xp_context *ctx, const uint8_t *token)
{
	struct xr_hello_req req = { .version = XR_PROTOCOL_VERSION };
	int fds[XR_MSG_MAX_FDS];
	struct xr_hello_rep rep;
	struct xp_call call = {
		.type = XR_MSG_HELLO,
		.req = &req,
		.req_len = sizeof(req),
		.rep = &rep,
		.rep_len = sizeof(rep),
		.rep_fds = fds,
		.rep_room = XR_MSG_MAX_FDS,
	};
	unsigned int i;
	int err;

	if (token) {
		req.flags = XR_HELLO_IMPORT;
		memcpy(req.token, token, sizeof(req.token));
	}
	err = xp_conn_call(&ctx->conn, &call);
	if (err)
		return err;
	err = take_hello(ctx, &rep, fds, call.rep_nfds);
	for (i = 0; i < call.rep_nfds; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
	return err;
}

/*
 * A program that gives up privileges after this could not open its /proc/self/mem any more: it
 * belongs to root then. Where it fails now, it is tried again for the first region.
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
	int err = xp_conn_open(&ctx->conn, ctx->dev->path, OPEN_TIMEOUT_MS);

	if (err)
		return err;
	err = say_hello(ctx, token);
	if (err)
		return err;
	err = xp_request(ctx, XR_MSG_QUERY_DEVICE, NULL, 0, &ctx->attr, sizeof(ctx->attr));
	if (!err)
		send_proc_files(ctx);
	xp_conn_no_timeout(&ctx->conn);
	return ctx->conn.broken ? -EIO : err;
}

struct ibv_context *xp_open_by_token(struct ibv_device *ibdev, const uint8_t *token)
{
	struct xp_context *ctx = alloc_context((struct xp_device *)ibdev);
	int err;

	if (!ctx)
		return xp_null(ENOMEM);
	err = connect_context(ctx, token);
	if (err) {
		xp_debug("%s: %s", ctx->dev->path, strerror(-err));
		free_context(ctx);
		/* A daemon that went since the list was made is a device that went. */
		return xp_null(err == -ECONNREFUSED || err == -ENOENT ? -ENODEV : err);
	}
	ctx->ibctx->async_fd = ctx->async->fd;
	ctx->ibctx->cmd_fd = ctx->ticket;
	ctx->ibctx->num_comp_vectors = 1;
	set_slots(ctx->ibctx);
	xp_fork_watch(ctx);
	return ctx->ibctx;
}

struct ibv_context *xp_open_device(struct ibv_device *ibdev)
{
	return xp_open_by_token(ibdev, NULL);
}

/* In a child the program may know its parent's context, or the heir by an object of that. */
int xp_close_device(struct ibv_context *ibctx)
{
	struct xp_context *ctx = xp_ctx(ibctx), *heir;

	while (ctx->elder)
		ctx = ctx->elder;
	for (; ctx; ctx = heir) {
		heir = ctx->heir;
		xp_fork_unwatch(ctx);
		free_context(ctx);
	}
	return 0;
}
