/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * In the helper: makes the kernel resolve a neighbour, which needs CAP_NET_ADMIN, and CAP_NET_RAW
 * for another interface of this host.
 */
#ifndef XD_SOLICIT_H
#define XD_SOLICIT_H

#include "protocol.h"

struct xd_solicitor {
	int netlink;
	int packet; /* -1: not permitted */
};

/* Returns 0 or -errno. */
int xd_solicit_open(struct xd_solicitor *s);
void xd_solicit_close(struct xd_solicitor *s);
/* Resolves a neighbour (ARP, NDP) as if there were a packet to send. */
void xd_solicit(const struct xd_solicitor *s, const struct xd_helper_request *r);

#endif /* XD_SOLICIT_H */
