// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Protection domains, thread domains, parent domains. */
#include <stdlib.h>
#include <string.h>

#include "provider/base/debug.h"
#include "provider/base/fail.h"
#include "provider/verbs/child.h"
#include "provider/verbs/newer_verbs.h"
#include "provider/verbs/pd.h"
#include "provider/verbs/request.h"

/* ---- protection domains -------------------------------------------------------- */

/* req: NULL, or the body of the request, whose reply has the handle */
static struct ibv_pd *new_pd(struct ibv_context *ibctx, uint32_t type, const void *req, size_t len)
{
	struct xp_pd *pd = calloc(1, sizeof(*pd));
	struct xr_handle_rep rep;
	int err;

	if (!pd)
		return xp_null(xp_refuse_memory("ibv_alloc_pd"));
	ibctx = xp_process_context(ibctx);
	err = xp_request(xp_ctx(ibctx), type, req, len, &rep, sizeof(rep));
	if (err) {
		free(pd);
		return xp_null(err);
	}
	pd->ctx = xp_ctx(ibctx);
	pd->ibpd.context = pd->ctx->shown;
	pd->ibpd.handle = rep.handle;
	return &pd->ibpd;
}

struct ibv_pd *xp_alloc_pd(struct ibv_context *ibctx)
{
	return new_pd(ibctx, XR_MSG_ALLOC_PD, NULL, 0);
}

static unsigned int refs(const unsigned int *count)
{
	return __atomic_load_n(count, __ATOMIC_ACQUIRE);
}

static void pd_get(unsigned int *count)
{
	__atomic_fetch_add(count, 1, __ATOMIC_ACQ_REL);
}

static unsigned int pd_put(unsigned int *count)
{
	return __atomic_sub_fetch(count, 1, __ATOMIC_ACQ_REL);
}

static int verbs_free_pd(struct xp_pd *pd)
{
	int err = xp_release(pd->ctx, XR_MSG_DEALLOC_PD, pd->ibpd.handle, NULL);

	if (!err || pd->unimported)
		free(pd);
	return err;
}

/* Drops the reference of a parent domain, or that of xp_unimport_pd(). */
static void put_base(struct xp_pd *base)
{
	if (!pd_put(&base->refs) && base->unimported)
		verbs_free_pd(base);
}

int xp_dealloc_pd(struct ibv_pd *ibpd)
{
	struct xp_pd *pd = xp_pd(ibpd);

	if (refs(&pd->refs))
		return -xp_refuse("ibv_dealloc_pd", EBUSY, "%u parent domains or objects use it",
				  refs(&pd->refs));
	if (!pd->base)
		return -verbs_free_pd(pd);
	put_base(pd->base);
	if (pd->td)
		pd_put(&pd->td->refs);
	free(pd);
	return 0;
}

struct ibv_pd *xp_import_pd(struct ibv_context *ibctx, uint32_t handle)
{
	const struct xr_handle_req req = { .handle = handle };

	return new_pd(ibctx, XR_MSG_IMPORT_PD, &req, sizeof(req));
}

/*
 * Cannot fail. If the PD still has objects, the daemon frees its part when the connection closes.
 * If it has parent domains, it is freed with the last of them.
 */
void xp_unimport_pd(struct ibv_pd *ibpd)
{
	struct xp_pd *pd = xp_pd(ibpd);

	if (pd->base) {
		xp_dealloc_pd(ibpd);
		return;
	}
	pd_get(&pd->refs);
	pd->unimported = true;
	put_base(pd);
}

/* ---- PDs of the parent process --------------------------------------------------- */

/*
 * The new handle is of the same PD, or of a new one if the parent has closed its context, or the
 * child may not import. Needs child_lock.
 */
static void pd_take_over(struct xp_pd *pd, struct xp_context *ctx)
{
	const struct xr_handle_req req = { .handle = pd->ibpd.handle };
	struct xr_handle_rep rep;

	if (xp_request(ctx, XR_MSG_IMPORT_PD, &req, sizeof(req), &rep, sizeof(rep)) &&
	    xp_request(ctx, XR_MSG_ALLOC_PD, NULL, 0, &rep, sizeof(rep)))
		return;
	pd->ibpd.handle = rep.handle;
	__atomic_store_n(&pd->ctx, ctx, __ATOMIC_RELEASE);
}

static bool is_of_parent(const struct xp_pd *pd)
{
	return xp_health(__atomic_load_n(&pd->ctx, __ATOMIC_ACQUIRE)) == XP_FORKED;
}

struct xp_pd *xp_own_pd(struct ibv_pd *ibpd)
{
	struct xp_pd *pd = xp_pd(ibpd), *base = pd->base ? pd->base : pd;
	struct xp_context *ctx;

	if (!is_of_parent(pd))
		return pd;
	ctx = xp_ctx(xp_process_context(pd->ctx->ibctx));
	xp_child_lock();
	if (xp_health(ctx) != XP_FORKED && is_of_parent(base))
		pd_take_over(base, ctx);
	if (base != pd && !is_of_parent(base)) {
		pd->ibpd.handle = base->ibpd.handle;
		__atomic_store_n(&pd->ctx, base->ctx, __ATOMIC_RELEASE);
	}
	xp_child_unlock();
	return pd;
}

/* ---- thread domains ------------------------------------------------------------ */

struct ibv_td *xp_alloc_td(struct ibv_context *ibctx, struct ibv_td_init_attr *attr)
{
	struct xp_td *td;

	if (attr->comp_mask)
		return xp_null(xp_refuse("ibv_alloc_td", EOPNOTSUPP, "comp_mask 0x%x, must be 0",
					 attr->comp_mask));
	td = calloc(1, sizeof(*td));
	if (!td)
		return xp_null(xp_refuse_memory("ibv_alloc_td"));
	td->ctx = xp_ctx(xp_process_context(ibctx));
	td->ibtd.context = td->ctx->shown;
	return &td->ibtd;
}

int xp_dealloc_td(struct ibv_td *ibtd)
{
	struct xp_td *td = xp_td(ibtd);

	if (refs(&td->refs))
		return -xp_refuse("ibv_dealloc_td", EBUSY, "%u parent domains use it",
				  refs(&td->refs));
	free(td);
	return 0;
}

/* ---- parent domains ------------------------------------------------------------ */

/*
 * XP_PARENT_ALLOW_CC_UNPROTECTED allows memory that the host of a confidential guest can access.
 * The daemon runs in the guest and needs none.
 */
#define PARENT_KNOWN                                                                               \
	(IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT |         \
	 XP_PARENT_ALLOW_CC_UNPROTECTED)

static void set_allocators(struct xp_pd *pd, const struct ibv_parent_domain_init_attr *attr)
{
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
		pd->alloc = attr->alloc;
		pd->free = attr->free;
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		pd->pd_context = attr->pd_context;
}

struct ibv_pd *xp_alloc_parent_domain(struct ibv_context *ibctx,
				      struct ibv_parent_domain_init_attr *attr)
{
	struct xp_context *ctx = xp_ctx(xp_process_context(ibctx));
	struct xp_pd *pd;

	if (!attr->pd || !xp_is_of(attr->pd, xp_own_pd, ctx) || xp_pd(attr->pd)->base ||
	    (attr->td && !xp_is_of(attr->td, xp_td, ctx)))
		return xp_null(
			xp_refuse("ibv_alloc_parent_domain", EINVAL,
				  "pd is missing, is a parent domain itself, or pd or td is of "
				  "another context"));
	if (attr->comp_mask & ~(uint32_t)PARENT_KNOWN)
		return xp_null(xp_refuse("ibv_alloc_parent_domain", EOPNOTSUPP,
					 "comp_mask 0x%x, known 0x%x", attr->comp_mask,
					 PARENT_KNOWN));
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS &&
	    (!attr->alloc || !attr->free))
		return xp_null(
			xp_refuse("ibv_alloc_parent_domain", EINVAL, "alloc or free is NULL"));
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return xp_null(xp_refuse_memory("ibv_alloc_parent_domain"));
	set_allocators(pd, attr);
	pd->ctx = ctx;
	pd->ibpd.context = ctx->shown;
	pd->ibpd.handle = attr->pd->handle;
	pd->base = xp_pd(attr->pd);
	pd->td = xp_td(attr->td);
	pd_get(&pd->base->refs);
	if (pd->td)
		pd_get(&pd->td->refs);
	return &pd->ibpd;
}

bool xp_pd_get(struct ibv_pd *ibpd)
{
	if (!xp_pd(ibpd)->base)
		return false;
	pd_get(&xp_pd(ibpd)->refs);
	return xp_pd(ibpd)->td;
}

void xp_pd_put(struct ibv_pd *ibpd)
{
	if (ibpd && xp_pd(ibpd)->base)
		pd_put(&xp_pd(ibpd)->refs);
}

bool xp_pd_same(const struct ibv_pd *a, const struct ibv_pd *b)
{
	return a && b && a->context == b->context && xp_pd(a)->ctx == xp_pd(b)->ctx &&
	       a->handle == b->handle;
}

/* ---- memory of queues ----------------------------------------------------------- */

/* Header of each allocation. Its size is the alignment, so that the memory after it is aligned. */
struct allocation {
	struct xp_pd *owner; /* whose allocator was used; NULL: aligned_alloc() */
	uint64_t type;
} __attribute__((aligned(64)));

void *xp_queue_alloc(struct ibv_pd *ibpd, size_t size, enum xrocedv_resource type)
{
	struct xp_pd *pd = ibpd && xp_pd(ibpd)->alloc ? xp_pd(ibpd) : NULL;
	struct allocation *p = IBV_ALLOCATOR_USE_DEFAULT;

	size = (sizeof(*p) + size + sizeof(*p) - 1) & ~(sizeof(*p) - 1);
	if (pd)
		p = pd->alloc(ibpd, pd->pd_context, size, sizeof(*p), type);
	if (p == IBV_ALLOCATOR_USE_DEFAULT) {
		pd = NULL;
		p = aligned_alloc(sizeof(*p), size);
	}
	if (!p)
		return NULL;
	memset(p, 0, size);
	p->owner = pd;
	p->type = type;
	return p + 1;
}

void xp_queue_free(void *memory)
{
	struct allocation *p;
	struct xp_pd *pd;

	if (!memory)
		return;
	p = (struct allocation *)memory - 1;
	pd = p->owner;
	if (pd)
		pd->free(&pd->ibpd, pd->pd_context, p, p->type);
	else
		free(p);
}
