/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * SIGSEGV and SIGBUS in programs with direct contexts. The engine accesses memory of the program,
 * which the program may unmap at any time; such a fault ends the access with an error. All other
 * faults are for the program, as if its own handlers were installed: these are kept here, and
 * replaced by sigaction() and signal(), which are interposed (provider/preload/signals.c).
 *
 * A thread that blocks the signals would be killed by a fault of the engine, so they are taken out
 * of signal masks. A signal of this kind that another process sends cannot be blocked then.
 */
#ifndef XP_FAULT_SIGNALS_H
#define XP_FAULT_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/*
 * Installs the handlers, once. ends: called first, with the address of the fault; it does not
 * return if the engine made the access. Returns 0 or a negative errno.
 */
int xp_fault_signals_take(void (*ends)(const void *addr));

/* Returns true if the handler of the signal is ours. Also in signal handlers, like all below */
bool xp_fault_signals_has(int sig);
/* As sigaction() of a signal for which xp_fault_signals_has() returns true */
void xp_fault_signals_change(int sig, const struct sigaction *act, struct sigaction *old);
/* Returns the set without signals that must not be blocked: either set itself, or *changed. */
const sigset_t *xp_fault_signals_unblocked(int how, const sigset_t *set, sigset_t *changed);

#endif /* XP_FAULT_SIGNALS_H */
