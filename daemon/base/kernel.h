/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef XD_KERNEL_H
#define XD_KERNEL_H

#include <linux/version.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/utsname.h>

/* Major and minor version of the running kernel, as KERNEL_VERSION(); 0: unknown */
static inline uint32_t xd_kernel_version(void)
{
	unsigned int major = 0, minor = 0;
	struct utsname u;

	if (uname(&u) || sscanf(u.release, "%u.%u", &major, &minor) != 2)
		return 0;
	return KERNEL_VERSION(major, minor, 0);
}

#endif /* XD_KERNEL_H */
