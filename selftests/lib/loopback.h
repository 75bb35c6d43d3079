/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A network namespace of the test's own, with a loopback interface that is up. */
#ifndef LOOPBACK_H
#define LOOPBACK_H

#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Moves this process there. Returns false with errno if that is not possible. */
static inline bool own_loopback(void)
{
	struct ifreq r = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	bool ok;
	int fd;

	if (unshare(geteuid() ? CLONE_NEWUSER | CLONE_NEWNET : CLONE_NEWNET))
		return false;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	ok = !ioctl(fd, SIOCSIFFLAGS, &r);
	close(fd);
	return ok;
}

#endif /* LOOPBACK_H */
