/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Other threads of the process, for pauses in polls.
 *
 * A program may hold a spin lock while it polls. If the poll pauses then, the threads that spin for
 * the lock have the processor for a time slice each, and nothing proceeds. Such threads are
 * recognized, as they use processor time and do not poll. No poll of the CQ pauses for a time after
 * that. Threads that sleep, and threads that poll themselves, do not wait for the thread that
 * pauses. A thread that computes looks like one that spins.
 */
#ifndef XP_OTHERS_H
#define XP_OTHERS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Other threads have run in a pause if they had most of the shortest time slice of Linux (0.7 ms),
 * and a sixteenth of the time of a processor.
 */
#define XP_OTHERS_NS 500000u
#define XP_OTHERS_PART 16
/* After a pause in which others ran and did not poll, no poll of this CQ pauses for this time. */
#define XP_OTHERS_HOLD_NS 1000000000u

/* Returns whether the process has had one thread only so far. */
bool xp_is_single_threaded(void);

/* For a process with several threads, before each pause */
void xp_others_note(void);
/* At the start of a pause that is timed */
void xp_others_before(uint64_t now);
/* At its end. Returns true if other threads may have waited for the one that paused. */
bool xp_others_waited(uint64_t now);

#endif /* XP_OTHERS_H */
