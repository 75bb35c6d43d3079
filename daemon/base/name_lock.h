/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A lock file in the runtime directory, so that one daemon at a time has a device name. */
#ifndef XD_NAME_LOCK_H
#define XD_NAME_LOCK_H

#include <stdbool.h>

#define XD_LOCK_PATH 512

/* The path of the lock file */
void xd_name_lock_path(const char *runtime_dir, const char *name, char path[XD_LOCK_PATH]);
/*
 * Creates the runtime directory and locks `name`. private: the directory must be for this user
 * only, as others could offer sockets of their own there. Returns the descriptor that holds the
 * lock, which ends with the process at the latest, or -errno, which is logged.
 */
int xd_name_lock(const char *runtime_dir, bool private, const char *name);
/* Removes the lock file and closes fd. Does nothing if fd is negative. */
void xd_name_unlock(const char *runtime_dir, const char *name, int fd);

#endif /* XD_NAME_LOCK_H */
