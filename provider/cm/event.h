/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* GET_EVENT */
#ifndef XP_CM_EVENT_H
#define XP_CM_EVENT_H

#include "provider/cm/ids.h"

/*
 * Takes the next event of any source and translates its ids. Waits for one unless the descriptor
 * has O_NONBLOCK. The lock of the channel is released meanwhile, and the thread can be cancelled.
 * @fd: the descriptor that the program used
 * @room: bytes that the program has for the event
 * @cancel: the program's cancellation state
 * Returns the length of the event or -errno.
 */
int xp_cm_get_event(struct xp_cm_channel *ch, int fd, size_t room, struct rdma_ucm_event_resp *ev,
		    int cancel);

#endif /* XP_CM_EVENT_H */
