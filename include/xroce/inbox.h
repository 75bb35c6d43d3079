/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The inbox of a direct context: memory through which other direct contexts of the same device and
 * user send to it, in place of the kernel's sockets. It is a memfd of XR_INBOX_SIZE bytes, sealed
 * against other sizes, which goes with LEND (control.h); PEER gives it to the others.
 *
 * There is a ring for each slot of the device, which the context that has the slot writes. What a
 * ring carries is what a UDP socket would: messages, with the addresses of their IP headers. A ring
 * is closed while its reader may sleep until its socket is readable; messages go to the socket
 * then.
 *
 * Each side takes the other one for hostile: what it reads is checked before it is an index or a
 * length, and a reader passes on no more than any UDP socket could have sent to it.
 *
 * Byte order: that of the host. Words are atomic.
 */
#ifndef XR_INBOX_H
#define XR_INBOX_H

#include <linux/types.h>

#include <xroce/gid.h>

#define XR_INBOX_MAGIC 0x78494e42u
#define XR_INBOX_LAYOUT 3
#define XR_INBOX_RINGS 64
/*
 * Bytes of a ring, a power of two: some messages of the largest size. More would not stay in the
 * cache of a processor between writer and reader.
 */
#define XR_INBOX_RING (512u << 10)
/* Messages begin at multiples of this. */
#define XR_INBOX_ALIGN 64u

/* In the head of a ring: its reader may sleep. Only the reader changes it. */
#define XR_INBOX_CLOSED (1ull << 63)

/* Positions count all bytes ever written; their place in the ring is the rest by its size. */
struct xr_inbox_ring {
	__u64 head; /* end of what was written, and XR_INBOX_CLOSED. Written by compare-and-swap */
	__u8 pad[56];
	__u64 tail; /* end of what the reader has done with */
	__u8 pad2[56];
};

struct xr_inbox {
	__u32 magic, layout;
	__u8 pad[56];
	/*
	 * Bits by slot. attached: rings that have a writer. ready: rings that may have messages: a
	 * writer sets it after the head, the reader clears it before it looks at the head again.
	 */
	__u64 attached, ready;
	__u8 pad2[48];
	struct xr_inbox_ring ring[XR_INBOX_RINGS];
};

/* Before the bytes of a message, which are those behind the UDP headers of its packets */
struct xr_inbox_message {
	__u32 len;  /* of these bytes; XR_INBOX_SKIP: the next message begins the ring again */
	__u32 size; /* of each packet in them but the last, which may be shorter */
	struct xr_addr src, dst; /* as GIDs */
	__u16 sport;		 /* UDP source port */
	__u8 traffic_class, ttl;
	__u32 flags; /* XR_INBOX_* */
	/*
	 * More than one: the message is a large frame (transport.h), which stands for so many
	 * packets of one QP. It has the headers of the first one, `size` bytes of payload for each,
	 * and room for an ICRC. XR_INBOX_UNSEALED is set.
	 */
	__u32 packets;
	__u8 reserved[12];
};

#define XR_INBOX_LARGE 15 /* packets of a large frame, at most */

/* The writer has sent to the socket since its last message: that precedes this one. */
#define XR_INBOX_AFTER_SOCKET 1u
/* The ICRC of the packets was not computed: the last four bytes of each may be anything. */
#define XR_INBOX_UNSEALED 2u

#define XR_INBOX_SKIP 0xffffffffu
/* The rings begin behind struct xr_inbox, on the next page of 16 KiB, in the order of the slots. */
#define XR_INBOX_RINGS_OFF 16384u
#define XR_INBOX_SIZE (XR_INBOX_RINGS_OFF + (__u64)XR_INBOX_RINGS * XR_INBOX_RING)

#endif /* XR_INBOX_H */
