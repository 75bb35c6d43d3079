/* SPDX-License-Identifier: GPL-2.0-only */
/* The maps as the tables of include/xroce/verdict.h, except keys, which includers define */
#ifndef XROCE_BPF_VIEW_H
#define XROCE_BPF_VIEW_H

#include <xroce/verdict.h>

#include "maps.h"

/* There is one set of these maps: views are not used. */
static __always_inline const struct xr_addr_entry *xr_find_addr(struct xr_view *view,
								const struct xr_addr *addr)
{
	return bpf_map_lookup_elem(&addrs, addr);
}

static __always_inline const struct xr_qp_entry *xr_find_qp(struct xr_view *view, __u32 qpn)
{
	return bpf_map_lookup_elem(&qps, &qpn);
}

static __always_inline const struct xr_psn_entry *xr_find_psns(struct xr_view *view, __u32 slot)
{
	return bpf_map_lookup_elem(&psns, &slot);
}

#endif /* XROCE_BPF_VIEW_H */
