/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Priority of the control thread while it pauses workers. On a machine with more runnable threads
 * than processors, the scheduler may preempt the control thread within a pause, and the workers
 * stand still for some time slices. So it has the highest nice value (-20) during pauses, for a
 * second after each pause that took long. Otherwise it does without: changing the priority twice
 * takes longer than most pauses. A lock with priority inheritance would not help, as Linux inherits
 * no nice values (kernel/locking/rtmutex.c).
 *
 * RLIMIT_NICE permits this without a capability. Without that limit the priority does not change.
 */
#ifndef XD_BOOST_H
#define XD_BOOST_H

#include <stdbool.h>
#include <stdint.h>

#define XD_BOOST_LONG_NS 100000u
#define XD_BOOST_FOR_NS 1000000000u

/* All zero: no pause was long */
struct xd_boost {
	uint64_t until;
	bool on, denied;
	int nice; /* to return to */
};

/* Before the workers are paused; now in ns */
void xd_boost_begin(struct xd_boost *b, uint64_t now);
/* After the pause; ns: its duration */
void xd_boost_end(struct xd_boost *b, uint64_t now, uint64_t ns);

#endif /* XD_BOOST_H */
