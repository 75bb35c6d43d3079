/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packet capture: the filter of XR_MSG_CAPTURE (control.h), and the rings that the daemon writes
 * packets to.
 *
 * The memory of a capture has a struct xr_capture_ring for each ring, and the bytes of all rings,
 * ring_size each. Each worker writes a ring of its own; the last ring has the packets that the XDP
 * program has dropped. The packets of one ring are in the order of their times. Both indices count
 * bytes and are never reset; their low bits are the place in the ring. A record does not wrap: a
 * record of type XR_CAPTURE_PAD fills the rest of the ring.
 *
 * The daemon does not trust the client: it never reads what it has written, and a consumer index
 * out of range means that the ring is full.
 */
#ifndef XROCE_CAPTURE_H
#define XROCE_CAPTURE_H

#include <linux/types.h>

#include "gid.h"

/* Directions of packets: bits of xr_capture_filter, and xr_capture_record.type */
enum xr_capture_type {
	XR_CAPTURE_PAD = 0,
	XR_CAPTURE_RX = 1,	/* received through AF_XDP */
	XR_CAPTURE_TX = 2,	/* sent through AF_XDP */
	XR_CAPTURE_REFUSED = 4, /* dropped by the XDP program: the first bytes */
	XR_CAPTURE_LOCAL = 8,	/* within the device: what would have been sent */
};
#define XR_CAPTURE_ALL (XR_CAPTURE_RX | XR_CAPTURE_TX | XR_CAPTURE_REFUSED | XR_CAPTURE_LOCAL)

#define XR_CAPTURE_QPNS 16
#define XR_CAPTURE_PEERS 16
/* Packets that have one of the values of each field that is given. All zero: any packet. */
struct xr_capture_filter {
	__u32 types; /* enum xr_capture_type */
	__u32 qpns;  /* of qpn[] */
	__u32 peers; /* of peer[] */
	__u32 reserved;
	__u64 reasons;		    /* received and refused packets: 1 << enum xr_reason */
	__u64 opcodes[4];	    /* bit by opcode of the BTH */
	__u32 qpn[XR_CAPTURE_QPNS]; /* QPs of this device */
	struct xr_addr peer[XR_CAPTURE_PEERS];
};

enum xr_capture_event {
	XR_CAPTURE_RETRY, /* packets sent again, and timeouts */
	XR_CAPTURE_NAK,	  /* NAKs sent and received, RNR NAKs included */
	XR_CAPTURE_ERROR, /* completions with an error */
	XR_CAPTURE_DROP,  /* packets that were dropped */
	XR_CAPTURE_EVENTS,
};

struct xr_capture_ring {
	__u64 producer; /* bytes written; read with acquire */
	__u64 matched;	/* packets that the filter selected */
	__u64 lost;	/* those of them that the ring had no room for */
	/* Events since the daemon was started, whatever the filter: enum xr_capture_event */
	__u64 events[XR_CAPTURE_EVENTS];
	__u64 reserved[9];
	__u64 consumer; /* bytes read; written by the client, with release */
	__u64 reserved2[15];
};

struct xr_capture_record {
	__u32 size; /* of the record, header included; a multiple of 8 */
	__u16 type; /* enum xr_capture_type; XR_CAPTURE_PAD has no other fields */
	__u16 queue;
	__u64 time;	/* CLOCK_MONOTONIC, ns */
	__u32 captured; /* bytes behind this header */
	__u32 length;	/* of the packet, from the Ethernet header to the ICRC */
	__u32 qpn;	/* of this device's QP */
	__u16 lost;  /* packets that the ring had no room for since the record before, or 65535 */
	__u8 reason; /* received and refused packets: enum xr_reason */
	__u8 bth_off;
};

_Static_assert(sizeof(struct xr_capture_ring) == 256, "capture ring layout");
_Static_assert(sizeof(struct xr_capture_record) == 32, "capture record layout");

#endif /* XROCE_CAPTURE_H */
