// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Interposed functions of libc for files of the kernel's RDMA core (paths.c) and descriptors of
 * rdma_cm (provider/cm).
 *
 * Functions with a path call the real function first and compare the path only after ENOENT, so
 * existing files are never hidden. open() of the device file of rdma_cm is the exception: a
 * channel contains the kernel's rdma_cm as well.
 *
 * Functions with a descriptor pass all descriptors on that are not marked as channels, after one
 * load and a test. They may be called in signal handlers, so the functions of libc are looked up
 * when the library is loaded.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "provider/base/export.h"
#include "provider/base/fail.h"
#include "provider/cm/cm.h"
#include "provider/preload/paths.h"

/* ---- the next functions ---------------------------------------------------------- */

/* The first version of all symbols of glibc. __fxstat has no default version since 2.33. */
#if defined(__aarch64__)
#define OLDEST "GLIBC_2.17"
#else
#define OLDEST "GLIBC_2.2.5"
#endif

/* X(name, type, parameters): functions that follow this library's in the search order */
#define FUNCTIONS(X)                                                                               \
	X(access, int, (const char *, int))                                                        \
	X(stat, int, (const char *, struct stat *))                                                \
	X(stat64, int, (const char *, struct stat64 *))                                            \
	X(open, int, (const char *, int, ...))                                                     \
	X(open64, int, (const char *, int, ...))                                                   \
	X(fstat, int, (int, struct stat *))                                                        \
	X(fstat64, int, (int, struct stat64 *))                                                    \
	X(__fxstat, int, (int, int, struct stat *))                                                \
	X(__fxstat64, int, (int, int, struct stat64 *))                                            \
	X(write, ssize_t, (int, const void *, size_t))                                             \
	X(close, int, (int))                                                                       \
	X(close_range, int, (unsigned int, unsigned int, int))                                     \
	X(closefrom, void, (int))                                                                  \
	X(dup, int, (int))                                                                         \
	X(dup2, int, (int, int))                                                                   \
	X(dup3, int, (int, int, int))                                                              \
	X(fcntl, int, (int, int, ...))                                                             \
	X(fcntl64, int, (int, int, ...))

#define X(name, type, params) type(*name) params;
static struct {
	FUNCTIONS(X)
} next;
#undef X

static void *find_next(const char *name)
{
	void *fn = dlsym(RTLD_NEXT, name);

	return fn ? fn : dlvsym(RTLD_NEXT, name, OLDEST);
}

#define X(name, type, params)                                                                      \
	__atomic_store_n((void **)&next.name, find_next(#name), __ATOMIC_RELAXED);
__attribute__((constructor)) static void find_all(void)
{
	FUNCTIONS(X)
}
#undef X

/* Constructors of other libraries may call a function before ours has run. NULL: libc lacks it. */
static void *get_next(void **fn, const char *name)
{
	void *found = __atomic_load_n(fn, __ATOMIC_RELAXED);

	return found ? found : find_next(name);
}

#define NEXT(name) ((__typeof__(next.name))get_next((void **)&next.name, #name))

/* ---- paths ------------------------------------------------------------------------- */

#define INTERPOSE_PATH(name, emulate, params, args)                                                \
	XP_PUBLIC int name params                                                                  \
	{                                                                                          \
		int(*fn) params = NEXT(name);                                                      \
		int ret = fn ? fn args : xp_fail(ENOSYS);                                          \
                                                                                                   \
		return ret < 0 && errno == ENOENT ? emulate : ret;                                 \
	}

INTERPOSE_PATH(access, xp_emulate_access(path, mode), (const char *path, int mode), (path, mode))
INTERPOSE_PATH(stat, xp_emulate_stat(path, st), (const char *path, struct stat *st), (path, st))
/* struct stat64 is struct stat on 64-bit machines. */
INTERPOSE_PATH(stat64, xp_emulate_stat(path, (struct stat *)st),
	       (const char *path, struct stat64 *st), (path, st))

/* Returns the result of open() for the program. ret and errno are those of the real function. */
static int opened(int ret, const char *path, int flags)
{
	if (ret < 0 && errno == EFAULT)
		return ret;
	if (!strcmp(path, XP_CM_DEVICE) && (flags & O_ACCMODE) != O_RDONLY)
		return xp_cm_open(ret, flags);
	return ret < 0 && errno == ENOENT ? xp_emulate_open(path, flags) : ret;
}

#define INTERPOSE_OPEN(name)                                                                       \
	XP_PUBLIC int name(const char *path, int flags, ...)                                       \
	{                                                                                          \
		int (*fn)(const char *, int, ...) = NEXT(name);                                    \
		mode_t mode = 0;                                                                   \
		va_list ap;                                                                        \
                                                                                                   \
		if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) {                         \
			va_start(ap, flags);                                                       \
			mode = va_arg(ap, mode_t);                                                 \
			va_end(ap);                                                                \
		}                                                                                  \
		return opened(fn ? fn(path, flags, mode) : xp_fail(ENOSYS), path, flags);          \
	}

INTERPOSE_OPEN(open)
INTERPOSE_OPEN(open64)

/* ---- descriptors ------------------------------------------------------------------ */

XP_PUBLIC ssize_t write(int fd, const void *data, size_t len)
{
	ssize_t result;

	if (xp_cm_is_marked(fd) && xp_cm_write(fd, data, len, &result))
		return result;
	return NEXT(write)(fd, data, len);
}

/* glibc before 2.33 has __fxstat() only, and programs that were built for it call it later, too. */
static int next_fstat(int fd, struct stat *st)
{
	int (*fn)(int, struct stat *) = NEXT(fstat);
	int (*old)(int, int, struct stat *) = fn ? NULL : NEXT(__fxstat);

	if (fn)
		return fn(fd, st);
	return old ? old(1, fd, st) : xp_fail(ENOSYS);
}

XP_PUBLIC int fstat(int fd, struct stat *st)
{
	return xp_cm_is_marked(fd) && xp_cm_fstat(fd, st) ? 0 : next_fstat(fd, st);
}

XP_PUBLIC int fstat64(int fd, struct stat64 *st)
{
	return fstat(fd, (struct stat *)st);
}

int __fxstat(int version, int fd, struct stat *st);
XP_PUBLIC int __fxstat(int version, int fd, struct stat *st)
{
	int (*fn)(int, int, struct stat *) = NEXT(__fxstat);

	if (xp_cm_is_marked(fd) && xp_cm_fstat(fd, st))
		return 0;
	return fn ? fn(version, fd, st) : next_fstat(fd, st);
}

int __fxstat64(int version, int fd, struct stat64 *st);
XP_PUBLIC int __fxstat64(int version, int fd, struct stat64 *st)
{
	return __fxstat(version, fd, (struct stat *)st);
}

XP_PUBLIC int close(int fd)
{
	if (xp_cm_is_marked(fd))
		xp_cm_closing(fd);
	return NEXT(close)(fd);
}

int close_range(unsigned int first, unsigned int last, int flags);
XP_PUBLIC int close_range(unsigned int first, unsigned int last, int flags)
{
	int (*fn)(unsigned int, unsigned int, int) = NEXT(close_range);

	if (!fn)
		return xp_fail(ENOSYS);
	if (!(flags & CLOSE_RANGE_CLOEXEC))
		xp_cm_closing_range(first, last);
	return fn(first, last, flags);
}

void closefrom(int first);
XP_PUBLIC void closefrom(int first)
{
	void (*fn)(int) = NEXT(closefrom);

	xp_cm_closing_range(first < 0 ? 0 : first, UINT_MAX);
	if (fn)
		fn(first);
}

static int duplicated(int old, int fd)
{
	if (fd >= 0 && (xp_cm_is_marked(old) || xp_cm_is_marked(fd)))
		xp_cm_duplicated(old, fd);
	return fd;
}

XP_PUBLIC int dup(int fd)
{
	return duplicated(fd, NEXT(dup)(fd));
}

XP_PUBLIC int dup2(int old, int fd)
{
	return duplicated(old, NEXT(dup2)(old, fd));
}

XP_PUBLIC int dup3(int old, int fd, int flags)
{
	return duplicated(old, NEXT(dup3)(old, fd, flags));
}

static int no_fcntl(int fd, int cmd, void *arg)
{
	return xp_fail(ENOSYS);
}

/* All arguments of fcntl() have the size of a pointer or are passed like one. */
#define INTERPOSE_FCNTL(name, fallback)                                                            \
	XP_PUBLIC int name(int fd, int cmd, ...)                                                   \
	{                                                                                          \
		int (*fn)(int, int, ...) = NEXT(name);                                             \
		va_list ap;                                                                        \
		void *arg;                                                                         \
		int ret;                                                                           \
                                                                                                   \
		va_start(ap, cmd);                                                                 \
		arg = va_arg(ap, void *);                                                          \
		va_end(ap);                                                                        \
		ret = fn ? fn(fd, cmd, arg) : fallback(fd, cmd, arg);                              \
		return cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC ? duplicated(fd, ret) : ret;       \
	}

INTERPOSE_FCNTL(fcntl, no_fcntl)
INTERPOSE_FCNTL(fcntl64, NEXT(fcntl))
