/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The helper: a process that accepts connections, and does what needs a capability after the
 * daemon's start (protocol.h). It also removes what the daemon leaves in file systems, since the
 * daemon's user may not, and a daemon that crashes cannot. For the same reason it tells the peers
 * of rdma_cm that their connections have ended.
 */
#ifndef XD_HELPER_H
#define XD_HELPER_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol.h"

struct xd_dreqs;
struct xd_helper;
struct xd_options;

/* Forks the helper. To be called with all privileges and before there are threads. */
int xd_helper_start(const struct xd_options *opt, struct xd_helper **helper);
/*
 * Hands over the listening socket, the locks of the name and of the directory of pinned maps. The
 * helper holds the locks until it has removed socket, lock file and pins.
 */
int xd_helper_take(struct xd_helper *h, int listen_fd, int lock_fd, int pins_fd);
/*
 * Steers RoCE to the first `served` of so many RX queues until the daemon ends, as packets that
 * arrive at the others are dropped. Before xd_helper_take(). The helper logs the result.
 */
void xd_helper_steer(struct xd_helper *h, uint32_t served, uint32_t queues);
/*
 * Makes the helper clean up, and waits until it has. Then the helper sends the DREQs, and ends.
 * NULL allowed.
 */
void xd_helper_stop(struct xd_helper *h);
/*
 * The connections for which the helper sends DREQs when the daemon has ended. The caller frees the
 * list, after it has stopped the helper and does not use the list any more.
 */
struct xd_dreqs *xd_helper_dreqs(const struct xd_helper *h);

/* Readable if a program has connected. */
int xd_helper_fd(const struct xd_helper *h);
/*
 * Returns 0 and the next connection with its ticket; -EMFILE if there were too few descriptors;
 * -EAGAIN; -EPIPE if the helper has ended. After -EMFILE, *connection is a connection to refuse, or
 * -1.
 */
int xd_helper_accept(struct xd_helper *h, int *connection, int *ticket);
/*
 * Makes the kernel resolve a neighbour. addr: 4 or 16 bytes in network order. mac: of the other
 * interface of this host that has the address; NULL: there is none
 */
void xd_helper_solicit(struct xd_helper *h, uint32_t ifindex, int family, const uint8_t *addr,
		       const uint8_t *mac);

/*
 * Sets the receive buffer of a UDP socket to a size beyond net.core.rmem_max, some instants later.
 * Nothing is done if the helper has not got CAP_NET_ADMIN.
 */
void xd_helper_enlarge(struct xd_helper *h, int udp_socket, uint32_t bytes);

/*
 * Requests by a ticket; one at a time for each ticket. They block as long as the program blocks the
 * helper, until the ticket is shut down. Return a descriptor or -errno.
 */
struct xd_mapped {
	uint64_t start, end, dev, inode;
};
/* -EINVAL: the file is not on tmpfs or hugetlbfs; -EACCES: the program may not open it. */
int xd_helper_open_mapped(int ticket, const struct xd_mapped *m, bool write);
/*
 * Restricts the io_uring of a program to sending and receiving, registers sockets as its fixed
 * files in this order, and enables it. The first one receives. After an error, *step says which
 * step failed, and the sockets may be in use for all that. So xd_helper_replace() has to follow a
 * call in any case, before the slot is lent again. Returns 0 or -errno.
 */
int xd_helper_ring(int ticket, uint32_t ring, uint32_t slot, const int *fds, uint32_t n,
		   enum xd_ring_step *step);

/*
 * Takes the socket that received for a slot out of the group of its port, for good, whoever uses
 * it: the last one of the group has its place then. -ENOENT: no program has got that socket, so it
 * remains. Any thread, but one at a time. Waits some seconds for the helper at most.
 */
int xd_helper_replace(struct xd_helper *h, uint32_t slot);

#endif /* XD_HELPER_H */
