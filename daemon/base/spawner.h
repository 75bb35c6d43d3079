/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The spawner: a process that forks others while the daemon runs. The daemon itself has threads
 * then, and its own child processes would keep its memory and descriptors alive.
 */
#ifndef XD_SPAWNER_H
#define XD_SPAWNER_H

#include <stdint.h>
#include <sys/types.h>

#include "fd_message.h"

#define XD_SPAWN_FDS XD_MESSAGE_FDS /* limit for one process */

struct xd_spawner;

/* Main function of a forked process. The descriptors are in the order of xd_spawner_fork(). */
typedef void (*xd_spawned_fn)(const int *fds, uint32_t n);

/* The processes that the spawner forks */
enum xd_spawned { XD_SPAWN_MOVER, XD_SPAWN_GATE, XD_SPAWN_KINDS };

struct xd_spawned_kind {
	const char *name; /* at most 15 characters */
	xd_spawned_fn fn;
};

/* kind: a table, which must stay. The caller must be the only thread. */
int xd_spawner_start(const struct xd_spawned_kind kind[XD_SPAWN_KINDS],
		     struct xd_spawner **spawner);
/*
 * Forks a process that holds copies of these descriptors and the standard ones only. It is killed
 * when the daemon ends. Returns its pidfd or -errno. Any thread; takes about a millisecond. Closing
 * the descriptors must not block.
 */
int xd_spawner_fork(struct xd_spawner *s, enum xd_spawned kind, const int *fds, uint32_t n,
		    pid_t *pid);
/* Ends the spawner, which kills the processes. NULL allowed. */
void xd_spawner_stop(struct xd_spawner *s);

#endif /* XD_SPAWNER_H */
