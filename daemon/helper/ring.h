/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * In the helper: sockets that a program uses by an io_uring of its own, without having them. The
 * io_uring is restricted, so it can do nothing to a socket but send and receive.
 */
#ifndef XD_HELPER_RING_H
#define XD_HELPER_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "execute.h"
#include "protocol.h"

/*
 * Whether the sockets of a loan can be in use, in the lowest bits of a word; the others count the
 * loans of the slot, so that a thread of an earlier one finds that its loan has ended.
 */
enum xd_ring_use { XD_RING_UNUSED, XD_RING_USED, XD_RING_CANCELLED, XD_RING_LOAN };

/* The word of the next loan of a slot */
static inline uint32_t xd_ring_next(uint32_t word)
{
	return (word | XD_RING_LOAN) + 1 + XD_RING_UNUSED;
}
/* Returns true if the loan with that word, of which no socket was used, has the new use now. */
bool xd_ring_set_use(uint32_t *word, uint32_t loan, enum xd_ring_use use);

/*
 * Gives the use of `files` by the io_uring that descriptor `ring` of the program is. The program
 * can let this wait without end, and cannot be stopped then: it is for a thread that holds nothing
 * else (xd_ring_keep_only()). Sets the use of the loan before the io_uring gets the files.
 * -ECANCELED: the loan has ended. Returns 0, or -errno and the step that failed.
 */
struct xd_ring_loan {
	uint32_t ring;
	const int *files;
	uint32_t n;
	uint32_t *word, loan;
};
int xd_ring_give(const struct xd_helper_peer *p, const struct xd_ring_loan *l,
		 enum xd_ring_step *step);
/* Gives this thread descriptors of its own, and closes all but those, of which there are n. */
int xd_ring_unshare(void);
void xd_ring_keep_only(int *fds, uint32_t n);

/* Takes a socket out of the group of its port, and away from its interface: it gets no packets. */
int xd_ring_retire(int sock);

#endif /* XD_HELPER_RING_H */
