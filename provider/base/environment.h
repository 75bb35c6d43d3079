/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Environment variables, which programs may change at any time. A thread that the program does not
 * know of must not read them: setenv() may be called without a lock while there is one thread. So
 * such a thread has a copy.
 */
#ifndef XP_ENVIRONMENT_H
#define XP_ENVIRONMENT_H

enum xp_variable {
	XP_DEBUG,
	XP_RUNTIME_DIR,
	XP_SESSION_DIR,
	XP_DEVICES,
	XP_HIDE,
	XP_ORDER,
	XP_PATH,
	XP_VARIABLES,
};

struct xp_environment {
	char *value[XP_VARIABLES]; /* NULL: not set */
};

/*
 * Returns the value or NULL, also in a program with more rights than its user: the environment must
 * not direct that.
 */
const char *xp_environment(enum xp_variable variable);

/* Copies the variables of the program. Returns -ENOMEM or 0. */
int xp_environment_copy(struct xp_environment *copy);
void xp_environment_free(struct xp_environment *copy);
/* From now on the calling thread uses the copy, which must exist until its end. */
void xp_environment_use(const struct xp_environment *copy);

#endif /* XP_ENVIRONMENT_H */
