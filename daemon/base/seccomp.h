/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Limits the system calls of a process, with or without privileges. Calls that are not listed fail
 * with EPERM and are logged by the kernel; those that only an attacker would make end the process.
 */
#ifndef XD_SECCOMP_H
#define XD_SECCOMP_H

#include "privileges.h"

/*
 * Installs the filter for that role in all threads of the process, for good. To be called after
 * xd_privileges_drop(), which sets no_new_privs. Returns -EOPNOTSUPP if the kernel or this build
 * has no filter (an architecture that is not listed, sanitizers), or another -errno.
 */
int xd_seccomp_enter(enum xd_role role);

#endif /* XD_SECCOMP_H */
