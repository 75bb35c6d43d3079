/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Frames, seen as bytes: what an opcode means, where the headers of a frame
 * are, and its ICRC. xt_parse() and xt_icrc_ok() are in transport.h.
 */
#ifndef XT_WIRE_H
#define XT_WIRE_H

#include <stdint.h>

#include "transport.h"

#define XT_ETH_LEN 14u
#define XT_VLAN_LEN 4u
#define XT_IPV4_LEN 20u
#define XT_IPV6_LEN 40u
#define XT_UDP_LEN 8u
#define XT_BTH_LEN 12u
#define XT_CNP_PAYLOAD 16u /* reserved, zero: IBTA A17.9.3 */

/*
 * What each of the 256 opcodes is: XR_OPF_* | XR_EXT_*, also the DETH and
 * XRCETH that its class adds. 0: unknown. A CNP is neither request nor response.
 */
extern const uint16_t xt_opcode_flags[256];

static inline uint16_t xt_flags_of(uint8_t opcode)
{
	return xt_opcode_flags[opcode];
}

/* Bytes of all extended headers that flags (XR_EXT_*) name. */
unsigned xt_ext_len(uint16_t flags);
/* Bytes from the start of the BTH to one extended header of an opcode that has it. */
unsigned xt_ext_off(uint16_t flags, uint16_t ext);

/* The BTH's bytes: frames need not be aligned for a struct xr_bth. */
static inline const uint8_t *xt_bth(const struct xt_frame *frame)
{
	return frame->seg[0].data + frame->meta.bth_off;
}

static inline unsigned xt_pad_count(const uint8_t *bth)
{
	return (bth[1] & XR_BTH_PAD_MASK) >> XR_BTH_PAD_SHIFT;
}

/*
 * The ICRC of a whole frame: pieces from the Ethernet header to the ICRC itself, whose place, the
 * last 4 bytes, is not covered. The first piece holds all headers up to the BTH. The value is the
 * one to be stored little-endian. IBTA 7.8.1, A17.3.3.
 */
uint32_t xt_icrc(const struct xt_seg *seg, unsigned nseg, unsigned ip_off, unsigned bth_off);
/* The same, put in its place. */
void xt_icrc_seal(const struct xt_seg *seg, unsigned nseg, unsigned ip_off, unsigned bth_off);

#endif /* XT_WIRE_H */
