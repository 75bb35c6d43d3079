// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Looks functions of libibverbs up. Programs that link libibverbs have it after this library in
 * the global scope. A libibverbs that came with dlopen() (of a Python module, a plugin) is not in
 * the global scope and is opened by its name.
 */
#include <dlfcn.h>
#include <pthread.h>

#include "provider/base/fail.h"
#include "provider/base/libibverbs.h"

static void *(*real_dlopen)(const char *, int);
static void *libibverbs;
static pthread_once_t dlopen_once = PTHREAD_ONCE_INIT, libibverbs_once = PTHREAD_ONCE_INIT;

static void find_dlopen(void)
{
	real_dlopen = dlsym(RTLD_NEXT, "dlopen");
}

void *(*xp_real_dlopen(void))(const char *, int)
{
	pthread_once(&dlopen_once, find_dlopen);
	return real_dlopen;
}

static void open_libibverbs(void)
{
	libibverbs = xp_real_dlopen()("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL);
}

void *xp_libibverbs_symbol(const char *name, const char *version)
{
	void *fn = version ? dlvsym(RTLD_NEXT, name, version) : dlsym(RTLD_NEXT, name);

	if (fn)
		return fn;
	pthread_once(&libibverbs_once, open_libibverbs);
	if (!libibverbs)
		return NULL;
	return version ? dlvsym(libibverbs, name, version) : dlsym(libibverbs, name);
}

static __thread bool listing;

struct ibv_device **xp_libibverbs_get_device_list(int *num)
{
	struct ibv_device **(*fn)(int *) = xp_libibverbs_symbol("ibv_get_device_list",
								"IBVERBS_1.1");
	struct ibv_device **list;

	listing = true;
	list = fn ? fn(num) : xp_null(ENOSYS);
	listing = false;
	return list;
}

bool xp_libibverbs_is_listing(void)
{
	return listing;
}

void xp_libibverbs_free_device_list(struct ibv_device **list)
{
	void (*fn)(struct ibv_device **) = xp_libibverbs_symbol("ibv_free_device_list",
								"IBVERBS_1.1");

	if (fn)
		fn(list);
}
