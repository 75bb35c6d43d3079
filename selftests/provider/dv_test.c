// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Direct verbs: regions for fast registration, what their work requests say, and pools of them. */
#include "fixture.h"

#include <sys/wait.h>

#include <xroce/ring.h>
#include <xroce/tables.h>

#include "../lib/direct_verbs.h"
#include "../lib/tap.h"

#define PAGE 4096u
#define ADDR 0x10000000ull /* nothing is there: the fake daemon moves no data */
#define RW (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

/* The library is preloaded. */
static struct direct_verbs dv;

/* ---- regions ----------------------------------------------------------------------- */

static void allocation(struct fixture *f)
{
	unsigned int before = fake_objects(&f->daemon);
	struct ibv_mr *mr = dv.alloc_mr(f->pd, 4), *other = dv.alloc_mr(f->pd, XROCEDV_MAX_PAGES);

	TAP_OK(dv.is_supported(f->ctx->device), "the device is one of xroce");
	TAP_OK(mr && other && mr->lkey == mr->rkey && mr->pd == f->pd && mr->context == f->ctx &&
		       mr->rkey != other->rkey,
	       "regions for fast registration");
	TAP_OK(!dv.alloc_mr(f->pd, 0) && errno == EINVAL, "not of no pages");
	TAP_OK(!dv.alloc_mr(f->pd, XROCEDV_MAX_PAGES + 1) && errno == EINVAL, "nor of too many");
	TAP_OK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) != 0,
	       "they are not registered by the verb");
	TAP_OK(!ibv_dereg_mr(mr) && !ibv_dereg_mr(other) && fake_objects(&f->daemon) == before,
	       "they go");
}

static void mapping(struct fixture *f)
{
	struct ibv_mr *mr = dv.alloc_mr(f->pd, 3), *plain;
	struct xrocedv_sg sg[3] = {
		{ ADDR + 100, PAGE - 100 },
		{ ADDR + 5 * PAGE, PAGE },
		{ ADDR + 9 * PAGE, 50 },
	};
	static uint8_t byte[PAGE];
	uint64_t off = 0;

	TAP_OK(dv.map_mr_sg(mr, sg, 3, NULL, PAGE) == 3 && mr->length == 2 * PAGE - 50 &&
		       (uintptr_t)mr->addr == ADDR + 100,
	       "a list of parts");
	sg[1].length -= 8;
	TAP_OK(dv.map_mr_sg(mr, sg, 3, NULL, PAGE) == 2, "as far as pages follow each other");
	sg[1].length += 8;
	TAP_OK(dv.map_mr_sg(mr, sg, 0, NULL, PAGE) == -EINVAL, "no parts");
	TAP_OK(dv.map_mr_sg(mr, sg, 3, NULL, PAGE / 2) == -EINVAL &&
		       dv.map_mr_sg(mr, sg, 3, NULL, PAGE + 1) == -EINVAL &&
		       dv.map_mr_sg(mr, sg, 3, NULL, 2 * XROCEDV_MAX_PAGE_SIZE) == -EINVAL,
	       "page sizes that are none");
	off = sg[0].length;
	TAP_OK(dv.map_mr_sg(mr, sg, 3, &off, PAGE) == -EINVAL, "an offset beyond the first part");
	sg[2].length = 0;
	TAP_OK(dv.map_mr_sg(mr, sg, 3, NULL, PAGE) == -EINVAL, "a part without bytes");
	sg[2] = (struct xrocedv_sg){ -100ull, 200 };
	TAP_OK(dv.map_mr_sg(mr, sg, 3, NULL, PAGE) == -EINVAL, "over the end of all addresses");
	TAP_OK(mr->length == PAGE - 100 + PAGE - 8, "what is refused changes nothing");
	plain = ibv_reg_mr(f->pd, byte, sizeof(byte), IBV_ACCESS_LOCAL_WRITE);
	TAP_OK(plain && dv.map_mr_sg(plain, sg, 1, NULL, PAGE) == -EINVAL,
	       "a region of the verb has no list");
	ibv_dereg_mr(plain);
	ibv_dereg_mr(mr);
}

static void posting(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 8, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(f, cq, cq, IBV_QPS_RTR);
	struct ibv_mr *mr = dv.alloc_mr(f->pd, 3);
	struct xrocedv_sg sg = { ADDR + 100, 2 * PAGE };
	struct ibv_pd *pd = ibv_alloc_pd(f->ctx);
	struct ibv_mr *stranger = dv.alloc_mr(pd, 3);
	struct xr_send_wqe wqe;
	uint64_t page[3];
	int i, full = 0;

	TAP_OK(dv.post_reg_mr(qp, mr, 1, RW, 0) == EINVAL, "nothing was mapped");
	dv.map_mr_sg(mr, &sg, 1, NULL, PAGE);
	TAP_OK(dv.post_reg_mr(qp, mr, 1, RW, 0) == EINVAL, "the queue pair cannot send");
	to_state(qp, IBV_QPS_RTS);
	TAP_OK(dv.post_reg_mr(qp, mr, 1, RW, IBV_SEND_INLINE) == EINVAL, "flags");
	dv.map_mr_sg(stranger, &sg, 1, NULL, PAGE);
	TAP_OK(dv.post_reg_mr(qp, stranger, 1, RW, 0) == EPERM, "another protection domain");
	xrocedv_update_key(mr, 0x5a);
	TAP_OK(!dv.post_reg_mr(qp, mr, 77, RW, IBV_SEND_SIGNALED | IBV_SEND_FENCE), "posted");
	TAP_OK(fake_send_entry(&f->daemon, qp->qp_num, 0, &wqe, sizeof(wqe)) == 1 &&
		       wqe.wr_id == 77 && wqe.opcode == XR_WR_REG_MR &&
		       wqe.flags == (XR_SEND_SIGNALED | XR_SEND_FENCE) && wqe.reg.key == mr->rkey &&
		       (mr->rkey & 0xff) == 0x5a && wqe.reg.access == RW && wqe.reg.pages == 3 &&
		       wqe.reg.page_shift == 12 && wqe.remote_addr == ADDR + 100 &&
		       wqe.bind_len == 2 * PAGE,
	       "a work request that says all of it");
	fake_pages(&f->daemon, mr->rkey, wqe.reg.list, page, 3);
	TAP_OK(page[0] == ADDR && page[1] == ADDR + PAGE && page[2] == ADDR + 2 * PAGE,
	       "the list names the pages");
	dv.map_mr_sg(mr, &sg, 1, NULL, PAGE);
	i = wqe.reg.list;
	dv.post_reg_mr(qp, mr, 78, RW, 0);
	fake_send_entry(&f->daemon, qp->qp_num, 1, &wqe, sizeof(wqe));
	TAP_OK(wqe.reg.list != i, "the next one lies in the other list");
	for (i = 0; i < 10 && !full; i++)
		full = dv.post_reg_mr(qp, mr, 0, RW, 0);
	TAP_OK(full == ENOMEM && i == 7, "until the queue is full");
	TAP_OK(!ibv_dereg_mr(mr) && !ibv_dereg_mr(stranger) && !ibv_dealloc_pd(pd) &&
		       !ibv_destroy_qp(qp) && !ibv_destroy_cq(cq),
	       "they go");
}

/* Regions and queue pairs of one protection domain, whichever of them was made in a parent of it */
static void parents(struct fixture *f)
{
	struct ibv_parent_domain_init_attr attr = { .pd = f->pd };
	struct ibv_pd *parent = ibv_alloc_parent_domain(f->ctx, &attr);
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 8, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(f, cq, cq, IBV_QPS_RTS);
	struct ibv_mr *mr = dv.alloc_mr(parent, 3);
	struct xrocedv_sg sg = { ADDR, PAGE };

	dv.map_mr_sg(mr, &sg, 1, NULL, PAGE);
	TAP_OK(!dv.post_reg_mr(qp, mr, 1, RW, 0), "a parent domain is the same domain");
	ibv_dereg_mr(mr);
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
	ibv_dealloc_pd(parent);
}

static void lkey(struct fixture *f)
{
	uint32_t key = 0;

	TAP_OK(!dv.reserved_lkey(f->pd, &key) && key == XR_RESERVED_LKEY,
	       "the reserved L_Key, behind the process's memory");
}

/* ---- pools ------------------------------------------------------------------------- */

static unsigned int flushed;

static void count(struct xrocedv_pool *pool, void *arg)
{
	flushed += arg == &flushed;
}

static const struct xrocedv_pool_attr usual = {
	.max_pages = 4,
	.page_size = PAGE,
	.pool_size = 3,
	.access = RW,
	.flags = XROCEDV_POOL_CACHE,
	.flushed = count,
	.arg = &flushed,
};

static const struct xrocedv_mapping *map_at(struct xrocedv_pool *pool, unsigned int n)
{
	struct xrocedv_sg sg = { ADDR + n * PAGE, PAGE };

	return dv.pool_map(pool, &sg, 1);
}

static void pool_attributes(struct fixture *f)
{
	static const struct {
		const char *what;
		struct xrocedv_pool_attr attr;
	} rows[] = {
		{ "no pages", { 0, PAGE, 3, 0, RW, 0, NULL, NULL } },
		{ "too many pages", { XROCEDV_MAX_PAGES + 1, PAGE, 3, 0, RW, 0, NULL, NULL } },
		{ "a page size that is none", { 4, PAGE + 8, 3, 0, RW, 0, NULL, NULL } },
		{ "small pages", { 4, PAGE / 2, 3, 0, RW, 0, NULL, NULL } },
		{ "no regions", { 4, PAGE, 0, 0, RW, 0, NULL, NULL } },
		{ "too many regions", { 4, PAGE, XROCEDV_MAX_POOL + 1, 0, RW, 0, NULL, NULL } },
		{ "a watermark that is not reached", { 4, PAGE, 3, 4, RW, 0, NULL, NULL } },
		{ "windows", { 4, PAGE, 3, 0, RW | IBV_ACCESS_MW_BIND, 0, NULL, NULL } },
		{ "peers may write, the owner may not",
		  { 4, PAGE, 3, 0, IBV_ACCESS_REMOTE_WRITE, 0, NULL, NULL } },
		{ "flags that there are not", { 4, PAGE, 3, 0, RW, 2, NULL, NULL } },
	};
	unsigned int before = fake_objects(&f->daemon), i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		TAP_OK(!dv.create_pool(f->pd, &rows[i].attr) && errno == EINVAL, "no pool: %s",
		       rows[i].what);
	TAP_OK(fake_objects(&f->daemon) == before, "nothing is left of them");
}

static void pool_cache(struct fixture *f)
{
	unsigned int before = fake_objects(&f->daemon);
	const struct xrocedv_mapping *a, *b, *c;
	struct xrocedv_pool *pool;
	uint32_t rkey;

	fake_automatic(&f->daemon, true, 0);
	pool = dv.create_pool(f->pd, &usual);
	TAP_OK(pool && fake_objects(&f->daemon) == before + 5,
	       "a pool is three regions and two queues");
	a = map_at(pool, 1);
	b = map_at(pool, 2);
	c = map_at(pool, 3);
	TAP_OK(a && b && c && a->addr == ADDR + PAGE && a->length == PAGE && a->lkey == a->rkey &&
		       a->rkey != b->rkey && a->pool == pool,
	       "mappings");
	TAP_OK(map_at(pool, 2) == b && !dv.pool_unmap(b), "the same list, the same mapping");
	TAP_OK(!map_at(pool, 4) && errno == EAGAIN, "until there are no more regions");
	rkey = a->rkey;
	TAP_OK(!dv.pool_unmap(a) && dv.pool_unmap(a) == EINVAL, "unmapped once for each map");
	TAP_OK(map_at(pool, 1) == a && a->rkey == rkey, "it was in the cache");
	TAP_OK(!dv.pool_unmap(a) && map_at(pool, 4) == a && a->rkey != rkey &&
		       XR_KEY_INDEX(a->rkey) == XR_KEY_INDEX(rkey),
	       "its region is used again, with another key");
	TAP_OK(dv.destroy_pool(pool) == EBUSY, "a pool in use stays");
	dv.pool_unmap(a);
	dv.pool_unmap(b);
	TAP_OK(!dv.flush_pool(pool) && flushed == 1, "flushed");
	rkey = b->rkey;
	b = map_at(pool, 2);
	TAP_OK(b && b->rkey != rkey && c->addr == ADDR + 3 * PAGE,
	       "what was flushed is registered anew");
	dv.pool_unmap(b);
	dv.pool_unmap(c);
	TAP_OK(!dv.destroy_pool(pool) && fake_objects(&f->daemon) == before, "it goes");
	fake_automatic(&f->daemon, false, 0);
}

/* A work request fails: no harm is done, and the queue pair is connected again. */
static void pool_failures(struct fixture *f)
{
	struct xrocedv_pool_attr attr = usual;
	const struct xrocedv_mapping *a, *b;
	struct xrocedv_pool *pool;
	uint32_t rkey;

	flushed = 0;
	attr.pool_size = 2;
	attr.dirty_watermark = 2;
	fake_automatic(&f->daemon, true, 1);
	pool = dv.create_pool(f->pd, &attr);
	TAP_OK(pool && !map_at(pool, 1) && errno == EIO, "a registration fails");
	a = map_at(pool, 1);
	b = map_at(pool, 2);
	TAP_OK(a && b, "the next ones do not");
	fake_automatic(&f->daemon, true, 2);
	rkey = a->rkey;
	TAP_OK(!dv.pool_unmap(a) && !dv.pool_unmap(b) && !flushed,
	       "flushing at the watermark fails");
	TAP_OK(map_at(pool, 1) == a && a->rkey != rkey, "what was to be flushed is in no cache");
	TAP_OK(!dv.pool_unmap(a) && flushed == 1, "and is flushed by the next unmap");
	TAP_OK(!dv.destroy_pool(pool), "the pool goes");
	fake_automatic(&f->daemon, false, 0);
}

static void pool_of_the_parent(struct fixture *f)
{
	const struct xrocedv_mapping *a;
	struct xrocedv_pool *pool;
	int status = -1;
	pid_t child;

	fake_automatic(&f->daemon, true, 0);
	pool = dv.create_pool(f->pd, &usual);
	a = map_at(pool, 1);
	child = fork();
	if (!child)
		_exit(!(!map_at(pool, 2) && errno == EIO && dv.pool_unmap(a) == EIO &&
			dv.flush_pool(pool) == EIO));
	waitpid(child, &status, 0);
	TAP_OK(!status, "a child keeps its hands off");
	TAP_OK(!dv.pool_unmap(a) && !dv.destroy_pool(pool), "the parent goes on");
	fake_automatic(&f->daemon, false, 0);
}

static void pool_without_daemon(struct fixture *f)
{
	const struct xrocedv_mapping *a;
	struct xrocedv_pool *pool;

	fake_automatic(&f->daemon, true, 0);
	pool = dv.create_pool(f->pd, &usual);
	a = map_at(pool, 1);
	fake_kill(&f->daemon);
	TAP_OK(!map_at(pool, 2) && errno == EIO, "without a daemon nothing is mapped");
	TAP_OK(!dv.pool_unmap(a) && dv.flush_pool(pool) == EIO, "nor invalidated");
	TAP_OK(!dv.destroy_pool(pool), "the pool goes all the same");
}

int main(void)
{
	struct fixture f = { 0 };

	TAP_OK(find_direct_verbs(&dv), "the direct verbs are exported");
	setup(&f);
	lkey(&f);
	allocation(&f);
	mapping(&f);
	posting(&f);
	parents(&f);
	pool_attributes(&f);
	pool_cache(&f);
	pool_failures(&f);
	pool_of_the_parent(&f);
	pool_without_daemon(&f);
	teardown(&f);
	return tap_end();
}
