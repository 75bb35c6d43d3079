// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Programs that load libibverbs themselves and look its functions up in the handle would
 * go past us. They get the handle of a library that needs us first and libibverbs
 * second; every other dlopen() goes on as it came.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "provider/provider.h"

#define FACADE "libxroce-dl.so"

static void *(*real_dlopen)(const char *, int);
static char facade[PATH_MAX]; /* empty: not installed */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find(void)
{
	Dl_info info;
	char *slash;
	size_t n;

	real_dlopen = dlsym(RTLD_NEXT, "dlopen");
	if (!dladdr(&real_dlopen, &info) || !info.dli_fname)
		return;
	slash = strrchr(info.dli_fname, '/');
	n = slash ? slash + 1 - info.dli_fname : 0;
	if (n && n + sizeof(FACADE) <= sizeof(facade)) {
		memcpy(facade, info.dli_fname, n);
		memcpy(facade + n, FACADE, sizeof(FACADE));
	}
}

void *xp_real_dlopen(const char *file, int mode)
{
	pthread_once(&once, find);
	return real_dlopen(file, mode);
}

static bool is_libibverbs(const char *file)
{
	const char *slash = file ? strrchr(file, '/') : NULL, *base = slash ? slash + 1 : file;

	return base && (!strcmp(base, "libibverbs.so.1") || !strcmp(base, "libibverbs.so"));
}

void *dlopen(const char *file, int mode) __attribute__((visibility("default")));
void *dlopen(const char *file, int mode)
{
	void *theirs, *handle;

	pthread_once(&once, find);
	/* A sibling call, so that the real one still sees who calls: search paths depend on it. */
	if (!*facade || !is_libibverbs(file))
		return real_dlopen(file, mode);
	/* The library that the program named, wherever it is: its name is what the other one needs. */
	theirs = real_dlopen(file, mode);
	handle = theirs ? real_dlopen(facade, mode & ~RTLD_NOLOAD) : NULL;
	if (theirs)
		dlclose(theirs);
	/* The program's own errors are those of that library, and so are its own search paths. */
	return handle ? handle : real_dlopen(file, mode);
}
