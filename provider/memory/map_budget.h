/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The number of mappings of a process is limited (vm.max_map_count, 65530 by default), and a page
 * that is adopted splits a mapping. Adoption leaves at least half of them to the program.
 */
#ifndef XP_MAP_BUDGET_H
#define XP_MAP_BUDGET_H

#include <stdbool.h>

/*
 * Returns true if the process has less than half of its mappings, as far as is known, and counts
 * those that one adoption adds. Needs the lock of adopt.h.
 */
bool xp_map_budget_take(void);

#endif /* XP_MAP_BUDGET_H */
