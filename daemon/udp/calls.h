/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The system calls that move packets. Those of the C library are cancellation points, which costs a
 * program with threads two atomic operations a call, and would end a thread in a round of the
 * engine. The simulation has a kernel of its own instead (selftests/sim/udp.c).
 */
#ifndef XD_UDP_CALLS_H
#define XD_UDP_CALLS_H

#include <stdint.h>
#include <sys/socket.h>

/* As the functions of the same names, with MSG_DONTWAIT. Return -1 and errno on error. */
int xd_udp_recvmmsg(int fd, struct mmsghdr *msg, unsigned int n);
int xd_udp_sendmmsg(int fd, struct mmsghdr *msg, unsigned int n);
int xd_udp_sendmsg(int fd, struct msghdr *h);

/*
 * The same for sockets that the process does not hold as descriptors. They have numbers: 0 is the
 * one that receives, the others send. Both return how many messages were moved, from the first one
 * on; -1 and errno if that one was not. send() may send messages behind one that cannot be sent,
 * and sets their msg_len; it sends none that has one.
 */
struct xd_udp_calls {
	int (*receive)(void *arg, uint32_t number, struct mmsghdr *msg, unsigned int n);
	int (*send)(void *arg, uint32_t number, struct mmsghdr *msg, unsigned int n);
	/* The sockets are used no more. */
	void (*close)(void *arg);
};

#endif /* XD_UDP_CALLS_H */
