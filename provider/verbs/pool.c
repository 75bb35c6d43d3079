// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Pools of fast regions, <infiniband/xrocedv.h>. Registering and invalidating are work requests of a queue
 * pair that the pool connects to itself: what is mapped is ready when the call returns, and the
 * program's queues carry nothing of it.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include <infiniband/xrocedv.h>

#include "provider/provider.h"

#define DEPTH 64 /* work requests at a time */
#define POOL_ACCESS                                                                                \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

struct entry {
	struct xrocedv_mapping mapping; /* what the program has of it */
	struct ibv_mr *mr;
	unsigned int refs; /* maps without an unmap; 0: in one of the lists */
	bool valid;	   /* or may be: it must be invalidated before its next use */
	bool hashed;
	uint64_t hash;
	struct entry *next; /* in its bucket */
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
	struct entries free, dirty; /* dirty: the longest so comes first */
	uint32_t ndirty;
	struct entry **bucket;
	uint32_t mask;
	uint64_t *page; /* of the list at hand */
};

/* ---- the queue pair ---------------------------------------------------------------- */

static int own_gid(struct ibv_context *ctx, struct ibv_ah_attr *ah)
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
	return err ? err : EADDRNOTAVAIL;
}

/* From RESET. Nothing is ever sent, but work requests need RTS, and that needs a peer. */
static int connect_self(struct xrocedv_pool *pool)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = pool->qp->qp_num,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh.hop_limit = 1 },
	};
	int err = own_gid(pool->pd->context, &attr.ah_attr);

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

/* After an error: whatever fails now fails again when the queue pair is next used. */
static void connect_again(struct xrocedv_pool *pool)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	if (!xp_modify_qp(pool->qp, &attr, IBV_QP_STATE))
		connect_self(pool);
}

/* What was posted completes, in order. */
static int wait_for(struct xrocedv_pool *pool, struct ibv_wc *wc, int n)
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

/* ---- the cache --------------------------------------------------------------------- */

static uint64_t hash_of(const struct xp_pages *b)
{
	uint64_t h = b->iova * 0x9e3779b97f4a7c15ull ^ b->length;
	uint32_t i;

	for (i = 0; i < b->pages; i++)
		h = (h ^ b->page[i]) * 0x9e3779b97f4a7c15ull;
	return h ^ h >> 32;
}

static bool names(const struct entry *e, const struct xp_pages *b)
{
	const struct xp_fast_mr *mr = xp_fast(e->mr);

	return e->mapping.addr == b->iova && e->mapping.length == b->length &&
	       mr->pages == b->pages &&
	       !memcmp(mr->lists + (size_t)mr->list * mr->max_pages, b->page,
		       b->pages * sizeof(*b->page));
}

static struct entry *find(const struct xrocedv_pool *pool, const struct xp_pages *b, uint64_t hash)
{
	struct entry *e = pool->bucket[hash & pool->mask];

	while (e && !(e->hash == hash && names(e, b)))
		e = e->next;
	return e;
}

static void remember(struct xrocedv_pool *pool, struct entry *e, uint64_t hash)
{
	struct entry **at = &pool->bucket[hash & pool->mask];

	if (!(pool->attr.flags & XROCEDV_POOL_CACHE))
		return;
	e->hash = hash;
	e->hashed = true;
	e->next = *at;
	*at = e;
}

static void forget(struct xrocedv_pool *pool, struct entry *e)
{
	struct entry **at = &pool->bucket[e->hash & pool->mask];

	if (!e->hashed)
		return;
	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	e->hashed = false;
}

/* ---- entries ----------------------------------------------------------------------- */

static void put(struct xrocedv_pool *pool, struct entry *e)
{
	if (e->valid) {
		TAILQ_INSERT_TAIL(&pool->dirty, e, order);
		pool->ndirty++;
	} else {
		TAILQ_INSERT_HEAD(&pool->free, e, order);
	}
}

static void take(struct xrocedv_pool *pool, struct entry *e)
{
	TAILQ_REMOVE(e->valid ? &pool->dirty : &pool->free, e, order);
	pool->ndirty -= e->valid;
}

static struct entry *any(const struct xrocedv_pool *pool)
{
	return TAILQ_EMPTY(&pool->free) ? TAILQ_FIRST(&pool->dirty) : TAILQ_FIRST(&pool->free);
}

static void set_pages(struct entry *e, const struct xp_pages *b)
{
	struct xp_fast_mr *mr = xp_fast(e->mr);

	memcpy(xp_fast_next_list(mr), b->page, b->pages * sizeof(*b->page));
	xp_fast_set(mr, b);
}

/* Registers other pages, behind the end of those of before. */
static int renew(struct xrocedv_pool *pool, struct entry *e, const struct xp_pages *b)
{
	uint32_t before = e->mr->rkey;
	int err = 0, posted = 0, i;
	struct ibv_wc wc[2];

	if (e->valid) {
		err = post_invalidate(pool, e);
		posted += !err;
	}
	set_pages(e, b);
	xrocedv_update_key(e->mr, (uint8_t)(before + 1));
	if (!err) {
		err = xrocedv_post_reg_mr(pool->qp, e->mr, 0, pool->attr.access, IBV_SEND_SIGNALED);
		posted += !err;
	}
	if (wait_for(pool, wc, posted))
		err = EIO;
	for (i = 0; i < posted && !err; i++)
		err = wc[i].status == IBV_WC_SUCCESS ? 0 : EIO;
	e->valid = true;
	if (!err)
		return 0;
	/* registered or not, it has the key of before; to invalidate what is free does no harm */
	e->mr->lkey = e->mr->rkey = before;
	connect_again(pool);
	return -EIO;
}

/* ---- map, unmap, flush ------------------------------------------------------------- */

static struct entry *map_new(struct xrocedv_pool *pool, const struct xp_pages *b, uint64_t hash)
{
	struct entry *e = any(pool);
	int err;

	if (!e)
		return xp_null(EAGAIN);
	take(pool, e);
	forget(pool, e);
	err = renew(pool, e, b);
	if (err) {
		put(pool, e);
		return xp_null(err);
	}
	e->mapping.addr = b->iova;
	e->mapping.length = b->length;
	e->mapping.lkey = e->mr->lkey;
	e->mapping.rkey = e->mr->rkey;
	remember(pool, e, hash);
	return e;
}

static struct entry *map(struct xrocedv_pool *pool, const struct xrocedv_sg *sg, int nents)
{
	struct xp_pages b = { .page = pool->page,
			      .max = pool->attr.max_pages,
			      .size = pool->attr.page_size };
	uint64_t off = 0, hash;
	struct entry *e;

	if (xp_lay_pages(&b, sg, nents, &off) != nents)
		return xp_null(EINVAL);
	hash = hash_of(&b);
	e = find(pool, &b, hash);
	if (!e)
		e = map_new(pool, &b, hash);
	else if (!e->refs)
		take(pool, e);
	if (e)
		e->refs++;
	return e;
}

XP_PUBLIC const struct xrocedv_mapping *xrocedv_pool_map(struct xrocedv_pool *pool,
							 const struct xrocedv_sg *sg, int nents)
{
	struct entry *e;

	if (xp_health(xp_ctx(pool->pd->context)) == XP_FORKED)
		return xp_null(EIO);
	pthread_mutex_lock(&pool->lock);
	e = map(pool, sg, nents);
	pthread_mutex_unlock(&pool->lock);
	return e ? &e->mapping : NULL;
}

/* As many as the queue takes; -EIO: some of them are dirty as before. */
static int invalidate_some(struct xrocedv_pool *pool)
{
	struct ibv_wc wc[DEPTH];
	struct entry *e;
	int n = 0, i, err = 0;

	for (e = TAILQ_FIRST(&pool->dirty); e && n < DEPTH; e = TAILQ_NEXT(e, order)) {
		forget(pool, e);
		err = post_invalidate(pool, e);
		if (err)
			break;
		n++;
	}
	if (wait_for(pool, wc, n))
		return -EIO;
	for (i = 0; i < n; i++) {
		if (wc[i].status != IBV_WC_SUCCESS) {
			err = EIO;
			continue;
		}
		e = &pool->entry[wc[i].wr_id];
		take(pool, e);
		e->valid = false;
		put(pool, e);
	}
	if (err)
		connect_again(pool);
	return err ? -EIO : 0;
}

XP_PUBLIC int xrocedv_flush_pool(struct xrocedv_pool *pool)
{
	int err = 0;

	if (xp_health(xp_ctx(pool->pd->context)) == XP_FORKED)
		return EIO;
	pthread_mutex_lock(&pool->lock);
	while (pool->ndirty && !err)
		err = invalidate_some(pool);
	pthread_mutex_unlock(&pool->lock);
	if (!err && pool->attr.flushed)
		pool->attr.flushed(pool, pool->attr.arg);
	return -err;
}

XP_PUBLIC int xrocedv_pool_unmap(const struct xrocedv_mapping *mapping)
{
	struct entry *e = (struct entry *)mapping;
	struct xrocedv_pool *pool = mapping->pool;
	bool many = false;
	int err = 0;

	if (xp_health(xp_ctx(pool->pd->context)) == XP_FORKED)
		return EIO;
	pthread_mutex_lock(&pool->lock);
	if (!e->refs) {
		err = EINVAL;
	} else if (!--e->refs) {
		put(pool, e);
		many = pool->attr.dirty_watermark && pool->ndirty >= pool->attr.dirty_watermark;
	}
	pthread_mutex_unlock(&pool->lock);
	/* what cannot be invalidated now stays dirty, and is tried again */
	if (many)
		xrocedv_flush_pool(pool);
	return err;
}

/* ---- create, destroy --------------------------------------------------------------- */

static int check(const struct ibv_pd *pd, const struct xrocedv_pool_attr *a)
{
	unsigned int writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

	if (!xp_is_ours(pd->context))
		return -EOPNOTSUPP;
	if (!a->max_pages || a->max_pages > XROCEDV_MAX_PAGES || !a->pool_size ||
	    a->pool_size > XROCEDV_MAX_POOL || a->dirty_watermark > a->pool_size ||
	    a->flags & ~XROCEDV_POOL_CACHE)
		return -EINVAL;
	if (a->page_size < XROCEDV_MIN_PAGE_SIZE || a->page_size > XROCEDV_MAX_PAGE_SIZE ||
	    a->page_size & (a->page_size - 1))
		return -EINVAL;
	if (a->access & ~(unsigned int)POOL_ACCESS ||
	    (a->access & writes && !(a->access & IBV_ACCESS_LOCAL_WRITE)))
		return -EINVAL;
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
	while (pool->mask + 1 < attr->pool_size)
		pool->mask = 2 * pool->mask + 1;
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

/* Goes on where it failed when it is called again. */
static int destroy(struct xrocedv_pool *pool)
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
	int err = check(pd, attr);

	if (err)
		return xp_null(err);
	pool = new_pool(pd, attr);
	if (!pool)
		return xp_null(ENOMEM);
	err = pool->entry && pool->bucket && pool->page ? make_queues(pool) : -ENOMEM;
	if (!err)
		err = make_entries(pool);
	if (!err)
		return pool;
	destroy(pool);
	return xp_null(err);
}

XP_PUBLIC int xrocedv_destroy_pool(struct xrocedv_pool *pool)
{
	uint32_t i;

	for (i = 0; i < pool->attr.pool_size; i++)
		if (pool->entry[i].refs)
			return EBUSY;
	return destroy(pool);
}
