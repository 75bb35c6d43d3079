/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Debug messages. */
#ifndef XP_DEBUG_H
#define XP_DEBUG_H

#include <stdbool.h>
#include <stdint.h>

/* Returns true if the environment variable XROCE_DEBUG is set. */
bool xp_debugging(void);

/*
 * Prints a line to stderr if the environment variable XROCE_DEBUG is set. Preserves errno, so
 * that callers can pass %m and still return the error.
 */
void xp_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * Refuses a verb. Prints verb, error and reason if XROCE_DEBUG is set, each text once, because
 * programs repeat what fails. The reason names the field, its value, and what would be right.
 * @err: an errno of either sign.
 * Returns the negative errno. Preserves errno.
 */
int xp_refuse(const char *verb, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Refuses a verb because malloc() or the like failed. Returns -ENOMEM. */
int xp_refuse_memory(const char *verb);

/*
 * Returns true if the value of a field that the program passed to a verb is at most the limit.
 * Otherwise prints both as xp_refuse() does, and returns false.
 */
bool xp_within_limit(const char *verb, const char *field, uint64_t value, uint64_t limit);

#endif /* XP_DEBUG_H */
