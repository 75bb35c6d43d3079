// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "provider/cm/told.h"

#include <stdlib.h>
#include <sys/epoll.h>

/* The anchor always is readable. The set has this event of it while there are told events. */
bool xp_cm_told_show(const struct xp_cm_channel *ch, int fd)
{
	struct epoll_event ev = { .data.u64 = XP_CM_EPOLL_ANCHOR };
	bool told;

	do {
		told = __atomic_load_n(&ch->told, __ATOMIC_ACQUIRE);
		ev.events = told ? EPOLLIN : 0;
		if (epoll_ctl(fd, EPOLL_CTL_MOD, ch->anchor->fd, &ev))
			return false;
		/* another thread may have changed the events meanwhile */
	} while (told != !!__atomic_load_n(&ch->told, __ATOMIC_ACQUIRE));
	return true;
}

static void told_show(const struct xp_cm_channel *ch)
{
	if (ch->epfd >= 0)
		xp_cm_told_show(ch, ch->epfd);
}

static void told_append(struct xp_cm_channel *ch, struct xp_cm_id *id)
{
	struct xp_cm_id **at = &ch->told;
	bool first = !*at;

	while (*at)
		at = &(*at)->told->next;
	id->told->next = NULL;
	__atomic_store_n(at, id, __ATOMIC_RELEASE);
	if (first)
		told_show(ch);
}

static void told_take(struct xp_cm_channel *ch, struct xp_cm_id *id)
{
	struct xp_cm_id **at = &ch->told;

	while (*at != id)
		at = &(*at)->told->next;
	__atomic_store_n(at, id->told->next, __ATOMIC_RELEASE);
	if (!ch->told)
		told_show(ch);
}

void xp_cm_told_add(struct xp_cm_channel *ch, struct xp_cm_told *t)
{
	t->id->told = t;
	told_append(ch, t->id);
}

struct xp_cm_told *xp_cm_told_take(struct xp_cm_channel *ch)
{
	struct xp_cm_told *t = ch->told ? ch->told->told : NULL;

	if (!t)
		return NULL;
	told_take(ch, t->id);
	t->id->told = NULL;
	return t;
}

void xp_cm_told_drop(struct xp_cm_channel *ch, struct xp_cm_id *id)
{
	if (!id->told)
		return;
	told_take(ch, id);
	free(id->told);
	id->told = NULL;
}

void xp_cm_told_move(struct xp_cm_channel *from, struct xp_cm_channel *to, struct xp_cm_id *id)
{
	if (!id->told)
		return;
	told_take(from, id);
	told_append(to, id);
}

void xp_cm_told_forget(struct xp_cm_channel *ch)
{
	struct xp_cm_id *id;

	while ((id = ch->told)) {
		ch->told = id->told->next;
		free(id->told);
		id->told = NULL;
	}
}
