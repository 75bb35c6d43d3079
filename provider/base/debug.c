// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Debug messages. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "provider/base/debug.h"

void xp_debug(const char *fmt, ...)
{
	int saved = errno;
	va_list ap;

	if (!secure_getenv("XROCE_DEBUG"))
		return;
	va_start(ap, fmt);
	fputs("xroce: ", stderr);
	errno = saved;
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	errno = saved;
}
