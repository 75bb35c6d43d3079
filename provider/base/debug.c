// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Debug messages. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "provider/base/debug.h"

bool xp_debugging(void)
{
	return secure_getenv("XROCE_DEBUG");
}

void xp_debug(const char *fmt, ...)
{
	int saved = errno;
	va_list ap;

	if (!xp_debugging())
		return;
	va_start(ap, fmt);
	fputs("xroce: ", stderr);
	errno = saved;
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	errno = saved;
}

bool xp_within_limit(const char *verb, const char *field, uint64_t value, uint64_t limit)
{
	if (value <= limit)
		return true;
	xp_debug("%s: %s %" PRIu64 ", limit %" PRIu64, verb, field, value, limit);
	return false;
}
