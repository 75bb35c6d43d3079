// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * After fork() parent and child share the rings and the connection, and only one of them can
 * use these. The parent goes on; in the child every context is marked, its connection is closed, and
 * what the parent made of it fails.
 *
 * What a child makes of its parent's context belongs to an heir of that: a context of its
 * own, opened when a verb first needs it. So objects of either are told apart by their context, and
 * no verb on an object looks twice. A child of the child has an heir of the heir.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "provider/provider.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* contexts */
static struct xp_context *contexts;
static pthread_mutex_t inheriting = PTHREAD_MUTEX_INITIALIZER; /* xp_context.heir */

static ino_t inode_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

static void before(void)
{
	pthread_mutex_lock(&lock);
	xp_adopt_before_fork();
	xp_devices_before_fork();
}

static void in_parent(void)
{
	xp_devices_in_parent();
	xp_adopt_in_parent();
	pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
	struct xp_context *ctx;

	for (ctx = contexts; ctx; ctx = ctx->next) {
		__atomic_store_n(&ctx->health, XP_FORKED, __ATOMIC_RELEASE);
		/* another thread of the parent may have been inside a request */
		pthread_mutex_init(&ctx->conn.lock, NULL);
		xp_conn_close(&ctx->conn);
		ctx->async_inode = inode_of(ctx->async->fd);
	}
	xp_devices_in_child();
	xp_adopt_in_child();
	pthread_mutex_init(&lock, NULL);
	pthread_mutex_init(&inheriting, NULL);
}

static void install(void)
{
	pthread_atfork(before, in_parent, in_child);
}

void xp_fork_watch(struct xp_context *ctx)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, install);
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

/* ---- heirs ----------------------------------------------------------------------- */

/*
 * A descriptor that the program knows by its number becomes the heir's, with the same flags, unless the
 * program closed it after the fork.
 */
static void take_number(int number, int fd, bool still_there)
{
	int flags = fcntl(number, F_GETFL), close_on_exec = fcntl(number, F_GETFD);

	if (!still_there || flags < 0)
		return;
	fcntl(fd, F_SETFL, flags);
	dup3(fd, number, close_on_exec & FD_CLOEXEC ? O_CLOEXEC : 0);
}

static void take_numbers(const struct xp_context *ctx, const struct xp_context *heir)
{
	take_number(ctx->async->fd, heir->async->fd,
		    ctx->async_inode && inode_of(ctx->async->fd) == ctx->async_inode);
	take_number(ctx->ticket, heir->ticket, xp_is_ticket(ctx->ticket));
}

/* Where the parent still has its context, the heir may import from it. */
static struct xp_context *open_heir(const struct xp_context *ctx)
{
	struct ibv_device *ibdev = &ctx->dev->ibdev;
	struct ibv_context *ibctx;
	uint8_t token[XR_TOKEN_LEN];

	ibctx = xp_read_token(ctx->ticket, token) ? xp_open_by_token(ibdev, token) : NULL;
	if (!ibctx)
		ibctx = xp_open_by_token(ibdev, NULL);
	return ibctx ? xp_ctx(ibctx) : NULL;
}

/* Under the lock: whom this process's calls are for; the dead one itself where there is no daemon. */
static struct xp_context *heir_of(struct xp_context *first)
{
	struct xp_context *last = first, *heir, *ctx;

	while (xp_health(last) == XP_FORKED && last->heir)
		last = last->heir;
	if (xp_health(last) != XP_FORKED)
		return last;
	heir = open_heir(last);
	if (!heir)
		return last;
	for (ctx = first; ctx; ctx = ctx->heir)
		take_numbers(ctx, heir);
	heir->elder = last;
	__atomic_store_n(&last->heir, heir, __ATOMIC_RELEASE);
	return heir;
}

struct ibv_context *xp_here(struct ibv_context *ibctx)
{
	struct xp_context *ctx = xp_ctx(ibctx);

	if (xp_health(ctx) != XP_FORKED)
		return ibctx;
	pthread_mutex_lock(&inheriting);
	ctx = heir_of(ctx);
	pthread_mutex_unlock(&inheriting);
	return ctx->ibctx;
}
