// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "peer.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* since Linux 6.5 */
#endif

int xd_peer_pidfd(int sock, pid_t pid)
{
	socklen_t len = sizeof(int);
	int pidfd = -1;

	if (!getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len))
		return pidfd;
	return pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
}

bool xd_process_ended(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return pidfd >= 0 && poll(&p, 1, 0) > 0;
}
