// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Interposed functions of libc with a path. Each calls the real function first and compares the
 * path only if that failed with ENOENT, or ENOTDIR because the directory is a memfd. So existing
 * files are hidden only if the program asks for that (XROCE_HIDE), and successful calls cost a load
 * and a test more than before.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "provider/base/export.h"
#include "provider/base/fail.h"
#include "provider/cm/cm.h"
#include "provider/preload/next.h"
#include "provider/preload/paths.h"

#define FUNCTIONS(X)                                                                               \
	X(access, int, (const char *, int))                                                        \
	X(eaccess, int, (const char *, int))                                                       \
	X(euidaccess, int, (const char *, int))                                                    \
	X(faccessat, int, (int, const char *, int, int))                                           \
	X(stat, int, (const char *, struct stat *))                                                \
	X(stat64, int, (const char *, struct stat64 *))                                            \
	X(lstat, int, (const char *, struct stat *))                                               \
	X(lstat64, int, (const char *, struct stat64 *))                                           \
	X(fstatat, int, (int, const char *, struct stat *, int))                                   \
	X(fstatat64, int, (int, const char *, struct stat64 *, int))                               \
	X(__xstat, int, (int, const char *, struct stat *))                                        \
	X(__xstat64, int, (int, const char *, struct stat64 *))                                    \
	X(__lxstat, int, (int, const char *, struct stat *))                                       \
	X(__lxstat64, int, (int, const char *, struct stat64 *))                                   \
	X(__fxstatat, int, (int, int, const char *, struct stat *, int))                           \
	X(__fxstatat64, int, (int, int, const char *, struct stat64 *, int))                       \
	X(statx, int, (int, const char *, int, unsigned int, struct statx *))                      \
	X(readlink, ssize_t, (const char *, char *, size_t))                                       \
	X(readlinkat, ssize_t, (int, const char *, char *, size_t))                                \
	X(__readlink_chk, ssize_t, (const char *, char *, size_t, size_t))                         \
	X(__readlinkat_chk, ssize_t, (int, const char *, char *, size_t, size_t))                  \
	X(realpath, char *, (const char *, char *))                                                \
	X(__realpath_chk, char *, (const char *, char *, size_t))                                  \
	X(canonicalize_file_name, char *, (const char *))                                          \
	X(chdir, int, (const char *))                                                              \
	X(fchdir, int, (int))                                                                      \
	X(getcwd, char *, (char *, size_t))                                                        \
	X(__getcwd_chk, char *, (char *, size_t, size_t))                                          \
	X(get_current_dir_name, char *, (void))                                                    \
	X(getxattr, ssize_t, (const char *, const char *, void *, size_t))                         \
	X(lgetxattr, ssize_t, (const char *, const char *, void *, size_t))                        \
	X(listxattr, ssize_t, (const char *, char *, size_t))                                      \
	X(llistxattr, ssize_t, (const char *, char *, size_t))                                     \
	X(open, int, (const char *, int, ...))                                                     \
	X(open64, int, (const char *, int, ...))                                                   \
	X(openat, int, (int, const char *, int, ...))                                              \
	X(openat64, int, (int, const char *, int, ...))                                            \
	X(__open_2, int, (const char *, int))                                                      \
	X(__open64_2, int, (const char *, int))                                                    \
	X(__openat_2, int, (int, const char *, int))                                               \
	X(__openat64_2, int, (int, const char *, int))                                             \
	X(fopen, FILE *, (const char *, const char *))                                             \
	X(fopen64, FILE *, (const char *, const char *))
XP_NEXT_TABLE(path_calls, FUNCTIONS)

/* Returns true if a call has failed because a path does not exist that may be one of the tree. */
static bool is_missing(int fd, const char *path)
{
	return (errno == ENOENT || errno == ENOTDIR) && xp_path_may_be_ours(fd, path);
}

/* A path inside an emulated working directory is not for the kernel, nor is one that is hidden. */
static bool is_for_kernel(int fd, const char *path)
{
	return !xp_is_inside(fd, path) && !xp_path_is_hidden(fd, path);
}

/* Calls the real function, fn, with arguments of which one is `path`. */
#define REAL(fail, fd, args) (!is_for_kernel(fd, path) ? fail(ENOENT) : fn ? fn args : fail(ENOSYS))

/* A function that returns -1 on failure */
#define INTERPOSE(type, name, fd, emulate, params, args)                                           \
	type name params;                                                                          \
	XP_PUBLIC type name params                                                                 \
	{                                                                                          \
		type(*fn) params = XP_NEXT(name);                                                  \
		type ret = REAL(xp_fail, fd, args);                                                \
                                                                                                   \
		return ret < 0 && is_missing(fd, path) ? (emulate) : ret;                          \
	}

/* ---- access -------------------------------------------------------------------- */

#define ACCESS(name)                                                                               \
	INTERPOSE(int, name, AT_FDCWD, xp_emulate_access(AT_FDCWD, path, mode),                    \
		  (const char *path, int mode), (path, mode))
ACCESS(access)
ACCESS(eaccess)
ACCESS(euidaccess)
INTERPOSE(int, faccessat, fd, xp_emulate_access(fd, path, mode),
	  (int fd, const char *path, int mode, int flags), (fd, path, mode, flags))

/* ---- stat ---------------------------------------------------------------------- */

/* struct stat64 is struct stat on 64-bit machines. */
#define STAT(name, type, follow)                                                                   \
	INTERPOSE(int, name, AT_FDCWD, xp_emulate_stat(AT_FDCWD, path, (struct stat *)st, follow), \
		  (const char *path, struct type *st), (path, st))
STAT(stat, stat, true)
STAT(stat64, stat64, true)
STAT(lstat, stat, false)
STAT(lstat64, stat64, false)

/* Functions of glibc before 2.33, which programs that were built for it call later, too */
#define XSTAT(name, type, follow)                                                                  \
	INTERPOSE(int, name, AT_FDCWD, xp_emulate_stat(AT_FDCWD, path, (struct stat *)st, follow), \
		  (int version, const char *path, struct type *st), (version, path, st))
XSTAT(__xstat, stat, true)
XSTAT(__xstat64, stat64, true)
XSTAT(__lxstat, stat, false)
XSTAT(__lxstat64, stat64, false)

/* The result of a call with a descriptor and a path, which may be empty (AT_EMPTY_PATH) */
static int stated(int ret, int fd, const char *path, struct stat *st, int flags)
{
	if (ret < 0)
		return is_missing(fd, path)
			       ? xp_emulate_stat(fd, path, st, !(flags & AT_SYMLINK_NOFOLLOW))
			       : ret;
	if (flags & AT_EMPTY_PATH && !*path && xp_may_be_directory(st))
		xp_emulate_fstat(fd, st);
	return ret;
}

#define STATAT(name, type)                                                                         \
	XP_PUBLIC int name(int fd, const char *path, struct type *st, int flags)                   \
	{                                                                                          \
		int (*fn)(int, const char *, struct type *, int) = XP_NEXT(name);                  \
                                                                                                   \
		return stated(REAL(xp_fail, fd, (fd, path, st, flags)), fd, path,                  \
			      (struct stat *)st, flags);                                           \
	}
STATAT(fstatat, stat)
STATAT(fstatat64, stat64)

#define XSTATAT(name, type)                                                                        \
	int name(int version, int fd, const char *path, struct type *st, int flags);               \
	XP_PUBLIC int name(int version, int fd, const char *path, struct type *st, int flags)      \
	{                                                                                          \
		int (*fn)(int, int, const char *, struct type *, int) = XP_NEXT(name);             \
                                                                                                   \
		return stated(REAL(xp_fail, fd, (version, fd, path, st, flags)), fd, path,         \
			      (struct stat *)st, flags);                                           \
	}
XSTATAT(__fxstatat, stat)
XSTATAT(__fxstatat64, stat64)

static void to_statx(struct statx *to, const struct stat *from)
{
	*to = (struct statx){
		.stx_mask = STATX_TYPE | STATX_MODE | STATX_NLINK | STATX_UID | STATX_GID |
			    STATX_INO | STATX_SIZE | STATX_BLOCKS,
		.stx_blksize = from->st_blksize,
		.stx_nlink = from->st_nlink,
		.stx_uid = from->st_uid,
		.stx_gid = from->st_gid,
		.stx_mode = from->st_mode,
		.stx_ino = from->st_ino,
		.stx_size = from->st_size,
		.stx_rdev_major = major(from->st_rdev),
		.stx_rdev_minor = minor(from->st_rdev),
		.stx_dev_major = major(from->st_dev),
		.stx_dev_minor = minor(from->st_dev),
	};
}

XP_PUBLIC int statx(int fd, const char *path, int flags, unsigned int mask, struct statx *stx)
{
	int (*fn)(int, const char *, int, unsigned int, struct statx *) = XP_NEXT(statx);
	int ret = REAL(xp_fail, fd, (fd, path, flags, mask, stx));
	struct stat st;

	if (ret < 0) {
		if (!is_missing(fd, path) ||
		    xp_emulate_stat(fd, path, &st, !(flags & AT_SYMLINK_NOFOLLOW)))
			return -1;
		to_statx(stx, &st);
		return 0;
	}
	if (flags & AT_EMPTY_PATH && !*path) {
		st = (struct stat){ .st_mode = stx->stx_mode,
				    .st_nlink = stx->stx_nlink,
				    .st_size = (off_t)stx->stx_size };
		if (!xp_may_be_directory(&st))
			return ret;
		xp_emulate_fstat(fd, &st);
		if (st.st_mode != stx->stx_mode)
			to_statx(stx, &st);
	}
	return ret;
}

/* ---- links --------------------------------------------------------------------- */

INTERPOSE(ssize_t, readlink, AT_FDCWD, xp_emulate_readlink(AT_FDCWD, path, text, size),
	  (const char *path, char *text, size_t size), (path, text, size))
INTERPOSE(ssize_t, readlinkat, fd, xp_emulate_readlink(fd, path, text, size),
	  (int fd, const char *path, char *text, size_t size), (fd, path, text, size))
/* The real function aborts if size exceeds room, so it need not be checked again. */
INTERPOSE(ssize_t, __readlink_chk, AT_FDCWD, xp_emulate_readlink(AT_FDCWD, path, text, size),
	  (const char *path, char *text, size_t size, size_t room), (path, text, size, room))
INTERPOSE(ssize_t, __readlinkat_chk, fd, xp_emulate_readlink(fd, path, text, size),
	  (int fd, const char *path, char *text, size_t size, size_t room),
	  (fd, path, text, size, room))

#define INTERPOSE_REALPATH(name, result, params, args)                                             \
	char *name params;                                                                         \
	XP_PUBLIC char *name params                                                                \
	{                                                                                          \
		char *(*fn)params = XP_NEXT(name);                                                 \
		char *ret = REAL(xp_null, AT_FDCWD, args);                                         \
                                                                                                   \
		return !ret && is_missing(AT_FDCWD, path) ? xp_emulate_realpath(path, result)      \
							  : ret;                                   \
	}
INTERPOSE_REALPATH(realpath, result, (const char *path, char *result), (path, result))
INTERPOSE_REALPATH(__realpath_chk, result, (const char *path, char *result, size_t room),
		   (path, result, room))
INTERPOSE_REALPATH(canonicalize_file_name, NULL, (const char *path), (path))

/* ---- extended attributes (ls -l) ------------------------------------------------ */

#define GETXATTR(name)                                                                             \
	INTERPOSE(ssize_t, name, AT_FDCWD, xp_emulate_xattr(path),                                 \
		  (const char *path, const char *attr, void *value, size_t size),                  \
		  (path, attr, value, size))
GETXATTR(getxattr)
GETXATTR(lgetxattr)
#define LISTXATTR(name)                                                                            \
	INTERPOSE(ssize_t, name, AT_FDCWD, xp_emulate_xattr(path),                                 \
		  (const char *path, char *list, size_t size), (path, list, size))
LISTXATTR(listxattr)
LISTXATTR(llistxattr)

/* ---- working directory --------------------------------------------------------- */

XP_PUBLIC int chdir(const char *path)
{
	int ret = is_for_kernel(AT_FDCWD, path) ? XP_NEXT(chdir)(path) : xp_fail(ENOENT);

	if (ret)
		return is_missing(AT_FDCWD, path) ? xp_emulate_chdir(path) : ret;
	xp_changed_directory();
	return 0;
}

XP_PUBLIC int fchdir(int fd)
{
	int ret = XP_NEXT(fchdir)(fd);

	if (ret)
		return errno == ENOTDIR && xp_fd_may_be_directory(fd) ? xp_emulate_fchdir(fd) : ret;
	xp_changed_directory();
	return 0;
}

/* Like glibc: without a buffer, allocates `size` bytes, or as many as the path needs if 0. */
static char *copy_path(const char *path, char *buf, size_t size)
{
	size_t needed = strlen(path) + 1;

	if (buf && !size)
		return xp_null(EINVAL);
	if (!size)
		size = needed;
	if (size < needed)
		return xp_null(ERANGE);
	if (!buf)
		buf = malloc(size);
	return buf ? memcpy(buf, path, needed) : NULL;
}

XP_PUBLIC char *getcwd(char *buf, size_t size)
{
	const char *path = __atomic_load_n(&xp_working_directory, __ATOMIC_ACQUIRE);

	return path ? copy_path(path, buf, size) : XP_NEXT(getcwd)(buf, size);
}

char *__getcwd_chk(char *buf, size_t size, size_t room);
XP_PUBLIC char *__getcwd_chk(char *buf, size_t size, size_t room)
{
	const char *path = __atomic_load_n(&xp_working_directory, __ATOMIC_ACQUIRE);

	return path && size <= room ? copy_path(path, buf, size)
				    : XP_NEXT(__getcwd_chk)(buf, size, room);
}

XP_PUBLIC char *get_current_dir_name(void)
{
	const char *path = __atomic_load_n(&xp_working_directory, __ATOMIC_ACQUIRE);

	return path ? strdup(path) : XP_NEXT(get_current_dir_name)();
}

/* ---- open ---------------------------------------------------------------------- */

/*
 * Returns the result of open() for the program. ret and errno are those of the real function. The
 * device file of rdma_cm is taken over even if it exists: a channel contains the kernel's rdma_cm
 * as well.
 */
static int opened(int ret, int dirfd, const char *path, int flags)
{
	if (ret < 0 && errno == EFAULT)
		return ret;
	if (!strcmp(path, XP_CM_DEVICE) && (flags & O_ACCMODE) != O_RDONLY)
		return xp_cm_open(ret, flags);
	return ret < 0 && is_missing(dirfd, path) ? xp_emulate_open(dirfd, path, flags) : ret;
}

#define INTERPOSE_OPEN(name, dirfd, params, args)                                                  \
	XP_PUBLIC int name params                                                                  \
	{                                                                                          \
		__typeof__(next.name) fn = XP_NEXT(name);                                          \
		mode_t mode = 0;                                                                   \
		va_list ap;                                                                        \
                                                                                                   \
		if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) {                         \
			va_start(ap, flags);                                                       \
			mode = va_arg(ap, mode_t);                                                 \
			va_end(ap);                                                                \
		}                                                                                  \
		return opened(REAL(xp_fail, dirfd, args), dirfd, path, flags);                     \
	}

INTERPOSE_OPEN(open, AT_FDCWD, (const char *path, int flags, ...), (path, flags, mode))
INTERPOSE_OPEN(open64, AT_FDCWD, (const char *path, int flags, ...), (path, flags, mode))
INTERPOSE_OPEN(openat, fd, (int fd, const char *path, int flags, ...), (fd, path, flags, mode))
INTERPOSE_OPEN(openat64, fd, (int fd, const char *path, int flags, ...), (fd, path, flags, mode))

/* Called instead of open() by programs that are built with _FORTIFY_SOURCE */
#define OPEN_2(name)                                                                               \
	int name(const char *path, int flags);                                                     \
	XP_PUBLIC int name(const char *path, int flags)                                            \
	{                                                                                          \
		int (*fn)(const char *, int) = XP_NEXT(name);                                      \
                                                                                                   \
		return opened(REAL(xp_fail, AT_FDCWD, (path, flags)), AT_FDCWD, path, flags);      \
	}
OPEN_2(__open_2)
OPEN_2(__open64_2)
#define OPENAT_2(name)                                                                             \
	int name(int fd, const char *path, int flags);                                             \
	XP_PUBLIC int name(int fd, const char *path, int flags)                                    \
	{                                                                                          \
		int (*fn)(int, const char *, int) = XP_NEXT(name);                                 \
                                                                                                   \
		return opened(REAL(xp_fail, fd, (fd, path, flags)), fd, path, flags);              \
	}
OPENAT_2(__openat_2)
OPENAT_2(__openat64_2)

static FILE *emulate_fopen(const char *path, const char *mode)
{
	int flags = *mode == 'r' && !strchr(mode, '+') ? O_RDONLY : O_RDWR;
	int fd = xp_emulate_open(AT_FDCWD, path, strchr(mode, 'e') ? flags | O_CLOEXEC : flags);
	FILE *f = fd < 0 ? NULL : fdopen(fd, mode);

	if (fd >= 0 && !f)
		close(fd);
	return f;
}

#define FOPEN(name)                                                                                \
	XP_PUBLIC FILE *name(const char *path, const char *mode)                                   \
	{                                                                                          \
		FILE *(*fn)(const char *, const char *) = XP_NEXT(name);                           \
		FILE *f = REAL(xp_null, AT_FDCWD, (path, mode));                                   \
                                                                                                   \
		return !f && is_missing(AT_FDCWD, path) ? emulate_fopen(path, mode) : f;           \
	}
FOPEN(fopen)
FOPEN(fopen64)
