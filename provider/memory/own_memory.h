/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * /proc/self/mem, by which the daemon reads and writes memory of the private tier. It belongs to
 * root while the process is not dumpable: after a change of its user IDs, until it calls exec, or
 * after PR_SET_DUMPABLE 0. A program without privileges cannot open it then.
 *
 * So the interposed functions that change this open it before they do. The descriptor is kept until
 * the process calls exec; a child made by fork() closes it, as it would give the child access to
 * the memory of its parent. Making the process dumpable for a moment would need no descriptor, but
 * any other process of the user could attach to it in that moment.
 */
#ifndef XP_OWN_MEMORY_H
#define XP_OWN_MEMORY_H

/* Returns a descriptor, to be closed by the caller, or -errno. */
int xp_own_memory_open(void);
/* To be called before the process may lose the right to open it. Keeps errno. */
void xp_own_memory_keep(void);

#endif /* XP_OWN_MEMORY_H */
