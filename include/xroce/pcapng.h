/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Blocks of pcapng files (draft-ietf-opsawg-pcapng), in the byte order of the host: what the daemon
 * writes to the rings of a capture (capture.h), and what `xroce capture` adds in the file.
 */
#ifndef XROCE_PCAPNG_H
#define XROCE_PCAPNG_H

#include <linux/types.h>
#include <string.h>

enum xr_pcapng_block {
	XR_PCAPNG_INTERFACE = 1,
	XR_PCAPNG_STATISTICS = 5,
	XR_PCAPNG_PACKET = 6,
	XR_PCAPNG_SECTION = 0x0a0d0d0a,
};

enum xr_pcapng_option {
	XR_PCAPNG_END = 0,
	XR_PCAPNG_COMMENT = 1,
	/* of a packet */
	XR_PCAPNG_FLAGS = 2,
	XR_PCAPNG_DROPCOUNT = 4,
	XR_PCAPNG_QUEUE = 6,
	XR_PCAPNG_VERDICT = 7,
	/* of a section */
	XR_PCAPNG_USERAPPL = 4,
	/* of an interface */
	XR_PCAPNG_NAME = 2,
	XR_PCAPNG_DESCRIPTION = 3,
	XR_PCAPNG_TSRESOL = 9,
	/* of statistics */
	XR_PCAPNG_STARTTIME = 2,
	XR_PCAPNG_ENDTIME = 3,
	XR_PCAPNG_IFRECV = 4,
	XR_PCAPNG_IFDROP = 5,
};

/* Low bits of the flags of a packet */
enum xr_pcapng_direction { XR_PCAPNG_IN = 1, XR_PCAPNG_OUT = 2 };

/* First byte of a verdict: an XDP action of 8 bytes follows */
#define XR_PCAPNG_VERDICT_XDP 2

/*
 * An Enhanced Packet Block: this head, the bytes of the packet, zeros up to a multiple of 4,
 * options, and the length of the block once more
 */
struct xr_pcapng_packet {
	__u32 type, length;
	__u32 interface;
	__u32 time_high, time_low;
	__u32 captured, original; /* bytes */
};

static inline __u32 xr_pcapng_padded(__u32 len)
{
	return (len + 3) & ~3u;
}

/* Bytes of a block, with so many bytes of the packet and of options */
static inline __u32 xr_pcapng_packet_len(__u32 captured, __u32 options)
{
	return (__u32)sizeof(struct xr_pcapng_packet) + xr_pcapng_padded(captured) + options + 4;
}

static inline __u64 xr_pcapng_time(const struct xr_pcapng_packet *p)
{
	return (__u64)p->time_high << 32 | p->time_low;
}

/* Writes an option and its padding; returns the place behind it. */
static inline __u8 *xr_pcapng_option(__u8 *at, enum xr_pcapng_option code, const void *value,
				     __u32 len)
{
	const __u16 head[2] = { (__u16)code, (__u16)len };

	memcpy(at, head, sizeof(head));
	at += sizeof(head);
	memset(at + (len & ~3u), 0, xr_pcapng_padded(len) - (len & ~3u));
	memcpy(at, value, len);
	return at + xr_pcapng_padded(len);
}

#endif /* XROCE_PCAPNG_H */
