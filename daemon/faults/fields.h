/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Fields of the headers of a frame, which may be damaged: rules select packets by them. */
#ifndef XD_FAULTS_FIELDS_H
#define XD_FAULTS_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/gid.h>

#include "daemon/transport/transport.h"

/* Offsets of headers in a RoCE v2 frame, received or to be sent */
uint32_t xd_frame_ip(const struct xt_frame *frame);
uint32_t xd_frame_bth(const struct xt_frame *frame);
/* Returns the opcode of a frame's BTH. */
uint8_t xd_frame_opcode(const struct xt_frame *frame);
/* Returns true if the frame has this source or destination address. */
bool xd_frame_has_address(const struct xt_frame *frame, bool source, const struct xr_addr *addr);
/* Stores the low `width` bytes of a value at an offset, most significant byte first. */
void xd_frame_store(const struct xt_frame *frame, uint32_t off, uint32_t value, uint32_t width);
/* Returns the number in `width` bytes at an offset, most significant byte first. */
uint64_t xd_frame_load(const struct xt_frame *frame, uint32_t off, uint32_t width);
uint8_t xd_frame_ip_version(const struct xt_frame *frame);
/* Returns the offset of the MAD in a datagram. */
uint32_t xd_frame_mad(const struct xt_frame *frame);
/* Returns true for a packet to QP 1 with a MAD of connection management, received or to be sent. */
bool xd_frame_is_cm_mad(const struct xt_frame *frame);

#endif /* XD_FAULTS_FIELDS_H */
