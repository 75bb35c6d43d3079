/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Slots: sockets of the group of port 4791 that are lent to programs, which send and receive
 * packets themselves. The daemon keeps all of them open, because the kernel moves the last socket
 * of a group to the place of one that is closed.
 *
 * A program that may not have the socket itself gets the use of it by a restricted io_uring, which
 * it can keep as long as it likes. So its socket is replaced by a new one when the loan ends.
 *
 * A slot that is not lent gets no packets: those to its QPNs go to the first worker, which counts
 * and answers them as packets to QPs that do not exist.
 */
#ifndef XD_UDP_LEND_H
#define XD_UDP_LEND_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "udp.h"

enum xd_udp_slot_state {
	XD_UDP_SLOT_FREE,
	XD_UDP_SLOT_LENT,
	XD_UDP_SLOT_ENDED, /* to be cleaned */
	XD_UDP_SLOT_RETIRED,
};

struct xd_udp_slot {
	int fd;
	uint32_t state; /* enum xd_udp_slot_state; atomic */
	bool ring;	/* it is lent to be used by an io_uring, or was last */
	bool plain;	/* somebody has had the socket itself, and may still have it */
};

struct xd_udp_slots {
	bool ipv6;
	const char *ifname;
	struct xd_filter *filter; /* checks their packets; NULL: only their QPNs are checked */
	uint32_t workers;
	int steering_fd;	 /* socket of the first worker; -1: the device ends */
	uint32_t receive_buffer; /* bytes of each slot when it was opened, as the kernel counts */
	uint32_t count;
	uint32_t next; /* slot to be lent next: the one that has been free for the longest time */
	struct xd_helper *helper; /* replaces sockets; NULL: the device ends */
	pthread_mutex_t replaces; /* one at a time, see replace() */
	bool stuck;		  /* nobody knows whether the helper has replaced one */
	struct xd_udp_slot slot[XD_MAX_SLOTS];
};

/* Opens the sockets behind those of the workers. Fewer slots may result: logs that. */
void xd_udp_slots_open(struct xd_udp_slots *s, uint32_t count);
void xd_udp_slots_close(struct xd_udp_slots *s);
/* The device ends: the sockets of the workers, and the helper, are used no more. */
void xd_udp_slots_detach(struct xd_udp_slots *s);
/* Steers packets to the workers and to the slots that are lent. */
int xd_udp_slots_steer(const struct xd_udp_slots *s);
void xd_udp_slots_state(const struct xd_udp_slots *s, struct xd_slots_state *state);
/* As xd_io_lend(), xd_io_end_loan(), xd_io_clean_slot() */
int xd_udp_slots_lend(struct xd_udp_slots *s, bool ring, struct xd_loan *loan);
void xd_udp_slots_end(struct xd_udp_slots *s, uint32_t slot);
void xd_udp_slots_clean(struct xd_udp_slots *s, uint32_t slot);
void xd_udp_slots_receive_groups(struct xd_udp_slots *s, uint32_t slot, bool on);
/* As xd_io_publish_more() */
int xd_udp_slots_publish_more(const struct xd_udp_slots *s, uint32_t slot, uint32_t flags);

#endif /* XD_UDP_LEND_H */
