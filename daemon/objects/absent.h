/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Clients whose mapped memory had absent pages.
 *
 * A worker that accesses a page in a hole that is being punched waits in the kernel until the hole
 * is punched (shmem_falloc_wait() in mm/shmem.c), before the userfaultfd is considered. Nothing in
 * user space can prevent or end this wait. So after the first absent page, the daemon uses no
 * mapping of that client's memory any more: the client's mover waits instead. The same holds for
 * all clients of its user, as one client could punch holes into the memory of another, and for
 * XD_UNMAPPED_NS for clients that the user starts later. The other clients of an operator are not
 * affected.
 */
#ifndef XD_ABSENT_H
#define XD_ABSENT_H

#include <stdbool.h>

struct xd_client;
struct xd_objects;

#define XD_UNMAPPED_NS 600000000000ull

/* Call xd_absent_stop() after an error, too. */
int xd_absent_start(struct xd_objects *o);
void xd_absent_stop(struct xd_objects *o);
/* For each new client, before its first region */
void xd_absent_init_client(struct xd_client *c);
/* Returns true if regions of the client must not be accessed by a mapping. */
bool xd_client_unmapped(const struct xd_client *c);

#endif /* XD_ABSENT_H */
