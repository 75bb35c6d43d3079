/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Faults in accesses to memory of the program, which end the access instead of the program. */
#ifndef XP_GUARD_SIGNALS_H
#define XP_GUARD_SIGNALS_H

/* Installs handlers of SIGSEGV and SIGBUS once. Faults elsewhere go to the program's handlers. */
int xp_guard_signals(void);

#endif /* XP_GUARD_SIGNALS_H */
