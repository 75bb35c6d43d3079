// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "privileges.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "log.h"

/*
 * The capabilities that the helper keeps. The start needs more (loading and attaching the XDP
 * program, mounting the BPF file system, the group of the socket), but is over by then. Map
 * updates through a descriptor need none since Linux 5.19.
 */
static const cap_value_t helper[] = {
	CAP_NET_ADMIN,		/* resolving a neighbour (RTM_NEWNEIGH), SO_RCVBUFFORCE */
	CAP_NET_RAW,		/* taking sockets of loans from their interface */
	CAP_SYS_PTRACE,		/* lookup in /proc/PID/map_files of other users' processes */
	CAP_CHECKPOINT_RESTORE, /* following the links there */
	CAP_DAC_OVERRIDE,	/* opening shared memory that only its owner may open */
};

/*
 * Pinning beyond RLIMIT_MEMLOCK, for the daemon, which enforces a limit of its own. Not needed if
 * the limit could be raised.
 */
static const cap_value_t locker[] = { CAP_IPC_LOCK };

static bool pins_without_limit(void)
{
	struct rlimit rl;

	return !getrlimit(RLIMIT_MEMLOCK, &rl) && rl.rlim_cur == RLIM_INFINITY;
}

/* Returns the number of capabilities that the role keeps. */
static size_t kept_by(enum xd_role role, const cap_value_t **caps)
{
	*caps = role == XD_ROLE_HELPER ? helper : locker;
	if (role == XD_ROLE_HELPER)
		return sizeof(helper) / sizeof(helper[0]);
	return role == XD_ROLE_DAEMON && !pins_without_limit();
}

/* ---- the user -------------------------------------------------------------------- */

static struct {
	bool set;
	uid_t uid;
	gid_t gid;
} user;

int xd_privileges_user(const char *name)
{
	const struct passwd *p = *name ? getpwnam(name) : NULL;
	unsigned long id;
	char *end;

	if (!*name)
		return 0;
	user.set = true;
	if (p) {
		user.uid = p->pw_uid;
		user.gid = p->pw_gid;
		return 0;
	}
	id = strtoul(name, &end, 10);
	if (end == name || *end || id >= (uid_t)-1)
		return -ENOENT;
	user.uid = (uid_t)id;
	user.gid = (gid_t)id;
	return 0;
}

static bool may(cap_value_t what)
{
	cap_flag_value_t has = CAP_CLEAR;
	cap_t now = cap_get_proc();

	if (now) {
		cap_get_flag(now, what, CAP_EFFECTIVE, &has);
		cap_free(now);
	}
	return has == CAP_SET;
}

bool xd_privileges_becomes(uid_t *uid)
{
	*uid = user.uid;
	return user.set && !geteuid() && may(CAP_SETUID) && may(CAP_SETGID);
}

/* Another user takes away the signal that this process gets when its parent ends. */
static void become_user(void)
{
	int signal = 0;

	if (!user.set || geteuid())
		return;
	prctl(PR_GET_PDEATHSIG, &signal);
	prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
	if (setgroups(0, NULL) || setresgid(user.gid, user.gid, user.gid) ||
	    setresuid(user.uid, user.uid, user.uid))
		xd_log(XD_WARN, "stays root, without capabilities: cannot become user %u: %s",
		       user.uid, strerror(errno));
	prctl(PR_SET_PDEATHSIG, signal);
}

/* ---- capabilities ---------------------------------------------------------------- */

/* The kept capabilities that the process has: in a container some may be missing. */
static cap_t reduced(cap_t now, enum xd_role role)
{
	cap_t caps = cap_init();
	const cap_value_t *kept;
	cap_flag_value_t has;
	size_t n = kept_by(role, &kept), i;

	for (i = 0; caps && i < n; i++) {
		if (cap_get_flag(now, kept[i], CAP_PERMITTED, &has) || has != CAP_SET)
			continue;
		cap_set_flag(caps, CAP_PERMITTED, 1, &kept[i], CAP_SET);
		cap_set_flag(caps, CAP_EFFECTIVE, 1, &kept[i], CAP_SET);
	}
	return caps;
}

int xd_privileges_drop(enum xd_role role)
{
	cap_t now = cap_get_proc(), caps = now ? reduced(now, role) : NULL;
	int err = caps ? 0 : -ENOMEM;

	/*
	 * The bounding set limits programs that the daemon would execute; it executes none. Without
	 * CAP_SETPCAP this fails, and the sets below have to do.
	 */
	for (cap_value_t c = 0; !err && c < cap_max_bits(); c++)
		if (cap_get_bound(c) == CAP_SET)
			cap_drop_bound(c);
	if (!err && role != XD_ROLE_HELPER)
		become_user();
	if (!err && cap_set_proc(caps))
		err = -errno;
	if (!err && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		err = -errno;
#ifndef __SANITIZE_ADDRESS__ /* its leak detection traces the process */
	/* no core dumps, which would hold memory of clients; no tracing by the same user */
	if (!err && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
		err = -errno;
#endif
	cap_free(caps);
	cap_free(now);
	return err;
}
