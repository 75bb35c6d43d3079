// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "provider/cm/early_events.h"

#include <stdlib.h>
#include <sys/epoll.h>

/* The anchor always is readable. The set has this event of it while there are early events. */
bool xp_cm_early_event_show(const struct xp_cm_channel *ch, int fd)
{
	struct epoll_event ev = { .data.u64 = XP_CM_EPOLL_ANCHOR };
	bool any;

	do {
		any = __atomic_load_n(&ch->early_events, __ATOMIC_ACQUIRE);
		ev.events = any ? EPOLLIN : 0;
		if (epoll_ctl(fd, EPOLL_CTL_MOD, ch->anchor->fd, &ev))
			return false;
		/* another thread may have changed the events meanwhile */
	} while (any != !!__atomic_load_n(&ch->early_events, __ATOMIC_ACQUIRE));
	return true;
}

static void early_event_show(const struct xp_cm_channel *ch)
{
	if (ch->epfd >= 0)
		xp_cm_early_event_show(ch, ch->epfd);
}

static void early_event_append(struct xp_cm_channel *ch, struct xp_cm_id *id)
{
	struct xp_cm_id **at = &ch->early_events;
	bool first = !*at;

	while (*at)
		at = &(*at)->early_event->next;
	id->early_event->next = NULL;
	__atomic_store_n(at, id, __ATOMIC_RELEASE);
	if (first)
		early_event_show(ch);
}

static void early_event_take(struct xp_cm_channel *ch, struct xp_cm_id *id)
{
	struct xp_cm_id **at = &ch->early_events;

	while (*at != id)
		at = &(*at)->early_event->next;
	__atomic_store_n(at, id->early_event->next, __ATOMIC_RELEASE);
	if (!ch->early_events)
		early_event_show(ch);
}

void xp_cm_early_event_add(struct xp_cm_channel *ch, struct xp_cm_early_event *t)
{
	t->id->early_event = t;
	early_event_append(ch, t->id);
}

struct xp_cm_early_event *xp_cm_early_event_take(struct xp_cm_channel *ch)
{
	struct xp_cm_early_event *t = ch->early_events ? ch->early_events->early_event : NULL;

	if (!t)
		return NULL;
	early_event_take(ch, t->id);
	t->id->early_event = NULL;
	return t;
}

void xp_cm_early_event_drop(struct xp_cm_channel *ch, struct xp_cm_id *id)
{
	if (!id->early_event)
		return;
	early_event_take(ch, id);
	free(id->early_event);
	id->early_event = NULL;
}

void xp_cm_early_event_move(struct xp_cm_channel *from, struct xp_cm_channel *to,
			    struct xp_cm_id *id)
{
	if (!id->early_event)
		return;
	early_event_take(from, id);
	early_event_append(to, id);
}

void xp_cm_early_event_forget(struct xp_cm_channel *ch)
{
	struct xp_cm_id *id;

	while ((id = ch->early_events)) {
		ch->early_events = id->early_event->next;
		free(id->early_event);
		id->early_event = NULL;
	}
}
