/* SPDX-License-Identifier: GPL-2.0-only */
/* Checks a packet against its destination QP. IBTA 9.6, 9.7.1, 9.8.2. */
#ifndef XROCE_BPF_QP_H
#define XROCE_BPF_QP_H

#include <xroce/parse.h>

#include "maps.h"

static __always_inline bool is_response(const struct xr_packet *pkt)
{
	return pkt->op_flags & XR_OPF_RESPONSE;
}

/* Returns true for transports with ACKs, NAKs and retries. */
static __always_inline bool is_reliable(const struct xr_packet *pkt)
{
	return xr_class_of(pkt) == XR_CLASS_RC || xr_class_of(pkt) == XR_CLASS_XRC;
}

/* Both sides must be in the same partition, at least one of them as a full member (IBTA 10.9.3). */
static __always_inline enum xr_reason check_pkey(const struct xr_packet *pkt,
						 const struct xr_qp_entry *qp)
{
	if ((pkt->pkey ^ qp->pkey) & XR_PKEY_MASK)
		return XR_PKEY;
	return (pkt->pkey | qp->pkey) & ~XR_PKEY_MASK ? XR_OK : XR_PKEY;
}

static __always_inline enum xr_reason check_state(const struct xr_qp_entry *qp)
{
	return qp->state >= XR_QPS_RTR && qp->state <= XR_QPS_SQE ? XR_OK : XR_QP_STATE;
}

static __always_inline enum xr_reason check_type(const struct xr_packet *pkt,
						 const struct xr_qp_entry *qp)
{
	__u8 type;

	switch (xr_class_of(pkt)) {
	case XR_CLASS_RC:
		type = XR_QPT_RC;
		break;
	case XR_CLASS_UC:
		type = XR_QPT_UC;
		break;
	case XR_CLASS_UD:
		type = XR_QPT_UD;
		break;
	case XR_CLASS_XRC:
		type = is_response(pkt) ? XR_QPT_XRC_SEND : XR_QPT_XRC_RECV;
		break;
	default: /* CNP: allowed for all types */
		return XR_OK;
	}
	return qp->type == type ? XR_OK : XR_QP_TYPE;
}

/* A connected QP accepts packets only from its peer, and only to the address that its peer uses. */
static __always_inline enum xr_reason check_addresses(const struct xr_packet *pkt,
						      const struct xr_qp_entry *qp)
{
	if (qp->type == XR_QPT_UD)
		return XR_OK;
	if (!xr_gid_equal(&pkt->src, &qp->peer))
		return XR_WRONG_PEER;
	return xr_gid_equal(&pkt->dst, &qp->local) ? XR_OK : XR_WRONG_DEST;
}

static __always_inline enum xr_reason check_qkey(const struct xr_packet *pkt,
						 const struct xr_qp_entry *qp)
{
	if (!(pkt->op_flags & XR_EXT_DETH))
		return XR_OK;
	return pkt->qkey == qp->qkey ? XR_OK : XR_QKEY;
}

/*
 * Packets to a multicast group must have the multicast QPN, and other packets must not (IBTA
 * 9.6.1.2). The daemon checks the Q_Key, because each member of the group has its own.
 */
static __always_inline enum xr_reason check_group(const struct xr_packet *pkt)
{
	if (!pkt->group || pkt->qpn != XR_MULTICAST_QPN)
		return XR_NO_QP;
	if (xr_class_of(pkt) != XR_CLASS_UD)
		return XR_QP_TYPE;
	return (pkt->pkey ^ XR_DEFAULT_PKEY) & XR_PKEY_MASK ? XR_PKEY : XR_OK;
}

/* Accepts [first, end), modulo 2^24. Distances are unsigned: a range can exceed 2^23 responses. */
static __always_inline enum xr_reason psn_between(__u32 psn, __u32 first, __u32 end)
{
	__u32 off = (psn - first) & XR_PSN_MASK, len = (end - first) & XR_PSN_MASK;

	return off < len ? XR_OK : XR_PSN_WINDOW;
}

/*
 * For reliable transports only: after a loss of any length, the next message on UC may have any PSN
 * (IBTA 9.8.2.2.1). tables.h has the limits of the window.
 */
static __always_inline enum xr_reason check_psn(const struct xr_packet *pkt,
						const struct xr_qp_entry *qp)
{
	struct xr_psn_entry *at;
	__u32 expected;

	if (!is_reliable(pkt))
		return XR_OK;
	at = bpf_map_lookup_elem(&psns, &qp->slot);
	if (!at)
		return XR_PSN_WINDOW;
	if (is_response(pkt))
		return psn_between(pkt->psn, *(volatile __u32 *)&at->unacked - XR_PSN_LATE,
				   *(volatile __u32 *)&at->next);
	expected = *(volatile __u32 *)&at->expected;
	return psn_between(pkt->psn, expected - XR_PSN_BEHIND, expected + XR_PSN_AHEAD + 1);
}

static __always_inline enum xr_reason check_mtu(const struct xr_packet *pkt,
						const struct xr_qp_entry *qp)
{
	if (!qp->path_mtu)
		return XR_OK;
	if (pkt->op_flags & XR_OPF_FULL_MTU)
		return pkt->payload_len == qp->path_mtu ? XR_OK : XR_PAYLOAD_MTU;
	return pkt->payload_len <= qp->path_mtu ? XR_OK : XR_PAYLOAD_MTU;
}

#endif /* XROCE_BPF_QP_H */
