// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "channel_set.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "provider/host/host.h"
#include "provider/verbs/comp_channel.h"
#include "provider/verbs/context.h"

static int add_to_set(const struct xp_channel *ch, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	return epoll_ctl(ch->ibch.fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

bool xp_channel_never_blocks(const struct xp_channel *ch)
{
	int flags = fcntl(ch->ibch.fd, F_GETFL);

	return flags >= 0 && flags & O_NONBLOCK;
}

/* The mutex is for the set; without it, the first look is cheap. */
void xp_channel_armed(struct xp_channel *ch)
{
	struct xp_context *ctx = ch->ctx;
	struct xp_channel *none = NULL;

	if (!ctx->host || __atomic_load_n(&ctx->wakes, __ATOMIC_RELAXED) ||
	    __atomic_load_n(&ch->events_only, __ATOMIC_RELAXED) || !xp_channel_never_blocks(ch))
		return;
	pthread_mutex_lock(&ch->ibch.context->mutex);
	if (!ch->events_only && __atomic_compare_exchange_n(&ctx->wakes, &none, ch, false,
							    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		add_to_set(ch, ctx->host_ops->packets(ctx->host));
	pthread_mutex_unlock(&ch->ibch.context->mutex);
}

/* Returns true if packets made the descriptor readable. */
static bool stop_waking(struct xp_channel *ch)
{
	struct xp_channel *wakes = ch;

	return __atomic_compare_exchange_n(&ch->ctx->wakes, &wakes, NULL, false, __ATOMIC_RELAXED,
					   __ATOMIC_RELAXED);
}

void xp_channel_events_only(struct xp_channel *ch)
{
	struct xp_context *ctx = ch->ctx;

	if (!ctx->host || __atomic_load_n(&ch->events_only, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&ch->ibch.context->mutex);
	__atomic_store_n(&ch->events_only, true, __ATOMIC_RELAXED);
	if (stop_waking(ch))
		epoll_ctl(ch->ibch.fd, EPOLL_CTL_DEL, ctx->host_ops->packets(ctx->host), NULL);
	pthread_mutex_unlock(&ch->ibch.context->mutex);
}

void xp_channel_close_set(struct xp_channel *ch)
{
	if (!ch->host)
		return;
	close(ch->ibch.fd);
	stop_waking(ch);
}
