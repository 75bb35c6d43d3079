/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Steers RoCE v2 to the first RX queues of an interface, if not all are served: by ntuple rules for
 * UDP port 4791, else by the RSS indirection table, which steers all traffic. Few drivers have
 * neither; veth is one.
 */
#ifndef XD_STEER_H
#define XD_STEER_H

#include <stdint.h>

struct xd_steer;

/* Runs an ethtool command (<linux/ethtool.h>). Returns 0 or -errno. */
int xd_ethtool(const char *ifname, void *cmd);

/* Returns the numbers of RX and TX queues, 1 if the driver does not report them. */
void xd_count_queues(const char *ifname, uint32_t *rx, uint32_t *tx);

/*
 * Steers to the queues 0 to served - 1. Returns 0, or -errno if the driver can do neither. Needs
 * CAP_NET_ADMIN.
 */
int xd_steer_start(const char *ifname, unsigned int served, struct xd_steer **steer);
/* Returns the means in use, as text. */
const char *xd_steer_means(const struct xd_steer *s);
/* Removes the rules, or restores the table unless somebody else has changed it. NULL allowed. */
void xd_steer_stop(struct xd_steer *s);

#endif /* XD_STEER_H */
