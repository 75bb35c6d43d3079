// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ring.h"

#include <errno.h>
#include <limits.h>
#include <linux/close_range.h>
#include <linux/io_uring.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/peer.h"

#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif

/* ---- the program ----------------------------------------------------------------- */

/*
 * A socket sends any datagram to any host. So only a program gets it that could open one with the
 * same power: one that has the network namespace of the device.
 */
static int check_network(const struct xd_helper_peer *p)
{
	struct stat own, other;
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/ns/net", p->pid);
	if (stat("/proc/self/ns/net", &own) || stat(path, &other))
		return -errno;
	if (xd_process_ended(p->pidfd))
		return -ESRCH;
	return own.st_dev == other.st_dev && own.st_ino == other.st_ino ? 0 : -EXDEV;
}

/*
 * Closing a descriptor of another kind could wait for a file system, so those are not taken. The
 * program can exchange it in between; then only this thread waits.
 */
static int check_kind(const struct xd_helper_peer *p, uint32_t ring)
{
	static const char wanted[] = "anon_inode:[io_uring]";
	char path[40], kind[sizeof(wanted) + 1];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/fd/%u", p->pid, ring);
	n = readlink(path, kind, sizeof(kind));
	if (n < 0)
		return errno == ENOENT ? -EBADF : -errno;
	return (size_t)n == sizeof(wanted) - 1 && !memcmp(kind, wanted, (size_t)n) ? 0 : -EBADF;
}

static int ring_take(const struct xd_helper_peer *p, uint32_t ring)
{
	int err, fd;

	if (p->pidfd < 0)
		return -EOPNOTSUPP;
	err = check_kind(p, ring);
	if (err)
		return err;
	fd = (int)syscall(SYS_pidfd_getfd, p->pidfd, ring, 0);
	return fd < 0 ? -errno : fd;
}

/* ---- the io_uring ---------------------------------------------------------------- */

static int do_register(int ring, unsigned int op, const void *arg, unsigned int n)
{
	return syscall(SYS_io_uring_register, ring, op, arg, n) < 0 ? -errno : 0;
}

/*
 * Whatever is not named here is refused: other operations, those without a fixed file, and any
 * further registration. The restrictions apply from the moment when the io_uring is enabled,
 * whoever does that; no operation is possible before, and no second set of restrictions.
 */
static int restrict_ring(int ring)
{
	const struct io_uring_restriction r[] = {
		{ .opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_SENDMSG },
		{ .opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_RECVMSG },
		{ .opcode = IORING_RESTRICTION_SQE_FLAGS_REQUIRED, .sqe_flags = IOSQE_FIXED_FILE },
	};

	return do_register(ring, IORING_REGISTER_RESTRICTIONS, r, sizeof(r) / sizeof(r[0]));
}

bool xd_ring_set_use(uint32_t *word, uint32_t loan, enum xd_ring_use use)
{
	return __atomic_compare_exchange_n(word, &loan, loan | use, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
}

static int ring_set_up(int ring, const struct xd_ring_loan *l, enum xd_ring_step *step)
{
	int err;

	*step = XD_RING_RESTRICT;
	err = restrict_ring(ring);
	if (err)
		return err;
	*step = XD_RING_REGISTER;
	if (!xd_ring_set_use(l->word, l->loan, XD_RING_USED))
		return -ECANCELED;
	err = do_register(ring, IORING_REGISTER_FILES, l->files, l->n);
	if (err)
		return err;
	*step = XD_RING_ENABLE;
	return do_register(ring, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
}

int xd_ring_give(const struct xd_helper_peer *p, const struct xd_ring_loan *l,
		 enum xd_ring_step *step)
{
	int fd, err;

	*step = XD_RING_NETWORK;
	err = check_network(p);
	if (err)
		return err;
	*step = XD_RING_TAKE;
	fd = ring_take(p, l->ring);
	if (fd < 0)
		return fd;
	err = ring_set_up(fd, l, step);
	close(fd);
	return err;
}

/* ---- descriptors of the thread --------------------------------------------------- */

int xd_ring_unshare(void)
{
	return close_range(~0u, ~0u, CLOSE_RANGE_UNSHARE) ? -errno : 0;
}

static int ring_compare(const void *a, const void *b)
{
	const int *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

void xd_ring_keep_only(int *fds, uint32_t n)
{
	unsigned int from = STDERR_FILENO + 1;

	qsort(fds, n, sizeof(*fds), ring_compare);
	for (uint32_t i = 0; i < n; i++) {
		if (fds[i] < 0)
			continue;
		if ((unsigned int)fds[i] > from)
			close_range(from, (unsigned int)fds[i] - 1, 0);
		from = (unsigned int)fds[i] + 1;
	}
	close_range(from, ~0u, 0);
}

/* ---- the end of a loan ----------------------------------------------------------- */

/*
 * The kernel does not ask whether there is such an interface. Binding takes the socket out of its
 * group; the last one of the group moves to its place. This does not wait for the program: it
 * cannot hold the lock of a socket that sends nothing (SHUT_WR).
 */
int xd_ring_retire(int sock)
{
	const int nowhere = INT_MAX;

	if (shutdown(sock, SHUT_WR) && errno != ENOTCONN)
		return -errno;
	return setsockopt(sock, SOL_SOCKET, SO_BINDTOIFINDEX, &nowhere, sizeof(nowhere)) ? -errno
											 : 0;
}
