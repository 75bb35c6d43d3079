// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Programs that load libibverbs with dlopen() and look functions up in its handle would bypass this
 * library. They get the handle of libxroce-dl.so instead, which depends on this library and then on
 * libibverbs. Every other dlopen() is passed on.
 */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "provider/base/export.h"
#include "provider/base/libibverbs.h"

#define STUB "libxroce-dl.so"

static char stub[PATH_MAX]; /* path; empty: not installed */

/* The stub is in the folder of this library. Linked programs find the library by symbolic links. */
static void find_stub(void)
{
	char path[PATH_MAX], *slash;
	Dl_info info;
	size_t n;

	if (!dladdr(&stub, &info) || !info.dli_fname || !realpath(info.dli_fname, path))
		return;
	slash = strrchr(path, '/');
	n = slash ? (size_t)(slash + 1 - path) : 0;
	if (n && n + sizeof(STUB) <= sizeof(stub)) {
		memcpy(stub, path, n);
		memcpy(stub + n, STUB, sizeof(STUB));
	}
}

static bool dlopen_is_libibverbs(const char *file)
{
	const char *slash = file ? strrchr(file, '/') : NULL, *base = slash ? slash + 1 : file;

	return base && (!strcmp(base, "libibverbs.so.1") || !strcmp(base, "libibverbs.so"));
}

XP_PUBLIC void *dlopen(const char *file, int mode)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	void *(*real_dlopen)(const char *, int) = xp_real_dlopen();
	void *libibverbs, *handle;

	/*
	 * A tail call, so that the return address is the caller's: the real dlopen() derives search
	 * paths from it.
	 */
	if (!dlopen_is_libibverbs(file))
		return real_dlopen(file, mode);
	pthread_once(&once, find_stub);
	if (!*stub)
		return real_dlopen(file, mode);
	/* Load the file that the program named. The stub's dependency is satisfied by its name. */
	libibverbs = real_dlopen(file, mode);
	handle = libibverbs ? real_dlopen(stub, mode & ~RTLD_NOLOAD) : NULL;
	if (libibverbs)
		dlclose(libibverbs);
	/* On failure repeat the call as it was, for its error and the caller's search paths. */
	return handle ? handle : real_dlopen(file, mode);
}
