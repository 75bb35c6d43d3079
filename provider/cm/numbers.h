/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Descriptor numbers of channels. The program's descriptor is an epoll set of the events of all
 * sources. So poll(), select(), epoll, O_NONBLOCK and fork() work as with the device file of the
 * kernel.
 *
 * The program can close a number without the knowledge of this library, by a system call of its
 * own, and reuse it. So every epoll set contains an anchor, a file of its own, and a number is
 * used only if it still is an epoll set with the channel's anchor.
 *
 * A file of umad is a channel as well, with one source. Its descriptor is the socket from which the
 * program reads MADs, and has a number that no other socket has (SO_COOKIE) instead of an anchor.
 */
#ifndef XP_CM_NUMBERS_H
#define XP_CM_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>

#include "provider/cm/ids.h"

#define XP_CM_LEAF_BITS 10
#define XP_CM_LEAVES 1024

/* Channels by number; a leaf is allocated with the first channel in it. Atomic. */
extern struct xp_cm_channel **xp_cm_leaves[XP_CM_LEAVES];

/*
 * Returns true if the number was one of a channel. For all other numbers of programs without
 * channels, this costs one load. Async-signal-safe.
 */
static inline bool xp_cm_is_marked(int fd)
{
	unsigned int leaf = (unsigned int)fd >> XP_CM_LEAF_BITS;
	struct xp_cm_channel **slots =
		leaf < XP_CM_LEAVES ? __atomic_load_n(&xp_cm_leaves[leaf], __ATOMIC_ACQUIRE) : NULL;

	return slots &&
	       __atomic_load_n(&slots[fd & ((1 << XP_CM_LEAF_BITS) - 1)], __ATOMIC_RELAXED);
}

/*
 * Returns the channel of a descriptor with a reference, or NULL if it is none. A child of vfork()
 * or clone() has no channels: it must not change the memory of its parent.
 */
struct xp_cm_channel *xp_cm_get(int fd);
void xp_cm_put(struct xp_cm_channel *ch);
/*
 * Locks and returns the channel after this one, or the first, that watch.c watches; NULL: there is
 * none. It gets no reference: it is closed as soon as its lock is free. Sets *busy if a channel was
 * left out that is locked.
 */
struct xp_cm_channel *xp_cm_lock_watched(const struct xp_cm_channel *after, bool *busy);
/* Returns true if fd is still a descriptor of the channel, to which the caller has a reference. */
bool xp_cm_is_number(struct xp_cm_channel *ch, int fd);
/* Takes the locks of both channels, which may be the same. */
void xp_cm_lock_both(struct xp_cm_channel *a, struct xp_cm_channel *b);

/* Returns SO_COOKIE of a socket, or 0. */
uint64_t xp_cm_cookie(int fd);

/*
 * Adds an anchor to the epoll set fd, a new descriptor, and makes it a number of the channel. That
 * of a file of umad needs no anchor. Returns 0 or -errno.
 */
int xp_cm_number_new(struct xp_cm_channel *ch, int fd);
/* fd has become a duplicate of a number of the channel. */
void xp_cm_number_add(struct xp_cm_channel *ch, int fd);
/* fd is about to be closed or replaced, or is not a descriptor of the channel any more. */
void xp_cm_number_remove(struct xp_cm_channel *ch, int fd);
/* The same for all numbers from first to last. */
void xp_cm_numbers_remove(unsigned int first, unsigned int last);

#endif /* XP_CM_NUMBERS_H */
