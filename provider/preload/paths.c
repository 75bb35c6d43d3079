// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "provider/base/fail.h"
#include "provider/cm/umad.h"
#include "provider/control/visible.h"
#include "provider/preload/paths.h"
#include "provider/preload/tree.h"

/* In the name of the memfd of a directory or a file, before its path */
#define DIRECTORY_TAG "xroce:"
#define FILE_TAG "xroce-file:"
#define DIRECTORY_MODE XP_DIRECTORY_MODE
#define FILE_MODE 0444
#define NAME_IN_ALL "infiniband" /* all paths of the tree contain it */
#define LINKS_MAX 8

/* ---- paths --------------------------------------------------------------------- */

/* Returns the text after the prefix, or NULL. */
static const char *skip_prefix(const char *path, const char *prefix)
{
	size_t n = strlen(prefix);

	return strncmp(path, prefix, n) ? NULL : path + n;
}

static bool in_tree(const char *path)
{
	return skip_prefix(path, "/sys/class/infiniband") || skip_prefix(path, "/dev/infiniband");
}

/* The working directory is one of the kernel in which the tree has names, below PARENT or /dev. */
static bool in_kernel_tree;

static bool is_in_kernel_tree(void)
{
	return __atomic_load_n(&in_kernel_tree, __ATOMIC_RELAXED);
}

/* A directory of the kernel in which the tree has names */
static bool is_parent(const char *path)
{
	return !strcmp(path, "/sys/class") || !strcmp(path, "/dev");
}

/* ---- paths that may be ours ------------------------------------------------------ */

/* Room for the start of the path of a directory: as much as is compared */
#define START_MAX 40

/*
 * Stores the start of the target of /proc/self/cwd, or of /proc/self/fd/N. Without snprintf(),
 * which uses much stack, and without the interposed readlink().
 */
static bool paths_start_of(int dirfd, char start[START_MAX])
{
	char link[32] = "/proc/self/fd/", digits[12];
	size_t n = strlen(link), d = 0;
	int err = errno;
	long len;

	if (dirfd == AT_FDCWD) {
		strcpy(link, "/proc/self/cwd");
	} else {
		for (unsigned int left = (unsigned int)dirfd; left || !d; left /= 10)
			digits[d++] = (char)('0' + left % 10);
		while (d)
			link[n++] = digits[--d];
		link[n] = 0;
	}
	len = syscall(SYS_readlink, link, start, START_MAX - 1);
	errno = err;
	start[len > 0 ? len : 0] = 0;
	return len > 0;
}

/* Returns false if the components of an absolute path cannot lead to the tree. */
static bool may_lead_to_tree(const char *path)
{
	static const char *const trees[][4] = { { "sys", "class", "infiniband" },
						{ "dev", "infiniband" } };
	const char *want;
	unsigned int t, i;
	size_t n;

	for (t = 0; t < 2; t++) {
		const char *at = path;

		for (i = 0; (want = trees[t][i]); i++) {
			while (*at == '/' || (*at == '.' && (at[1] == '/' || !at[1])))
				at++;
			n = strcspn(at, "/");
			if (!skip_prefix(at, want) || (trees[t][i + 1] && n != strlen(want)))
				break;
			at += n;
		}
		if (!want)
			return true;
	}
	return strstr(path, "/../");
}

bool xp_path_may_be_ours(int dirfd, const char *path)
{
	char start[START_MAX];
	bool named;

	if (xp_is_inside(dirfd, path))
		return true;
	named = strstr(path, NAME_IN_ALL);
	if (*path == '/')
		return named && may_lead_to_tree(path);
	if (!named && dirfd == AT_FDCWD)
		return is_in_kernel_tree();
	if (!paths_start_of(dirfd, start))
		return false;
	return skip_prefix(start, "/memfd:" DIRECTORY_TAG) || in_tree(start) ||
	       (named && (!strcmp(start, "/") || skip_prefix(start, "/sys") ||
			  skip_prefix(start, "/dev") || strstr(path, "..")));
}

bool xp_path_may_list(int dirfd, const char *path)
{
	const char *rest = skip_prefix(path, "/sys/class");
	char start[START_MAX];

	rest = rest ? rest : skip_prefix(path, "/dev");
	/* The directory itself, or what may be: /dev/, /dev/., /dev/shm/.. */
	if (rest && (!rest[strspn(rest, "/.")] || strstr(rest, "/..")))
		return true;
	if (*path != '/' && dirfd != AT_FDCWD && paths_start_of(dirfd, start) &&
	    (!strcmp(start, "/") || skip_prefix(start, "/sys") || skip_prefix(start, "/dev")))
		return true;
	return xp_path_may_be_ours(dirfd, path);
}

bool xp_fd_may_be_directory(int fd)
{
	char start[START_MAX];

	return paths_start_of(fd, start) &&
	       (skip_prefix(start, "/memfd:" DIRECTORY_TAG) || in_tree(start) || is_parent(start));
}

bool xp_fd_may_be_file(int fd)
{
	char start[START_MAX];

	return paths_start_of(fd, start) && skip_prefix(start, "/memfd:" FILE_TAG);
}

/* ---- canonical paths ------------------------------------------------------------- */

/* Appends components to an absolute path. "." and ".." are resolved without following links. */
static bool paths_append(char path[PATH_MAX], const char *more)
{
	size_t len = strlen(path), n;

	if (len == 1)
		len = 0;
	for (; *more; more += n) {
		n = strcspn(more, "/");
		if (!n) {
			n = 1;
		} else if (n == 2 && !memcmp(more, "..", 2)) {
			while (len && path[--len] != '/')
				;
		} else if (n != 1 || *more != '.') {
			if (len + n + 2 > PATH_MAX)
				return false;
			path[len++] = '/';
			memcpy(path + len, more, n);
			len += n;
		}
	}
	path[len] = 0;
	return true;
}

/* Path of a descriptor; of an emulated directory or file if its memfd has that tag */
static bool path_of_fd(int fd, const char *tag, char path[PATH_MAX])
{
	char link[32], target[PATH_MAX], *end;
	const char *emulated;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, target, sizeof(target) - 1);
	if (n <= 0)
		return false;
	target[n] = 0;
	emulated = skip_prefix(target, "/memfd:");
	emulated = emulated ? skip_prefix(emulated, tag) : NULL;
	strcpy(path, emulated ? emulated : target);
	end = emulated ? strstr(path, " (deleted)") : NULL;
	if (end)
		*end = 0;
	return *path == '/';
}

bool xp_path_of_interest(int dirfd, const char *path, char canonical[PATH_MAX])
{
	int err = errno;
	bool found;

	/* Most paths end here. */
	if (!xp_is_inside(dirfd, path) &&
	    (*path == '/' || (dirfd == AT_FDCWD && !is_in_kernel_tree())) &&
	    !strstr(path, NAME_IN_ALL) && !skip_prefix(path, "/sys/class") &&
	    !skip_prefix(path, "/dev"))
		return false;
	*canonical = 0;
	if (*path == '/')
		found = true;
	else if (dirfd == AT_FDCWD)
		found = getcwd(canonical, PATH_MAX); /* ours: an emulated one as well */
	else
		found = path_of_fd(dirfd, DIRECTORY_TAG, canonical);
	found = found && paths_append(canonical, path) &&
		(in_tree(canonical) || is_parent(canonical) || xp_is_inside(dirfd, path));
	errno = err;
	return found;
}

bool xp_fd_of_interest(int fd, char canonical[PATH_MAX])
{
	int err = errno;
	bool found = path_of_fd(fd, DIRECTORY_TAG, canonical) &&
		     (in_tree(canonical) || is_parent(canonical));

	errno = err;
	return found;
}

/* ---- hidden paths --------------------------------------------------------------- */

__attribute__((noinline)) static bool leads_into_tree(int dirfd, const char *path)
{
	char canonical[PATH_MAX];

	return xp_path_of_interest(dirfd, path, canonical) && in_tree(canonical);
}

bool xp_path_is_hidden(int dirfd, const char *path)
{
	return xp_hides_kernel() && path && *path && xp_path_may_be_ours(dirfd, path) &&
	       leads_into_tree(dirfd, path);
}

bool xp_name_is_hidden(const char *directory, const char *name)
{
	return xp_hides_kernel() &&
	       (in_tree(directory) || (is_parent(directory) && skip_prefix(name, NAME_IN_ALL)));
}

/* ---- resolution ---------------------------------------------------------------- */

enum { EMULATED, REAL };

/*
 * Finds what a canonical path leads to: EMULATED, with the node; REAL, with a path that is not in
 * the tree in its place; -ENOENT; or -ELOOP.
 */
static int paths_resolve(char path[PATH_MAX], bool follow, struct xp_node *node)
{
	unsigned int links;
	int ret;

	for (links = 0; links < LINKS_MAX; links++) {
		if (!in_tree(path))
			return REAL;
		ret = xp_tree_find(path, node);
		if (ret < 0)
			return ret;
		if (!ret && !(S_ISLNK(node->mode) && follow))
			return EMULATED;
		*path = 0;
		if (!paths_append(path, node->text))
			return -ENOENT;
	}
	return -ELOOP;
}

/*
 * As paths_resolve(), for the arguments of a call that failed. If the path is not in the tree, the
 * result is the error of that call.
 */
static int paths_look_up(int dirfd, const char *path, bool follow, char found[PATH_MAX],
			 struct xp_node *node)
{
	int err = errno;

	if (!xp_path_of_interest(dirfd, path, found) ||
	    (!in_tree(found) && !xp_is_inside(dirfd, path)))
		return -err;
	return paths_resolve(found, follow, node);
}

bool xp_path_follow(char canonical[PATH_MAX])
{
	struct xp_node node;
	int err = errno;
	bool left;

	left = in_tree(canonical) && paths_resolve(canonical, true, &node) == REAL;
	errno = err;
	return left;
}

/* ---- stat ---------------------------------------------------------------------- */

static void fill_stat(struct stat *st, const struct xp_node *node, const char *path)
{
	uint64_t hash = 14695981039346656037ull; /* FNV-1a */

	while (*path)
		hash = (hash ^ (uint8_t)*path++) * 1099511628211ull;
	memset(st, 0, sizeof(*st));
	st->st_mode = node->mode;
	st->st_nlink = 1;
	st->st_ino = hash ? hash : 1;
	st->st_dev = makedev(0, 0xfffff); /* of no file system */
	st->st_rdev = node->rdev;
	st->st_blksize = 4096;
	if (S_ISREG(node->mode))
		st->st_size = 4096; /* like all sysfs files */
	else if (S_ISLNK(node->mode))
		st->st_size = (off_t)strlen(node->text);
}

int xp_emulate_stat(int dirfd, const char *path, struct stat *st, bool follow)
{
	char found[PATH_MAX];
	struct xp_node node;
	int ret = paths_look_up(dirfd, path, follow, found, &node);

	if (ret < 0)
		return xp_fail(ret);
	if (ret == REAL)
		return follow ? stat(found, st) : lstat(found, st);
	fill_stat(st, &node, found);
	return 0;
}

void xp_emulate_fstat(int fd, struct stat *st)
{
	char path[PATH_MAX];
	struct xp_node node;
	int err = errno;

	if (xp_fd_of_interest(fd, path) && in_tree(path)) {
		node.mode = S_IFDIR | DIRECTORY_MODE;
		node.rdev = 0;
		fill_stat(st, &node, path);
	}
	errno = err;
}

/* ---- working directory --------------------------------------------------------- */

#define PARENT "/sys/class" /* the kernel's working directory meanwhile */

static char working_directory[PATH_MAX];
const char *xp_working_directory;

void xp_changed_directory(void)
{
	char start[START_MAX];

	__atomic_store_n(&xp_working_directory, NULL, __ATOMIC_RELAXED);
	__atomic_store_n(&in_kernel_tree, paths_start_of(AT_FDCWD, start) && in_tree(start),
			 __ATOMIC_RELAXED);
}

static int paths_enter(const char *canonical)
{
	if (chdir(PARENT)) /* leaves the tree */
		return xp_fail(ENOENT);
	strcpy(working_directory, canonical);
	__atomic_store_n(&xp_working_directory, working_directory, __ATOMIC_RELEASE);
	return 0;
}

int xp_emulate_chdir(const char *path)
{
	char found[PATH_MAX];
	struct xp_node node;
	int ret = paths_look_up(AT_FDCWD, path, true, found, &node);

	if (ret < 0)
		return xp_fail(ret);
	if (ret == REAL)
		return chdir(found);
	return S_ISDIR(node.mode) ? paths_enter(found) : xp_fail(ENOTDIR);
}

int xp_emulate_fchdir(int fd)
{
	char path[PATH_MAX];
	int err = errno;

	return xp_fd_of_interest(fd, path) && in_tree(path) ? paths_enter(path) : xp_fail(err);
}

/* After exec(). A value of PWD that does not fit the working directory is ignored. */
__attribute__((constructor)) static void paths_take_over(void)
{
	const char *pwd = secure_getenv("PWD");
	char path[PATH_MAX], physical[PATH_MAX] = "";

	if (!pwd || !in_tree(pwd))
		return;
	xp_changed_directory();
	*path = 0;
	if (paths_append(path, pwd) && in_tree(path) && getcwd(physical, sizeof(physical)) &&
	    !strcmp(physical, PARENT) && strcmp(pwd, PARENT)) {
		strcpy(working_directory, path);
		xp_working_directory = working_directory;
	}
}

/* ---- other calls --------------------------------------------------------------- */

int xp_emulate_access(int dirfd, const char *path, int mode)
{
	char found[PATH_MAX];
	struct xp_node node;
	int ret = paths_look_up(dirfd, path, true, found, &node);

	if (ret < 0)
		return xp_fail(ret);
	if (ret == REAL)
		return access(found, mode);
	return (unsigned int)mode & ~(geteuid() ? node.mode & 7 : node.mode >> 6 & 7)
		       ? xp_fail(EACCES)
		       : 0;
}

ssize_t xp_emulate_readlink(int dirfd, const char *path, char *text, size_t size)
{
	char found[PATH_MAX];
	struct xp_node node;
	int ret = paths_look_up(dirfd, path, false, found, &node);
	size_t n;

	if (ret < 0)
		return xp_fail(ret);
	if (ret == REAL)
		return readlink(found, text, size);
	if (!S_ISLNK(node.mode))
		return xp_fail(EINVAL);
	n = strlen(node.text);
	n = n < size ? n : size;
	memcpy(text, node.text, n);
	return (ssize_t)n;
}

char *xp_emulate_realpath(const char *path, char *result)
{
	char found[PATH_MAX];
	struct xp_node node;
	int ret = paths_look_up(AT_FDCWD, path, true, found, &node);

	if (ret < 0)
		return xp_null(ret);
	if (ret == REAL)
		return realpath(found, result);
	return result ? strcpy(result, found) : strdup(found);
}

ssize_t xp_emulate_xattr(const char *path)
{
	char found[PATH_MAX];
	struct xp_node node;
	int ret = paths_look_up(AT_FDCWD, path, false, found, &node);

	return xp_fail(ret < 0 ? ret : EOPNOTSUPP);
}

/* Opens a sealed memfd with a text. */
static int open_memfd(const char *name, mode_t mode, const char *text, int flags)
{
	int fd = memfd_create(name, MFD_ALLOW_SEALING | (flags & O_CLOEXEC ? MFD_CLOEXEC : 0));
	size_t len = strlen(text);

	if (fd < 0)
		return -1;
	if (pwrite(fd, text, len, 0) == (ssize_t)len && !fchmod(fd, mode) &&
	    !fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL))
		return fd;
	close(fd);
	return xp_fail(ENOMEM);
}

static int open_directory(const char *path, int flags)
{
	char name[PATH_MAX + sizeof(DIRECTORY_TAG)];

	if ((flags & O_ACCMODE) != O_RDONLY)
		return xp_fail(EISDIR);
	snprintf(name, sizeof(name), DIRECTORY_TAG "%s", path);
	return open_memfd(name, DIRECTORY_MODE, "", flags);
}

bool xp_files_opened;

static int paths_open_file(const char *path, const char *text, int flags)
{
	char name[PATH_MAX + sizeof(FILE_TAG)];

	snprintf(name, sizeof(name), FILE_TAG "%s", path);
	__atomic_store_n(&xp_files_opened, true, __ATOMIC_RELAXED);
	return open_memfd(name, FILE_MODE, text, flags);
}

/* Bits of descriptors that were moved to the start of their file, and not read since */
#define REWOUND_MAX 1024
static uint64_t rewound[REWOUND_MAX / 64];
bool xp_any_rewound;

void xp_emulate_rewind(int fd)
{
	int err = errno;
	char path[PATH_MAX];

	if (fd < REWOUND_MAX && path_of_fd(fd, FILE_TAG, path)) {
		__atomic_fetch_or(&rewound[fd / 64], 1ull << (fd % 64), __ATOMIC_RELAXED);
		__atomic_store_n(&xp_any_rewound, true, __ATOMIC_RELAXED);
	}
	errno = err;
}

bool xp_take_rewound(int fd)
{
	uint64_t bit = 1ull << (fd % 64);

	return fd >= 0 && fd < REWOUND_MAX &&
	       __atomic_load_n(&rewound[fd / 64], __ATOMIC_RELAXED) & bit &&
	       __atomic_fetch_and(&rewound[fd / 64], ~bit, __ATOMIC_RELAXED) & bit;
}

void xp_emulate_read(int fd)
{
	int err = errno, flags, now = -1;
	char path[PATH_MAX];
	struct xp_node node;

	if (path_of_fd(fd, FILE_TAG, path) && in_tree(path) &&
	    paths_resolve(path, true, &node) == EMULATED && S_ISREG(node.mode)) {
		flags = fcntl(fd, F_GETFD) & FD_CLOEXEC ? O_CLOEXEC : 0;
		now = paths_open_file(path, node.text, flags);
		if (now >= 0) {
			dup3(now, fd, flags);
			close(now);
		}
	}
	errno = err;
}

int xp_emulate_open(int dirfd, const char *path, int flags)
{
	char found[PATH_MAX];
	struct xp_node node;
	int ret = paths_look_up(dirfd, path, !(flags & O_NOFOLLOW), found, &node);

	if (ret < 0)
		return xp_fail(ret);
	if (ret == REAL)
		return open(found, flags & ~O_CREAT);
	if (S_ISDIR(node.mode))
		return open_directory(found, flags);
	if (flags & O_DIRECTORY)
		return xp_fail(ENOTDIR);
	if (S_ISLNK(node.mode))
		return xp_fail(ELOOP);
	if (S_ISCHR(node.mode) && *node.text)
		return xp_umad_open(node.text, node.rdev, flags);
	if (!S_ISREG(node.mode))
		return xp_fail(ENOENT); /* a device file: it can be inspected only */
	if ((flags & O_ACCMODE) != O_RDONLY)
		return xp_fail(EACCES);
	return paths_open_file(found, node.text, flags);
}
