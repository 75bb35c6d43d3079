/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Address handles. */
#ifndef XD_AH_H
#define XD_AH_H

#include "daemon/clients/client.h"
#include "daemon/netdev/net.h"

struct xd_pd;
struct xd_resolve;
struct xt_ahs;

struct xd_ah {
	struct xd_object obj;
	struct xr_ah_attr attr;
	struct xd_gid_hold gid; /* of attr.sgid_index */
	struct xd_pd *pd;
	struct xd_resolve *resolve; /* of a new path after the network changed */
	struct {
		int err; /* 0: none */
		uint64_t at;
	} failed; /* the last time that no new path was found */
};

extern const struct xd_kind_ops xd_ah_ops;

/* What RESOLVE_AH returns for a path */
void xd_describe_path(const struct xd_device *dev, const struct xt_path *path,
		      struct xr_resolve_ah_rep *r);

/* Returns the client's table of address handles, which engines read. NULL: no memory. */
struct xt_ahs *xd_client_ahs(struct xd_client *c);

#endif /* XD_AH_H */
