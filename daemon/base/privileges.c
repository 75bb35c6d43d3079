/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "privileges.h"

#include <errno.h>
#include <stddef.h>
#include <sys/capability.h>
#include <sys/prctl.h>

/*
 * Kept, and why. What starting needs beyond these (loading and attaching the program, mounting
 * the BPF file system, the socket's group, workers' priority) is over by then. Maps are updated
 * by descriptor, which needs none since Linux 5.19.
 */
static const cap_value_t control[] = {
	CAP_NET_ADMIN, /* asking the kernel to resolve a neighbour (RTM_NEWNEIGH) */
};

static const cap_value_t job[] = {
	CAP_NET_RAW,		/* AF_XDP sockets, whose umems pin memory */
	CAP_IPC_LOCK,		/* pinning beyond RLIMIT_MEMLOCK: the daemon keeps its own quota */
	CAP_SYS_PTRACE,		/* looking up /proc/PID/map_files of other users' programs */
	CAP_CHECKPOINT_RESTORE, /* following what is found there */
	CAP_DAC_OVERRIDE,	/* opening shared memory that its owner alone may open */
};

/* Workers, who meet what peers send, need nothing. */
static const struct {
	const cap_value_t *kept;
	size_t n;
} roles[] = {
	[XD_ROLE_CONTROL] = { control, sizeof(control) / sizeof(control[0]) },
	[XD_ROLE_JOB] = { job, sizeof(job) / sizeof(job[0]) },
	[XD_ROLE_WORKER] = { NULL, 0 },
};

/* Only what we have: in a container it may be less than the table. */
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

	/* bounds what a program would get that is executed: none is */
	for (cap_value_t c = 0; !err && c < cap_max_bits(); c++)
		if (cap_get_bound(c) == CAP_SET)
			cap_drop_bound(c); /* without CAP_SETPCAP: the sets below do it */
	if (!err && cap_set_proc(caps))
		err = -errno;
	if (!err && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		err = -errno;
	cap_free(caps);
	cap_free(now);
	return err;
}
