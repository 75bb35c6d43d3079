/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Messages between direct contexts of one host through shared memory, see include/xroce/inbox.h:
 * the context's own inbox (inbox.c), and those of its peers (peers.c).
 */
#ifndef XP_HOST_INBOX_H
#define XP_HOST_INBOX_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/inbox.h>

#include "daemon/udp/udp.h"

struct xp_host;

struct xp_inbox {
	struct xr_inbox *m;	       /* NULL: there is none */
	uint64_t open, broken;	       /* bits by ring */
	uint64_t tail[XR_INBOX_RINGS]; /* the reader's own, which writers cannot change */
	__u64 taken;		       /* rings whose messages were received last, by bit */
	uint32_t first;		       /* ring that is looked at first */
};

/* The ring in the inbox of a peer that this context writes */
struct xp_peer {
	struct xr_inbox *m; /* NULL: none */
	struct xr_inbox_ring *ring;
	uint8_t *data;
	uint64_t own_bit; /* of the ring, in `attached` and `ready` */
	uint64_t inode;	  /* of the inbox */
	bool used_socket; /* since the last message to the inbox */
	uint64_t full_at; /* time when the ring was found full; 0: it was not */
};

struct xp_nearby {
	struct xd_udp_nearby way; /* first */
	struct xp_host *h;
	struct xp_inbox inbox;
	struct xr_addr own; /* address of the device that was found last */
	uint64_t peers;	    /* bits by slot */
	struct xp_peer peer[XR_INBOX_RINGS];
};

/* ---- inbox.c ---- */

/* Returns a memfd for LEND, or -errno. */
int xp_inbox_new(void);
/* Maps it. Without memory the context has no inbox. */
void xp_inbox_map(struct xp_inbox *inbox, int fd);
void xp_inbox_unmap(struct xp_inbox *inbox);
/* Peers may write, as this context looks soon. Between rounds of the engine, as those below */
void xp_inbox_open(struct xp_inbox *inbox);
/* Peers use the sockets from now on. What they have written before is to be received. */
void xp_inbox_close(struct xp_inbox *inbox);
/* As receive() of struct xd_udp_nearby */
uint32_t xp_inbox_receive(struct xp_inbox *inbox, bool emptied, struct xd_udp_about *about,
			  struct iovec *data, uint32_t max, bool *behind);
/* Returns true if there may be more. */
bool xp_inbox_pending(const struct xp_inbox *inbox);

/* ---- peers.c ---- */

void xp_nearby_init(struct xp_host *h);
void xp_nearby_free(struct xp_host *h);
/* Finds the context of this host that has a QPN: packets to it go to its inbox. In call() */
void xp_peer_find(struct xp_host *h, uint32_t qpn);

#endif /* XP_HOST_INBOX_H */
