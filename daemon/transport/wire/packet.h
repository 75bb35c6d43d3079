/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets: header templates, packets to be sent, received packets. */
#ifndef XT_PACKET_H
#define XT_PACKET_H

#include <endian.h>
#include <string.h>

#include "daemon/transport/transport.h"

struct xt_ah;

/* Ethernet, a VLAN tag, IPv6, UDP, BTH */
#define XT_TEMPLATE_LEN (14 + 4 + 40 + 8 + 12)
/* XRCETH and AtomicETH: the longest extended headers that are sent */
#define XT_MAX_EXT 32

/* The constant headers of a QP's packets, or of packets to an address handle */
struct xt_template {
	uint8_t bytes[XT_TEMPLATE_LEN];
	uint8_t len;
	uint8_t ip_off, bth_off;
	uint8_t ip_version;
	bool self;	 /* as in struct xt_path */
	uint32_t ip_sum; /* of the constant 16-bit words of an IPv4 header */
};

/* Payload of one packet, as a list of bytes in this process's memory */
struct xt_payload {
	uint32_t n;
	uint32_t len;
	bool passing; /* some is in a queue, or in a buffer until the engine does something else */
	struct xt_seg seg[XR_MAX_SGE];
};

/* A packet to be sent */
struct xt_packet {
	uint8_t opcode; /* enum xr_op; the QP's class is added */
	bool solicited, ackreq;
	uint32_t psn;
	uint32_t packets;	/* of a large frame, see struct xt_frame; 1: a packet */
	const struct xt_ah *ah; /* UD: destination; NULL: the QP's peer */
	uint32_t dqpn;		/* UD: destination QPN */
	uint32_t ext_len;
	uint8_t ext[XT_MAX_EXT]; /* extended headers, network byte order */
	struct xt_payload payload;
};

/* Field by field: an initializer would clear payload.seg, which is long. */
static inline void xt_packet_init(struct xt_packet *p, uint8_t opcode, uint32_t psn)
{
	p->opcode = opcode;
	p->solicited = p->ackreq = false;
	p->psn = psn;
	p->packets = 1;
	p->ah = NULL;
	p->ext_len = 0;
	p->payload.n = p->payload.len = 0;
	p->payload.passing = false;
}

static inline void xt_ext_put(struct xt_packet *p, const void *header, uint32_t len)
{
	memcpy(p->ext + p->ext_len, header, len);
	p->ext_len += len;
}

static inline void xt_ext_reth(struct xt_packet *p, uint64_t va, uint32_t rkey, uint32_t len)
{
	struct xr_reth reth = { htobe64(va), htobe32(rkey), htobe32(len) };

	xt_ext_put(p, &reth, sizeof(reth));
}

static inline void xt_ext_xrceth(struct xt_packet *p, uint32_t srqn)
{
	struct xr_xrceth eth = { htobe32(srqn & XR_QPN_MASK) };

	xt_ext_put(p, &eth, sizeof(eth));
}

static inline void xt_ext_aeth(struct xt_packet *p, uint32_t syndrome, uint32_t msn)
{
	struct xr_aeth aeth = { htobe32(syndrome << 24 | (msn & XR_PSN_MASK)) };

	xt_ext_put(p, &aeth, sizeof(aeth));
}

static inline void xt_ext_ieth(struct xt_packet *p, uint32_t rkey)
{
	struct xr_ieth ieth = { htobe32(rkey) };

	xt_ext_put(p, &ieth, sizeof(ieth));
}

static inline uint32_t xt_frame_len(const struct xt_template *t, uint32_t ext_and_payload)
{
	return t->len + ((ext_and_payload + 3) & ~3u) + XR_ICRC_LEN;
}

/* dqpn, udp_sport: host byte order */
void xt_template_build(struct xt_template *t, const struct xt_path *path, uint32_t dqpn,
		       uint32_t udp_sport);
/*
 * Returns the UDP source port, host byte order: the path's own, else a hash of the flow label
 * (IBTA A17), else of both QPNs. It is constant for a flow, so that multipath routing keeps packets
 * in order. The hash selects one of the engine's ports if it has any.
 */
uint16_t xt_source_port(const struct xt_tuning *tuning, const struct xt_path *path, uint32_t qpn,
			uint32_t dqpn);
/*
 * The 40 bytes in front of a received datagram (IBTA A17.4.5.2): the IPv6 header, or 20 zeros and
 * the IPv4 header. xt_grh_of_frame() takes them from a received frame, xt_grh_of_packet() computes
 * them for a packet that is delivered over loopback.
 */
void xt_grh_of_frame(const struct xt_frame *frame, uint8_t grh[XR_GRH_LEN]);
void xt_grh_of_packet(struct xt_qp *qp, const struct xt_packet *p, uint8_t grh[XR_GRH_LEN]);
/*
 * Builds and sends a frame. Returns false if there is no room; try again in the next round. A large
 * frame may have to be sent as packets then.
 */
bool xt_send(struct xt_qp *qp, const struct xt_packet *p);
/*
 * Returns how many of the next @left packets of a message, all but the last one, may be one large
 * frame: 1: none, 0: the peer has no room now.
 */
uint32_t xt_large_packets(const struct xt_qp *qp, uint32_t left);
/*
 * Shows a packet that loopback replaces to the host. Its payload may have a length only, if
 * the bytes are not known: then the frame is shown without them.
 */
void xt_show(struct xt_qp *qp, const struct xt_packet *p);

/* A received packet */
struct xt_rx {
	struct xt_frame *frame;
	const uint8_t *ext; /* extended headers, complete for the opcode */
	uint8_t opcode;
	uint16_t flags; /* XR_OPF_* | XR_EXT_* */
	bool solicited, ackreq;
	uint32_t psn;	  /* 24 bits */
	uint32_t len;	  /* bytes of payload */
	uint32_t packets; /* that the frame stands for */
	bool placed;	  /* the payload is in its place already, see place.h */
	bool posted;	  /* its writes were posted; it is executed when they have ended */
};

#endif /* XT_PACKET_H */
