// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Which daemons there are: one socket each in the runtime directory. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static int is_socket(const struct dirent *d)
{
	size_t len = strlen(d->d_name), suffix = strlen(XR_SOCKET_SUFFIX);

	return len > suffix && len - suffix <= XR_DEVICE_NAME_MAX && d->d_name[0] != '.' &&
	       !strcmp(d->d_name + len - suffix, XR_SOCKET_SUFFIX);
}

char **cli_devices(const struct cli *cli)
{
	struct dirent **found = NULL;
	char **names;
	int i, n = scandir(cli->runtime_dir, &found, is_socket, alphasort);

	if (n < 0 && errno != ENOENT) {
		cli_error("%s: %m", cli->runtime_dir);
		return NULL;
	}
	if (n < 0)
		n = 0;
	names = calloc((size_t)n + 1, sizeof(*names));
	for (i = 0; i < n; i++) {
		if (names)
			names[i] = strndup(found[i]->d_name,
					   strlen(found[i]->d_name) - strlen(XR_SOCKET_SUFFIX));
		free(found[i]);
	}
	free(found);
	return names;
}

void cli_devices_free(char **names)
{
	char **p;

	for (p = names; p && *p; p++)
		free(*p);
	free(names);
}
