/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Checks the use of an L_Key or R_Key against its entry in the key table, for BPF and user space.
 * IBTA 10.6.3 (keys), 10.7.3 (access checks), 9.4.1 and 9.7.4.1.4 (remote access).
 *
 * The caller finds the entry by XR_KEY_INDEX(). An access of length 0 names no memory and must not
 * be checked (IBTA 9.7.4.1.4).
 */
#ifndef XROCE_KEY_CHECK_H
#define XROCE_KEY_CHECK_H

#include <linux/types.h>
#include <stdbool.h>
#ifdef __bpf__
#include <bpf/bpf_helpers.h> /* __always_inline */
#endif

#include "reason.h"
#include "tables.h"

struct xr_key_use {
	__u32 key;
	__u32 pd;     /* of the QP, or for XRC of the SRQ */
	__u32 qpn;    /* of the QP that uses the key */
	__u32 access; /* XR_ACCESS_* that are needed, all of them; 0: local read */
	__u32 denied; /* XR_ACCESS_* that the QP denies its peer, even if the key grants them */
	__u64 va;
	__u64 len;  /* bytes, not 0 */
	bool whole; /* checks access to the whole region; va and len are ignored */
};

/* True if [va, va + len) is inside the region; va + len may exceed 2^64. */
static __always_inline bool xr_key_covers(const struct xr_key_entry *key, __u64 va, __u64 len)
{
	__u64 off = va - key->va;

	return va >= key->va && off <= key->length && len <= key->length - off;
}

/*
 * The daemon's engines change entries in place: `state` becomes VALID after the other fields have
 * been stored. BPF programs read a map element, which is replaced as a whole.
 */
static __always_inline bool xr_key_is_valid(const struct xr_key_entry *key)
{
#ifdef __bpf__
	return key->state == XR_KEY_VALID;
#else
	return __atomic_load_n(&key->state, __ATOMIC_ACQUIRE) == XR_KEY_VALID;
#endif
}

/* Returns XR_OK or one of XR_KEY_*. */
static __always_inline enum xr_reason xr_key_check(const struct xr_key_entry *key,
						   const struct xr_key_use *use)
{
	bool valid = xr_key_is_valid(key);

	if (key->variant != XR_KEY_VARIANT(use->key))
		return XR_KEY_VARIANT;
	if (!valid || (key->qpn && key->qpn != use->qpn))
		return XR_KEY_STATE;
	if (key->pd != use->pd)
		return XR_KEY_PD;
	if (use->access & (~key->access | use->denied))
		return XR_KEY_ACCESS;
	/* windows are for remote access only, IBTA 10.6.7.1 */
	if (key->type == XR_KEY_MW && !(use->access & XR_ACCESS_REMOTE))
		return XR_KEY_ACCESS;
	return use->whole || xr_key_covers(key, use->va, use->len) ? XR_OK : XR_KEY_RANGE;
}

#endif /* XROCE_KEY_CHECK_H */
