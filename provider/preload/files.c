// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Interposed functions of libc with a descriptor, for channels of rdma_cm and files of umad
 * (provider/cm), and for emulated files that are read again. They pass all others on after one load
 * and a test.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "provider/base/export.h"
#include "provider/base/fail.h"
#include "provider/cm/cm.h"
#include "provider/cm/umad.h"
#include "provider/preload/next.h"
#include "provider/preload/paths.h"

#define FUNCTIONS(X)                                                                               \
	X(fstat, int, (int, struct stat *))                                                        \
	X(fstat64, int, (int, struct stat64 *))                                                    \
	X(__fxstat, int, (int, int, struct stat *))                                                \
	X(__fxstat64, int, (int, int, struct stat64 *))                                            \
	X(lseek, off_t, (int, off_t, int))                                                         \
	X(lseek64, off64_t, (int, off64_t, int))                                                   \
	X(read, ssize_t, (int, void *, size_t))                                                    \
	X(write, ssize_t, (int, const void *, size_t))                                             \
	X(ioctl, int, (int, unsigned long, ...))                                                   \
	X(close, int, (int))                                                                       \
	X(close_range, int, (unsigned int, unsigned int, int))                                     \
	X(closefrom, void, (int))                                                                  \
	X(dup, int, (int))                                                                         \
	X(dup2, int, (int, int))                                                                   \
	X(dup3, int, (int, int, int))                                                              \
	X(fcntl, int, (int, int, ...))                                                             \
	X(fcntl64, int, (int, int, ...))
XP_NEXT_TABLE(files, FUNCTIONS)

XP_PUBLIC ssize_t write(int fd, const void *data, size_t len)
{
	ssize_t result;

	if (xp_cm_is_marked(fd) && xp_cm_write(fd, data, len, &result))
		return result;
	return XP_NEXT(write)(fd, data, len);
}

XP_PUBLIC ssize_t read(int fd, void *data, size_t len)
{
	ssize_t result;

	if (xp_cm_is_marked(fd) && xp_umad_read(fd, data, len, &result))
		return result;
	if (__atomic_load_n(&xp_any_rewound, __ATOMIC_RELAXED) && xp_take_rewound(fd))
		xp_emulate_read(fd);
	return XP_NEXT(read)(fd, data, len);
}

/* Programs read a counter again after lseek(fd, 0, SEEK_SET). */
#define LSEEK(name, type)                                                                          \
	XP_PUBLIC type name(int fd, type off, int whence)                                          \
	{                                                                                          \
		type at = XP_NEXT(name)(fd, off, whence);                                          \
                                                                                                   \
		if (!at && whence == SEEK_SET &&                                                   \
		    __atomic_load_n(&xp_files_opened, __ATOMIC_RELAXED) && xp_fd_may_be_file(fd))  \
			xp_emulate_rewind(fd);                                                     \
		return at;                                                                         \
	}
LSEEK(lseek, off_t)
LSEEK(lseek64, off64_t)

XP_PUBLIC int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	void *arg;
	int result;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (xp_cm_is_marked(fd) && xp_umad_ioctl(fd, request, arg, &result))
		return result;
	return XP_NEXT(ioctl)(fd, request, arg);
}

/* glibc before 2.33 has __fxstat() only, and programs that were built for it call it later, too. */
static int next_fstat(int fd, struct stat *st)
{
	int (*fn)(int, struct stat *) = XP_NEXT(fstat);
	int (*old)(int, int, struct stat *) = fn ? NULL : XP_NEXT(__fxstat);

	if (fn)
		return fn(fd, st);
	return old ? old(1, fd, st) : xp_fail(ENOSYS);
}

XP_PUBLIC int fstat(int fd, struct stat *st)
{
	int ret;

	if (xp_cm_is_marked(fd) && xp_cm_fstat(fd, st))
		return 0;
	ret = next_fstat(fd, st);
	if (!ret && xp_may_be_directory(st))
		xp_emulate_fstat(fd, st);
	return ret;
}

XP_PUBLIC int fstat64(int fd, struct stat64 *st)
{
	return fstat(fd, (struct stat *)st);
}

int __fxstat(int version, int fd, struct stat *st);
XP_PUBLIC int __fxstat(int version, int fd, struct stat *st)
{
	int (*fn)(int, int, struct stat *) = XP_NEXT(__fxstat);
	int ret;

	if (xp_cm_is_marked(fd) && xp_cm_fstat(fd, st))
		return 0;
	ret = fn ? fn(version, fd, st) : next_fstat(fd, st);
	if (!ret && xp_may_be_directory(st))
		xp_emulate_fstat(fd, st);
	return ret;
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
	return XP_NEXT(close)(fd);
}

int close_range(unsigned int first, unsigned int last, int flags);
XP_PUBLIC int close_range(unsigned int first, unsigned int last, int flags)
{
	int (*fn)(unsigned int, unsigned int, int) = XP_NEXT(close_range);

	if (!fn)
		return xp_fail(ENOSYS);
	if (!(flags & CLOSE_RANGE_CLOEXEC))
		xp_cm_closing_range(first, last);
	return fn(first, last, flags);
}

void closefrom(int first);
XP_PUBLIC void closefrom(int first)
{
	void (*fn)(int) = XP_NEXT(closefrom);

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
	return duplicated(fd, XP_NEXT(dup)(fd));
}

XP_PUBLIC int dup2(int old, int fd)
{
	return duplicated(old, XP_NEXT(dup2)(old, fd));
}

XP_PUBLIC int dup3(int old, int fd, int flags)
{
	return duplicated(old, XP_NEXT(dup3)(old, fd, flags));
}

static int no_fcntl(int fd, int cmd, void *arg)
{
	return xp_fail(ENOSYS);
}

/* All arguments of fcntl() have the size of a pointer or are passed like one. */
#define INTERPOSE_FCNTL(name, fallback)                                                            \
	XP_PUBLIC int name(int fd, int cmd, ...)                                                   \
	{                                                                                          \
		int (*fn)(int, int, ...) = XP_NEXT(name);                                          \
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
INTERPOSE_FCNTL(fcntl64, XP_NEXT(fcntl))
