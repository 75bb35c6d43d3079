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

static int channel_set_packets(const struct xp_channel *ch)
{
	return ch->ctx->host_ops->packets(ch->ctx->host);
}

/* Packets make the descriptor of this channel readable. The context is locked. */
static void channel_set_wake(struct xp_channel *ch)
{
	struct xp_context *ctx = ch->ctx;

	if (ctx->wakes) {
		epoll_ctl(ctx->wakes->ibch.fd, EPOLL_CTL_DEL, channel_set_packets(ch), NULL);
		__atomic_store_n(&ctx->wakes->was_woken, true, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&ctx->wakes, ch, __ATOMIC_RELAXED);
	add_to_set(ch, channel_set_packets(ch));
	ctx->host_ops->woken(ctx->host);
}

/* Without the mutex, the first look is cheap. */
void xp_channel_armed(struct xp_channel *ch)
{
	const struct xp_context *ctx = ch->ctx;
	const struct xp_channel *wakes;

	if (!ctx->host)
		return;
	wakes = __atomic_load_n(&ctx->wakes, __ATOMIC_RELAXED);
	if (wakes == ch || __atomic_load_n(&ch->events_only, __ATOMIC_RELAXED) ||
	    (wakes && !ctx->host_ops->sleeps(ctx->host)) || !xp_channel_never_blocks(ch))
		return;
	pthread_mutex_lock(&ch->ibch.context->mutex);
	if (!ch->events_only && ctx->wakes == wakes)
		channel_set_wake(ch);
	pthread_mutex_unlock(&ch->ibch.context->mutex);
}

/* Returns true if packets made the descriptor readable. The context is locked. */
static bool stop_waking(struct xp_channel *ch)
{
	struct xp_context *ctx = ch->ctx;

	if (ctx->wakes != ch)
		return false;
	__atomic_store_n(&ctx->wakes, NULL, __ATOMIC_RELAXED);
	return true;
}

void xp_channel_events_only(struct xp_channel *ch)
{
	if (!ch->ctx->host || __atomic_load_n(&ch->events_only, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&ch->ibch.context->mutex);
	__atomic_store_n(&ch->events_only, true, __ATOMIC_RELAXED);
	if (stop_waking(ch))
		epoll_ctl(ch->ibch.fd, EPOLL_CTL_DEL, channel_set_packets(ch), NULL);
	pthread_mutex_unlock(&ch->ibch.context->mutex);
}

void xp_channel_close_set(struct xp_channel *ch)
{
	if (!ch->host)
		return;
	pthread_mutex_lock(&ch->ibch.context->mutex);
	stop_waking(ch);
	close(ch->ibch.fd);
	pthread_mutex_unlock(&ch->ibch.context->mutex);
}
