/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Protection domains, thread domains and parent domains. A parent domain is a PD with an optional
 * thread domain and allocators of the program. Only the provider has parent domains; requests
 * contain the handle of the PD.
 */
#ifndef XP_PD_H
#define XP_PD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <infiniband/xrocedv.h>

struct xp_context;

struct xp_td {
	struct ibv_td ibtd;
	struct xp_context *ctx; /* of this process: child.h */
	unsigned int refs;	/* of parent domains; atomic */
};

struct xp_pd {
	struct ibv_pd ibpd;
	struct xp_context *ctx; /* of this process: child.h */
	unsigned int refs;	/* PD: parent domains. Parent domain: QPs, SRQs and CQs. Atomic. */
	bool unimported;	/* to be freed with the last parent domain */

	/* Parent domains only */
	struct xp_pd *base; /* the PD; NULL in a PD */
	struct xp_td *td;   /* or NULL */
	/* Allocators of the program, or NULL */
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
		       uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type);
	void *pd_context;
};

static inline struct xp_td *xp_td(struct ibv_td *ibtd)
{
	return (struct xp_td *)ibtd;
}

static inline struct xp_pd *xp_pd(const struct ibv_pd *ibpd)
{
	return (struct xp_pd *)ibpd;
}

/*
 * Returns the PD for verbs that create objects. In a child process a PD of the parent becomes one
 * of the child first: child.h. Read no field of it before.
 */
struct xp_pd *xp_own_pd(struct ibv_pd *ibpd);

struct ibv_pd *xp_alloc_pd(struct ibv_context *ibctx);
int xp_dealloc_pd(struct ibv_pd *ibpd);
struct ibv_pd *xp_import_pd(struct ibv_context *ibctx, uint32_t handle);
void xp_unimport_pd(struct ibv_pd *ibpd);
struct ibv_td *xp_alloc_td(struct ibv_context *ibctx, struct ibv_td_init_attr *attr);
int xp_dealloc_td(struct ibv_td *ibtd);
struct ibv_pd *xp_alloc_parent_domain(struct ibv_context *ibctx,
				      struct ibv_parent_domain_init_attr *attr);

/*
 * Take and drop a queue's reference to its parent domain. Other PDs and, in xp_pd_put(), NULL are
 * ignored. xp_pd_get() returns true if there is a thread domain: one thread at a time uses the
 * queue.
 */
bool xp_pd_get(struct ibv_pd *ibpd);
void xp_pd_put(struct ibv_pd *ibpd);

/* Returns true if both are the same PD or parent domains of the same PD. False if one is NULL. */
bool xp_pd_same(const struct ibv_pd *a, const struct ibv_pd *b);

/*
 * Allocates zeroed memory for a queue, from the allocator of its parent domain if it has one. To be
 * freed before xp_pd_put(). ibpd may be NULL.
 */
void *xp_queue_alloc(struct ibv_pd *ibpd, size_t size, enum xrocedv_resource type);
void xp_queue_free(void *memory);

#endif /* XP_PD_H */
