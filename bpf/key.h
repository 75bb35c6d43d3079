/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Does the R_Key of a request allow it? IBTA 9.4.1, 9.7.4.1.4, 10.6.3, 10.7.3.
 * The daemon's xt_keys_check() says the same of the same key.
 */
#ifndef XROCE_BPF_KEY_H
#define XROCE_BPF_KEY_H

#include "maps.h"
#include "parse.h"

/*
 * XR_ACCESS_* that the operation needs. 0 where its first packet names no key,
 * and for FLUSH, whose access rights the tables do not know: the daemon refuses it.
 */
static __always_inline __u32 access_needed(const struct packet *pkt)
{
	switch (operation_of(pkt)) {
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
	default:
		return 0;
	}
}

/* [va, va + len) inside of the region, where va + len may lie beyond 2^64 */
static __always_inline bool in_range(const struct xr_key_entry *key, __u64 va, __u64 len)
{
	__u64 off = va - key->va;

	return va >= key->va && off <= key->length && len <= key->length - off;
}

static __always_inline bool must_be_aligned(const struct packet *pkt)
{
	return pkt->op_flags & XR_EXT_ATOMICETH || operation_of(pkt) == XR_OP_ATOMIC_WRITE;
}

static __always_inline enum xr_reason check_rkey(const struct packet *pkt,
						 const struct xr_qp_entry *qp)
{
	__u32 need = access_needed(pkt), index = XR_KEY_INDEX(pkt->rkey);
	struct xr_key_entry *key;

	if (!need || !pkt->len) /* zero-length requests name no memory */
		return XR_OK;
	key = bpf_map_lookup_elem(&keys, &index);
	if (!key)
		return XR_KEY_INDEX;
	if (key->variant != XR_KEY_VARIANT(pkt->rkey))
		return XR_KEY_VARIANT;
	if (key->state != XR_KEY_VALID || (key->qpn && key->qpn != pkt->qpn))
		return XR_KEY_STATE;
	/* the PD of XRC is the one of the SRQ that the request names: the daemon knows it */
	if (qp->type != XR_QPT_XRC_RECV && key->pd != qp->pd)
		return XR_KEY_PD;
	if (need & ~(key->access & qp->access))
		return XR_KEY_ACCESS;
	if (!in_range(key, pkt->va, pkt->len))
		return XR_KEY_RANGE;
	return must_be_aligned(pkt) && pkt->va % XR_ATOMIC_LEN ? XR_ATOMIC_ALIGN : XR_OK;
}

#endif /* XROCE_BPF_KEY_H */
