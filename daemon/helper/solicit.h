/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* In the helper: makes the kernel resolve a neighbour, which needs CAP_NET_ADMIN. */
#ifndef XD_SOLICIT_H
#define XD_SOLICIT_H

#include "protocol.h"

/* Returns a netlink socket or -errno. */
int xd_solicit_open(void);
/* Resolves a neighbour (ARP, NDP) as if there were a packet to send. */
void xd_solicit(int sock, const struct xd_helper_request *r);

#endif /* XD_SOLICIT_H */
