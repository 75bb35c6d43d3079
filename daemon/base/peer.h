/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The process at the other end of a socket. */
#ifndef XD_PEER_H
#define XD_PEER_H

#include <stdbool.h>
#include <sys/types.h>

/* Returns a pidfd of the process that connected; pid: its number. -1: the kernel has none. */
int xd_peer_pidfd(int sock, pid_t pid);
/* Returns true if the process behind a pidfd has ended; -1: no pidfd, unknown. */
bool xd_process_ended(int pidfd);

#endif /* XD_PEER_H */
