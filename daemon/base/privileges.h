/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the daemon may do once it runs: see the table in privileges.c. */
#ifndef XD_PRIVILEGES_H
#define XD_PRIVILEGES_H

enum xd_role { XD_ROLE_CONTROL, XD_ROLE_JOB, XD_ROLE_WORKER };

/*
 * What a thread of that kind needs is left to the calling thread, the rest goes for good: effective,
 * permitted, inheritable and bounding set are each thread's own. Called once it has done
 * what needs more. 0 or -errno.
 */
int xd_privileges_drop(enum xd_role role);

#endif /* XD_PRIVILEGES_H */
