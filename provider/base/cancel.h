/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Thread cancellation. */
#ifndef XP_CANCEL_H
#define XP_CANCEL_H

#include <pthread.h>

/*
 * Verbs must not be cancellation points, except those that wait for events: programs do not expect
 * a thread to be cancelled in a verb, and it would leave locks held. These two functions enclose
 * the system calls in verbs that are cancellation points.
 */
static inline int xp_cancel_off(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void xp_cancel_restore(int before)
{
	pthread_setcancelstate(before, NULL);
}

#endif /* XP_CANCEL_H */
