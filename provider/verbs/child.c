// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Child processes. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "provider/host/host.h"
#include "provider/memory/adopt.h"
#include "provider/verbs/child.h"
#include "provider/verbs/device.h"
#include "provider/verbs/event_socket.h"
#include "provider/verbs/token_file.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* contexts */
static struct xp_context *contexts;
static pthread_mutex_t child_lock = PTHREAD_MUTEX_INITIALIZER; /* xp_context.child */

static ino_t inode_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

/* ---- fork handlers ------------------------------------------------------------- */

static void child_before_fork(void)
{
	pthread_mutex_lock(&lock);
	xp_adopt_before_fork();
	xp_devices_before_fork();
}

static void child_in_parent(void)
{
	xp_devices_after_fork();
	xp_adopt_in_parent();
	pthread_mutex_unlock(&lock);
}

static void verbs_in_child(void)
{
	struct xp_context *ctx;

	for (ctx = contexts; ctx; ctx = ctx->next) {
		/* A child would keep the port when parent and daemon have ended. */
		if (ctx->host && xp_health(ctx) != XP_FORKED)
			ctx->host_ops->in_child(ctx->host);
		__atomic_store_n(&ctx->health, XP_FORKED, __ATOMIC_RELEASE);
		/* Another thread of the parent may have held it. */
		pthread_mutex_init(&ctx->conn_lock, NULL);
		pthread_mutex_init(&ctx->ibctx->mutex, NULL);
		xp_conn_close(&ctx->conn);
		ctx->async_inode = inode_of(ctx->async->fd);
	}
	xp_devices_after_fork();
	xp_adopt_in_child();
	pthread_mutex_unlock(&lock);
	pthread_mutex_init(&child_lock, NULL);
}

static void child_install_handlers(void)
{
	pthread_atfork(child_before_fork, child_in_parent, verbs_in_child);
}

void xp_fork_watch(struct xp_context *ctx)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, child_install_handlers);
	pthread_mutex_lock(&lock);
	ctx->next = contexts;
	contexts = ctx;
	pthread_mutex_unlock(&lock);
}

void xp_fork_unwatch(struct xp_context *ctx)
{
	struct xp_context **p;

	pthread_mutex_lock(&lock);
	for (p = &contexts; *p && *p != ctx; p = &(*p)->next)
		;
	if (*p)
		*p = ctx->next;
	pthread_mutex_unlock(&lock);
}

/* ---- child contexts ------------------------------------------------------------ */

/*
 * Replaces a descriptor that the program has from the parent's context by a file of the child
 * context, and keeps its flags.
 */
static void replace_fd(int known, int fd)
{
	int flags = fcntl(known, F_GETFL), fd_flags = fcntl(known, F_GETFD);

	if (flags < 0)
		return;
	fcntl(fd, F_SETFL, flags);
	dup3(fd, known, fd_flags & FD_CLOEXEC ? O_CLOEXEC : 0);
}

/* Replaces async_fd and cmd_fd unless the program closed them after the fork. */
static void replace_fds(const struct xp_context *ctx, const struct xp_context *child)
{
	struct xp_token_file t;

	if (ctx->async_inode && inode_of(ctx->async->fd) == ctx->async_inode)
		replace_fd(ctx->async->fd, child->async->fd);
	if (xp_token_file_read(ctx->token_fd, &t))
		replace_fd(ctx->token_fd, child->token_fd);
}

/*
 * Opens a child context, with the right to import from ctx if the parent still has it open. Nothing
 * can be imported from a direct context, but its child can be direct, too.
 */
static struct xp_context *open_child(const struct xp_context *ctx)
{
	struct ibv_device *ibdev = &ctx->dev->ibdev;
	struct ibv_context *ibctx = NULL;
	struct xp_token_file t;

	if (!ctx->host && xp_token_file_read(ctx->token_fd, &t))
		ibctx = ctx->open(ibdev, t.token);
	if (!ibctx)
		ibctx = ctx->open(ibdev, NULL);
	return ibctx ? xp_ctx(ibctx) : NULL;
}

/* Returns the last context of the chain, which is XP_FORKED if opening failed. Needs child_lock. */
static struct xp_context *verbs_child_of(struct xp_context *first)
{
	struct xp_context *last = first, *child, *ctx;

	while (xp_health(last) == XP_FORKED && last->child)
		last = last->child;
	if (xp_health(last) != XP_FORKED)
		return last;
	child = open_child(last);
	if (!child)
		return last;
	for (ctx = first; ctx; ctx = ctx->child)
		replace_fds(ctx, child);
	child->parent = last;
	child->shown = first->shown;
	__atomic_store_n(&last->child, child, __ATOMIC_RELEASE);
	return child;
}

struct ibv_context *xp_process_context(struct ibv_context *ibctx)
{
	struct xp_context *ctx = xp_ctx(ibctx);

	if (xp_health(ctx) != XP_FORKED)
		return ibctx;
	pthread_mutex_lock(&child_lock);
	ctx = verbs_child_of(ctx);
	pthread_mutex_unlock(&child_lock);
	return ctx->ibctx;
}

void xp_child_lock(void)
{
	pthread_mutex_lock(&child_lock);
}

void xp_child_unlock(void)
{
	pthread_mutex_unlock(&child_lock);
}
