// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The kernel's files of a device, which programs look for and the provider answers for */
#include "fixture.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "../lib/tap.h"

#define DEV "/dev/infiniband/" FAKE_DEVICE
#define GID_ATTRS "/sys/class/infiniband/" FAKE_DEVICE "/ports/1/gid_attrs"

/* The text of a file as programs read sysfs: one read of a buffer; "" where that fails. */
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

	TAP_OK(!access(DEV, R_OK | W_OK), "the device's file is accessible");
	TAP_OK(access(DEV, X_OK) == -1 && errno == EACCES, "not a program");
	TAP_OK(!stat(DEV, &st) && S_ISCHR(st.st_mode), "a character device");
	TAP_OK(open(DEV, O_RDWR) == -1 && errno == ENOENT, "that nobody can open");
}

static void gid_attributes(void)
{
	struct stat64 st;
	char c = 'x';
	int fd;

	TAP_OK(!strcmp(text_of(GID_ATTRS "/types/0"), "RoCE v2\n"), "a GID's type");
	TAP_OK(!strcmp(text_of(GID_ATTRS "/types/2"), "RoCE v2\n"), "another one's");
	TAP_OK(!strcmp(text_of(GID_ATTRS "/ndevs/2"), "none\n"), "its interface");
	TAP_OK(!stat64(GID_ATTRS "/types/0", &st) && S_ISREG(st.st_mode) &&
		       (st.st_mode & 0777) == 0444,
	       "a plain file to read");
	TAP_OK(open(GID_ATTRS "/types/0", O_RDWR) == -1 && errno == EACCES, "not to write");
	fd = open64(GID_ATTRS "/types/0", O_RDONLY);
	TAP_OK(fd >= 0 && !(fcntl(fd, F_GETFD) & FD_CLOEXEC), "open64, without O_CLOEXEC");
	TAP_OK(write(fd, &c, 1) == -1 && ftruncate(fd, 0) == -1, "nor by other means");
	close(fd);
	fd = open(GID_ATTRS "/types/0", O_RDONLY | O_CLOEXEC);
	TAP_OK(fcntl(fd, F_GETFD) & FD_CLOEXEC, "with it");
	close(fd);
}

static void nothing_else(void)
{
	static const char *const path[] = {
		"/dev/infiniband/fake1",
		"/dev/infiniband/" FAKE_DEVICE "/x",
		"/dev/infiniband/",
		"/dev/infiniband/../fake0",
		"/sys/class/infiniband/" FAKE_DEVICE,
		GID_ATTRS "/types/1",
		GID_ATTRS "/types/256",
		GID_ATTRS "/types/",
		GID_ATTRS "/types/02",
		GID_ATTRS "/types/-1",
		GID_ATTRS "/types/ 0",
		GID_ATTRS "/types/4294967296",
		GID_ATTRS "/types/0/",
		"/sys/class/infiniband/" FAKE_DEVICE "/ports/2/gid_attrs/types/0",
		"/sys/class/infiniband/fake1/ports/1/gid_attrs/types/0",
		"/nonexistent",
	};
	unsigned int i;

	for (i = 0; i < sizeof(path) / sizeof(path[0]); i++)
		TAP_OK(absent(path[i]), "does not exist: %s", path[i]);
	setenv("XROCE_DEVICES", "other", 1);
	TAP_OK(absent(DEV), "nor does a device that the program is not to see");
	unsetenv("XROCE_DEVICES");
}

/* Everything else is the kernel's. */
static void others(struct fixture *f)
{
	struct stat st;
	char path[96];
	int fd;

	snprintf(path, sizeof(path), "%s/file", f->dir);
	fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
	TAP_OK(fd >= 0 && !fstat(fd, &st) && (st.st_mode & 0777) == 0600,
	       "files are created with their mode");
	close(fd);
	TAP_OK(open(path, O_CREAT | O_EXCL, 0600) == -1 && errno == EEXIST, "errors stay");
	TAP_OK(!access(path, W_OK) && !stat(path, &st), "files are found");
	unlink(path);
	fd = open(f->dir, O_TMPFILE | O_RDWR, 0640);
	TAP_OK(fd < 0 ? errno == EOPNOTSUPP : (!fstat(fd, &st) && (st.st_mode & 0777) == 0640),
	       "and those without a name");
	close(fd);
	TAP_OK(open((char *)1, O_RDONLY) == -1 && errno == EFAULT, "a bad address: EFAULT");
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
	TAP_OK(absent(DEV), "without its daemon the device is gone");
	return tap_end();
}
