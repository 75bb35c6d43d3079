// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <dlfcn.h>

#include "provider/base/export.h"
#include "provider/preload/next.h"

/* The first version of all symbols of glibc. __fxstat has no default version since 2.33. */
#if defined(__aarch64__)
#define OLDEST "GLIBC_2.17"
#else
#define OLDEST "GLIBC_2.2.5"
#endif

XP_UNCHECKED void *xp_find_next(const char *name)
{
	void *fn = dlsym(RTLD_NEXT, name);

	return fn ? fn : dlvsym(RTLD_NEXT, name, OLDEST);
}

XP_UNCHECKED void *xp_get_next(void **fn, const char *name)
{
	void *found = __atomic_load_n(fn, __ATOMIC_RELAXED);

	return found ? found : xp_find_next(name);
}
