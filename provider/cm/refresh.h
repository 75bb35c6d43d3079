/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Finds daemons that start or end while a channel is open. */
#ifndef XP_CM_REFRESH_H
#define XP_CM_REFRESH_H

#include "provider/cm/ids.h"

/*
 * Handles the end of daemons. If the runtime directory has changed, connects to new daemons, and
 * open ids get a part there. Returns 0, or -errno if a daemon could not be connected; then the
 * others were. Needs the lock of the channel.
 */
int xp_cm_refresh(struct xp_cm_channel *ch);

/*
 * Returns true if the runtime directory has changed so recently that a daemon in it may not listen
 * yet. Needs no lock.
 */
bool xp_cm_directory_is_new(void);

#endif /* XP_CM_REFRESH_H */
