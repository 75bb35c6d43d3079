/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Some programs (UCX) check files of the kernel's RDMA core before they use a device, and ignore
 * the device if they are missing. These functions emulate the files. Each returns what the function
 * of libc would: ENOENT for all other paths.
 */
#ifndef XP_PATHS_H
#define XP_PATHS_H

struct stat;

int xp_emulate_access(const char *path, int mode);
int xp_emulate_stat(const char *path, struct stat *st);
/* Opens a sealed memfd with the text of a regular file. */
int xp_emulate_open(const char *path, int flags);

#endif /* XP_PATHS_H */
