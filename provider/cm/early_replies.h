/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Replies that an event of an id carries to the commands that librdmacm executes after it. They
 * are used until the program executes another command on the id or reads its next event. Needs the
 * lock of the channel.
 */
#ifndef XP_CM_EARLY_REPLIES_H
#define XP_CM_EARLY_REPLIES_H

#include <stddef.h>
#include <stdint.h>

#include "provider/cm/source.h"

struct xp_cm_early_replies {
	uint8_t *bytes; /* struct xr_cm_early_reply, each with its reply; NULL: none */
	size_t len;
};

/* Replaces them by a copy of others. Without memory for it there are none. */
void xp_cm_early_replies_set(struct xp_cm_early_replies *a, const void *bytes, size_t len);
void xp_cm_early_replies_drop(struct xp_cm_early_replies *a);
/*
 * Copies the reply to a command. Returns its length, or 0 if the command must be sent: there is
 * none, or the program has room for a part of it only.
 */
size_t xp_cm_early_replies_find(const struct xp_cm_early_replies *a, const struct xp_cm_command *c,
				void *rep, size_t room);
/* Returns true and the path to the peer if that is one of them. */
bool xp_cm_early_replies_path(const struct xp_cm_early_replies *a, struct xr_cm_path *path);

#endif /* XP_CM_EARLY_REPLIES_H */
