/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The UDP checksum of received frames. xroce itself sends 0: not computed. */
#ifndef XT_CHECKSUM_H
#define XT_CHECKSUM_H

#include <stdbool.h>

#include "transport.h"

/*
 * Returns true if the UDP checksum is 0 or right (RFC 768, 8200, 6936). It is also right if it is
 * the sum of the pseudo header only: a socket of this machine leaves the rest to the NIC
 * (CHECKSUM_PARTIAL), and a virtual interface such as veth has none. For frames that have passed
 * xt_icrc_ok(), which checks the offsets of the metadata.
 */
bool xt_udp_checksum_ok(const struct xt_frame *frame);

#endif /* XT_CHECKSUM_H */
