// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "privileges.h"

#include <errno.h>
#include <stddef.h>
#include <sys/capability.h>
#include <sys/prctl.h>

/*
 * The capabilities that are kept. Startup needs more, for loading and attaching the XDP program,
 * mounting the BPF file system and setting the group of the socket. Map updates through a
 * descriptor need none since Linux 5.19.
 */
static const cap_value_t control[] = {
	CAP_NET_ADMIN, /* making the kernel resolve a neighbour (RTM_NEWNEIGH) */
};

static const cap_value_t job[] = {
	CAP_NET_RAW,	/* AF_XDP sockets, whose umems pin memory */
	CAP_IPC_LOCK,	/* pinning beyond RLIMIT_MEMLOCK; the daemon has a quota of its own */
	CAP_SYS_PTRACE, /* lookup in /proc/PID/map_files of other users' processes */
	CAP_CHECKPOINT_RESTORE, /* following the links there */
	CAP_DAC_OVERRIDE,	/* opening shared memory that only its owner may open */
};

/* Workers process packets from the network and need no capability. */
static const struct {
	const cap_value_t *kept;
	size_t n;
} roles[] = {
	[XD_ROLE_CONTROL] = { control, sizeof(control) / sizeof(control[0]) },
	[XD_ROLE_JOB] = { job, sizeof(job) / sizeof(job[0]) },
	[XD_ROLE_WORKER] = { NULL, 0 },
	[XD_ROLE_SPAWNER] = { NULL, 0 },
};

/* The kept capabilities that the process has: in a container some may be missing. */
static cap_t reduced(cap_t now, enum xd_role role)
{
	const cap_value_t *kept = roles[role].kept;
	cap_t caps = cap_init();
	cap_flag_value_t has;

	for (size_t i = 0; caps && i < roles[role].n; i++) {
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
	 * CAP_SETPCAP this fails, and only the sets below are reduced.
	 */
	for (cap_value_t c = 0; !err && c < cap_max_bits(); c++)
		if (cap_get_bound(c) == CAP_SET)
			cap_drop_bound(c);
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
