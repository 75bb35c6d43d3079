/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef XP_HOST_MEMFD_H
#define XP_HOST_MEMFD_H

#include <stdint.h>

/*
 * Returns a file in memory whose size cannot be changed, so that others can map it, or -errno.
 * -EFBIG: it would exceed RLIMIT_FSIZE, which raises SIGXFSZ.
 */
int xp_memfd_new(const char *name, uint64_t size);

#endif /* XP_HOST_MEMFD_H */
