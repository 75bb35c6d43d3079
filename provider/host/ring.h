/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An io_uring by which a context uses sockets that the daemon does not give to its user. The
 * program makes it, disabled; the daemon restricts it to sending and receiving, and puts the
 * sockets into it (XR_LEND_RING). It could wait for packets, but a completion would interrupt the
 * thread that began to wait, wherever that is then: an epoll set of the daemon becomes readable.
 *
 * Not for several threads at once. No operation waits, so the kernel completes all of them before
 * it returns.
 */
#ifndef XP_HOST_RING_H
#define XP_HOST_RING_H

#include "daemon/udp/calls.h"

struct xp_ring;

/* Returns its descriptor, or -errno. */
int xp_ring_new(struct xp_ring **ring);
void xp_ring_free(struct xp_ring *r); /* NULL allowed */
/* Makes the kernel free the sockets. The descriptor keeps its number: `nothing` has it then. */
void xp_ring_give_back(struct xp_ring *r, int nothing);

/* Sockets of a ring, for struct xd_udp; the argument is the ring, which close() frees. */
extern const struct xd_udp_calls xp_ring_calls;

#endif /* XP_HOST_RING_H */
