/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Finds daemons that start or end while a channel is open. Needs the lock of the channel. */
#ifndef XP_CM_REFRESH_H
#define XP_CM_REFRESH_H

#include "provider/cm/ids.h"

/*
 * Handles the end of daemons. If the runtime directory has changed, connects to new daemons, and
 * open ids get a part there. Returns 0, or -errno if a daemon could not be connected; then the
 * others were.
 */
int xp_cm_refresh(struct xp_cm_channel *ch);

/*
 * Makes the runtime directory wake those that wait for events of the channel, because it has a
 * wildcard listener. In a channel that blocks, only GET_EVENT is woken: a program that polls it
 * expects that GET_EVENT then has an event.
 */
void xp_cm_watch(struct xp_cm_channel *ch);

/*
 * Returns a descriptor that is readable when the directory may have changed. Until the channel has
 * a listener, it is readable once xp_cm_watch() has been called. Returns -1 if there is none.
 */
int xp_cm_watch_fd(struct xp_cm_channel *ch);

/* Takes the events of the watched directory, which is watched from now on. */
void xp_cm_watch_drain(struct xp_cm_channel *ch);

#endif /* XP_CM_REFRESH_H */
