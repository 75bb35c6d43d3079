/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Errors. Functions return a negative errno internally. An xp_* function that implements a verb
 * reports errors as that verb does: a positive errno, or NULL and errno, or -1 and errno. Only
 * those functions convert.
 */
#ifndef XP_FAIL_H
#define XP_FAIL_H

#include <errno.h>
#include <stddef.h>

/* Sets errno to err, which may have either sign, and returns NULL. */
static inline void *xp_null(int err)
{
	errno = err < 0 ? -err : err;
	return NULL;
}

/* Sets errno to err, which may have either sign, and returns -1. */
static inline int xp_fail(int err)
{
	errno = err < 0 ? -err : err;
	return -1;
}

#endif /* XP_FAIL_H */
