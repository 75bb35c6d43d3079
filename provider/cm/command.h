/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Commands of a channel */
#ifndef XP_CM_COMMAND_H
#define XP_CM_COMMAND_H

#include "provider/cm/ids.h"

/*
 * Executes the command that the program writes to a descriptor of the channel, and stores the
 * reply. The caller has a reference of the channel and has turned cancellation off.
 * @cancel: the program's cancellation state
 * Returns 0 or -errno.
 */
int xp_cm_execute(struct xp_cm_channel *ch, int fd, const void *data, size_t len, int cancel);

#endif /* XP_CM_COMMAND_H */
