// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "name_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"

#define RETRIES 20
#define RETRY_US 50000

/* Opens the directory to all users regardless of the umask: the socket's mode limits access. */
static int name_lock_make_directory(const char *path)
{
	if (!mkdir(path, 0755))
		return chmod(path, 0755) ? -errno : 0;
	return errno == EEXIST ? 0 : -errno;
}

static int make_private_directory(const char *path)
{
	struct stat st;

	if (mkdir(path, 0700) && errno != EEXIST)
		return -errno;
	if (lstat(path, &st))
		return -errno;
	if (S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & (S_IRWXG | S_IRWXO)))
		return 0;
	xd_log(XD_ERR, "%s is not a directory of user %u with mode 0700: see --runtime-dir", path,
	       geteuid());
	return -EPERM;
}

void xd_name_lock_path(const char *runtime_dir, const char *name, char path[XD_LOCK_PATH])
{
	snprintf(path, XD_LOCK_PATH, "%s/%s.lock", runtime_dir, name);
}

/* Returns false if the last owner removed the file between open() and flock(). */
static bool same_file(int fd, const char *path)
{
	struct stat locked, named;

	return !fstat(fd, &locked) && !stat(path, &named) && locked.st_ino == named.st_ino &&
	       locked.st_dev == named.st_dev;
}

static int try_lock(const char *path)
{
	int fd, err;

	do {
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0)
			return -errno;
		err = flock(fd, LOCK_EX | LOCK_NB) ? -errno : 0;
		if (!err && same_file(fd, path))
			return fd;
		close(fd);
	} while (!err);
	return err;
}

/* A daemon that was killed holds its lock until the kernel has cleaned up. */
static int lock_with_retries(const char *path)
{
	int fd = try_lock(path);

	for (int i = 0; i < RETRIES && fd == -EWOULDBLOCK; i++) {
		usleep(RETRY_US);
		fd = try_lock(path);
	}
	return fd;
}

int xd_name_lock(const char *runtime_dir, bool private, const char *name)
{
	int err = private ? make_private_directory(runtime_dir)
			  : name_lock_make_directory(runtime_dir);
	char path[XD_LOCK_PATH];
	int fd;

	if (err) {
		xd_log(XD_ERR, "runtime directory %s: %s", runtime_dir, strerror(-err));
		return err;
	}
	xd_name_lock_path(runtime_dir, name, path);
	fd = lock_with_retries(path);
	if (fd == -EWOULDBLOCK)
		xd_log(XD_ERR, "another xroced serves %s (%s is locked)", name, path);
	else if (fd < 0)
		xd_log(XD_ERR, "%s: %s", path, strerror(-fd));
	return fd;
}

void xd_name_unlock(const char *runtime_dir, const char *name, int fd)
{
	char path[XD_LOCK_PATH];

	if (fd < 0)
		return;
	xd_name_lock_path(runtime_dir, name, path);
	unlink(path);
	close(fd);
}
