/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Device memory. */
#ifndef XP_DM_H
#define XP_DM_H

#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct ibv_dm *xp_alloc_dm(struct ibv_context *ibctx, struct ibv_alloc_dm_attr *attr);
int xp_free_dm(struct ibv_dm *ibdm);
struct ibv_dm *xp_import_dm(struct ibv_context *ibctx, uint32_t handle);
void xp_unimport_dm(struct ibv_dm *ibdm);
struct ibv_mr *xp_reg_dm_mr(struct ibv_pd *ibpd, struct ibv_dm *ibdm, uint64_t off, size_t length,
			    unsigned int access);

#endif /* XP_DM_H */
