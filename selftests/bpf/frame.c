// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <string.h>

#include <linux/if_ether.h>
#include <netinet/in.h>

#include "frame.h"
#include "selftests/lib/ipv4.h"
#include "tables.h"

struct op_info {
	uint16_t flags;
	uint8_t classes;
};

static const struct op_info operations[XR_OP_COUNT] = {
#define X(op, flags, classes) [XR_OP_##op] = { flags, classes },
	XR_OPERATIONS(X)
#undef X
};

uint16_t opcode_flags(uint8_t opcode)
{
	const struct op_info *op = &operations[opcode & ~XR_CLASS_MASK];

	if (opcode == XR_OPCODE_CNP)
		return XR_OPF_PAYLOAD | XR_OPF_START | XR_OPF_END;
	switch (opcode & XR_CLASS_MASK) {
	case XR_CLASS_RC:
		return op->classes & XR_IN_RC ? op->flags : 0;
	case XR_CLASS_UC:
		return op->classes & XR_IN_UC ? op->flags : 0;
	case XR_CLASS_UD:
		return op->classes & XR_IN_UD ? op->flags | XR_EXT_DETH : 0;
	case XR_CLASS_XRC:
		if (!(op->classes & XR_IN_XRC))
			return 0;
		return op->flags | (op->flags & XR_OPF_REQUEST ? XR_EXT_XRCETH : 0);
	default:
		return 0;
	}
}

/* Bytes of each extended header (IBTA 9.3), in the order of the XR_EXT_* bits */
static const uint8_t ext_bytes[] = { 4, 8, 4, 16, 28, 4, 8, 4, 4 };

unsigned ext_len_of(uint16_t flags)
{
	unsigned i, len = 0;

	for (i = 0; i < sizeof(ext_bytes); i++)
		if (flags & 1u << i)
			len += ext_bytes[i];
	return len;
}

/* ---- writing ------------------------------------------------------------------- */

static void put(struct frame *f, unsigned width, uint64_t value)
{
	while (width--)
		f->data[f->len++] = value >> (8 * width);
}

static void put_bytes(struct frame *f, const void *bytes, unsigned len)
{
	memcpy(f->data + f->len, bytes, len);
	f->len += len;
}

static void put_ethernet(struct frame *f, const struct spec *s)
{
	unsigned i;

	put(f, 6, 0x525400000002);
	put(f, 6, 0x525400000001);
	f->vlan = f->len;
	for (i = 0; i < s->tags; i++) {
		put(f, 2, i + 1 < s->tags ? ETH_P_8021AD : ETH_P_8021Q);
		put(f, 2, 100 + i);
	}
	put(f, 2, s->v6 ? ETH_P_IPV6 : ETH_P_IP);
}

static void put_ipv4(struct frame *f, unsigned ip_len)
{
	put(f, 2, 0x4500);
	put(f, 2, ip_len + 20);
	put(f, 2, 0xf8b3);
	put(f, 2, 0x4000);
	put(f, 2, 64 << 8 | IPPROTO_UDP);
	put(f, 2, 0);
	put_bytes(f, peer4, 4);
	put_bytes(f, local4, 4);
}

static void put_ipv6(struct frame *f, unsigned ip_len)
{
	put(f, 4, 0x60012345);
	put(f, 2, ip_len);
	put(f, 2, IPPROTO_UDP << 8 | 64);
	put_bytes(f, peer6, 16);
	put_bytes(f, local6, 16);
}

static void put_ext(struct frame *f, const struct spec *s, uint16_t flags)
{
	uint64_t va = test_key_va(s->key) + (uint64_t)s->va_off;
	uint32_t rkey = test_rkey(s->key) ^ s->key_xor;
	int64_t len = s->dma_len ? s->dma_len : 64;

	if (flags & XR_EXT_XRCETH)
		put(f, 4, 0x000042);
	if (flags & XR_EXT_DETH) {
		put(f, 4, TEST_QKEY ^ s->qkey_xor);
		put(f, 4, 0x000033);
	}
	if (flags & XR_EXT_FETH)
		put(f, 4, XR_FLUSH_GLOBAL ^ s->feth_xor);
	if (flags & XR_EXT_RETH) {
		put(f, 8, va);
		put(f, 4, rkey);
		put(f, 4, len == EMPTY ? 0 : len);
	}
	if (flags & XR_EXT_ATOMICETH) {
		put(f, 8, va);
		put(f, 4, rkey);
		put(f, 8, 1);
		put(f, 8, 2);
	}
	if (flags & XR_EXT_AETH)
		put(f, 4, 0x1f000001);
	if (flags & XR_EXT_ATOMICACKETH)
		put(f, 8, 3);
	if (flags & XR_EXT_IMMDT)
		put(f, 4, 0x01020304);
	if (flags & XR_EXT_IETH)
		put(f, 4, rkey);
}

/* ---- defaults of a valid packet ------------------------------------------------- */

static enum test_qp usual_qp(uint8_t opcode, uint16_t flags, bool v6)
{
	switch (opcode & XR_CLASS_MASK) {
	case XR_CLASS_UC:
		return v6 ? QP_UC6 : QP_UC4;
	case XR_CLASS_UD:
		return v6 ? QP_UD6 : QP_UD4;
	case XR_CLASS_XRC:
		if (flags & XR_OPF_RESPONSE)
			return v6 ? QP_XRC_SEND6 : QP_XRC_SEND4;
		return v6 ? QP_XRC_RECV6 : QP_XRC_RECV4;
	default:
		return v6 ? QP_RC6 : QP_RC4;
	}
}

static unsigned usual_payload(uint8_t opcode, uint16_t flags)
{
	if (opcode == XR_OPCODE_CNP)
		return 16;
	if ((opcode & ~XR_CLASS_MASK) == XR_OP_ATOMIC_WRITE)
		return XR_ATOMIC_LEN;
	if (!(flags & XR_OPF_PAYLOAD))
		return 0;
	return flags & XR_OPF_FULL_MTU ? TEST_MTU : 64;
}

static void apply(struct frame *f, const struct patch *p)
{
	const unsigned at[] = {
		[AT_ETH] = 0,	   [AT_VLAN] = f->vlan, [AT_IP] = f->ip,
		[AT_UDP] = f->udp, [AT_BTH] = f->bth,	[AT_EXT] = f->ext,
	};
	unsigned i;

	for (i = 0; i < p->width; i++)
		f->data[at[p->at] + p->off + i] = p->value >> (8 * (p->width - 1 - i));
}

static bool patches_ipv4_checksum(const struct spec *s)
{
	bool found = false;
	unsigned i;

	for (i = 0; i < 3; i++)
		found |= s->patch[i].width && s->patch[i].at == AT_IP && s->patch[i].off == 10;
	return found;
}

void frame_build(const struct spec *s, struct frame *f)
{
	uint8_t opcode = s->opcode_set ? s->opcode : RC(SEND_ONLY);
	uint16_t flags = opcode_flags(opcode);
	unsigned ext = ext_len_of(flags), payload, udp_len;
	uint32_t psn = (TEST_PSN + s->psn_off) & XR_PSN_MASK;
	unsigned i;

	if (s->payload)
		payload = s->payload == EMPTY ? 0 : s->payload;
	else
		payload = usual_payload(opcode, flags);
	udp_len = 8 + 12 + ext + payload + s->pad + XR_ICRC_LEN - s->short_by;
	memset(f, 0, sizeof(*f));
	f->opcode = opcode;
	f->ip_version = s->v6 ? 6 : 4;
	f->qpn = test_qpn(s->qp ? (enum test_qp)s->qp : usual_qp(opcode, flags, s->v6));

	put_ethernet(f, s);
	f->ip = f->len;
	if (s->v6)
		put_ipv6(f, udp_len + s->ip_len_delta);
	else
		put_ipv4(f, udp_len + s->ip_len_delta);
	f->udp = f->len;
	put(f, 2, 0xc123);
	put(f, 2, XR_UDP_PORT);
	put(f, 2, udp_len + s->udp_len_delta);
	put(f, 2, 0);
	f->bth = f->len;
	put(f, 1, opcode);
	put(f, 1, XR_BTH_MIGREQ | s->pad << XR_BTH_PAD_SHIFT);
	put(f, 2, XR_DEFAULT_PKEY ^ s->pkey_xor);
	put(f, 4, f->qpn);
	put(f, 4, psn);
	f->ext = f->len;
	put_ext(f, s, flags);
	f->payload = f->len;
	f->payload_len = payload;
	for (i = 0; i < payload; i++)
		put(f, 1, i);
	put(f, s->pad, 0);
	put(f, XR_ICRC_LEN, 0xdeadbeef); /* not checked by the XDP program */

	for (i = 0; i < 3; i++)
		apply(f, &s->patch[i]);
	if (!s->v6 && !patches_ipv4_checksum(s))
		ipv4_seal(f->data + f->ip);
	f->qpn = f->data[f->bth + 5] << 16 | f->data[f->bth + 6] << 8 | f->data[f->bth + 7];
	f->len -= s->short_by;
	if (s->padded_to && (unsigned)s->padded_to > f->len) {
		memset(f->data + f->len, 0, s->padded_to - f->len);
		f->len = s->padded_to;
	}
	if (s->cut_to)
		f->len = s->cut_to;
}
