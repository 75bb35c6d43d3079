/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Protects the daemon against SIGBUS in memory that it shares with clients, which a client can
 * free: a page beyond the end of a file, or an absent page that must not be allocated. Accesses to
 * regions fail (transport/guard.h). Rings are added here: the handler replaces the whole mapping by
 * anonymous memory and sets the mapping's flag.
 */
#ifndef XD_SIGBUS_H
#define XD_SIGBUS_H

#include <stdbool.h>
#include <stdint.h>

/* Installs the handler of the process. */
int xd_sigbus_start(void);
/*
 * Adds a mapping; *broken is set when its pages were lost. *slot is for xd_sigbus_del().
 * Returns -ENOSPC if the table is full. Any thread.
 */
int xd_sigbus_add(void *start, uint64_t length, bool *broken, uint32_t *slot);
void xd_sigbus_del(uint32_t slot);

#endif /* XD_SIGBUS_H */
