/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Builds frames for the XDP tests from a few named fields. All other fields are those of a valid
 * packet from the peer of the fixture's QPs (fixture.h).
 */
#ifndef TEST_FRAME_H
#define TEST_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/tables.h>
#include <xroce/opcode.h>

#define FRAME_MAX 9216
#define EMPTY (-1) /* .payload, .dma_len: 0 bytes (0 selects the default) */

/* Opcodes: class and operation */
#define RC(op) (XR_CLASS_RC | XR_OP_##op)
#define UC(op) (XR_CLASS_UC | XR_OP_##op)
#define UD(op) (XR_CLASS_UD | XR_OP_##op)
#define XRC(op) (XR_CLASS_XRC | XR_OP_##op)

enum layer { AT_ETH, AT_VLAN, AT_IP, AT_UDP, AT_BTH, AT_EXT };

/* Overwrites `width` bytes of a header at `off` with a big-endian value. width 0: no patch */
struct patch {
	enum layer at;
	uint16_t off;
	uint8_t width;
	uint64_t value;
};

struct spec {
	/* network */
	bool v6;
	uint8_t tags; /* number of VLAN tags; the last has type 0x8100, the others 0x88a8 */
	struct patch patch[3]; /* the IPv4 checksum is computed afterwards unless patched */
	int ip_len_delta;      /* added to the correct IP length */
	int udp_len_delta;     /* added to the correct UDP length */
	int short_by;	       /* bytes removed from the end; lengths are adjusted */
	int cut_to;	       /* bytes to which the frame is cut; lengths are not adjusted */
	int padded_to;	       /* bytes to which zeros extend the frame, as Ethernet padding does */
	/* transport */
	bool opcode_set; /* use `opcode`, otherwise RC SEND_ONLY; set by OP() */
	uint8_t opcode;
	int payload; /* bytes; 0: one path MTU for FIRST and MIDDLE, otherwise 64 */
	uint8_t pad;
	int qp;		 /* enum test_qp; 0: chosen by class and IP version */
	int key;	 /* enum test_key; 0: KEY_FULL */
	int32_t psn_off; /* added to the expected PSN */
	uint16_t pkey_xor;
	uint32_t qkey_xor;
	uint32_t key_xor;
	int64_t va_off;	   /* added to the first address of the key */
	int64_t dma_len;   /* length in the RETH; 0: 64 */
	uint32_t feth_xor; /* XORed to the FETH of a range FLUSH to global visibility */
};

#define OP(o) .opcode_set = true, .opcode = (o)

struct frame {
	uint8_t data[FRAME_MAX];
	uint32_t len;
	uint32_t qpn;
	uint8_t opcode;
	uint8_t ip_version;
	/* offsets of headers, to compare with the metadata */
	uint16_t vlan, ip, udp, bth, ext, payload;
	uint16_t payload_len;
};

void frame_build(const struct spec *spec, struct frame *frame);

/*
 * Returns XR_OPF_* and XR_EXT_* of an opcode, 0 if it is unknown. Computed without the tables of
 * opcode.h, which the program uses.
 */
uint16_t opcode_flags(uint8_t opcode);
/* Returns the bytes of the extended headers in XR_EXT_* flags. */
unsigned ext_len_of(uint16_t flags);

#endif /* TEST_FRAME_H */
