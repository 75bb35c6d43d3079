/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Copies of frames that outlive the AF_XDP memory: for the inbox and the delay queue. */
#ifndef XD_FRAME_H
#define XD_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/gid.h>

#include "daemon/transport/transport.h"

/* A frame in one segment */
struct xd_frame_copy {
	uint32_t len;
	struct xr_meta meta;
	struct xt_inject inject, refusal;
	bool self, guessed_id;
	uint8_t bytes[XT_MAX_FRAME];
};

/* Copies bytes and metadata. The frame must not be longer than XT_MAX_FRAME. */
void xd_frame_copy(struct xd_frame_copy *to, const struct xt_frame *from);
/* Returns a frame that refers to the copy's bytes. */
struct xt_frame xd_frame_of(struct xd_frame_copy *copy);
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
/* Copies bytes into the segments of a frame of the same length. */
void xd_frame_fill(const struct xt_frame *to, const uint8_t *bytes);

#endif /* XD_FRAME_H */
