/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The UDP checksum of received frames. xroce itself sends 0: not computed. */
#ifndef XT_CHECKSUM_H
#define XT_CHECKSUM_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/transport/transport.h"

/*
 * Returns the ones' complement sum of addresses, protocol and UDP length (RFC 768, RFC 8200 8.1),
 * not complemented, in the byte order of the packet.
 */
uint16_t xt_pseudo_header_sum(const uint8_t *ip, uint32_t udp_len);
/*
 * Returns true if the UDP checksum is 0 or right (RFC 768, 8200, 6936). It is also right if it is
 * the sum of the pseudo header only: a socket of this machine leaves the rest to the NIC
 * (CHECKSUM_PARTIAL), and a virtual interface such as veth has none. For frames that have passed
 * xt_icrc_ok(), which checks the offsets of the metadata.
 */
bool xt_udp_checksum_ok(const struct xt_frame *frame);

#endif /* XT_CHECKSUM_H */
