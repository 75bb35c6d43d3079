/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Limits the files that a process can open (Landlock, Linux 5.13). */
#ifndef XD_LANDLOCK_H
#define XD_LANDLOCK_H

/*
 * Lets the calling thread, and those that it starts, open only what the daemon reads while it
 * serves: below /proc, /dev/null, the list of processors. Descriptors that are open stay usable. To
 * be called after xd_privileges_drop(), which sets no_new_privs. Returns -EOPNOTSUPP if the kernel
 * has no Landlock, or another -errno.
 */
int xd_landlock_enter(void);

#endif /* XD_LANDLOCK_H */
