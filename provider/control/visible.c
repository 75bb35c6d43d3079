// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <string.h>

#include <xroce/control.h>

#include "provider/base/environment.h"
#include "provider/control/visible.h"

const char *xp_runtime_dir(void)
{
	const char *dir = xp_environment(XP_RUNTIME_DIR);

	return dir && *dir ? dir : XR_RUNTIME_DIR;
}

bool xp_device_is_visible(const char *name)
{
	const char *list = xp_environment(XP_DEVICES);
	size_t len = strlen(name), n;

	if (!list)
		return true;
	for (;; list += n + 1) {
		n = strcspn(list, ",");
		if (n == len && !memcmp(list, name, n))
			return true;
		if (!list[n])
			return false;
	}
}
