/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the daemon may do once it runs: see the table in privileges.c. */
#ifndef XD_PRIVILEGES_H
#define XD_PRIVILEGES_H

/*
 * The calling thread's, as Linux has it: effective, permitted, inheritable and bounding set. Each thread
 * calls it once it has done what needs more. 0 or -errno.
 */
int xd_privileges_drop(void);

#endif /* XD_PRIVILEGES_H */
