// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "provider/base/environment.h"

static const char *const names[XP_VARIABLES] = {
	[XP_DEBUG] = "XROCE_DEBUG",
	[XP_RUNTIME_DIR] = "XROCE_RUNTIME_DIR",
	[XP_SESSION_DIR] = "XDG_RUNTIME_DIR",
	[XP_DEVICES] = "XROCE_DEVICES",
	[XP_HIDE] = "XROCE_HIDE",
	[XP_ORDER] = "XROCE_ORDER",
	[XP_PATH] = "XROCE_PATH",
};

static __thread const struct xp_environment *used;

const char *xp_environment(enum xp_variable variable)
{
	return used ? used->value[variable] : secure_getenv(names[variable]);
}

int xp_environment_copy(struct xp_environment *copy)
{
	const char *value;
	int v;

	memset(copy, 0, sizeof(*copy));
	for (v = 0; v < XP_VARIABLES; v++) {
		value = secure_getenv(names[v]);
		copy->value[v] = value ? strdup(value) : NULL;
		if (value && !copy->value[v]) {
			xp_environment_free(copy);
			return -ENOMEM;
		}
	}
	return 0;
}

void xp_environment_free(struct xp_environment *copy)
{
	for (int v = 0; v < XP_VARIABLES; v++)
		free(copy->value[v]);
	memset(copy, 0, sizeof(*copy));
}

void xp_environment_use(const struct xp_environment *copy)
{
	used = copy;
}
