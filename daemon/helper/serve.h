/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The loop of the helper. A request that a program can delay gets a thread of its own, so that it
 * delays no other request. No received message is trusted.
 */
#ifndef XD_HELPER_SERVE_H
#define XD_HELPER_SERVE_H

#include <stdbool.h>

#include "protocol.h"
#include "solicit.h"

struct xd_served;

/* A socket that receives for a program with a ring */
struct xd_lent {
	int sock;      /* -1: none */
	uint32_t word; /* see enum xd_ring_use; atomic */
};

struct xd_serving {
	int sock; /* to the daemon */
	const char *ifname;
	struct xd_steer *steer; /* NULL: not requested, or the NIC cannot steer */
	int signals, spare, epoll;
	struct xd_solicitor solicitor;
	int disconnect;		/* socket for DREQs, or -errno */
	int taken[XD_TAKE_FDS]; /* all -1 until the daemon has started */
	struct xd_lent lent[XD_HELPER_SLOTS];
	struct xd_served *first; /* programs */
	unsigned int programs;	 /* that have a ticket */
};

/*
 * sock: to the daemon, whose end is seen by it. If a thread of the daemon hangs in the kernel, the
 * socket stays open: then the end is seen by SIGUSR1, which the caller must have blocked. ifname:
 * the interface that the daemon serves. Returns 0 or -errno.
 */
int xd_serving_open(struct xd_serving *s, int sock, const char *ifname);
/* Waits for an event and handles it. Returns false if the daemon has ended. */
bool xd_serving_step(struct xd_serving *s, int timeout_ms);

struct xd_places {
	const char *socket, *lock, *pins;
};
/*
 * Undoes the steering, removes what the daemon has created in file systems, and gives up the locks.
 * The files only after TAKE: until then the daemon has its privileges and removes them.
 */
void xd_serving_clean_up(struct xd_serving *s, const struct xd_places *places);

#endif /* XD_HELPER_SERVE_H */
