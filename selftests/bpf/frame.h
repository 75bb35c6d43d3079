/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Frames for the XDP tests, from a few named fields. What a spec does not name
 * is as a well-behaved peer of the fixture's QPs would send it (fixture.h).
 */
#ifndef TEST_FRAME_H
#define TEST_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/tables.h>
#include <xroce/opcode.h>

#define FRAME_MAX 9216
#define EMPTY (-1) /* .payload, .dma_len: none, where 0 means the usual */

/* Opcodes: class and operation */
#define RC(op) (XR_CLASS_RC | XR_OP_##op)
#define UC(op) (XR_CLASS_UC | XR_OP_##op)
#define UD(op) (XR_CLASS_UD | XR_OP_##op)
#define XRC(op) (XR_CLASS_XRC | XR_OP_##op)

enum layer { AT_ETH, AT_VLAN, AT_IP, AT_UDP, AT_BTH, AT_EXT };

/* Overwrites `width` bytes, big endian, `off` bytes into a header. width 0: none */
struct patch {
	enum layer at;
	uint16_t off;
	uint8_t width;
	uint64_t value;
};

struct spec {
	/* network */
	bool v6;
	uint8_t tags; /* VLAN tags, the outer of two is 0x88a8 */
	struct patch patch[3];
	int ip_len_delta; /* added to what would be right */
	int udp_len_delta;
	int short_by;  /* bytes taken from the end, lengths adjusted */
	int cut_to;    /* frame cut to so many bytes, lengths as they were */
	int padded_to; /* frame grown by zero bytes, as Ethernet pads short ones */
	/* transport */
	bool opcode_set; /* opcode 0 is SEND_FIRST and must be asked for */
	uint8_t opcode;	 /* else RC SEND_ONLY */
	int payload;	 /* bytes; 0: one MTU for FIRST and MIDDLE, else 64 */
	uint8_t pad;
	int qp;		 /* enum test_qp; 0: by class and IP version */
	int key;	 /* enum test_key; 0: KEY_FULL */
	int32_t psn_off; /* from the usual next one */
	uint16_t pkey_xor;
	uint32_t qkey_xor;
	uint32_t key_xor;
	int64_t va_off;	 /* from the first address of the key */
	int64_t dma_len; /* 0: 64 */
};

#define OP(o) .opcode_set = true, .opcode = (o)

struct frame {
	uint8_t data[FRAME_MAX];
	uint32_t len;
	uint32_t qpn;
	uint8_t opcode;
	uint8_t ip_version;
	/* offsets of headers, for expectations */
	uint16_t vlan, ip, udp, bth, ext, payload;
	uint16_t payload_len;
};

void frame_build(const struct spec *spec, struct frame *frame);

/* XR_OPF_* | XR_EXT_* of an opcode with all that its class adds; 0: unknown */
uint16_t opcode_flags(uint8_t opcode);
unsigned ext_len_of(uint16_t flags);

#endif /* TEST_FRAME_H */
