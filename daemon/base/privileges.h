/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Capabilities of the daemon's threads and processes: see the table in privileges.c. */
#ifndef XD_PRIVILEGES_H
#define XD_PRIVILEGES_H

enum xd_role { XD_ROLE_CONTROL, XD_ROLE_JOB, XD_ROLE_WORKER, XD_ROLE_SPAWNER };

/*
 * Drops all capabilities of the calling thread that its role does not need, for good: from the
 * effective, permitted, inheritable and bounding sets. Returns 0 or -errno.
 */
int xd_privileges_drop(enum xd_role role);

#endif /* XD_PRIVILEGES_H */
