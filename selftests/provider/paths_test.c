// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Emulated files of the kernel's RDMA core */
#include "fixture.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "../lib/tap.h"

/* The number is a hash of the name, xp_uverbs_number(). */
#define DEV "/dev/infiniband/uverbs985308"
#define PKEYS "/sys/class/infiniband/" FAKE_DEVICE "/ports/1/pkeys"
#define GID_ATTRS "/sys/class/infiniband/" FAKE_DEVICE "/ports/1/gid_attrs"

/* Returns the text that one read() gives, as programs read sysfs, or "" on failure. */
static const char *text_of(const char *path)
{
	static char text[64];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return "";
	n = read(fd, text, sizeof(text) - 1);
	text[n < 0 ? 0 : n] = 0;
	close(fd);
	return text;
}

static bool absent(const char *path)
{
	struct stat st;
	int fd;

	errno = 0;
	if (!access(path, F_OK) || errno != ENOENT || !stat(path, &st) || errno != ENOENT)
		return false;
	fd = open(path, O_RDONLY);
	return fd < 0 && errno == ENOENT;
}

static void command_device(void)
{
	struct stat st;

	TAP_OK(!access(DEV, R_OK | W_OK), "command device: readable and writable");
	TAP_OK(access(DEV, X_OK) == -1 && errno == EACCES, "command device: not executable");
	TAP_OK(!stat(DEV, &st) && S_ISCHR(st.st_mode), "command device: a character device");
	TAP_OK(open(DEV, O_RDWR) == -1 && errno == ENOENT, "command device: cannot be opened");
}

static void gid_attributes(void)
{
	struct stat64 st;
	char c = 'x';
	int fd;

	TAP_OK(!strcmp(text_of(GID_ATTRS "/types/0"), "RoCE v2\n"), "GID type: index 0");
	TAP_OK(!strcmp(text_of(PKEYS "/0"), "0xffff\n"), "P_Key: index 0");
	TAP_OK(!strcmp(text_of(GID_ATTRS "/types/2"), "RoCE v2\n"), "GID type: index 2");
	TAP_OK(!strcmp(text_of(GID_ATTRS "/ndevs/2"), "none\n"),
	       "GID interface: name of the interface");
	TAP_OK(!stat64(GID_ATTRS "/types/0", &st) && S_ISREG(st.st_mode) &&
		       (st.st_mode & 0777) == 0444,
	       "GID type: a regular file with mode 0444");
	TAP_OK(open(GID_ATTRS "/types/0", O_RDWR) == -1 && errno == EACCES,
	       "GID type: cannot be opened for writing");
	fd = open64(GID_ATTRS "/types/0", O_RDONLY);
	TAP_OK(fd >= 0 && !(fcntl(fd, F_GETFD) & FD_CLOEXEC),
	       "open64 without O_CLOEXEC does not set FD_CLOEXEC");
	TAP_OK(write(fd, &c, 1) == -1 && ftruncate(fd, 0) == -1,
	       "GID type: cannot be written or truncated");
	close(fd);
	fd = open(GID_ATTRS "/types/0", O_RDONLY | O_CLOEXEC);
	TAP_OK(fcntl(fd, F_GETFD) & FD_CLOEXEC, "open with O_CLOEXEC sets FD_CLOEXEC");
	close(fd);
}

static void nothing_else(void)
{
	static const char *const path[] = {
		"/dev/infiniband/fake0",
		"/dev/infiniband/uverbs1",
		"/dev/infiniband/uverbs985309",
		DEV "/x",
		"/dev/infiniband/../uverbs985308",
		"/sys/class/infiniband/fake1",
		"/sys/class/infinibandx",
		"/sys/class/infiniband/" FAKE_DEVICE "/node_guid/x",
		"/sys/class/infiniband/" FAKE_DEVICE "/ports/1/counters/none",
		GID_ATTRS "/types/1",
		GID_ATTRS "/types/256",
		GID_ATTRS "/types/02",
		GID_ATTRS "/types/-1",
		GID_ATTRS "/types/ 0",
		GID_ATTRS "/types/4294967296",
		GID_ATTRS "/types/0/x",
		"/sys/class/infiniband/" FAKE_DEVICE "/ports/2/gid_attrs/types/0",
		"/sys/class/infiniband/fake1/ports/1/gid_attrs/types/0",
		PKEYS "/1",
		"/nonexistent",
	};
	unsigned int i;

	for (i = 0; i < sizeof(path) / sizeof(path[0]); i++)
		TAP_OK(absent(path[i]), "does not exist: %s", path[i]);
	setenv("XROCE_DEVICES", "other", 1);
	TAP_OK(absent(DEV), "a device hidden by XROCE_DEVICES has no files");
	unsetenv("XROCE_DEVICES");
}

/* Other paths are not affected. */
static void others(struct fixture *f)
{
	struct stat st;
	char path[96];
	int fd;

	snprintf(path, sizeof(path), "%s/file", f->dir);
	fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
	TAP_OK(fd >= 0 && !fstat(fd, &st) && (st.st_mode & 0777) == 0600,
	       "open with O_CREAT keeps the mode");
	close(fd);
	TAP_OK(open(path, O_CREAT | O_EXCL, 0600) == -1 && errno == EEXIST,
	       "open with O_EXCL still fails with EEXIST");
	TAP_OK(!access(path, W_OK) && !stat(path, &st), "access and stat find existing files");
	unlink(path);
	fd = open(f->dir, O_TMPFILE | O_RDWR, 0640);
	TAP_OK(fd < 0 ? errno == EOPNOTSUPP : (!fstat(fd, &st) && (st.st_mode & 0777) == 0640),
	       "open with O_TMPFILE keeps the mode");
	close(fd);
	TAP_OK(open((char *)1, O_RDONLY) == -1 && errno == EFAULT,
	       "open with a bad address fails with EFAULT");
}

int main(void)
{
	struct fixture f;

	setup(&f);
	command_device();
	gid_attributes();
	nothing_else();
	others(&f);
	teardown(&f);
	TAP_OK(absent(DEV), "the files disappear with the daemon");
	return tap_end();
}
