/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * In the helper: tells the peers of a daemon that has ended that their connections have. It can
 * send nothing but DREQs, and only on the interface of the daemon.
 */
#ifndef XD_DISCONNECT_H
#define XD_DISCONNECT_H

#include <stdint.h>

#include "dreqs.h"

/*
 * Opens the packet socket by which DREQs are sent. It receives nothing. Needs CAP_NET_RAW. Returns
 * -errno if there is none.
 */
int xd_disconnect_open(const char *ifname);
/* Sends DREQs for all connections of the list, each several times. Takes up to a second. */
void xd_disconnect_all(int sock, const struct xd_dreqs *list);

/* Length of the longest frame */
#define XD_DREQ_MAX 384
/* Builds the DREQ of a connection in a buffer of XD_DREQ_MAX bytes. Returns the length. */
uint32_t xd_disconnect_build(const struct xd_dreq *d, uint8_t *frame);

#endif /* XD_DISCONNECT_H */
