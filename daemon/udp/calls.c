// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "calls.h"

#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

int xd_udp_recvmmsg(int fd, struct mmsghdr *msg, unsigned int n)
{
	return (int)syscall(SYS_recvmmsg, fd, msg, n, MSG_DONTWAIT, NULL);
}

int xd_udp_sendmmsg(int fd, struct mmsghdr *msg, unsigned int n)
{
	return (int)syscall(SYS_sendmmsg, fd, msg, n, MSG_DONTWAIT);
}

int xd_udp_sendmsg(int fd, struct msghdr *h)
{
	return (int)syscall(SYS_sendmsg, fd, h, MSG_DONTWAIT);
}
