// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* run, env: the warning that a program will find no device */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "environment.h"
#include "provider/control/runtime_dir.h"

static bool no_device_may_connect(const struct cli *cli, const char *device)
{
	char path[XP_SOCKET_PATH_MAX];

	return xp_socket_path(path, cli->runtime_dir, device) || !access(path, W_OK) ||
	       errno != EACCES;
}

/* Prints the directories in which there is no socket. */
static void warn_of_no_socket(const struct cli *cli)
{
	char path[XP_SOCKET_PATH_MAX], all[XP_DIR_PLACES * (XP_SOCKET_PATH_MAX + 2)] = "";
	unsigned int place;

	if (cli->runtime_dir_given) {
		cli_error("no device: there is no socket in %s", cli->runtime_dir);
		return;
	}
	for (place = 0; place < XP_DIR_PLACES; place++) {
		if (xp_runtime_place(place, path))
			strcat(strcat(all, *all ? ", " : ""), path);
	}
	cli_error("no device: there is no socket in %s", all);
}

void cli_warn_without_device(const struct cli *cli)
{
	char **names = cli_devices(cli), **p = names;
	char path[XP_SOCKET_PATH_MAX], who[128];

	while (p && *p && !no_device_may_connect(cli, *p))
		p++;
	if (p && p == names && !*p) {
		warn_of_no_socket(cli);
	} else if (p && !*p) {
		xp_socket_path(path, cli->runtime_dir, names[0]);
		xp_socket_access(path, who, sizeof(who));
		cli_error("you may not connect to any device in %s: %s", cli->runtime_dir, who);
	}
	xp_sockets_free(names);
}
