// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Interposed functions of libc for directory streams. The stream of an emulated directory, or of a
 * real one in which the tree has names, holds all names from its opening or rewinddir() on. Streams
 * of other directories are those of libc. A function with a stream passes it on after one load and
 * a test while no stream is ours.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "provider/base/export.h"
#include "provider/base/fail.h"
#include "provider/control/visible.h"
#include "provider/preload/next.h"
#include "provider/preload/paths.h"
#include "provider/preload/tree.h"

_Static_assert(sizeof(struct dirent) == sizeof(struct dirent64), "64-bit machines only");

typedef int filter(const struct dirent *);
typedef int compare(const struct dirent **, const struct dirent **);

#define FUNCTIONS(X)                                                                               \
	X(opendir, DIR *, (const char *))                                                          \
	X(fdopendir, DIR *, (int))                                                                 \
	X(readdir, struct dirent *, (DIR *))                                                       \
	X(readdir_r, int, (DIR *, struct dirent *, struct dirent **))                              \
	X(closedir, int, (DIR *))                                                                  \
	X(dirfd, int, (DIR *))                                                                     \
	X(rewinddir, void, (DIR *))                                                                \
	X(telldir, long, (DIR *))                                                                  \
	X(seekdir, void, (DIR *, long))                                                            \
	X(scandirat, int, (int, const char *, struct dirent ***, filter *, compare *))             \
	X(glob, int, (const char *, int, int (*)(const char *, int), glob_t *))
XP_NEXT_TABLE(dirs, FUNCTIONS)

/* ---- streams ------------------------------------------------------------------- */

struct stream {
	int fd;
	char path[PATH_MAX];
	struct xp_names names;
	size_t at;
	struct dirent entry;
};

#define STREAMS_MAX 256
static struct stream *streams[STREAMS_MAX];
static unsigned int open_streams;

static unsigned int dirs_slot_of(const struct stream *s)
{
	unsigned int i;

	for (i = 0; i < STREAMS_MAX && __atomic_load_n(&streams[i], __ATOMIC_RELAXED) != s; i++)
		;
	return i;
}

/* Returns the stream if it is ours, or NULL. */
static struct stream *ours(const DIR *dir)
{
	struct stream *s = (struct stream *)dir;

	if (!__atomic_load_n(&open_streams, __ATOMIC_RELAXED) || !s)
		return NULL;
	return dirs_slot_of(s) < STREAMS_MAX ? s : NULL;
}

static int add_stream(struct stream *s)
{
	struct stream *empty;
	unsigned int i;

	for (i = 0; i < STREAMS_MAX; i++) {
		empty = NULL;
		if (__atomic_compare_exchange_n(&streams[i], &empty, s, false, __ATOMIC_RELEASE,
						__ATOMIC_RELAXED)) {
			__atomic_fetch_add(&open_streams, 1, __ATOMIC_RELAXED);
			return 0;
		}
	}
	return -EMFILE;
}

static void remove_stream(struct stream *s)
{
	__atomic_store_n(&streams[dirs_slot_of(s)], NULL, __ATOMIC_RELEASE);
	__atomic_fetch_sub(&open_streams, 1, __ATOMIC_RELAXED);
}

/* Adds the names of a directory of the file system, if it exists. */
static int add_real_names(struct xp_names *names, const char *path)
{
	DIR *dir = XP_NEXT(opendir)(path);
	struct dirent *e;
	int err = 0;

	while (dir && !err && (e = XP_NEXT(readdir)(dir)))
		if (!xp_name_is_hidden(path, e->d_name))
			err = xp_names_add(names, e->d_name, e->d_type);
	if (dir)
		XP_NEXT(closedir)(dir);
	return err;
}

/* As xp_tree_list(). In a directory of the kernel of which names are hidden, 0 names are enough. */
static int add_emulated_names(struct xp_names *names, const char *path)
{
	bool hides = !xp_path_is_hidden(AT_FDCWD, path) && xp_name_is_hidden(path, "infiniband");
	int n = xp_tree_list(path, names);

	return n == -ENOENT && hides ? 0 : n;
}

/* Reads the names anew. Returns the number of emulated ones, or an error. */
static int dirs_fill(struct stream *s)
{
	bool kernel_first = xp_kernel_comes_first();
	int err, n = 0;

	xp_names_free(&s->names);
	s->at = 0;
	err = xp_names_add(&s->names, ".", DT_DIR);
	if (!err)
		err = xp_names_add(&s->names, "..", DT_DIR);
	if (!err && kernel_first)
		err = add_real_names(&s->names, s->path);
	if (!err)
		n = add_emulated_names(&s->names, s->path);
	if (!err && n >= 0 && !kernel_first)
		err = add_real_names(&s->names, s->path);
	return err ? err : n;
}

/*
 * Returns a stream with the names of a canonical path, or NULL if it has no emulated ones. fd: of
 * the directory, taken over by the stream; -1: none
 */
static DIR *open_stream(const char *path, int fd)
{
	struct stream *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->fd = fd;
	strcpy(s->path, path);
	if (dirs_fill(s) >= 0) {
		if (fd < 0)
			s->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (s->fd >= 0 && !add_stream(s))
			return (DIR *)s;
		if (fd < 0 && s->fd >= 0)
			close(s->fd);
	}
	xp_names_free(&s->names);
	free(s);
	return NULL;
}

/*
 * Opens the directory that a path leads to, if it has emulated names or the path is not one for the
 * kernel. Returns NULL and stores false in *ours in other cases.
 */
__attribute__((noinline)) static DIR *emulate_opendir(int dirfd, const char *path, bool *ours)
{
	char canonical[PATH_MAX];
	int err = errno;
	DIR *dir;

	*ours = false;
	if (!xp_path_of_interest(dirfd, path, canonical))
		return NULL;
	*ours = xp_path_follow(canonical) || xp_is_inside(dirfd, path);
	dir = open_stream(canonical, -1);
	if (!dir && xp_path_is_hidden(AT_FDCWD, canonical)) {
		*ours = true;
		return xp_null(ENOENT);
	}
	if (!dir && *ours)
		return XP_NEXT(opendir)(canonical);
	if (!dir)
		errno = err;
	*ours = dir;
	return dir;
}

__attribute__((noinline)) static DIR *emulate_fdopendir(int fd)
{
	char canonical[PATH_MAX];

	return xp_fd_of_interest(fd, canonical) ? open_stream(canonical, fd) : NULL;
}

static bool may_list(int fd, const char *path)
{
	return path && *path && xp_path_may_list(fd, path);
}

static const struct dirent *dirs_next_entry(struct stream *s)
{
	const struct xp_name *n;

	if (s->at == s->names.count)
		return NULL;
	n = &s->names.name[s->at++];
	s->entry.d_ino = s->at;
	s->entry.d_off = (off_t)s->at;
	s->entry.d_reclen = sizeof(s->entry);
	s->entry.d_type = n->type;
	memcpy(s->entry.d_name, n->name, sizeof(n->name));
	return &s->entry;
}

/* ---- interposed functions ------------------------------------------------------ */

XP_PUBLIC DIR *opendir(const char *path)
{
	bool ours_too = false;
	DIR *dir = may_list(AT_FDCWD, path) ? emulate_opendir(AT_FDCWD, path, &ours_too) : NULL;

	return ours_too ? dir : XP_NEXT(opendir)(path);
}

XP_PUBLIC DIR *fdopendir(int fd)
{
	DIR *dir = xp_fd_may_be_directory(fd) ? emulate_fdopendir(fd) : NULL;

	return dir ? dir : XP_NEXT(fdopendir)(fd);
}

XP_PUBLIC struct dirent *readdir(DIR *dir)
{
	struct stream *s = ours(dir);

	return s ? (struct dirent *)dirs_next_entry(s) : XP_NEXT(readdir)(dir);
}

XP_PUBLIC struct dirent64 *readdir64(DIR *dir)
{
	return (struct dirent64 *)readdir(dir);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
XP_PUBLIC int readdir_r(DIR *dir, struct dirent *entry, struct dirent **result)
{
	struct stream *s = ours(dir);
	const struct dirent *e;

	if (!s)
		return XP_NEXT(readdir_r)(dir, entry, result);
	e = dirs_next_entry(s);
	if (e)
		*entry = *e;
	*result = e ? entry : NULL;
	return 0;
}

XP_PUBLIC int readdir64_r(DIR *dir, struct dirent64 *entry, struct dirent64 **result)
{
	return readdir_r(dir, (struct dirent *)entry, (struct dirent **)result);
}
#pragma GCC diagnostic pop

XP_PUBLIC int closedir(DIR *dir)
{
	struct stream *s = ours(dir);
	int fd;

	if (!s)
		return XP_NEXT(closedir)(dir);
	remove_stream(s);
	fd = s->fd;
	xp_names_free(&s->names);
	free(s);
	return close(fd);
}

XP_PUBLIC int dirfd(DIR *dir)
{
	struct stream *s = ours(dir);

	return s ? s->fd : XP_NEXT(dirfd)(dir);
}

XP_PUBLIC void rewinddir(DIR *dir)
{
	struct stream *s = ours(dir);

	if (s)
		dirs_fill(s);
	else
		XP_NEXT(rewinddir)(dir);
}

XP_PUBLIC long telldir(DIR *dir)
{
	struct stream *s = ours(dir);

	return s ? (long)s->at : XP_NEXT(telldir)(dir);
}

XP_PUBLIC void seekdir(DIR *dir, long at)
{
	struct stream *s = ours(dir);

	if (!s)
		XP_NEXT(seekdir)(dir, at);
	else if (at >= 0 && (size_t)at <= s->names.count)
		s->at = (size_t)at;
}

/* ---- functions that read whole directories -------------------------------------- */

static int dirs_add_entry(struct dirent ***list, int *count, const struct dirent *entry)
{
	struct dirent **more = reallocarray(*list, (size_t)*count + 1, sizeof(**list));

	if (!more)
		return -ENOMEM;
	*list = more;
	more[*count] = malloc(sizeof(*entry));
	if (!more[*count])
		return -ENOMEM;
	*more[(*count)++] = *entry;
	return 0;
}

static int dirs_scan(DIR *dir, struct dirent ***list, filter *wanted, compare *order)
{
	const struct dirent *e;
	int count = 0, err = 0;

	*list = NULL;
	while (!err && (e = readdir(dir))) {
		if (!wanted || wanted(e))
			err = dirs_add_entry(list, &count, e);
	}
	closedir(dir);
	if (err) {
		while (count)
			free((*list)[--count]);
		free(*list);
		return xp_fail(err);
	}
	if (order && count)
		qsort(*list, (size_t)count, sizeof(**list),
		      (int (*)(const void *, const void *))order);
	return count;
}

XP_PUBLIC int scandirat(int fd, const char *path, struct dirent ***list, filter *wanted,
			compare *order)
{
	bool ours_too = false;
	DIR *dir = may_list(fd, path) ? emulate_opendir(fd, path, &ours_too) : NULL;

	if (dir)
		return dirs_scan(dir, list, wanted, order);
	return ours_too ? -1 : XP_NEXT(scandirat)(fd, path, list, wanted, order);
}

XP_PUBLIC int scandir(const char *path, struct dirent ***list, filter *wanted, compare *order)
{
	return scandirat(AT_FDCWD, path, list, wanted, order);
}

XP_PUBLIC int scandirat64(int fd, const char *path, struct dirent64 ***list,
			  int (*wanted)(const struct dirent64 *),
			  int (*order)(const struct dirent64 **, const struct dirent64 **))
{
	return scandirat(fd, path, (struct dirent ***)list, (filter *)wanted, (compare *)order);
}

XP_PUBLIC int scandir64(const char *path, struct dirent64 ***list,
			int (*wanted)(const struct dirent64 *),
			int (*order)(const struct dirent64 **, const struct dirent64 **))
{
	return scandirat64(AT_FDCWD, path, list, wanted, order);
}

static void close_for_glob(void *dir)
{
	closedir(dir);
}

/* glob() calls its own functions unless it is given others. */
XP_PUBLIC int glob(const char *pattern, int flags, int (*failed)(const char *, int), glob_t *g)
{
	bool ours_too = !(flags & GLOB_ALTDIRFUNC) && pattern &&
			(strstr(pattern, "infiniband") || xp_is_inside(AT_FDCWD, pattern) ||
			 !strncmp(pattern, "/sys/", 5) || !strncmp(pattern, "/dev/", 5));
	int ret;

	if (!ours_too)
		return XP_NEXT(glob)(pattern, flags, failed, g);
	g->gl_opendir = (void *(*)(const char *))opendir;
	g->gl_readdir = (struct dirent * (*)(void *)) readdir;
	g->gl_closedir = close_for_glob;
	g->gl_stat = stat;
	g->gl_lstat = lstat;
	ret = XP_NEXT(glob)(pattern, flags | GLOB_ALTDIRFUNC, failed, g);
	g->gl_flags &= ~GLOB_ALTDIRFUNC;
	return ret;
}

XP_PUBLIC int glob64(const char *pattern, int flags, int (*failed)(const char *, int), glob64_t *g)
{
	return glob(pattern, flags, failed, (glob_t *)g);
}
