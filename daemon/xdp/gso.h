/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whether an interface sends and receives GSO frames. docs/gso.md gives the reasons. */
#ifndef XD_GSO_H
#define XD_GSO_H

#include <stdbool.h>
#include <stdint.h>

struct xd_options;

/* The facts that the choice depends on */
struct xd_gso_facts {
	char driver[32]; /* as ethtool -i; empty: unknown */
	uint32_t rx_queues, tx_queues;
	uint32_t served; /* RX queues, see --queues */
	uint32_t workers;
	bool noqueue;	   /* the interface has no queueing discipline */
	bool multi_buffer; /* AF_XDP is multi-buffer */
	uint32_t kernel;   /* KERNEL_VERSION() */
};

struct xd_gso {
	bool send;
	bool send_all;	     /* packets that leave alone take the same way, to stay in order */
	bool prefer_generic; /* XDP should be in generic mode, in order to receive them */
	const char *why_not; /* reason why they are not sent; NULL if they are */
};

void xd_gso_read_facts(const char *ifname, bool noqueue, struct xd_gso_facts *facts);
struct xd_gso xd_gso_choose(const struct xd_options *opt, const struct xd_gso_facts *facts);

#endif /* XD_GSO_H */
