/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Answers that a daemon sends with an event of an id: replies to the commands that librdmacm
 * executes after this event. They are used until the program executes another command on the id or
 * reads its next event. Needs the lock of the channel.
 */
#ifndef XP_CM_ANSWERS_H
#define XP_CM_ANSWERS_H

#include <stddef.h>
#include <stdint.h>

#include "provider/cm/source.h"

struct xp_cm_answers {
	uint8_t *bytes; /* struct xr_cm_answer, each with its reply; NULL: none */
	size_t len;
};

/* Replaces the answers by a copy of others. Without memory for it there are none. */
void xp_cm_answers_set(struct xp_cm_answers *a, const void *bytes, size_t len);
void xp_cm_answers_drop(struct xp_cm_answers *a);
/*
 * Copies the reply to a command. Returns its length, or 0 if the daemon has to be asked: no answer,
 * or the program has room for a part of it only.
 */
size_t xp_cm_answers_find(const struct xp_cm_answers *a, const struct xp_cm_command *c, void *rep,
			  size_t room);
/* Returns true and the path to the peer if that is one of the answers. */
bool xp_cm_answers_path(const struct xp_cm_answers *a, struct xr_cm_path *path);

#endif /* XP_CM_ANSWERS_H */
