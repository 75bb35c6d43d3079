/* SPDX-License-Identifier: GPL-2.0-only */
/* Checks the R_Key of a request. IBTA 9.4.1, 9.7.4.1.4. */
#ifndef XROCE_BPF_KEY_H
#define XROCE_BPF_KEY_H

#include <xroce/key_check.h>
#include <xroce/parse.h>

#include "maps.h"

/*
 * XR_ACCESS_* that the operation needs. 0 if its packet names no key, and for FLUSH, whose access
 * rights are not in the tables: the daemon refuses it.
 */
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

	if (!need || !pkt->len) /* a request of length 0 names no memory */
		return XR_OK;
	key = bpf_map_lookup_elem(&keys, &index);
	if (!key)
		return XR_KEY_INDEX;
	use = (struct xr_key_use){
		.key = pkt->rkey,
		/* XRC: the PD is that of the SRQ, which only the daemon knows */
		.pd = qp->type == XR_QPT_XRC_RECV ? key->pd : qp->pd,
		.qpn = pkt->qpn,
		.access = need,
		.denied = ~(__u32)qp->access,
		.va = pkt->va,
		.len = pkt->len,
	};
	XR_REQUIRE(xr_key_check(key, &use));
	return must_be_aligned(pkt) && pkt->va % XR_ATOMIC_LEN ? XR_ATOMIC_ALIGN : XR_OK;
}

#endif /* XROCE_BPF_KEY_H */
