// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Completion channels. The descriptor that programs get is an epoll set of the eventfd. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "requests.h"

struct xp_channel_object *xp_channel_of(struct xp_host *h, uint32_t handle)
{
	return xp_object_get(&h->objects, XP_KIND_CHANNEL, handle);
}

/* Returns the descriptor that programs get, or -errno. They may make it non-blocking. */
static int make_set(int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int set = epoll_create1(EPOLL_CLOEXEC), err;

	if (set < 0)
		return -errno;
	if (!epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev))
		return set;
	err = -errno;
	close(set);
	return err;
}

static void host_free_channel(struct xp_channel_object *ch)
{
	if (ch->fd >= 0)
		close(ch->fd);
	pthread_mutex_destroy(&ch->taking);
	free(ch->queue);
	free(ch);
}

static int host_open_channel(struct xp_host *h, struct xp_channel_object *ch, int *set)
{
	ch->fd = eventfd(0, EFD_CLOEXEC);
	if (ch->fd < 0)
		return -errno;
	*set = make_set(ch->fd);
	if (*set < 0)
		return *set;
	return xp_host_add(h, &ch->obj, XP_KIND_CHANNEL);
}

int xp_do_create_channel(struct xp_host *h, struct xp_call *call)
{
	struct xp_channel_object *ch = calloc(1, sizeof(*ch));
	struct xr_handle_rep rep = { 0 };
	int set = -1, err;

	if (!ch)
		return -ENOMEM;
	ch->fd = -1;
	pthread_mutex_init(&ch->taking, NULL);
	err = host_open_channel(h, ch, &set);
	if (err) {
		if (set >= 0)
			close(set);
		host_free_channel(ch);
		return err;
	}
	xp_host_enter(h);
	ch->next = h->channels;
	h->channels = ch;
	xp_host_leave_quietly(h);
	rep.handle = ch->obj.handle;
	xp_reply(call, &rep, sizeof(rep));
	call->rep_fds[0] = set;
	call->rep_nfds = 1;
	return 0;
}

int xp_do_destroy_channel(struct xp_host *h, struct xp_call *call)
{
	const struct xr_handle_req *q = call->req;
	struct xp_channel_object *ch = xp_channel_of(h, q->handle);
	struct xp_channel_object **at;

	if (!ch)
		return -ENOENT;
	if (ch->obj.refs)
		return xp_host_refuse(h, -EBUSY, "the channel is used by %u CQs", ch->obj.refs);
	xp_host_enter(h);
	for (at = &h->channels; *at != ch; at = &(*at)->next)
		;
	*at = ch->next;
	xp_host_leave_quietly(h);
	xp_host_del(h, &ch->obj);
	host_free_channel(ch);
	return 0;
}
