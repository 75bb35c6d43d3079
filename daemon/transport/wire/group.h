/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Multicast groups, the engine's side; see transport.h for the rest. */
#ifndef XT_GROUP_H
#define XT_GROUP_H

#include "daemon/transport/qp.h"

struct xt_group {
	struct xr_addr gid;
	struct xt_group *next;	  /* of the same hash; atomic */
	struct xt_group *removed; /* the next one that is to be freed */
	uint32_t members;
	struct xt_member {
		struct xt_engine *engine;
		struct xt_qp *qp; /* NULL: it was detached; atomic */
	} member[];		  /* those of one engine are adjacent */
};

/* Returns NULL if no QP is attached. */
const struct xt_group *xt_group_find(struct xt_groups *t, const struct xr_addr *gid);
/* Returns NULL if the member was detached. */
static inline struct xt_qp *xt_group_qp(const struct xt_group *g, uint32_t i)
{
	return __atomic_load_n(&g->member[i].qp, __ATOMIC_RELAXED);
}

/* Returns true for exactly one member of each engine. */
static inline bool xt_group_first_of_engine(const struct xt_group *g, uint32_t i)
{
	return !i || g->member[i].engine != g->member[i - 1].engine;
}

#endif /* XT_GROUP_H */
