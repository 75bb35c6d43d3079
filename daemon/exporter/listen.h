/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Listening sockets for metrics: at an address, or passed by the service manager. */
#ifndef XD_EXPORTER_LISTEN_H
#define XD_EXPORTER_LISTEN_H

#include <stdint.h>
#include <sys/types.h>

/*
 * Opens a listening socket: address is HOST:PORT with a numeric host, [HOST]:PORT, or the path of a
 * unix socket. group: may connect to a unix socket, too; (gid_t)-1: only the user may. A unix
 * socket that nobody listens on is replaced. Returns the socket or -errno; -EINVAL: the address has
 * none of these forms.
 */
int xd_listen_at(const char *address, gid_t group);

/*
 * Takes the sockets that the service manager has passed to this process (LISTEN_PID, LISTEN_FDS:
 * sd_listen_fds(3)), at most `room` of them, and removes these variables from the environment.
 * Returns their number, 0: none were passed; -EINVAL: a variable is no number; -E2BIG: there are
 * more; -ENOTSOCK: one of them is no listening stream socket of TCP or of the unix family.
 */
int xd_listen_passed(int *fds, uint32_t room);

#endif /* XD_EXPORTER_LISTEN_H */
