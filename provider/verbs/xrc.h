/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* XRC domains, and target QPs, which belong to one and not to a PD. */
#ifndef XP_XRC_H
#define XP_XRC_H

#include <stdint.h>

#include <infiniband/verbs.h>

struct xp_context;

struct xp_xrcd {
	struct ibv_xrcd ibxrcd;
	struct xp_context *ctx; /* of this process: child.h */
	uint32_t handle;
};

static inline struct xp_xrcd *xp_xrcd(struct ibv_xrcd *ibxrcd)
{
	return (struct xp_xrcd *)ibxrcd;
}

struct ibv_xrcd *xp_open_xrcd(struct ibv_context *ibctx, struct ibv_xrcd_init_attr *attr);
int xp_close_xrcd(struct ibv_xrcd *ibxrcd);

/* Creates a target QP, and opens an existing one. Return NULL and errno on error. */
struct ibv_qp *xp_create_target_qp(struct xp_context *ctx, struct ibv_qp_init_attr_ex *attr);
struct ibv_qp *xp_open_qp(struct ibv_context *ibctx, struct ibv_qp_open_attr *attr);

#endif /* XP_XRC_H */
