/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Memory windows. */
#ifndef XP_MW_H
#define XP_MW_H

#include <infiniband/verbs.h>

struct xp_context;

struct xp_mw {
	struct ibv_mw ibmw;
	struct xp_context *ctx; /* of this process: child.h */
};

static inline struct xp_mw *xp_mw(struct ibv_mw *ibmw)
{
	return (struct xp_mw *)ibmw;
}

struct ibv_mw *xp_alloc_mw(struct ibv_pd *ibpd, enum ibv_mw_type type);
int xp_dealloc_mw(struct ibv_mw *ibmw);
int xp_bind_mw(struct ibv_qp *ibqp, struct ibv_mw *ibmw, struct ibv_mw_bind *bind);

#endif /* XP_MW_H */
