// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Asynchronous events, which programs read from a socket as if the daemon had written them. */
#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "requests.h"

/* Returns false if there is no room. An event that nobody can read any more counts as written. */
static bool host_write_record(struct xp_event_source *src, uint32_t type)
{
	const struct xr_async_event ev = { .element = src->cookie, .type = type };

	const int flags = MSG_NOSIGNAL | MSG_DONTWAIT;
	/* the function of the C library is a cancellation point */
	long n = syscall(SYS_sendto, src->fd, &ev, sizeof(ev), flags, NULL, 0);

	if (n < 0 && errno == EAGAIN)
		return false;
	src->written++;
	return true;
}

static bool host_write_pending(struct xp_event_source *src)
{
	while (src->pending) {
		uint32_t type = (uint32_t)__builtin_ctz(src->pending);

		if (!host_write_record(src, type))
			return false;
		src->pending &= src->pending - 1;
	}
	return true;
}

void xp_event_raise(struct xp_host *h, struct xp_event_source *src, uint32_t type)
{
	if (src->fd < 0 || type > 31)
		return;
	src->pending |= 1u << type;
	if (src->blocked || host_write_pending(src))
		return;
	src->blocked = true;
	src->next = h->blocked;
	h->blocked = src;
}

void xp_events_retry(struct xp_host *h)
{
	struct xp_event_source **at = &h->blocked, *src;

	while ((src = *at)) {
		if (!host_write_pending(src)) {
			at = &src->next;
			continue;
		}
		*at = src->next;
		src->blocked = false;
	}
}

uint32_t xp_event_end(struct xp_host *h, struct xp_event_source *src)
{
	struct xp_event_source **at = &h->blocked;

	if (src->blocked) {
		while (*at != src)
			at = &(*at)->next;
		*at = src->next;
		src->blocked = false;
	}
	src->fd = -1;
	return src->written;
}
