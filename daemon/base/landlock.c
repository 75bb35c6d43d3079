// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Rights by version of the interface: all of version 1, then what 2, 3 and 5 added. */
#define VERSION_1 ((LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1)
#define REFER (1ull << 13)
#define TRUNCATE (1ull << 14)
#define IOCTL_DEV (1ull << 15)

#define READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)

static const char *const readable[] = { "/proc", "/dev/null", "/sys/devices/system/cpu" };

static uint64_t rights_of(int version)
{
	return VERSION_1 | (version >= 2 ? REFER : 0) | (version >= 3 ? TRUNCATE : 0) |
	       (version >= 5 ? IOCTL_DEV : 0);
}

static void allow(int ruleset, const char *path)
{
	struct landlock_path_beneath_attr rule = {
		.allowed_access = READ,
		.parent_fd = open(path, O_PATH | O_CLOEXEC),
	};

	if (rule.parent_fd < 0)
		return;
	/* A file has no right to be listed. */
	if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0)) {
		rule.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE;
		syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
	}
	close(rule.parent_fd);
}

int xd_landlock_enter(void)
{
	struct landlock_ruleset_attr attr = { 0 };
	long version = syscall(SYS_landlock_create_ruleset, NULL, 0,
			       LANDLOCK_CREATE_RULESET_VERSION);
	int ruleset, err;

	if (version < 1)
		return -EOPNOTSUPP;
	attr.handled_access_fs = rights_of((int)version);
	ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
	if (ruleset < 0)
		return -errno;
	for (size_t i = 0; i < sizeof(readable) / sizeof(readable[0]); i++)
		allow(ruleset, readable[i]);
	err = syscall(SYS_landlock_restrict_self, ruleset, 0) ? -errno : 0;
	close(ruleset);
	return err;
}
