// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Control sockets in the runtime directory. */
#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <xroce/control.h>

#include "provider/control/sockets.h"

static int is_socket_name(const struct dirent *d)
{
	size_t len = strlen(d->d_name), suffix = strlen(XR_SOCKET_SUFFIX);

	return len > suffix && len - suffix <= XR_DEVICE_NAME_MAX && d->d_name[0] != '.' &&
	       !strcmp(d->d_name + len - suffix, XR_SOCKET_SUFFIX);
}

char **xp_sockets_list(const char *dir)
{
	struct dirent **entry = NULL;
	char **names;
	int i, n = scandir(dir, &entry, is_socket_name, alphasort);

	if (n < 0 && errno != ENOENT)
		return NULL;
	if (n < 0)
		n = 0;
	names = calloc((size_t)n + 1, sizeof(*names));
	for (i = 0; i < n; i++) {
		if (names)
			names[i] = strndup(entry[i]->d_name,
					   strlen(entry[i]->d_name) - strlen(XR_SOCKET_SUFFIX));
		free(entry[i]);
	}
	free(entry);
	return names;
}

void xp_sockets_free(char **names)
{
	char **p;

	for (p = names; p && *p; p++)
		free(*p);
	free(names);
}

int xp_socket_path(char path[XP_SOCKET_PATH_MAX], const char *dir, const char *device)
{
	int n = snprintf(path, XP_SOCKET_PATH_MAX, "%s/%s" XR_SOCKET_SUFFIX, dir, device);

	if (!*device || strchr(device, '/') || strlen(device) > XR_DEVICE_NAME_MAX)
		return -ENOENT;
	return n < 0 || n >= XP_SOCKET_PATH_MAX ? -ENAMETOOLONG : 0;
}

void xp_socket_access(const char *path, char *text, size_t size)
{
	struct group group, *found = NULL;
	struct stat st;
	char room[1024];

	if (stat(path, &st))
		snprintf(text, size, "the directory is not accessible");
	else if (!(st.st_mode & S_IWGRP))
		snprintf(text, size, "only root may connect");
	else if (!getgrgid_r(st.st_gid, &group, room, sizeof(room), &found) && found)
		snprintf(text, size, "only root and the group '%s' may connect", group.gr_name);
	else
		snprintf(text, size, "only root and the group %u may connect", st.st_gid);
}
