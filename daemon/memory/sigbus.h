/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Protects the daemon against SIGBUS in memory that it shares with clients: a client can truncate
 * the file behind a mapping, and the next access to a page without backing raises the signal.
 * The handler replaces the whole mapping by anonymous memory and sets the mapping's flag.
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
