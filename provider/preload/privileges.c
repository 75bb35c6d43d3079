// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Interposed functions of libc after which a program may not be able to open its own memory
 * (provider/memory/own_memory.h). Programs without libibverbs are not affected.
 */
#include <link.h>
#include <stdarg.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "provider/base/export.h"
#include "provider/memory/own_memory.h"
#include "provider/preload/next.h"

#define FUNCTIONS(X)                                                                               \
	X(setuid, int, (uid_t))                                                                    \
	X(seteuid, int, (uid_t))                                                                   \
	X(setreuid, int, (uid_t, uid_t))                                                           \
	X(setresuid, int, (uid_t, uid_t, uid_t))                                                   \
	X(setfsuid, int, (uid_t))                                                                  \
	X(prctl, int, (int, ...))
XP_NEXT_TABLE(privileges, FUNCTIONS)

static int privileges_is_libibverbs(struct dl_phdr_info *info, size_t size, void *arg)
{
	return strstr(info->dlpi_name, "/libibverbs.so") != NULL;
}

static void keep_memory(void)
{
	if (dl_iterate_phdr(privileges_is_libibverbs, NULL))
		xp_own_memory_keep();
}

/* A program without privileges cannot change its user IDs in a way that matters. */
static void may_change_user(uid_t to)
{
	if (!geteuid() && to)
		keep_memory();
}

XP_PUBLIC int setuid(uid_t uid)
{
	may_change_user(uid);
	return XP_NEXT(setuid)(uid);
}

XP_PUBLIC int seteuid(uid_t uid)
{
	may_change_user(uid);
	return XP_NEXT(seteuid)(uid);
}

XP_PUBLIC int setreuid(uid_t real, uid_t effective)
{
	may_change_user(effective);
	return XP_NEXT(setreuid)(real, effective);
}

XP_PUBLIC int setresuid(uid_t real, uid_t effective, uid_t saved)
{
	may_change_user(effective);
	return XP_NEXT(setresuid)(real, effective, saved);
}

XP_PUBLIC int setfsuid(uid_t uid)
{
	may_change_user(uid);
	return XP_NEXT(setfsuid)(uid);
}

XP_PUBLIC int prctl(int option, ...)
{
	unsigned long arg[4];
	va_list ap;
	int i;

	va_start(ap, option);
	for (i = 0; i < 4; i++)
		arg[i] = va_arg(ap, unsigned long);
	va_end(ap);
	if (option == PR_SET_DUMPABLE && !arg[0])
		keep_memory();
	return XP_NEXT(prctl)(option, arg[0], arg[1], arg[2], arg[3]);
}
