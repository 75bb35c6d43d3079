/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Queries of device, port, GIDs and P_Keys. */
#ifndef XP_QUERY_H
#define XP_QUERY_H

#include <infiniband/verbs.h>
#include <xroce/control.h>

struct xp_context;

/* The reply to QUERY_GIDS */
struct xp_gid_table {
	struct xr_query_gids_rep head;
	struct xr_gid_entry entry[XR_GID_TABLE_LEN];
};

/* Returns true if a reply of `got` bytes contains all the entries that it counts. */
bool xp_gid_table_valid(const struct xp_gid_table *t, size_t got);

/* Returns the index of the GID, or -ENODATA, or another error. */
int xp_find_gid(struct xp_context *ctx, const union ibv_gid *gid);

int xp_query_device(struct ibv_context *ibctx, struct ibv_device_attr *attr);
int xp_query_device_ex(struct ibv_context *ibctx, const struct ibv_query_device_ex_input *input,
		       struct ibv_device_attr_ex *attr, size_t attr_size);
int xp_query_rt_values(struct ibv_context *ibctx, struct ibv_values_ex *values);
int xp_query_port(struct ibv_context *ibctx, uint8_t port, struct ibv_port_attr *attr, size_t len);
int xp_query_port_compat(struct ibv_context *ibctx, uint8_t port,
			 struct _compat_ibv_port_attr *attr);
/* Stores the speed of the link in 100 Mbit/s. */
int xp_query_port_speed(struct ibv_context *ibctx, uint32_t port, uint64_t *speed);
int xp_query_gid(struct ibv_context *ibctx, uint8_t port, int index, union ibv_gid *gid);
int xp_query_gid_ex(struct ibv_context *ibctx, uint32_t port, uint32_t index,
		    struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size);
ssize_t xp_query_gid_table(struct ibv_context *ibctx, struct ibv_gid_entry *entries, size_t max,
			   uint32_t flags, size_t entry_size);
int xp_query_gid_type(struct ibv_context *ibctx, uint8_t port, unsigned int index, int *type);
int xp_query_pkey(struct ibv_context *ibctx, uint8_t port, int index, __be16 *pkey);
int xp_get_pkey_index(struct ibv_context *ibctx, uint8_t port, __be16 pkey);

#endif /* XP_QUERY_H */
