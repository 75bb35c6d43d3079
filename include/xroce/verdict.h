/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The verdict on a received packet, for BPF and user space: the checks against the tables of
 * tables.h, in a fixed order, and what follows from the first one that fails. The reasons are those
 * of reason.h.
 *
 * The includer has the tables. It defines struct xr_view and the xr_find_*() functions.
 */
#ifndef XROCE_VERDICT_H
#define XROCE_VERDICT_H

#include "key_check.h"
#include "parse.h"

#define XR_NSEC_PER_SEC 1000000000ull

/* ---- tables: defined by the includer -------------------------------------------------- */

struct xr_view;

/*
 * Return the entry of a key, NULL if there is none. It is valid until the next call with the same
 * view. Another thread may change an entry of the PSN table at any time, the others never.
 */
static __always_inline const struct xr_addr_entry *xr_find_addr(struct xr_view *view,
								const struct xr_addr *addr);
static __always_inline const struct xr_qp_entry *xr_find_qp(struct xr_view *view, __u32 qpn);
static __always_inline const struct xr_psn_entry *xr_find_psns(struct xr_view *view, __u32 slot);
static __always_inline const struct xr_key_entry *xr_find_key(struct xr_view *view, __u32 index);

/* ---- properties of a packet ----------------------------------------------------------- */

static __always_inline bool xr_is_response(const struct xr_packet *pkt)
{
	return pkt->op_flags & XR_OPF_RESPONSE;
}

/* Returns true for transports with ACKs, NAKs and retries. */
static __always_inline bool xr_is_reliable(const struct xr_packet *pkt)
{
	return xr_class_of(pkt) == XR_CLASS_RC || xr_class_of(pkt) == XR_CLASS_XRC;
}

/* ---- destination address -------------------------------------------------------------- */

/*
 * Looks up the destination and sets pkt->group. A GID in IPv4-mapped form stands for an IPv4
 * address and is not valid as the address of an IPv6 packet.
 */
static __always_inline bool xr_is_ours(struct xr_view *view, struct xr_packet *pkt)
{
	const struct xr_addr_entry *entry;

	if (pkt->ip_version == 6 && xr_gid_is_ipv4(&pkt->dst))
		return false;
	entry = xr_find_addr(view, &pkt->dst);
	if (!entry)
		return false;
	pkt->group = entry->gid_index == XR_ADDR_GROUP;
	return true;
}

/*
 * Parses a frame and looks up its destination address, so that malformed packets to other hosts are
 * not refused as malformed.
 */
static __always_inline enum xr_reason xr_parse_frame(struct xr_view *view, struct xr_cursor *c,
						     struct xr_packet *pkt)
{
	struct xr_outer outer;

	XR_REQUIRE(xr_parse_network(c, pkt, &outer));
	if (!xr_is_ours(view, pkt))
		return XR_NOT_OUR_ADDR;
	return xr_parse_transport(c, pkt, &outer);
}

/* ---- destination QP: IBTA 9.6, 9.7.1, 9.8.2 ------------------------------------------- */

/* Both sides must be in the same partition, at least one of them as a full member (IBTA 10.9.3). */
static __always_inline enum xr_reason xr_check_pkey(const struct xr_packet *pkt,
						    const struct xr_qp_entry *qp)
{
	if ((pkt->pkey ^ qp->pkey) & XR_PKEY_MASK)
		return XR_PKEY;
	return (pkt->pkey | qp->pkey) & ~XR_PKEY_MASK ? XR_OK : XR_PKEY;
}

static __always_inline enum xr_reason xr_check_state(const struct xr_qp_entry *qp)
{
	return qp->state >= XR_QPS_RTR && qp->state <= XR_QPS_SQE ? XR_OK : XR_QP_STATE;
}

static __always_inline enum xr_reason xr_check_type(const struct xr_packet *pkt,
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
		type = xr_is_response(pkt) ? XR_QPT_XRC_SEND : XR_QPT_XRC_RECV;
		break;
	default: /* CNP: allowed for all types */
		return XR_OK;
	}
	return qp->type == type ? XR_OK : XR_QP_TYPE;
}

/* A connected QP accepts packets only from its peer, and only to the address that its peer uses. */
static __always_inline enum xr_reason xr_check_addresses(const struct xr_packet *pkt,
							 const struct xr_qp_entry *qp)
{
	if (qp->type == XR_QPT_UD)
		return XR_OK;
	if (!xr_gid_equal(&pkt->src, &qp->peer))
		return XR_WRONG_PEER;
	return xr_gid_equal(&pkt->dst, &qp->local) ? XR_OK : XR_WRONG_DEST;
}

static __always_inline enum xr_reason xr_check_qkey(const struct xr_packet *pkt,
						    const struct xr_qp_entry *qp)
{
	if (!(pkt->op_flags & XR_EXT_DETH))
		return XR_OK;
	return pkt->qkey == qp->qkey ? XR_OK : XR_QKEY;
}

/* Accepts [first, end), modulo 2^24. Distances are unsigned: a range can exceed 2^23 responses. */
static __always_inline enum xr_reason xr_psn_between(__u32 psn, __u32 first, __u32 end)
{
	__u32 off = (psn - first) & XR_PSN_MASK, len = (end - first) & XR_PSN_MASK;

	return off < len ? XR_OK : XR_PSN_WINDOW;
}

/*
 * For reliable transports only: after a loss of any length, the next message on UC may have any PSN
 * (IBTA 9.8.2.2.1). tables.h has the limits of the window.
 */
static __always_inline enum xr_reason
xr_check_psn(struct xr_view *view, const struct xr_packet *pkt, const struct xr_qp_entry *qp)
{
	const struct xr_psn_entry *at;
	__u32 expected;

	if (!xr_is_reliable(pkt) || qp->slot == XR_NO_PSNS)
		return XR_OK;
	at = xr_find_psns(view, qp->slot);
	if (!at)
		return XR_PSN_WINDOW;
	if (xr_is_response(pkt))
		return xr_psn_between(pkt->psn, *(volatile __u32 *)&at->unacked - XR_PSN_LATE,
				      *(volatile __u32 *)&at->next);
	expected = *(volatile __u32 *)&at->expected;
	return xr_psn_between(pkt->psn, expected - XR_PSN_BEHIND, expected + XR_PSN_AHEAD + 1);
}

static __always_inline enum xr_reason xr_check_mtu(const struct xr_packet *pkt,
						   const struct xr_qp_entry *qp)
{
	if (!qp->path_mtu)
		return XR_OK;
	if (pkt->op_flags & XR_OPF_FULL_MTU)
		return pkt->payload_len == qp->path_mtu ? XR_OK : XR_PAYLOAD_MTU;
	return pkt->payload_len <= qp->path_mtu ? XR_OK : XR_PAYLOAD_MTU;
}

/*
 * Packets to a multicast group must have the multicast QPN, and other packets must not (IBTA
 * 9.6.1.2). The daemon checks the Q_Key, because each member of the group has its own.
 */
static __always_inline enum xr_reason xr_check_group(const struct xr_packet *pkt)
{
	if (!pkt->group || pkt->qpn != XR_MULTICAST_QPN)
		return XR_NO_QP;
	if (xr_class_of(pkt) != XR_CLASS_UD)
		return XR_QP_TYPE;
	return (pkt->pkey ^ XR_DEFAULT_PKEY) & XR_PKEY_MASK ? XR_PKEY : XR_OK;
}

/* ---- R_Key: IBTA 9.4.1, 9.7.4.1.4 ----------------------------------------------------- */

/* Returns 0 if no placement type is set; the daemon refuses such a request. */
static __always_inline __u32 xr_flush_access(const struct xr_packet *pkt)
{
	return (pkt->feth & XR_FLUSH_GLOBAL ? XR_ACCESS_FLUSH_GLOBAL : 0) |
	       (pkt->feth & XR_FLUSH_PERSISTENT ? XR_ACCESS_FLUSH_PERSISTENT : 0);
}

/* Returns true for a FLUSH of a whole region, whose RETH names no range. */
static __always_inline bool xr_names_whole_region(const struct xr_packet *pkt)
{
	return xr_operation_of(pkt) == XR_OP_FLUSH &&
	       (pkt->feth & XR_FETH_SEL_MASK) == XR_FLUSH_MR << XR_FETH_SEL_SHIFT;
}

/* XR_ACCESS_* that the operation needs. 0 if its packet names no key. */
static __always_inline __u32 xr_access_needed(const struct xr_packet *pkt)
{
	switch (xr_operation_of(pkt)) {
	case XR_OP_WRITE_FIRST:
	case XR_OP_WRITE_ONLY:
	case XR_OP_WRITE_ONLY_IMM:
	case XR_OP_ATOMIC_WRITE:
		return XR_ACCESS_REMOTE_WRITE;
	case XR_OP_READ_REQUEST:
		return XR_ACCESS_REMOTE_READ;
	case XR_OP_CMP_SWAP:
	case XR_OP_FETCH_ADD:
		return XR_ACCESS_REMOTE_ATOMIC;
	case XR_OP_FLUSH:
		return xr_flush_access(pkt);
	default:
		return 0;
	}
}

static __always_inline bool xr_must_be_aligned(const struct xr_packet *pkt)
{
	return pkt->op_flags & XR_EXT_ATOMICETH || xr_operation_of(pkt) == XR_OP_ATOMIC_WRITE;
}

static __always_inline enum xr_reason
xr_check_rkey(struct xr_view *view, const struct xr_packet *pkt, const struct xr_qp_entry *qp)
{
	__u32 need = xr_access_needed(pkt);
	const struct xr_key_entry *key;
	struct xr_key_use use;

	/* a request of length 0 names no memory */
	if (!need || (!pkt->len && !xr_names_whole_region(pkt)))
		return XR_OK;
	key = xr_find_key(view, XR_KEY_INDEX(pkt->rkey));
	if (!key)
		return XR_KEY_INDEX;
	if (key->flags & XR_KEYF_PROGRAM)
		return XR_OK;
	use = (struct xr_key_use){
		.key = pkt->rkey,
		/* XRC: the PD of the SRQ applies, which is in no table; the daemon checks it */
		.pd = qp->type == XR_QPT_XRC_RECV ? key->pd : qp->pd,
		.qpn = pkt->qpn,
		.access = need,
		.denied = ~(__u32)qp->access,
		.va = pkt->va,
		.len = pkt->len,
		.whole = xr_names_whole_region(pkt),
	};
	XR_REQUIRE(xr_key_check(key, &use));
	return xr_must_be_aligned(pkt) && pkt->va % XR_ATOMIC_LEN ? XR_ATOMIC_ALIGN : XR_OK;
}

/* ---- all checks of a parsed packet ----------------------------------------------------- */

static __always_inline enum xr_reason xr_check_packet(struct xr_view *view,
						      const struct xr_packet *pkt)
{
	const struct xr_qp_entry *qp;

	if (pkt->group || pkt->qpn == XR_MULTICAST_QPN)
		return xr_check_group(pkt);
	qp = xr_find_qp(view, pkt->qpn);
	if (!qp)
		return XR_NO_QP;
	XR_REQUIRE(xr_check_pkey(pkt, qp));
	XR_REQUIRE(xr_check_state(qp));
	XR_REQUIRE(xr_check_type(pkt, qp));
	XR_REQUIRE(xr_check_addresses(pkt, qp));
	XR_REQUIRE(xr_check_qkey(pkt, qp));
	XR_REQUIRE(xr_check_psn(view, pkt, qp));
	XR_REQUIRE(xr_check_mtu(pkt, qp));
	return xr_check_rkey(view, pkt, qp);
}

/* ---- what follows from a reason --------------------------------------------------------- */

/* enum xr_action of each reason */
static const __u8 xr_actions[] = {
#define X(name, action, text) [XR_##name] = XR_ACT_##action,
	XR_REASONS(X)
#undef X
};

/*
 * Returns true if the packet goes to the engine. On unreliable transports, which have no NAK,
 * packets with action ANSWER are dropped.
 */
static __always_inline bool xr_is_for_engine(const struct xr_packet *pkt, enum xr_reason reason)
{
	return reason == XR_OK || (xr_actions[reason] == XR_ACT_ANSWER && xr_is_reliable(pkt));
}

/* Adds tokens for the time since last_ns, and advances last_ns by the time that they stand for. */
static __always_inline void xr_limiter_refill(struct xr_limiter *l, __u32 rate, __u64 now)
{
	__u64 elapsed = now - l->last_ns, earned;

	if (elapsed >= XR_NSEC_PER_SEC) {
		l->tokens = rate;
		l->last_ns = now;
		return;
	}
	earned = elapsed * rate / XR_NSEC_PER_SEC;
	l->tokens += earned;
	l->last_ns += earned * XR_NSEC_PER_SEC / rate;
	if (l->tokens > rate)
		l->tokens = rate;
}

/*
 * Takes the token of a packet with action ANSWER. Returns false if there is none. rate: tokens per
 * second
 */
static __always_inline bool xr_limiter_take(struct xr_limiter *l, __u32 rate, __u64 now)
{
	if (!rate)
		return false;
	xr_limiter_refill(l, rate, now);
	if (!l->tokens)
		return false;
	l->tokens--;
	return true;
}

static __always_inline void xr_fill_meta(struct xr_meta *meta, const struct xr_packet *pkt,
					 enum xr_reason reason)
{
	meta->magic = XR_META_MAGIC;
	meta->reason = reason;
	meta->ip_version = pkt->ip_version;
	meta->ip_off = pkt->ip_off;
	meta->bth_off = pkt->bth_off;
	meta->payload_off = pkt->payload_off;
	meta->payload_len = pkt->payload_len;
	meta->qpn = pkt->qpn;
	meta->gso_size = pkt->gso_size;
	meta->reserved = 0;
}

/* Fills a report, except the bytes and their number. frame_len: bytes; now: CLOCK_MONOTONIC, ns */
static __always_inline void xr_fill_refused(struct xr_refused *r, const struct xr_packet *pkt,
					    enum xr_reason reason, __u32 frame_len, __u64 now)
{
	r->time = now;
	r->length = frame_len;
	r->qpn = pkt->qpn;
	r->ip_off = pkt->ip_off;
	r->bth_off = pkt->bth_off;
	r->reason = reason;
	r->ip_version = pkt->ip_version;
}

#endif /* XROCE_VERDICT_H */
