/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Commands that decide which source serves an id: an address or a route belongs to one source, a
 * wildcard address to all. They take an open id and its number's command, and return 0 or -errno.
 */
#ifndef XP_CM_BIND_H
#define XP_CM_BIND_H

#include "provider/cm/ids.h"

/* BIND and BIND_IP */
int xp_cm_bind(struct xp_cm_channel *ch, struct xp_cm_id *id, struct xp_cm_command *c);
/* RESOLVE_ADDR and RESOLVE_IP */
int xp_cm_resolve(struct xp_cm_channel *ch, struct xp_cm_id *id, struct xp_cm_command *c);
int xp_cm_listen(struct xp_cm_channel *ch, struct xp_cm_id *id, struct xp_cm_command *c);

#endif /* XP_CM_BIND_H */
