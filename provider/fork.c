// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * After fork() parent and child share the rings and the connection, and only one of them can
 * use these. The parent goes on; in the child every context is marked, its verbs
 * fail, its connection is closed. A child that wants RDMA opens the device anew.
 */
#include "provider.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* contexts */
static struct xp_context *contexts;

static void before(void)
{
	pthread_mutex_lock(&lock);
	xp_adopt_before_fork();
}

static void in_parent(void)
{
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
	}
	xp_adopt_in_child();
	pthread_mutex_init(&lock, NULL);
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
