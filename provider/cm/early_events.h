/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Events that came with the reply to a command, and that the program has not read yet.
 * While a channel has any, its epoll set is readable. An id has one at most. Needs the lock of the
 * channel.
 */
#ifndef XP_CM_EARLY_EVENTS_H
#define XP_CM_EARLY_EVENTS_H

#include "provider/cm/ids.h"

struct xp_cm_early_event {
	struct xp_cm_id *id, *next; /* next: of the channel, the oldest one first */
	size_t len;
	uint8_t bytes[XP_CM_REPLY_MAX]; /* a reply to GET_EVENT */
};

/* Takes over t, an event of an id that has none. */
void xp_cm_early_event_add(struct xp_cm_channel *ch, struct xp_cm_early_event *t);
/* Takes the oldest event, to be freed; NULL: none. */
struct xp_cm_early_event *xp_cm_early_event_take(struct xp_cm_channel *ch);
/* Forgets the event of an id. */
void xp_cm_early_event_drop(struct xp_cm_channel *ch, struct xp_cm_id *id);
void xp_cm_early_event_move(struct xp_cm_channel *from, struct xp_cm_channel *to,
			    struct xp_cm_id *id);
/* In a child process: the parent reads the events. */
void xp_cm_early_event_forget(struct xp_cm_channel *ch);
/*
 * Makes fd, the epoll set, readable if the channel has such events, else not. Returns false if fd
 * is not the set. Any thread, without the lock.
 */
bool xp_cm_early_event_show(const struct xp_cm_channel *ch, int fd);

#endif /* XP_CM_EARLY_EVENTS_H */
