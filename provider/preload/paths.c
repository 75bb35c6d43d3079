// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xroce/wire.h>

#include "provider/base/fail.h"
#include "provider/control/sockets.h"
#include "provider/control/visible.h"
#include "provider/preload/paths.h"
#include "provider/verbs/device.h"

/* ---- the files ----------------------------------------------------------------- */

struct file {
	mode_t mode;   /* type and permissions */
	char text[32]; /* of a regular file */
};

/* Returns true if a daemon runs whose device the program may see. */
static bool any_device(void)
{
	char **names = xp_sockets_list(xp_runtime_dir());
	struct xr_hello_rep rep;
	unsigned int n = 0;
	bool found;

	while (names && names[n] && xp_device_query(names[n], &rep, NULL))
		n++;
	found = names && names[n];
	xp_sockets_free(names);
	return found;
}

/* The device file of rdma_cm. provider/cm opens it. */
static bool cm_device(struct file *f)
{
	f->mode = S_IFCHR | 0666;
	return any_device();
}

/* The uverbs device. It can be inspected, but not opened. */
static bool command_device(struct file *f, const char *name, uint32_t unused)
{
	struct xr_hello_rep rep;

	if (!strcmp(name, "rdma_cm"))
		return cm_device(f);
	f->mode = S_IFCHR | 0666;
	return !xp_device_query(name, &rep, NULL);
}

static bool gid_attribute(struct file *f, const char *name, uint32_t index, bool want_type)
{
	struct xp_gid_table gids;
	struct xr_hello_rep rep;
	uint32_t i;

	if (xp_device_query(name, &rep, &gids))
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

static bool pkey(struct file *f, const char *name, uint32_t index)
{
	struct xr_hello_rep rep;

	f->mode = S_IFREG | 0444;
	snprintf(f->text, sizeof(f->text), "0x%04x\n", XR_DEFAULT_PKEY);
	return !index && !xp_device_query(name, &rep, NULL);
}

/*
 * Paths are `before` NAME `after` [INDEX]. See Documentation/ABI/stable/sysfs-class-infiniband of
 * Linux.
 */
static const struct {
	const char *before, *after;
	bool indexed;
	bool (*fill)(struct file *f, const char *name, uint32_t index);
} files[] = {
	{ "/dev/infiniband/", "", false, command_device },
	{ "/sys/class/infiniband/", "/ports/1/gid_attrs/types/", true, gid_type },
	{ "/sys/class/infiniband/", "/ports/1/gid_attrs/ndevs/", true, gid_netdev },
	{ "/sys/class/infiniband/", "/ports/1/pkeys/", true, pkey },
};

/* Returns the text after the prefix, or NULL. */
static const char *skip_prefix(const char *path, const char *prefix)
{
	size_t n = strlen(prefix);

	return strncmp(path, prefix, n) ? NULL : path + n;
}

/* Parses a decimal number without sign, blanks and leading zeros, like the kernel's file names. */
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
		rest = skip_prefix(path, files[i].before);
		n = rest ? strcspn(rest, "/") : 0;
		if (!n || n >= sizeof(name))
			continue;
		memcpy(name, rest, n);
		name[n] = 0;
		rest = skip_prefix(rest + n, files[i].after);
		if (!rest || (files[i].indexed ? !read_index(rest, &index) : *rest))
			continue;
		*f = (struct file){ 0 };
		return files[i].fill(f, name, index);
	}
	return false;
}

/* ---- calls --------------------------------------------------------------------- */

int xp_emulate_access(const char *path, int mode)
{
	struct file f;

	if (!find_file(path, &f))
		return xp_fail(ENOENT);
	return (unsigned int)mode & ~(f.mode & 7) ? xp_fail(EACCES) : 0;
}

int xp_emulate_stat(const char *path, struct stat *st)
{
	struct file f;

	if (!find_file(path, &f))
		return xp_fail(ENOENT);
	memset(st, 0, sizeof(*st));
	st->st_mode = f.mode;
	st->st_nlink = 1;
	st->st_blksize = 4096;
	st->st_size = S_ISREG(f.mode) ? 4096 : 0; /* like all sysfs files */
	return 0;
}

/* Opens a sealed memfd with the text. */
int xp_emulate_open(const char *path, int flags)
{
	struct file f;
	size_t len;
	int fd;

	if (!find_file(path, &f) || !S_ISREG(f.mode))
		return xp_fail(ENOENT);
	if ((flags & O_ACCMODE) != O_RDONLY)
		return xp_fail(EACCES);
	fd = memfd_create("xroce-path", MFD_ALLOW_SEALING | (flags & O_CLOEXEC ? MFD_CLOEXEC : 0));
	if (fd < 0)
		return -1;
	len = strlen(f.text);
	if (pwrite(fd, f.text, len, 0) != (ssize_t)len ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)) {
		close(fd);
		return xp_fail(ENOMEM);
	}
	return fd;
}
