/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The system calls that move packets. Those of the C library are cancellation points, which costs a
 * program with threads two atomic operations a call, and would end a thread in a round of the
 * engine. The simulation has a kernel of its own instead (selftests/sim/udp.c).
 */
#ifndef XD_UDP_CALLS_H
#define XD_UDP_CALLS_H

#include <sys/socket.h>

/* As the functions of the same names, with MSG_DONTWAIT. Return -1 and errno on error. */
int xd_udp_recvmmsg(int fd, struct mmsghdr *msg, unsigned int n);
int xd_udp_sendmmsg(int fd, struct mmsghdr *msg, unsigned int n);
int xd_udp_sendmsg(int fd, struct msghdr *h);

#endif /* XD_UDP_CALLS_H */
