/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packet capture: the filter of XR_MSG_CAPTURE (control.h), and the rings that the daemon writes
 * packets to.
 *
 * The memory of a capture has a struct xr_capture_ring for each ring, and the bytes of all rings,
 * ring_size each. Each worker writes a ring of its own; the last ring has the packets that the XDP
 * program has dropped.
 *
 * A ring has Enhanced Packet Blocks of pcapng (draft-ietf-opsawg-pcapng), one behind the other, in
 * the byte order of the host, of interface 0, with times in ns of CLOCK_REALTIME that do not
 * decrease. So a reader copies many packets to a file at once, without a look at them.
 *
 * Indices count bytes and are never reset; their low bits are the place in the ring. A block does
 * not wrap: if the next one does not fit behind the index `skip`, no block is there, and it begins
 * at the start of the ring.
 *
 * With XR_CAPTURE_OVERWRITE, new blocks replace the oldest ones, and `consumer` is not used. The
 * client reads nothing until the capture has ended; the blocks begin at `oldest` then.
 *
 * The daemon does not trust the client: it never reads what it has written, and a consumer index
 * out of range means that the ring is full.
 *
 * A direct program writes a ring of the same kind for each capture, in its view (view.h). There, a
 * reader may believe nothing: it copies blocks, and checks the copies, before it uses them.
 */
#ifndef XROCE_CAPTURE_H
#define XROCE_CAPTURE_H

#include <linux/types.h>
#include <stddef.h>

#include "gid.h"

/* Directions of packets: bits of xr_capture_filter */
enum xr_capture_type {
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
	__u64 skip;   /* where the ring ended in front of the last block at its start; 0: nowhere */
	__u64 oldest; /* with XR_CAPTURE_OVERWRITE */
	__u32 ended;  /* 1: nothing is written any more; read with acquire */
	/* The last ring of the daemon: reports of direct contexts so far (CAPTURE_CONTEXT) */
	__u32 contexts;
	/* Of a direct program: the capture that the ring is for, 0: none; read with acquire */
	__u32 capture;
	__u32 reserved[11];
	__u64 consumer; /* bytes read; written by the client, with release */
	__u32 reader;	/* of a direct program's ring: the capture whose client has mapped it */
	__u32 reserved2[29];
};

/* The number that stands for the queue of packets of direct programs, which have none */
#define XR_CAPTURE_DIRECT 0xffffu
/* Captures at a time */
#define XR_CAPTURE_MAX 8
#define XR_CAPTURE_RING_MIN (64u << 10)
/* In the comments of packets of XR_CAPTURE_LOCAL only */
#define XR_CAPTURE_WITHIN ", within the host"
/* Most bytes that are recorded of a packet: more than any has */
#define XR_CAPTURE_PACKET_MAX 8192u

_Static_assert(sizeof(struct xr_capture_ring) == 256, "capture ring layout");
_Static_assert(offsetof(struct xr_capture_ring, consumer) == 128, "capture ring layout");

#endif /* XROCE_CAPTURE_H */
