/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The scheduling slice of a thread, sched_setattr(2)
 */
#ifndef XD_SLICE_H
#define XD_SLICE_H

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The shortest that the kernel accepts. Before Linux 6.12 it has no effect. */
#define XD_SHORT_SLICE_NS 100000u

/*
 * Sets the slice of the calling thread to @ns; 0 is the scheduler's default. Returns 0 or -errno.
 * The C library of Debian 12 declares neither the call nor its structure.
 */
static inline int xd_set_slice(uint64_t ns)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
		uint32_t util_min, util_max;
	} attr = { .size = sizeof(attr), .policy = SCHED_OTHER, .runtime = ns };

	attr.nice = getpriority(PRIO_PROCESS, 0); /* unchanged: lowering it needs privileges */
	return syscall(SYS_sched_setattr, 0, &attr, 0) ? -errno : 0;
}

#endif /* XD_SLICE_H */
