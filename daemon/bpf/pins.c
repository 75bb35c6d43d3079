// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "pins.h"

#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/options.h"
#include "iter.skel.h"

/* ---- the directory ------------------------------------------------------------------------- */

static bool is_bpffs(const char *path)
{
	struct statfs fs;

	return !statfs(path, &fs) && fs.f_type == BPF_FS_MAGIC;
}

static bool pins_is_empty(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *d;
	bool empty = dir;

	while (empty && (d = readdir(dir)))
		empty = !strcmp(d->d_name, ".") || !strcmp(d->d_name, "..");
	if (dir)
		closedir(dir);
	return empty;
}

/* Mounts a BPF file system if there is none, as iproute2 does, but not over files. */
static int ensure_bpffs(const char *path)
{
	if (is_bpffs(path))
		return 0;
	if (mkdir(path, 0755) && errno != EEXIST)
		return -errno;
	if (!pins_is_empty(path))
		return -ENOTEMPTY;
	return mount("bpf", path, "bpf", 0, "mode=0700") ? -errno : 0;
}

/* Maps that are pinned. Others are of no use to readers, or have one reader, the daemon. */
static const char *const pinned[] = { "qps",	 "keys", "addrs",	"psns", "stats",
				      "limiter", "xsks", "direct_keys", "slots" };
#define PINNED (sizeof(pinned) / sizeof(*pinned))

static void remove_pin(const struct xd_pins *p, const char *name)
{
	char path[640];

	snprintf(path, sizeof(path), "%s/%s", p->dir, name);
	unlink(path);
}

static void remove_all(const struct xd_pins *p)
{
	for (size_t i = 0; i < PINNED; i++)
		remove_pin(p, pinned[i]);
	remove_pin(p, "qps_text");
	remove_pin(p, "keys_text");
	remove_pin(p, "direct_keys_text");
}

void xd_pins_release(struct xd_pins *p)
{
	if (p->fd < 0)
		return;
	remove_all(p);
	rmdir(p->dir);
	close(p->fd);
	p->fd = -1;
}

/*
 * Locks the directory. A daemon holds the lock until its process ends, so pins that exist are left
 * from a daemon that has ended. The lock of base/name_lock.c does not suffice, as two runtime
 * directories may share one BPF file system.
 */
static int lock(struct xd_pins *p)
{
	struct stat st;

	for (;;) {
		if (mkdir(p->dir, 0755) && errno != EEXIST)
			return -errno;
		p->fd = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (p->fd < 0 && errno != ENOENT)
			return -errno;
		if (p->fd < 0)
			continue;
		if (flock(p->fd, LOCK_EX | LOCK_NB) || fstat(p->fd, &st))
			break;
		if (st.st_nlink) {
			remove_all(p);
			return 0;
		}
		close(p->fd); /* the previous daemon removed the directory meanwhile */
	}
	close(p->fd);
	p->fd = -1;
	return -EBUSY;
}

int xd_pins_give(struct xd_pins *p)
{
	int fd = p->fd;

	p->fd = -1;
	return fd;
}

/* ---- maps ------------------------------------------------------------------------------------ */

static int pin_maps(const struct xd_pins *p, struct bpf_object *obj)
{
	struct bpf_map *map;
	char path[640];
	int err = 0;

	for (size_t i = 0; i < PINNED && !err; i++) {
		map = bpf_object__find_map_by_name(obj, pinned[i]);
		if (!map)
			continue;
		snprintf(path, sizeof(path), "%s/%s", p->dir, pinned[i]);
		err = bpf_map__pin(map, path);
	}
	return err;
}

/* Pins a map as text, which a program of the iterator object with the name of the file prints. */
static void pin_text(struct xd_pins *p, int i, const char *name, const struct bpf_map *map)
{
	union bpf_iter_link_info info = { .map.map_fd = (__u32)bpf_map__fd(map) };
	DECLARE_LIBBPF_OPTS(bpf_iter_attach_opts, opts, .link_info = &info,
			    .link_info_len = sizeof(info));
	char path[640];

	p->link[i] = bpf_program__attach_iter(bpf_object__find_program_by_name(p->iter->obj, name),
					      &opts);
	if (!p->link[i])
		return;
	/* the BPF file system does not allow dots in names */
	snprintf(path, sizeof(path), "%s/%s", p->dir, name);
	bpf_link__pin(p->link[i], path);
}

/* Pins the tables as text. Does nothing if the kernel has no map iterators. */
static void pin_iterators(struct xd_pins *p, const struct bpf_object *obj)
{
	p->iter = iter_bpf__open_and_load();
	if (!p->iter)
		return;
	pin_text(p, 0, "qps_text", bpf_object__find_map_by_name(obj, "qps"));
	pin_text(p, 1, "keys_text", bpf_object__find_map_by_name(obj, "keys"));
	if (bpf_object__find_map_by_name(obj, "direct_keys"))
		pin_text(p, 2, "direct_keys_text",
			 bpf_object__find_map_by_name(obj, "direct_keys"));
}

int xd_pins_make(struct xd_pins *p, const struct xd_options *opt, struct bpf_object *obj)
{
	char parent[320];
	int err;

	err = ensure_bpffs(opt->bpffs);
	if (err) {
		xd_log(XD_ERR, "%s is not a BPF file system, and mounting one failed: %s",
		       opt->bpffs, strerror(-err));
		return err;
	}
	snprintf(parent, sizeof(parent), "%s/xroce", opt->bpffs);
	snprintf(p->dir, sizeof(p->dir), "%s/%s", parent, opt->name);
	mkdir(parent, 0755);
	err = lock(p);
	if (err) {
		xd_log(XD_ERR, "%s: %s", p->dir,
		       err == -EBUSY ? "in use by another xroced of this name" : strerror(-err));
		return err;
	}
	err = pin_maps(p, obj);
	if (err) {
		xd_log(XD_ERR, "pinning maps in %s: %s", p->dir, strerror(-err));
		return err;
	}
	pin_iterators(p, obj);
	return 0;
}

void xd_pins_init(struct xd_pins *p)
{
	*p = (struct xd_pins){ .fd = -1 };
}

void xd_pins_free(struct xd_pins *p)
{
	for (int i = 0; i < XD_PINS_TEXTS; i++)
		bpf_link__destroy(p->link[i]);
	iter_bpf__destroy(p->iter);
}
