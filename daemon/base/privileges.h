/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* User and capabilities of the daemon's processes after the start. */
#ifndef XD_PRIVILEGES_H
#define XD_PRIVILEGES_H

#include <stdbool.h>
#include <sys/types.h>

enum xd_role {
	XD_ROLE_DAEMON,	 /* processes packets, serves programs */
	XD_ROLE_SPAWNER, /* with the processes that it forks */
	XD_ROLE_HELPER,	 /* keeps the capabilities that are needed later (daemon/helper/) */
};

/*
 * Sets the user that all processes but the helper become, by name or number. Only root can become
 * another user; an empty name: stay the same. Returns -ENOENT if there is no such user.
 */
int xd_privileges_user(const char *name);
/* Returns true, and the user, if xd_privileges_drop() will make this process another user. */
bool xd_privileges_becomes(uid_t *uid);

/*
 * Becomes that user, and drops all capabilities that the role does not need, for good: from the
 * effective, permitted, inheritable and bounding sets. Prevents core dumps. The caller must be the
 * only thread. Logs what is not permitted but can be done without. Returns 0 or -errno.
 */
int xd_privileges_drop(enum xd_role role);

#endif /* XD_PRIVILEGES_H */
