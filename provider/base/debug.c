// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Debug messages. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "provider/base/debug.h"
#include "provider/base/environment.h"

bool xp_debugging(void)
{
	return xp_environment(XP_DEBUG);
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

/* ---- refused verbs ------------------------------------------------------------- */

#define REASON_MAX 512
#define REMEMBERED 256

/*
 * Returns true if a text was printed before. Two texts whose hashes use the same entry may be
 * printed again.
 */
static bool printed(const char *text)
{
	static uint64_t hashes[REMEMBERED];
	uint64_t hash = 14695981039346656037ull; /* FNV-1a */

	for (; *text; text++)
		hash = (hash ^ (uint8_t)*text) * 1099511628211ull;
	return __atomic_exchange_n(&hashes[hash % REMEMBERED], hash, __ATOMIC_RELAXED) == hash;
}

int xp_refuse(const char *verb, int err, const char *fmt, ...)
{
	int positive = err < 0 ? -err : err, saved = errno, n;
	char text[REASON_MAX];
	va_list ap;

	if (!xp_debugging())
		return -positive;
	n = snprintf(text, sizeof(text), "%s: %s: ", verb, strerrordesc_np(positive));
	va_start(ap, fmt);
	vsnprintf(text + n, sizeof(text) - n, fmt, ap);
	va_end(ap);
	if (!printed(text))
		xp_debug("%s", text);
	errno = saved;
	return -positive;
}

int xp_refuse_memory(const char *verb)
{
	return xp_refuse(verb, ENOMEM, "the program cannot allocate memory");
}

bool xp_within_limit(const char *verb, const char *field, uint64_t value, uint64_t limit)
{
	if (value <= limit)
		return true;
	xp_refuse(verb, EINVAL, "%s %" PRIu64 ", limit %" PRIu64, field, value, limit);
	return false;
}
