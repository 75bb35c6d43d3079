/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Processes that serve one client: its gate, and a mover for each of its address spaces. A client
 * can make them hang in the kernel. Its user is charged for each, for its memory and descriptors,
 * until it has ended, which may be long after the client.
 */
#ifndef XD_PROCESSES_H
#define XD_PROCESSES_H

#include <stdint.h>

#include "daemon/base/reaper.h"

struct xd_client;

/* Descriptors of the daemon for a process: its pidfd and its socket */
#define XD_PROCESS_FDS 2

/*
 * Charges the client's user for a process that is about to start, of which the daemon holds this
 * many bytes besides XD_PROCESS_BYTES. xd_reaper_add() ends the charge. -EDQUOT, -EMFILE, -ENOMEM.
 */
int xd_process_charge(struct xd_client *c, uint64_t bytes, struct xd_killed **process);

#endif /* XD_PROCESSES_H */
