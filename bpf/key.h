/* SPDX-License-Identifier: GPL-2.0-only */
/* Checks the R_Key of a request. IBTA 9.4.1, 9.7.4.1.4. */
#ifndef XROCE_BPF_KEY_H
#define XROCE_BPF_KEY_H

#include <xroce/key_check.h>
#include <xroce/parse.h>

#include "maps.h"

/* Returns 0 if no placement type is set; the daemon refuses such a request. */
static __always_inline __u32 flush_access(const struct xr_packet *pkt)
{
	return (pkt->feth & XR_FLUSH_GLOBAL ? XR_ACCESS_FLUSH_GLOBAL : 0) |
	       (pkt->feth & XR_FLUSH_PERSISTENT ? XR_ACCESS_FLUSH_PERSISTENT : 0);
}

/* Returns true for a FLUSH of a whole region, whose RETH names no range. */
static __always_inline bool names_whole_region(const struct xr_packet *pkt)
{
	return xr_operation_of(pkt) == XR_OP_FLUSH &&
	       (pkt->feth & XR_FETH_SEL_MASK) == XR_FLUSH_MR << XR_FETH_SEL_SHIFT;
}

/* XR_ACCESS_* that the operation needs. 0 if its packet names no key. */
static __always_inline __u32 access_needed(const struct xr_packet *pkt)
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
		return flush_access(pkt);
	default:
		return 0;
	}
}

static __always_inline bool must_be_aligned(const struct xr_packet *pkt)
{
	return pkt->op_flags & XR_EXT_ATOMICETH || xr_operation_of(pkt) == XR_OP_ATOMIC_WRITE;
}

static __always_inline enum xr_reason check_rkey(const struct xr_packet *pkt,
						 const struct xr_qp_entry *qp)
{
	__u32 need = access_needed(pkt), index = XR_KEY_INDEX(pkt->rkey);
	const struct xr_key_entry *key;
	struct xr_key_use use;

	/* a request of length 0 names no memory */
	if (!need || (!pkt->len && !names_whole_region(pkt)))
		return XR_OK;
	key = bpf_map_lookup_elem(&keys, &index);
	if (!key)
		return XR_KEY_INDEX;
	use = (struct xr_key_use){
		.key = pkt->rkey,
		/* XRC: the PD of the SRQ applies, which is in no map; the daemon checks it */
		.pd = qp->type == XR_QPT_XRC_RECV ? key->pd : qp->pd,
		.qpn = pkt->qpn,
		.access = need,
		.denied = ~(__u32)qp->access,
		.va = pkt->va,
		.len = pkt->len,
		.whole = names_whole_region(pkt),
	};
	XR_REQUIRE(xr_key_check(key, &use));
	return must_be_aligned(pkt) && pkt->va % XR_ATOMIC_LEN ? XR_ATOMIC_ALIGN : XR_OK;
}

#endif /* XROCE_BPF_KEY_H */
