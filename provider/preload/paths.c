// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Some programs (UCX) look for the kernel's files of a device before they use it, and do without
 * the device where there are none. Those few files are answered for here, where the kernel has just
 * said ENOENT for a path that names one of our devices. Every call goes to the real function
 * first: what exists is what the program gets, and only failures cost anything.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "provider/provider.h"

/* ---- the files ----------------------------------------------------------------- */

struct file {
	mode_t mode;   /* type, and who may do what */
	char text[32]; /* of a regular file */
};

/* As the kernel's uverbs device. It can be looked at, not opened: there is no such device. */
static bool command_device(struct file *f, const char *name, uint32_t unused)
{
	struct xr_hello_rep rep;

	f->mode = S_IFCHR | 0666;
	return !xp_device_ask(name, &rep, NULL);
}

static bool gid_attribute(struct file *f, const char *name, uint32_t index, bool want_type)
{
	struct xp_gid_table gids;
	struct xr_hello_rep rep;
	uint32_t i;

	if (xp_device_ask(name, &rep, &gids))
		return false;
	for (i = 0; i < gids.head.count && gids.entry[i].index != index; i++)
		;
	f->mode = S_IFREG | 0444;
	snprintf(f->text, sizeof(f->text), "%s\n", want_type ? "RoCE v2" : rep.netdev);
	return i < gids.head.count;
}

static bool gid_type(struct file *f, const char *name, uint32_t index)
{
	return gid_attribute(f, name, index, true);
}

static bool gid_netdev(struct file *f, const char *name, uint32_t index)
{
	return gid_attribute(f, name, index, false);
}

/* Linux, Documentation/ABI/stable/sysfs-class-infiniband. Paths: before NAME after [INDEX] */
static const struct {
	const char *before, *after;
	bool indexed;
	bool (*fill)(struct file *f, const char *name, uint32_t index);
} files[] = {
	{ "/dev/infiniband/", "", false, command_device },
	{ "/sys/class/infiniband/", "/ports/1/gid_attrs/types/", true, gid_type },
	{ "/sys/class/infiniband/", "/ports/1/gid_attrs/ndevs/", true, gid_netdev },
};

/* What follows the prefix, or NULL */
static const char *after(const char *path, const char *prefix)
{
	size_t n = strlen(prefix);

	return strncmp(path, prefix, n) ? NULL : path + n;
}

/* Decimal, as the kernel names them: no sign, no blank, no leading zero */
static bool read_index(const char *text, uint32_t *index)
{
	size_t digits = strspn(text, "0123456789");

	if (!digits || text[digits] || digits > 9 || (*text == '0' && digits > 1))
		return false;
	*index = strtoul(text, NULL, 10);
	return true;
}

static bool find_file(const char *path, struct file *f)
{
	char name[XR_DEVICE_NAME_MAX + 1];
	uint32_t index = 0;
	const char *rest;
	unsigned int i;
	size_t n;

	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		rest = after(path, files[i].before);
		n = rest ? strcspn(rest, "/") : 0;
		if (!n || n >= sizeof(name))
			continue;
		memcpy(name, rest, n);
		name[n] = 0;
		rest = after(rest + n, files[i].after);
		if (!rest || (files[i].indexed ? !read_index(rest, &index) : *rest))
			continue;
		*f = (struct file){ 0 };
		return files[i].fill(f, name, index);
	}
	return false;
}

/* ---- what is done with them ---------------------------------------------------- */

static int failed(int err)
{
	errno = err;
	return -1;
}

static int answer_access(const char *path, int mode)
{
	struct file f;

	if (!find_file(path, &f))
		return failed(ENOENT);
	return (unsigned int)mode & ~(f.mode & 7) ? failed(EACCES) : 0;
}

static int answer_stat(const char *path, struct stat *st)
{
	struct file f;

	if (!find_file(path, &f))
		return failed(ENOENT);
	memset(st, 0, sizeof(*st));
	st->st_mode = f.mode;
	st->st_nlink = 1;
	st->st_blksize = 4096;
	st->st_size = S_ISREG(f.mode) ? 4096 : 0; /* as all files of sysfs */
	return 0;
}

/* A file in memory that nobody can change */
static int answer_open(const char *path, int flags)
{
	struct file f;
	size_t len;
	int fd;

	if (!find_file(path, &f) || !S_ISREG(f.mode))
		return failed(ENOENT);
	if ((flags & O_ACCMODE) != O_RDONLY)
		return failed(EACCES);
	fd = memfd_create("xroce-path", MFD_ALLOW_SEALING | (flags & O_CLOEXEC ? MFD_CLOEXEC : 0));
	if (fd < 0)
		return -1;
	len = strlen(f.text);
	if (pwrite(fd, f.text, len, 0) != (ssize_t)len ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)) {
		close(fd);
		return failed(ENOMEM);
	}
	return fd;
}

/* ---- the exports --------------------------------------------------------------- */

/* libc's, or that of a library that stands between */
static void *next_one(const char *name, void **cache)
{
	void *fn = __atomic_load_n(cache, __ATOMIC_RELAXED);

	if (!fn) {
		fn = dlsym(RTLD_NEXT, name);
		__atomic_store_n(cache, fn, __ATOMIC_RELAXED);
	}
	return fn;
}

#define INTERPOSE(name, answer, params, args)                                                      \
	XP_PUBLIC int name params                                                                  \
	{                                                                                          \
		static void *cache;                                                                \
		int(*next) params = next_one(#name, &cache);                                       \
		int ret = next ? next args : failed(ENOSYS);                                       \
                                                                                                   \
		return ret < 0 && errno == ENOENT ? answer : ret;                                  \
	}

INTERPOSE(access, answer_access(path, mode), (const char *path, int mode), (path, mode))
INTERPOSE(stat, answer_stat(path, st), (const char *path, struct stat *st), (path, st))
/* On 64-bit machines struct stat64 is struct stat. */
INTERPOSE(stat64, answer_stat(path, (struct stat *)st), (const char *path, struct stat64 *st),
	  (path, st))

#define INTERPOSE_OPEN(name)                                                                       \
	XP_PUBLIC int name(const char *path, int flags, ...)                                       \
	{                                                                                          \
		static void *cache;                                                                \
		int (*next)(const char *, int, ...) = next_one(#name, &cache);                     \
		mode_t mode = 0;                                                                   \
		va_list ap;                                                                        \
		int ret;                                                                           \
                                                                                                   \
		if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) {                         \
			va_start(ap, flags);                                                       \
			mode = va_arg(ap, mode_t);                                                 \
			va_end(ap);                                                                \
		}                                                                                  \
		ret = next ? next(path, flags, mode) : failed(ENOSYS);                             \
		return ret < 0 && errno == ENOENT ? answer_open(path, flags) : ret;                \
	}

INTERPOSE_OPEN(open)
INTERPOSE_OPEN(open64)
