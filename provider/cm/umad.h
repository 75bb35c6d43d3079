/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Files of umad: the device files /dev/infiniband/umadN as libibumad sees them. The descriptor that
 * a program has is the socket on which the daemon sends MADs, so that poll() and O_NONBLOCK work.
 * Each write() and ioctl() is a request on a connection of the file's own.
 */
#ifndef XP_UMAD_H
#define XP_UMAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct xp_cm_channel;

#define XP_UMAD_MODE 0600 /* as that of the kernel: for root */

struct xp_umad {
	uint64_t cookie; /* of the socket */
	dev_t rdev;
	bool used;	/* has got a request: ENABLE_PKEY comes too late */
	bool with_pkey; /* MADs have headers with P_Key index */
};

/* Opens the file of a device. Returns a descriptor, or -1 and errno. */
int xp_umad_open(const char *device, dev_t rdev, int flags);

/* write() to a file. Returns 0 or -errno. */
int xp_umad_write(struct xp_cm_channel *ch, const void *data, size_t len);

/*
 * read() and ioctl(). Return false if fd is no file of umad. Otherwise *result is what the call
 * returns, with errno. Call them for marked descriptors only (xp_cm_is_marked()).
 */
bool xp_umad_read(int fd, void *data, size_t len, ssize_t *result);
bool xp_umad_ioctl(int fd, unsigned long request, void *arg, int *result);

#endif /* XP_UMAD_H */
