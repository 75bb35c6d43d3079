// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <xroce/control.h>

#include "provider/base/environment.h"
#include "provider/control/runtime_dir.h"

/* ---- places --------------------------------------------------------------------- */

bool xp_runtime_place(enum xp_runtime_place place, char path[XP_SOCKET_PATH_MAX])
{
	const char *session;
	struct stat st;
	int n = -1;

	switch (place) {
	case XP_DIR_SYSTEM:
		n = snprintf(path, XP_SOCKET_PATH_MAX, XR_RUNTIME_DIR);
		break;
	case XP_DIR_SESSION:
		session = xp_environment(XP_SESSION_DIR);
		/* XDG Base Directory Specification. After `su`, it may be that of another user. */
		if (session && *session == '/' && !stat(session, &st) && st.st_uid == geteuid())
			n = snprintf(path, XP_SOCKET_PATH_MAX, "%s/xroce", session);
		break;
	case XP_DIR_TMP:
		n = snprintf(path, XP_SOCKET_PATH_MAX, "/tmp/xroce-%u", geteuid());
		break;
	default:
		break;
	}
	return n > 0 && n < XP_SOCKET_PATH_MAX;
}

/* The owner of what belongs to a user outside this user namespace, such as its /tmp */
#define OVERFLOW_UID 65534

/*
 * Others can rename entries of a directory that is theirs, or that they may write to, unless it is
 * sticky.
 */
static bool may_be_replaced(const char *path)
{
	bool sticky;

	char parent[XP_SOCKET_PATH_MAX];
	struct stat st;
	char *slash;

	snprintf(parent, sizeof(parent), "%s", path);
	slash = strrchr(parent, '/');
	if (!slash)
		return true;
	slash[slash == parent] = 0;
	if (stat(parent, &st))
		return true;
	sticky = st.st_mode & S_ISVTX;
	if (st.st_uid && st.st_uid != geteuid() && !(sticky && st.st_uid == OVERFLOW_UID))
		return true;
	return st.st_mode & (S_IWGRP | S_IWOTH) && !sticky;
}

int xp_private_dir(const char *path, char *why, size_t size)
{
	struct stat st;

	if (lstat(path, &st)) {
		snprintf(why, size, "%s", strerror(errno));
		return -errno;
	}
	if (S_ISLNK(st.st_mode))
		snprintf(why, size, "it is a symbolic link");
	else if (!S_ISDIR(st.st_mode))
		snprintf(why, size, "it is no directory");
	else if (st.st_uid != geteuid())
		snprintf(why, size, "it belongs to user %u", st.st_uid);
	else if (st.st_mode & (S_IRWXG | S_IRWXO))
		snprintf(why, size, "its mode is %04o, not 0700", st.st_mode & 07777);
	else if (may_be_replaced(path))
		snprintf(why, size,
			 "others may rename it: its parent is theirs, or writable and not sticky");
	else
		return 0;
	return -EPERM;
}

/* ---- sockets -------------------------------------------------------------------- */

/* Does not wait. A daemon whose backlog is full exists. */
static bool answers(const char *path)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool ok;

	if (fd < 0)
		return false;
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", path);
	ok = !connect(fd, (struct sockaddr *)&sun, sizeof(sun)) || errno == EAGAIN;
	close(fd);
	return ok;
}

static bool runtime_dir_may_connect(const char *path)
{
	return !faccessat(AT_FDCWD, path, W_OK, AT_EACCESS);
}

/* Returns true if a socket of the directory has the property. */
static bool any_socket(const char *dir, bool (*is)(const char *path))
{
	char **names = xp_sockets_list(dir), **p, path[XP_SOCKET_PATH_MAX];
	bool found = false;

	for (p = names; p && *p && !found; p++)
		found = !xp_socket_path(path, dir, *p) && is(path);
	xp_sockets_free(names);
	return found;
}

bool xp_runtime_dir_answers(const char *path)
{
	return any_socket(path, answers);
}

/* ---- the choice ----------------------------------------------------------------- */

static bool is_usable(enum xp_runtime_place place, char path[XP_SOCKET_PATH_MAX])
{
	char why[128];

	return xp_runtime_place(place, path) &&
	       (place == XP_DIR_SYSTEM || !xp_private_dir(path, why, sizeof(why))) &&
	       any_socket(path, runtime_dir_may_connect);
}

static enum xp_runtime_place last_used = XP_DIR_SYSTEM;

static enum xp_runtime_place runtime_dir_choose(char path[XP_SOCKET_PATH_MAX])
{
	enum xp_runtime_place usable[XP_DIR_PLACES];
	unsigned int place, n = 0, i;

	for (place = 0; place < XP_DIR_PLACES; place++)
		if (is_usable(place, path))
			usable[n++] = place;
	if (!n)
		return __atomic_load_n(&last_used, __ATOMIC_RELAXED);
	for (i = 0; n > 1 && i < n; i++)
		if (xp_runtime_place(usable[i], path) && xp_runtime_dir_answers(path))
			return usable[i];
	return usable[0];
}

const char *xp_runtime_dir(void)
{
	static __thread char path[XP_SOCKET_PATH_MAX];
	const char *given = xp_environment(XP_RUNTIME_DIR);
	enum xp_runtime_place place;
	int err = errno;

	if (given && *given)
		return given;
	place = runtime_dir_choose(path);
	__atomic_store_n(&last_used, place, __ATOMIC_RELAXED);
	if (!xp_runtime_place(place, path))
		xp_runtime_place(XP_DIR_SYSTEM, path);
	errno = err;
	return path;
}
