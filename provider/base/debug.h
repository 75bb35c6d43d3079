/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Debug messages. */
#ifndef XP_DEBUG_H
#define XP_DEBUG_H

/*
 * Prints a line to stderr if the environment variable XROCE_DEBUG is set. Preserves errno, so
 * that callers can pass %m and still return the error.
 */
void xp_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif /* XP_DEBUG_H */
