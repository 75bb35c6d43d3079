// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Direct verbs, <infiniband/xrocedv.h>: pools of regions for fast registration. They are registered
 * and invalidated by WRs of a QP that the pool connects to itself. So a mapping can be used as soon
 * as the call returns, and the program's own queues are not involved.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include <infiniband/xrocedv.h>
#include <xroce/bits.h>

#include "provider/base/debug.h"
#include "provider/base/export.h"
#include "provider/base/fail.h"
#include "provider/dv/common.h"
#include "provider/dv/fast_mr.h"
#include "provider/verbs/cq.h"
#include "provider/verbs/pd.h"
#include "provider/verbs/post.h"
#include "provider/verbs/query.h"
#include "provider/verbs/request.h"

#define DEPTH 64 /* of the send queue */
#define POOL_ACCESS (unsigned int)(XR_ACCESS_LOCAL_WRITE | XR_ACCESS_REMOTE)

#define CREATE "xrocedv_create_pool"
#define MAP "xrocedv_pool_map"
#define UNMAP "xrocedv_pool_unmap"
#define FLUSH "xrocedv_flush_pool"

struct entry {
	struct xrocedv_mapping mapping; /* the program's view */
	struct ibv_mr *mr;
	unsigned int refs; /* maps minus unmaps; 0: in one of the lists of the pool */
	bool valid; /* may be registered: must be invalidated before it is registered again */
	bool hashed;
	uint64_t hash;
	struct entry *next; /* hash chain */
	TAILQ_ENTRY(entry) order;
};

TAILQ_HEAD(entries, entry);

struct xrocedv_pool {
	struct xrocedv_pool_attr attr;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	pthread_mutex_t lock; /* everything below */
	struct entry *entry;
	struct entries free, dirty; /* dirty: in the order in which they were unmapped */
	uint32_t ndirty;
	struct entry **bucket;
	uint32_t mask;
	uint64_t *page; /* scratch page list */
};

/* ---- the queue pair ------------------------------------------------------------ */

/* Sets the first GID of the device. Returns 0 or a positive errno. */
static int set_own_gid(struct ibv_context *ctx, struct ibv_ah_attr *ah)
{
	struct ibv_port_attr port;
	int err = xp_query_port(ctx, 1, &port, sizeof(port)), i;

	for (i = 0; !err && i < port.gid_tbl_len; i++) {
		union ibv_gid *gid = &ah->grh.dgid;

		if (xp_query_gid(ctx, 1, i, gid) ||
		    (!gid->global.interface_id && !gid->global.subnet_prefix))
			continue;
		ah->grh.sgid_index = (uint8_t)i;
		return 0;
	}
	return err ? err
		   : -xp_refuse(CREATE, EADDRNOTAVAIL,
				"the device has no GID to connect the pool's QP to itself");
}

/* Connects the QP from RESET. WRs need state RTS, hence a peer, but no packets are sent. */
static int connect_self(struct xrocedv_pool *pool)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = pool->qp->qp_num,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh.hop_limit = 1 },
	};
	int err = set_own_gid(pool->pd->context, &attr.ah_attr);

	if (!err)
		err = xp_modify_qp(pool->qp, &attr,
				   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					   IBV_QP_ACCESS_FLAGS);
	attr.qp_state = IBV_QPS_RTR;
	if (!err)
		err = xp_modify_qp(pool->qp, &attr,
				   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					   IBV_QP_MIN_RNR_TIMER);
	attr.qp_state = IBV_QPS_RTS;
	if (!err)
		err = xp_modify_qp(pool->qp, &attr,
				   IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
					   IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					   IBV_QP_MAX_QP_RD_ATOMIC);
	return err;
}

/* Recovers the QP from an error. If that fails, the next WR fails. */
static void reconnect(struct xrocedv_pool *pool)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	if (!xp_modify_qp(pool->qp, &attr, IBV_QP_STATE))
		connect_self(pool);
}

/* Waits for n completions, which come in the order of the WRs. */
static int pool_wait_for(struct xrocedv_pool *pool, struct ibv_wc *wc, int n)
{
	int got = 0, more;

	while (got < n) {
		more = xp_poll_cq(pool->cq, n - got, wc + got);
		if (more < 0)
			return -EIO;
		got += more;
	}
	return 0;
}

static int post_invalidate(struct xrocedv_pool *pool, const struct entry *e)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = (uint64_t)(e - pool->entry),
		.opcode = IBV_WR_LOCAL_INV,
		.send_flags = IBV_SEND_SIGNALED,
		.invalidate_rkey = e->mr->rkey,
	};

	return xp_post_send(pool->qp, &wr, &bad);
}

/* ---- the cache ----------------------------------------------------------------- */

static uint64_t pool_hash_of(const struct xp_page_list *l)
{
	uint64_t h = l->iova * 0x9e3779b97f4a7c15ull ^ l->length;
	uint32_t i;

	for (i = 0; i < l->pages; i++)
		h = (h ^ l->page[i]) * 0x9e3779b97f4a7c15ull;
	return h ^ h >> 32;
}

static bool maps(const struct entry *e, const struct xp_page_list *l)
{
	const struct xp_fast_mr *mr = xp_fast_mr(e->mr);

	return e->mapping.addr == l->iova && e->mapping.length == l->length &&
	       mr->pages == l->pages &&
	       !memcmp(mr->lists + (size_t)mr->list * mr->max_pages, l->page,
		       l->pages * sizeof(*l->page));
}

static struct entry *pool_find(const struct xrocedv_pool *pool, const struct xp_page_list *l,
			       uint64_t hash)
{
	struct entry *e = pool->bucket[hash & pool->mask];

	while (e && !(e->hash == hash && maps(e, l)))
		e = e->next;
	return e;
}

static void add_to_cache(struct xrocedv_pool *pool, struct entry *e, uint64_t hash)
{
	struct entry **at = &pool->bucket[hash & pool->mask];

	if (!(pool->attr.flags & XROCEDV_POOL_CACHE))
		return;
	e->hash = hash;
	e->hashed = true;
	e->next = *at;
	*at = e;
}

static void remove_from_cache(struct xrocedv_pool *pool, struct entry *e)
{
	struct entry **at = &pool->bucket[e->hash & pool->mask];

	if (!e->hashed)
		return;
	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	e->hashed = false;
}

/* ---- lists --------------------------------------------------------------------- */

/* Adds an entry without references to a list, and removes it. */
static void pool_list_add(struct xrocedv_pool *pool, struct entry *e)
{
	if (e->valid) {
		TAILQ_INSERT_TAIL(&pool->dirty, e, order);
		pool->ndirty++;
	} else {
		TAILQ_INSERT_HEAD(&pool->free, e, order);
	}
}

static void list_remove(struct xrocedv_pool *pool, struct entry *e)
{
	TAILQ_REMOVE(e->valid ? &pool->dirty : &pool->free, e, order);
	pool->ndirty -= e->valid;
}

/* Returns an unmapped entry, a free one if possible, or NULL. */
static struct entry *first_unmapped(const struct xrocedv_pool *pool)
{
	return TAILQ_EMPTY(&pool->free) ? TAILQ_FIRST(&pool->dirty) : TAILQ_FIRST(&pool->free);
}

static void set_pages(struct entry *e, const struct xp_page_list *l)
{
	struct xp_fast_mr *mr = xp_fast_mr(e->mr);

	memcpy(xp_fast_mr_next_list(mr), l->page, l->pages * sizeof(*l->page));
	xp_fast_mr_set(mr, l);
}

/* Invalidates the entry if necessary and registers other pages. */
static int register_entry(struct xrocedv_pool *pool, struct entry *e, const struct xp_page_list *l)
{
	uint32_t before = e->mr->rkey;
	int err = 0, posted = 0, i;
	struct ibv_wc wc[2];

	if (e->valid) {
		err = post_invalidate(pool, e);
		posted += !err;
	}
	set_pages(e, l);
	xrocedv_update_key(e->mr, (uint8_t)(before + 1));
	if (!err) {
		err = xrocedv_post_reg_mr(pool->qp, e->mr, 0, pool->attr.access, IBV_SEND_SIGNALED);
		posted += !err;
	}
	if (pool_wait_for(pool, wc, posted))
		err = EIO;
	for (i = 0; i < posted && !err; i++)
		err = wc[i].status == IBV_WC_SUCCESS ? 0 : EIO;
	e->valid = true;
	if (!err)
		return 0;
	/* The entry keeps its previous key. Invalidating a free region does no harm. */
	e->mr->lkey = e->mr->rkey = before;
	reconnect(pool);
	return xp_refuse(MAP, EIO, "the pool's QP could not register the pages");
}

/* ---- map, unmap, flush --------------------------------------------------------- */

static struct entry *pool_map_new(struct xrocedv_pool *pool, const struct xp_page_list *l,
				  uint64_t hash)
{
	struct entry *e = first_unmapped(pool);
	int err;

	if (!e)
		return xp_null(xp_refuse(MAP, EAGAIN, "all regions are mapped: pool_size is %u",
					 pool->attr.pool_size));
	list_remove(pool, e);
	remove_from_cache(pool, e);
	err = register_entry(pool, e, l);
	if (err) {
		pool_list_add(pool, e);
		return xp_null(err);
	}
	e->mapping.addr = l->iova;
	e->mapping.length = l->length;
	e->mapping.lkey = e->mr->lkey;
	e->mapping.rkey = e->mr->rkey;
	add_to_cache(pool, e, hash);
	return e;
}

static struct entry *pool_map(struct xrocedv_pool *pool, const struct xrocedv_sg *sg, int nents)
{
	struct xp_page_list l = { .page = pool->page,
				  .max = pool->attr.max_pages,
				  .size = pool->attr.page_size };
	uint64_t off = 0, hash;
	struct entry *e;
	int err = xp_check_list(MAP, sg, nents, off);

	if (err)
		return xp_null(err);
	if (xp_build_page_list(&l, sg, nents, &off) != nents)
		return xp_null(xp_refuse(MAP, EINVAL,
					 "one mapping cannot hold the list: max_pages is %u, "
					 "and elements meet at page boundaries only",
					 l.max));
	hash = pool_hash_of(&l);
	e = pool_find(pool, &l, hash);
	if (!e)
		e = pool_map_new(pool, &l, hash);
	else if (!e->refs)
		list_remove(pool, e);
	if (e)
		e->refs++;
	return e;
}

XP_PUBLIC const struct xrocedv_mapping *xrocedv_pool_map(struct xrocedv_pool *pool,
							 const struct xrocedv_sg *sg, int nents)
{
	struct entry *e;

	if (xp_health(xp_pd(pool->pd)->ctx) == XP_FORKED)
		return xp_null(xp_refuse_forked(MAP));
	pthread_mutex_lock(&pool->lock);
	e = pool_map(pool, sg, nents);
	pthread_mutex_unlock(&pool->lock);
	return e ? &e->mapping : NULL;
}

/* Invalidates up to DEPTH dirty entries. Returns -EIO if some are still dirty. */
static int invalidate_some(struct xrocedv_pool *pool)
{
	struct ibv_wc wc[DEPTH];
	struct entry *e;
	int n = 0, i, err = 0;

	for (e = TAILQ_FIRST(&pool->dirty); e && n < DEPTH; e = TAILQ_NEXT(e, order)) {
		remove_from_cache(pool, e);
		err = post_invalidate(pool, e);
		if (err)
			break;
		n++;
	}
	if (pool_wait_for(pool, wc, n))
		return -EIO;
	for (i = 0; i < n; i++) {
		if (wc[i].status != IBV_WC_SUCCESS) {
			err = EIO;
			continue;
		}
		e = &pool->entry[wc[i].wr_id];
		list_remove(pool, e);
		e->valid = false;
		pool_list_add(pool, e);
	}
	if (!err)
		return 0;
	reconnect(pool);
	return -EIO;
}

XP_PUBLIC int xrocedv_flush_pool(struct xrocedv_pool *pool)
{
	int err = 0;

	if (xp_health(xp_pd(pool->pd)->ctx) == XP_FORKED)
		return -xp_refuse_forked(FLUSH);
	pthread_mutex_lock(&pool->lock);
	while (pool->ndirty && !err)
		err = invalidate_some(pool);
	pthread_mutex_unlock(&pool->lock);
	if (err)
		return -xp_refuse(FLUSH, EIO, "the pool's QP could not invalidate all mappings");
	if (pool->attr.flushed)
		pool->attr.flushed(pool, pool->attr.arg);
	return 0;
}

XP_PUBLIC int xrocedv_pool_unmap(const struct xrocedv_mapping *mapping)
{
	struct entry *e = (struct entry *)mapping;
	struct xrocedv_pool *pool = mapping->pool;
	bool many = false;
	int err = 0;

	if (xp_health(xp_pd(pool->pd)->ctx) == XP_FORKED)
		return -xp_refuse_forked(UNMAP);
	pthread_mutex_lock(&pool->lock);
	if (!e->refs) {
		err = -xp_refuse(UNMAP, EINVAL, "the mapping is not mapped");
	} else if (!--e->refs) {
		pool_list_add(pool, e);
		many = pool->attr.dirty_watermark && pool->ndirty >= pool->attr.dirty_watermark;
	}
	pthread_mutex_unlock(&pool->lock);
	/* Entries that cannot be invalidated stay dirty until the next flush. */
	if (many)
		xrocedv_flush_pool(pool);
	return err;
}

/* ---- create, destroy ----------------------------------------------------------- */

static int pool_check(const struct ibv_pd *pd, const struct xrocedv_pool_attr *a)
{
	if (!xp_is_ours(pd->context))
		return xp_refuse_foreign(CREATE);
	if (!a->max_pages || a->max_pages > XROCEDV_MAX_PAGES)
		return xp_refuse(CREATE, EINVAL, "max_pages %u; 1 to %u", a->max_pages,
				 XROCEDV_MAX_PAGES);
	if (!a->pool_size || a->pool_size > XROCEDV_MAX_POOL)
		return xp_refuse(CREATE, EINVAL, "pool_size %u; 1 to %u", a->pool_size,
				 XROCEDV_MAX_POOL);
	if (!xp_within_limit(CREATE, "dirty_watermark", a->dirty_watermark, a->pool_size))
		return -EINVAL;
	if (a->flags & ~XROCEDV_POOL_CACHE)
		return xp_refuse(CREATE, EINVAL, "flags 0x%x, known 0x%x", a->flags,
				 XROCEDV_POOL_CACHE);
	if (!xp_fast_page_size_valid(a->page_size))
		return xp_refuse_page_size(CREATE, a->page_size);
	if (a->access & ~POOL_ACCESS || !xr_access_valid(a->access))
		return xp_refuse(CREATE, EINVAL,
				 "access 0x%x, known 0x%x; remote write and atomics need "
				 "IBV_ACCESS_LOCAL_WRITE",
				 a->access, POOL_ACCESS);
	return 0;
}

static int make_queues(struct xrocedv_pool *pool)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = DEPTH },
	};

	pool->cq = xp_create_cq(pool->pd->context, DEPTH, NULL, NULL, 0);
	if (!pool->cq)
		return -errno;
	init.send_cq = init.recv_cq = pool->cq;
	pool->qp = xp_create_qp(pool->pd, &init);
	if (!pool->qp)
		return -errno;
	return -connect_self(pool);
}

static int make_entries(struct xrocedv_pool *pool)
{
	uint32_t i;

	for (i = 0; i < pool->attr.pool_size; i++) {
		struct entry *e = &pool->entry[i];

		e->mr = xrocedv_alloc_mr(pool->pd, pool->attr.max_pages);
		if (!e->mr)
			return -errno;
		e->mapping.pool = pool;
		TAILQ_INSERT_TAIL(&pool->free, e, order);
	}
	return 0;
}

static struct xrocedv_pool *new_pool(struct ibv_pd *pd, const struct xrocedv_pool_attr *attr)
{
	struct xrocedv_pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	pool->attr = *attr;
	pool->pd = pd;
	pool->mask = xr_pow2_roundup(attr->pool_size) - 1;
	TAILQ_INIT(&pool->free);
	TAILQ_INIT(&pool->dirty);
	pthread_mutex_init(&pool->lock, NULL);
	pool->entry = calloc(attr->pool_size, sizeof(*pool->entry));
	pool->bucket = calloc(pool->mask + 1, sizeof(*pool->bucket));
	pool->page = calloc(attr->max_pages, sizeof(*pool->page));
	return pool;
}

static void free_pool(struct xrocedv_pool *pool)
{
	pthread_mutex_destroy(&pool->lock);
	free(pool->entry);
	free(pool->bucket);
	free(pool->page);
	free(pool);
}

/* Can be called again after an error. */
static int pool_destroy(struct xrocedv_pool *pool)
{
	uint32_t i;
	int err;

	for (i = 0; pool->entry && i < pool->attr.pool_size; i++) {
		err = pool->entry[i].mr ? xp_dereg_mr(pool->entry[i].mr) : 0;
		if (err)
			return err;
		pool->entry[i].mr = NULL;
	}
	err = pool->qp ? xp_destroy_qp(pool->qp) : 0;
	if (err)
		return err;
	pool->qp = NULL;
	err = pool->cq ? xp_destroy_cq(pool->cq) : 0;
	if (!err)
		free_pool(pool);
	return err;
}

XP_PUBLIC struct xrocedv_pool *xrocedv_create_pool(struct ibv_pd *pd,
						   const struct xrocedv_pool_attr *attr)
{
	struct xrocedv_pool *pool;
	int err = pool_check(pd, attr);

	if (err)
		return xp_null(err);
	pool = new_pool(pd, attr);
	if (!pool)
		return xp_null(xp_refuse_memory(CREATE));
	err = pool->entry && pool->bucket && pool->page ? make_queues(pool)
							: xp_refuse_memory(CREATE);
	if (!err)
		err = make_entries(pool);
	if (!err)
		return pool;
	pool_destroy(pool);
	return xp_null(err);
}

XP_PUBLIC int xrocedv_destroy_pool(struct xrocedv_pool *pool)
{
	uint32_t i;

	for (i = 0; i < pool->attr.pool_size; i++)
		if (pool->entry[i].refs)
			return -xp_refuse("xrocedv_destroy_pool", EBUSY, "mapping %u is in use", i);
	return pool_destroy(pool);
}
