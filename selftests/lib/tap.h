/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Test Anything Protocol for tests in C: TAP_OK() for each check, tap_skip() for a check that
 * cannot run, `return tap_end()` at the end of main().
 */
#ifndef TAP_H
#define TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

/* Weak, so that all files of a program share one count. */
__attribute__((weak)) unsigned tap_count, tap_failures;

__attribute__((format(printf, 4, 5), unused)) static bool tap_ok(bool ok, const char *file,
								 int line, const char *fmt, ...)
{
	va_list ap;

	printf("%sok %u - ", ok ? "" : "not ", ++tap_count);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	if (!ok) {
		tap_failures++;
		printf("# at %s:%d\n", file, line);
	}
	fflush(stdout);
	return ok;
}
#define TAP_OK(cond, ...) tap_ok((cond), __FILE__, __LINE__, __VA_ARGS__)

__attribute__((unused)) static void tap_skip(const char *what, const char *why)
{
	printf("ok %u - %s # SKIP %s\n", ++tap_count, what, why);
}

__attribute__((unused)) static int tap_end(void)
{
	printf("1..%u\n", tap_count);
	return tap_failures ? 1 : 0;
}

#endif /* TAP_H */
