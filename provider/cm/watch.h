/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A thread that finds daemons which start, for channels with wildcard listeners. A program may wait
 * for their requests in any way, also in a loop of its own that polls a channel without O_NONBLOCK.
 * So it cannot be woken for this: GET_EVENT would find no event and block.
 *
 * The process has one such thread, from its first wildcard listener on. It blocks all signals.
 */
#ifndef XP_CM_WATCH_H
#define XP_CM_WATCH_H

#include "provider/cm/ids.h"

/*
 * Gives the listeners of the channel to daemons that start, from now on. Needs the lock of the
 * channel. Without memory or threads, its next command finds these daemons. After a fork() the
 * child calls this again for a channel that is watched.
 */
void xp_cm_watch(struct xp_cm_channel *ch);

#endif /* XP_CM_WATCH_H */
