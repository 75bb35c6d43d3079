/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rdma_cm for unmodified programs: the device file /dev/infiniband/rdma_cm as librdmacm sees it.
 * These functions are called by the interposed functions of libc (preload/files.c). Those without
 * xp_cm_open() serve files of umad as well (umad.h).
 */
#ifndef XP_CM_H
#define XP_CM_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "provider/cm/numbers.h"

#define XP_CM_DEVICE "/dev/infiniband/rdma_cm"

/*
 * Opens a channel.
 * @kernel: descriptor of the kernel's device file, or -1 and errno
 * Returns a new descriptor; kernel if there are no daemons; -1 and errno if the daemons refuse.
 */
int xp_cm_open(int kernel, int flags);

/*
 * write(). Returns false if fd is no channel. Otherwise *result is what write() returns, with
 * errno. Call it for marked descriptors only (xp_cm_is_marked()).
 */
bool xp_cm_write(int fd, const void *data, size_t len, ssize_t *result);

/* fstat(): describes the device file. Returns false if fd is no channel. */
bool xp_cm_fstat(int fd, struct stat *st);

/* Must be called before fd, or all descriptors from first to last, are closed. */
void xp_cm_closing(int fd);
void xp_cm_closing_range(unsigned int first, unsigned int last);

/* Must be called after dup() and the like have made `fd` a duplicate of `old`. */
void xp_cm_duplicated(int old, int fd);

#endif /* XP_CM_H */
