/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Divides received GSO frames into packets, as the kernel's UDP segmentation would
 * (__udp_gso_segment() in net/ipv4/udp_offload.c). docs/gso.md describes GSO frames.
 *
 * Only headers are copied. The XDP program has checked the first packet of a frame; of the others
 * the format and the destination QP are checked here, and the rest by the engine.
 */
#ifndef XD_GSO_SPLIT_H
#define XD_GSO_SPLIT_H

#include <stdint.h>

#include "daemon/transport/transport.h"

/* Packets of one frame; longer frames are dropped. */
#define XD_GSO_PACKETS 64
/* AF_XDP descriptors of one frame: 64 KiB in buffers of at least 3584 bytes */
#define XD_GSO_SEGS 19

/* A received GSO frame. meta: as written by the XDP program, not checked */
struct xd_gso_frame {
	struct xt_seg seg[XD_GSO_SEGS];
	uint32_t nseg;
	uint32_t len;
	struct xr_meta meta;
};

/* The headers of one packet */
struct xd_gso_headers {
	uint8_t bytes[XT_MAX_HEADERS];
};

/*
 * Returns the number of packets, 0 if the frame must be dropped: its lengths are wrong, or there
 * are more than XD_GSO_PACKETS.
 */
uint32_t xd_gso_count(const struct xd_gso_frame *frame);
/*
 * Divides a frame of `count` packets, not 0. Writes the headers to headers[0..count), the packets
 * to packets[]; they are valid as long as the headers and the frame. Returns the number of packets,
 * less than `count` if malformed packets, or such to other QPs, were left out.
 */
uint32_t xd_gso_split(const struct xd_gso_frame *frame, uint32_t count,
		      struct xd_gso_headers *headers, struct xt_frame *packets);

#endif /* XD_GSO_SPLIT_H */
