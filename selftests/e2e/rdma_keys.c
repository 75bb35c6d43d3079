// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Keys that work requests change: memory windows, invalidation from either side, and fast registration by the
 * direct verbs of xroce, which it looks up in the library that was preloaded. Also an example of how these
 * are used: each test is one function.
 *
 *   rdma_keys [options]         owns the memory and decides
 *   rdma_keys [options] HOST    its partner, which writes and reads as it is asked to
 *
 *   -d DEV   device (default: the first)     -g N     GID index (default 1)
 *   -t NAME  run one test (may be repeated)  -p PORT  TCP port for set-up (18516)
 *   -x CMD   run by a shell while a window is bound: what others see of it
 *   -l       packets are lost: a refusal may be one, then the partner retries in vain
 *   -E       the owner is rdma_rxe, which does some things in its own way (docs/interop.md)
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rdma_side.h"

#include "../lib/direct_verbs.h"

#define PAGE 4096u
#define SIZE (64 * PAGE)
#define FROM 5000u /* the window: [FROM, FROM + LEN) of the memory */
#define LEN 20000u
#define RW (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

struct keys {
	struct side s;
	uint8_t *mem;
	struct ibv_mr *mr;
	struct direct_verbs dv;
	unsigned flushed; /* pools were */
	uint32_t seed;
	bool lossy, rxe;
	const char *look;
	char why[200];
};

static bool is(struct keys *k, const char *what, long got, long want)
{
	if (got != want && !k->why[0])
		snprintf(k->why, sizeof(k->why), "%s: %ld instead of %ld", what, got, want);
	return got == want;
}

/* ---- work requests of our own, and what the partner does ----------------------------------------- */

static int post(struct keys *k, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	int err;

	wr->send_flags |= IBV_SEND_SIGNALED;
	err = ibv_post_send(k->s.qp, wr, &bad);
	return err ? -err : side_completion(&k->s, &wc);
}

static int bind_2(struct keys *k, struct ibv_mw *mw, uint32_t from, uint32_t len, unsigned access)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = { mw,
			     ibv_inc_rkey(mw->rkey),
			     { k->mr, (uintptr_t)k->mem + from, len, access } },
	};
	int status = post(k, &wr);

	if (!status)
		mw->rkey = wr.bind_mw.rkey;
	return status;
}

static int bind_1(struct keys *k, struct ibv_mw *mw, uint32_t from, uint32_t len, unsigned access)
{
	struct ibv_mw_bind bind = {
		.send_flags = IBV_SEND_SIGNALED,
		/* librxe looks at the region even where there is none */
		.bind_info = { len || k->rxe ? k->mr : NULL, len ? (uintptr_t)k->mem + from : 0,
			       len, access },
	};
	struct ibv_wc wc;
	int err = ibv_bind_mw(k->s.qp, mw, &bind);

	if (err)
		return -err;
	err = side_completion(&k->s, &wc);
	return !err && wc.opcode != IBV_WC_BIND_MW ? -EBADMSG : err;
}

static int local_inv(struct keys *k, uint32_t key)
{
	return post(k, &(struct ibv_send_wr){ .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = key });
}

/* The partner's SEND with Invalidate; what our receive says */
static bool remote_inv(struct keys *k, uint32_t key, int status)
{
	unsigned invalidated = k->rxe ? 1 << 2 : IBV_WC_WITH_INV;
	struct ibv_recv_wr *bad, wr = { .wr_id = 9 };
	struct ibv_wc wc = { 0 };
	int got;

	ibv_post_recv(k->s.qp, &wr, &bad);
	got = ask(&k->s, &(struct side_request){ .what = ASK_SEND_INV, .rkey = key });
	if (!is(k, "SEND with Invalidate", got, status))
		return false;
	got = side_completion(&k->s, &wc);
	if (status)
		return is(k, "its receive", got, IBV_WC_REM_INV_REQ_ERR);
	return is(k, "its receive", got, 0) && is(k, "invalidated key", wc.invalidated_rkey, key) &&
	       is(k, "flags", wc.wc_flags & invalidated, invalidated);
}

static int remote(struct keys *k, uint32_t what, uint64_t addr, uint32_t len, uint32_t rkey)
{
	return ask(&k->s,
		   &(struct side_request){ .what = what, .addr = addr, .len = len, .rkey = rkey });
}

static bool writes(struct keys *k, uint64_t addr, uint32_t len, uint32_t rkey, int status)
{
	int got;

	k->seed++;
	ask(&k->s, &(struct side_request){ .what = ASK_FILL, .len = len, .seed = k->seed });
	got = remote(k, ASK_WRITE, addr, len, rkey);
	if (k->lossy && status && got == IBV_WC_RETRY_EXC_ERR)
		got = status;
	return is(k, "the partner's WRITE", got, status);
}

static bool refused(struct keys *k, uint64_t addr, uint32_t len, uint32_t rkey)
{
	return writes(k, addr, len, rkey, IBV_WC_REM_ACCESS_ERR) &&
	       is(k, "connecting again", side_reconnect(&k->s), 0);
}

/* Beyond a window, but not beyond its region */
static bool beyond(struct keys *k, uint64_t addr, uint32_t len, uint32_t rkey)
{
	return k->rxe ? is(k, "connecting again", side_reconnect(&k->s), 0)
		      : refused(k, addr, len, rkey);
}

static bool landed(struct keys *k, uint32_t from, uint32_t len)
{
	return is(k, "the bytes are there", holds(k->mem + from, len, k->seed, 0), true);
}

static uint64_t at(const struct keys *k, uint32_t from)
{
	return (uintptr_t)k->mem + from;
}

/* ---- windows ------------------------------------------------------------------------------------- */

static bool type_1(struct keys *k)
{
	struct ibv_mw *mw = ibv_alloc_mw(k->s.pd, IBV_MW_TYPE_1);
	uint32_t old;
	bool ok;

	ok = is(k, "allocated", !!mw, 1) && is(k, "bind", bind_1(k, mw, FROM, LEN, RW), 0) &&
	     writes(k, at(k, FROM), LEN, mw->rkey, 0) && landed(k, FROM, LEN) &&
	     is(k, "the partner's READ", remote(k, ASK_READ, at(k, FROM), LEN, mw->rkey), 0) &&
	     beyond(k, at(k, FROM - 1), LEN, mw->rkey) && beyond(k, at(k, FROM + 1), LEN, mw->rkey);
	old = ok ? mw->rkey : 0;
	/* it belongs to no queue pair, and survived their errors */
	ok = ok && writes(k, at(k, FROM), LEN, mw->rkey, 0) &&
	     is(k, "bind elsewhere", bind_1(k, mw, FROM + LEN, LEN, IBV_ACCESS_REMOTE_READ), 0) &&
	     refused(k, at(k, FROM), LEN, old) && refused(k, at(k, FROM + LEN), LEN, mw->rkey) &&
	     is(k, "deregistering under it", ibv_dereg_mr(k->mr), k->rxe ? EINVAL : EBUSY) &&
	     is(k, "unbind", bind_1(k, mw, 0, 0, 0), 0) &&
	     refused(k, at(k, FROM + LEN), 8, mw->rkey);
	return ok && is(k, "deallocate", ibv_dealloc_mw(mw), 0);
}

static bool type_2(struct keys *k)
{
	struct ibv_mw *mw = ibv_alloc_mw(k->s.pd, IBV_MW_TYPE_2);
	bool ok;

	ok = is(k, "allocated", !!mw, 1) && is(k, "bind", bind_2(k, mw, FROM, LEN, RW), 0) &&
	     writes(k, at(k, FROM), LEN, mw->rkey, 0) && landed(k, FROM, LEN) &&
	     is(k, "local invalidate", local_inv(k, mw->rkey), 0) &&
	     refused(k, at(k, FROM), LEN, mw->rkey) &&
	     is(k, "bind again", bind_2(k, mw, FROM, LEN, RW), 0) && remote_inv(k, mw->rkey, 0) &&
	     refused(k, at(k, FROM), LEN, mw->rkey) &&
	     /* the queue pair was reset, so it is free */
	     is(k, "bind again", bind_2(k, mw, FROM, LEN, RW), 0) &&
	     beyond(k, at(k, FROM - 1), LEN, mw->rkey) &&
	     is(k, "free by RESET", k->rxe ? local_inv(k, mw->rkey) : 0, 0) &&
	     is(k, "bind after RESET", bind_2(k, mw, FROM, LEN, RW), 0) &&
	     is(k, "bind what is bound", bind_2(k, mw, FROM, LEN, RW), IBV_WC_MW_BIND_ERR) &&
	     is(k, "connecting again", side_reconnect(&k->s), 0);
	return ok && is(k, "deallocate", ibv_dealloc_mw(mw), 0);
}

static bool zero_based(struct keys *k)
{
	struct ibv_mw *mw = ibv_alloc_mw(k->s.pd, IBV_MW_TYPE_2);
	bool ok;

	ok = is(k, "allocated", !!mw, 1) &&
	     is(k, "bind", bind_2(k, mw, FROM, LEN, RW | IBV_ACCESS_ZERO_BASED), 0) &&
	     writes(k, 0, LEN, mw->rkey, 0) && landed(k, FROM, LEN) &&
	     writes(k, 100, 1000, mw->rkey, 0) && landed(k, FROM + 100, 1000) &&
	     beyond(k, 1, LEN, mw->rkey);
	return ok && is(k, "deallocate", ibv_dealloc_mw(mw), 0);
}

static bool bind_refused(struct keys *k)
{
	struct ibv_mw *mw = ibv_alloc_mw(k->s.pd, IBV_MW_TYPE_2);
	bool ok;

	ok = is(k, "allocated", !!mw, 1) &&
	     is(k, "beyond the region", bind_2(k, mw, SIZE - LEN + 1, LEN, RW),
		IBV_WC_MW_BIND_ERR) &&
	     is(k, "connecting again", side_reconnect(&k->s), 0) &&
	     is(k, "invalidate a region", local_inv(k, k->mr->lkey), IBV_WC_MW_BIND_ERR) &&
	     is(k, "connecting again", side_reconnect(&k->s), 0) &&
	     remote_inv(k, k->mr->rkey, IBV_WC_REM_ACCESS_ERR) &&
	     is(k, "connecting again", side_reconnect(&k->s), 0);
	return ok && is(k, "deallocate", ibv_dealloc_mw(mw), 0);
}

/* The window goes while it is bound; what it was bound to is free then. */
static bool dealloc_bound(struct keys *k)
{
	struct ibv_mw *mw = ibv_alloc_mw(k->s.pd, IBV_MW_TYPE_2);
	uint32_t rkey;
	bool ok;

	ok = is(k, "allocated", !!mw, 1) && is(k, "bind", bind_2(k, mw, FROM, LEN, RW), 0);
	rkey = ok ? mw->rkey : 0;
	return ok && is(k, "deallocate", ibv_dealloc_mw(mw), 0) &&
	       refused(k, at(k, FROM), LEN, rkey);
}

/* Another program looks at a window while it is bound, and when it is not any more. */
static bool shown(struct keys *k)
{
	struct ibv_mw *mw = ibv_alloc_mw(k->s.pd, IBV_MW_TYPE_2);
	bool ok;

	ok = is(k, "allocated", !!mw, 1) && is(k, "bind", bind_2(k, mw, FROM, LEN, RW), 0) &&
	     is(k, "the look at it", k->look ? system(k->look) : 0, 0) &&
	     is(k, "invalidate", local_inv(k, mw->rkey), 0) &&
	     is(k, "another look", k->look ? system(k->look) : 0, 0);
	return is(k, "deallocate", mw ? ibv_dealloc_mw(mw) : 0, 0) && ok;
}

/* ---- fast registration ---------------------------------------------------------------------------- */

static int reg(struct keys *k, struct ibv_mr *mr, uint8_t variant)
{
	struct ibv_wc wc;
	int err;

	xrocedv_update_key(mr, variant);
	err = k->dv.post_reg_mr(k->s.qp, mr, 1, IBV_ACCESS_LOCAL_WRITE | RW, IBV_SEND_SIGNALED);
	if (err)
		return -err;
	err = side_completion(&k->s, &wc);
	return !err && wc.opcode != XROCEDV_WC_REG_MR ? -EBADMSG : err;
}

/* Three pages that lie apart, from within the first to within the last */
static const struct {
	uint32_t page, off, len;
} apart[] = { { 40, 1000, PAGE - 1000 }, { 3, 0, PAGE }, { 17, 0, 77 } };
#define APART_LEN (PAGE - 1000 + PAGE + 77)

static void set_apart(const struct keys *k, struct xrocedv_sg sg[3])
{
	for (int i = 0; i < 3; i++)
		sg[i] = (struct xrocedv_sg){ at(k, apart[i].page * PAGE + apart[i].off),
					     apart[i].len };
}

static bool landed_apart(struct keys *k)
{
	uint32_t done = 0;

	for (int i = 0; i < 3; i++) {
		if (!is(k, "piece of the region",
			holds(k->mem + apart[i].page * PAGE + apart[i].off, apart[i].len, k->seed,
			      done),
			true))
			return false;
		done += apart[i].len;
	}
	return true;
}

static bool fast(struct keys *k)
{
	struct ibv_mr *mr = k->dv.alloc_mr(k->s.pd, 8);
	struct xrocedv_sg sg[3];
	uint32_t old;
	bool ok;

	set_apart(k, sg);
	ok = is(k, "allocated", !!mr, 1) &&
	     is(k, "mapped", k->dv.map_mr_sg(mr, sg, 3, NULL, PAGE), 3) &&
	     is(k, "length", mr->length, APART_LEN) && is(k, "register", reg(k, mr, 1), 0) &&
	     writes(k, sg[0].addr, APART_LEN, mr->rkey, 0) && landed_apart(k) &&
	     is(k, "the partner's READ", remote(k, ASK_READ, sg[0].addr, APART_LEN, mr->rkey), 0) &&
	     is(k, "the partner has it",
		ask(&k->s,
		    &(struct side_request){ .what = ASK_HOLDS, .len = APART_LEN, .seed = k->seed }),
		0) &&
	     is(k, "local invalidate", local_inv(k, mr->rkey), 0);
	old = ok ? mr->rkey : 0;
	ok = ok && is(k, "mapped elsewhere", k->dv.map_mr_sg(mr, &sg[1], 1, NULL, PAGE), 1) &&
	     is(k, "register again", reg(k, mr, 2), 0) && refused(k, sg[0].addr, 100, old) &&
	     writes(k, sg[1].addr, PAGE, mr->rkey, 0) && landed(k, 3 * PAGE, PAGE) &&
	     remote_inv(k, mr->rkey, 0) && refused(k, sg[1].addr, PAGE, mr->rkey);
	return ok && is(k, "deregister", ibv_dereg_mr(mr), 0);
}

static bool fast_order(struct keys *k)
{
	struct ibv_mr *mr = k->dv.alloc_mr(k->s.pd, 8);
	struct xrocedv_sg sg[3];
	bool ok;

	set_apart(k, sg);
	ok = is(k, "allocated", !!mr, 1) && refused(k, sg[0].addr, 8, mr->rkey) &&
	     is(k, "register what is not mapped",
		k->dv.post_reg_mr(k->s.qp, mr, 1, RW | IBV_ACCESS_LOCAL_WRITE, 0), EINVAL) &&
	     is(k, "mapped", k->dv.map_mr_sg(mr, sg, 3, NULL, PAGE), 3) &&
	     is(k, "invalidate what is free", local_inv(k, mr->rkey), 0) &&
	     is(k, "register", reg(k, mr, 1), 0) &&
	     is(k, "register twice", reg(k, mr, 2), IBV_WC_MW_BIND_ERR) &&
	     is(k, "connecting again", side_reconnect(&k->s), 0);
	if (ok)
		xrocedv_update_key(mr, 1);
	ok = ok && writes(k, sg[0].addr, APART_LEN, mr->rkey, 0) &&
	     is(k, "invalidate another variant", local_inv(k, mr->rkey + 1), IBV_WC_MW_BIND_ERR) &&
	     is(k, "connecting again", side_reconnect(&k->s), 0) &&
	     is(k, "deregister what is registered", ibv_dereg_mr(mr), 0);
	return ok;
}

/* The longest prefix: elements that cannot follow, pages that run out */
static bool fast_prefix(struct keys *k)
{
	struct ibv_mr *mr = k->dv.alloc_mr(k->s.pd, 2);
	struct xrocedv_sg sg[3] = {
		{ at(k, 100), PAGE - 100 },
		{ at(k, 2 * PAGE), 500 },
		{ at(k, 2 * PAGE + 500), 100 },
	};
	uint64_t off = 50;
	bool ok;

	ok = is(k, "allocated", !!mr, 1) &&
	     is(k, "all", k->dv.map_mr_sg(mr, sg, 3, &off, PAGE), 3) &&
	     is(k, "length", mr->length, PAGE - 150 + 600) &&
	     is(k, "address", (uintptr_t)mr->addr - at(k, 0), 150) && is(k, "rest", off, 0);
	sg[2].addr = at(k, 3 * PAGE);
	ok = ok && is(k, "a gap within a page", k->dv.map_mr_sg(mr, sg, 3, NULL, PAGE), 2) &&
	     is(k, "length", mr->length, PAGE - 100 + 500);
	sg[1].length = 3 * PAGE;
	ok = ok && is(k, "no more pages", k->dv.map_mr_sg(mr, sg, 2, &off, PAGE), 1) &&
	     is(k, "bytes of the second", off, PAGE) && is(k, "length", mr->length, 2 * PAGE - 100);
	return ok && is(k, "page size", k->dv.map_mr_sg(mr, sg, 1, NULL, 1000), -EINVAL) &&
	       is(k, "deregister", ibv_dereg_mr(mr), 0);
}

/* Pages that may not be written, and such that are not there: looked at when they are used */
static bool fast_pages(struct keys *k)
{
	struct ibv_mr *mr = k->dv.alloc_mr(k->s.pd, 8);
	uint8_t *p = anonymous(2 * PAGE);
	struct xrocedv_sg sg = { (uintptr_t)p, 2 * PAGE };
	bool ok;

	ok = is(k, "allocated", mr && p, 1) &&
	     is(k, "mapped", k->dv.map_mr_sg(mr, &sg, 1, NULL, PAGE), 1) &&
	     is(k, "register", reg(k, mr, 1), 0) && writes(k, sg.addr, 2 * PAGE, mr->rkey, 0) &&
	     is(k, "the bytes are there", holds(p, 2 * PAGE, k->seed, 0), true);
	mprotect(p, PAGE, PROT_READ);
	ok = ok && writes(k, sg.addr, PAGE, mr->rkey, IBV_WC_REM_OP_ERR) &&
	     is(k, "connecting again", side_reconnect(&k->s), 0) &&
	     is(k, "nothing was written", holds(p, PAGE, k->seed - 1, 0), true);
	munmap(p, 2 * PAGE);
	return ok && writes(k, sg.addr + PAGE, 8, mr->rkey, IBV_WC_REM_OP_ERR) &&
	       is(k, "connecting again", side_reconnect(&k->s), 0) &&
	       is(k, "deregister", ibv_dereg_mr(mr), 0);
}

/* A window bound to a fast region keeps it from being invalidated. */
static bool fast_window(struct keys *k)
{
	struct ibv_mr *mr = k->dv.alloc_mr(k->s.pd, 8), *whole = k->mr;
	struct ibv_mw *mw = ibv_alloc_mw(k->s.pd, IBV_MW_TYPE_1);
	struct xrocedv_sg sg = { at(k, 0), 8 * PAGE };
	bool ok;

	ok = is(k, "allocated", mr && mw, 1) &&
	     is(k, "mapped", k->dv.map_mr_sg(mr, &sg, 1, NULL, PAGE), 1) &&
	     is(k, "register",
		k->dv.post_reg_mr(k->s.qp, mr, 1, RW | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND,
				  0),
		0);
	k->mr = mr;
	ok = ok && is(k, "bind", bind_1(k, mw, FROM, LEN, RW), 0) &&
	     writes(k, at(k, FROM), LEN, mw->rkey, 0) && landed(k, FROM, LEN) &&
	     is(k, "invalidate under it", local_inv(k, mr->rkey), IBV_WC_MW_BIND_ERR) &&
	     is(k, "connecting again", side_reconnect(&k->s), 0) &&
	     is(k, "deregister under it", ibv_dereg_mr(mr), EBUSY) &&
	     is(k, "deallocate", ibv_dealloc_mw(mw), 0);
	k->mr = whole;
	return ok && is(k, "invalidate", local_inv(k, mr->rkey), 0) &&
	       is(k, "deregister", ibv_dereg_mr(mr), 0);
}

/* ---- pools ---------------------------------------------------------------------------------------- */

static void count_flush(struct xrocedv_pool *pool, void *arg)
{
	((struct keys *)arg)->flushed++;
}

static struct xrocedv_pool *new_pool(struct keys *k, uint32_t size, uint32_t watermark,
				     uint32_t flags)
{
	struct xrocedv_pool_attr attr = {
		.max_pages = 8,
		.page_size = PAGE,
		.pool_size = size,
		.dirty_watermark = watermark,
		.access = IBV_ACCESS_LOCAL_WRITE | RW,
		.flags = flags,
		.flushed = count_flush,
		.arg = k,
	};

	k->flushed = 0;
	return k->dv.create_pool(k->s.pd, &attr);
}

/* Page n of the memory, n + 1 bytes short */
static const struct xrocedv_mapping *map_page(struct keys *k, struct xrocedv_pool *pool, uint32_t n)
{
	struct xrocedv_sg sg = { at(k, n * PAGE), PAGE - n - 1 };

	return k->dv.pool_map(pool, &sg, 1);
}

static bool pool_cache(struct keys *k)
{
	struct xrocedv_pool *pool = new_pool(k, 2, 0, XROCEDV_POOL_CACHE);
	const struct xrocedv_mapping *m, *again, *other;
	struct xrocedv_sg sg[3];
	uint32_t rkey;
	bool ok;

	set_apart(k, sg);
	m = pool ? k->dv.pool_map(pool, sg, 3) : NULL;
	ok = is(k, "mapped", !!m, 1) && is(k, "length", m->length, APART_LEN) &&
	     is(k, "address", m->addr, sg[0].addr) && writes(k, m->addr, APART_LEN, m->rkey, 0) &&
	     landed_apart(k);
	again = ok ? k->dv.pool_map(pool, sg, 3) : NULL;
	ok = ok && is(k, "the same list, the same mapping", again == m, 1);
	other = ok ? map_page(k, pool, 7) : NULL;
	ok = ok && is(k, "another list", other && other != m, 1) &&
	     is(k, "no more regions", !map_page(k, pool, 8) && errno == EAGAIN, 1) &&
	     is(k, "unmap", k->dv.pool_unmap(m), 0) &&
	     is(k, "mapped once more than unmapped", !map_page(k, pool, 8), 1) &&
	     is(k, "unmap", k->dv.pool_unmap(again), 0) &&
	     is(k, "unmap too often", k->dv.pool_unmap(m), EINVAL);
	rkey = ok ? m->rkey : 0;
	ok = ok && writes(k, sg[0].addr, APART_LEN, rkey, 0) && /* dirty */
	     is(k, "from the cache", k->dv.pool_map(pool, sg, 3) == m && m->rkey == rkey, 1) &&
	     is(k, "unmap", k->dv.pool_unmap(m), 0) && is(k, "flush", k->dv.flush_pool(pool), 0) &&
	     is(k, "flushed", k->flushed, 1) && refused(k, sg[0].addr, 8, rkey) &&
	     writes(k, other->addr, other->length, other->rkey, 0) &&
	     is(k, "mapped anew", k->dv.pool_map(pool, sg, 3) == m && m->rkey != rkey, 1) &&
	     writes(k, m->addr, APART_LEN, m->rkey, 0) && landed_apart(k) &&
	     is(k, "destroy what is mapped", k->dv.destroy_pool(pool), EBUSY) &&
	     is(k, "unmap", k->dv.pool_unmap(m) || k->dv.pool_unmap(other), 0);
	return ok && is(k, "destroy", k->dv.destroy_pool(pool), 0);
}

/* The region of what was unmapped longest ago is used again; its key of before is worth nothing. */
static bool pool_reuse(struct keys *k)
{
	struct xrocedv_pool *pool = new_pool(k, 2, 0, XROCEDV_POOL_CACHE);
	const struct xrocedv_mapping *m[4];
	uint32_t rkey[4] = { 0 };
	bool ok = is(k, "created", !!pool, 1);

	for (uint32_t i = 0; i < 3 && ok; i++) {
		m[i] = map_page(k, pool, i);
		ok = is(k, "mapped", !!m[i], 1);
		rkey[i] = ok ? m[i]->rkey : 0;
		ok = ok && is(k, "unmap", k->dv.pool_unmap(m[i]), 0);
	}
	return ok && is(k, "the region", m[2] == m[0] && m[1] != m[0], 1) &&
	       writes(k, at(k, PAGE), 8, rkey[1], 0) && writes(k, at(k, 2 * PAGE), 8, rkey[2], 0) &&
	       refused(k, at(k, 0), 8, rkey[0]) && is(k, "flushed", k->flushed, 0) &&
	       is(k, "destroy what is dirty", k->dv.destroy_pool(pool), 0) &&
	       refused(k, at(k, PAGE), 8, rkey[1]);
}

static bool pool_watermark(struct keys *k)
{
	struct xrocedv_pool *pool = new_pool(k, 100, 70, 0);
	const struct xrocedv_mapping *m[100];
	uint32_t rkey = 0;
	bool ok = is(k, "created", !!pool, 1);

	for (uint32_t i = 0; i < 100 && ok; i++) {
		m[i] = map_page(k, pool, i % 8);
		ok = is(k, "mapped", m[i] && (!i || m[i] != m[i - 1]), 1);
	}
	for (uint32_t i = 0; i < 69 && ok; i++)
		ok = is(k, "unmap", k->dv.pool_unmap(m[i]), 0);
	rkey = ok ? m[68]->rkey : 0;
	ok = ok && is(k, "flushed", k->flushed, 0) && writes(k, at(k, 4 * PAGE), 8, rkey, 0) &&
	     is(k, "unmap", k->dv.pool_unmap(m[69]), 0) && is(k, "flushed", k->flushed, 1) &&
	     refused(k, at(k, 4 * PAGE), 8, rkey) && writes(k, m[70]->addr, 8, m[70]->rkey, 0);
	for (uint32_t i = 70; i < 100 && ok; i++)
		ok = is(k, "unmap", k->dv.pool_unmap(m[i]), 0);
	return ok && is(k, "flushed", k->flushed, 1) &&
	       is(k, "destroy", k->dv.destroy_pool(pool), 0);
}

static bool pool_refused(struct keys *k)
{
	struct xrocedv_pool *pool = new_pool(k, 1, 1, 0);
	const struct xrocedv_mapping *m;
	struct xrocedv_sg sg[3];
	bool ok;

	set_apart(k, sg);
	sg[1].addr += 8;
	ok = is(k, "created", !!pool, 1) &&
	     is(k, "a gap", !k->dv.pool_map(pool, sg, 3) && errno == EINVAL, 1) &&
	     is(k, "no list", !k->dv.pool_map(pool, sg, 0) && errno == EINVAL, 1);
	sg[0] = (struct xrocedv_sg){ at(k, 0), 8 * PAGE + 1 };
	ok = ok && is(k, "too long", !k->dv.pool_map(pool, sg, 1) && errno == EINVAL, 1);
	sg[0].length--;
	m = ok ? k->dv.pool_map(pool, sg, 1) : NULL;
	ok = ok && is(k, "as long as can be", !!m, 1) && is(k, "unmap", k->dv.pool_unmap(m), 0) &&
	     is(k, "destroy", k->dv.destroy_pool(pool), 0) &&
	     is(k, "watermark", !new_pool(k, 1, 2, 0) && errno == EINVAL, 1) &&
	     is(k, "flags", !new_pool(k, 1, 1, 2) && errno == EINVAL, 1) &&
	     is(k, "no regions", !new_pool(k, 0, 0, 0) && errno == EINVAL, 1);
	return ok;
}

struct mapper {
	struct keys *k;
	struct xrocedv_pool *pool;
	unsigned wrong;
};

/* What one thread has mapped no other thread's map may change. */
static void *keep_mapping(void *arg)
{
	struct mapper *m = arg;
	unsigned seed = (unsigned)(uintptr_t)pthread_self();

	for (int i = 0; i < 2000; i++) {
		uint32_t n = (uint32_t)rand_r(&seed) % 12;
		const struct xrocedv_mapping *got = map_page(m->k, m->pool, n);
		uint32_t rkey = got ? got->rkey : 0;

		if (!got) {
			m->wrong += errno != EAGAIN;
			continue;
		}
		m->wrong += got->addr != at(m->k, n * PAGE) || got->length != PAGE - n - 1;
		sched_yield();
		m->wrong += got->rkey != rkey || m->k->dv.pool_unmap(got);
	}
	return NULL;
}

static bool pool_threads(struct keys *k)
{
	struct mapper m[4];
	pthread_t thread[4];
	unsigned wrong = 0, n = 0;
	struct xrocedv_pool *pool = new_pool(k, 3, 2, XROCEDV_POOL_CACHE);

	if (!is(k, "created", !!pool, 1))
		return false;
	for (unsigned i = 0; i < 4; i++) {
		m[i] = (struct mapper){ k, pool, 0 };
		n += !pthread_create(&thread[i], NULL, keep_mapping, &m[i]);
	}
	for (unsigned i = 0; i < n; i++) {
		pthread_join(thread[i], NULL);
		wrong += m[i].wrong;
	}
	return is(k, "threads", n, 4) && is(k, "wrong", wrong, 0) &&
	       is(k, "destroy", k->dv.destroy_pool(pool), 0);
}

/* ---- the reserved L_Key ----------------------------------------------------------------------------- */

static int with_lkey(struct keys *k, enum ibv_wr_opcode opcode, void *p, uint32_t len,
		     uint32_t lkey)
{
	struct ibv_sge sge = { (uintptr_t)p, len, lkey };

	return side_rdma(&k->s, opcode, &sge, k->s.peer.addr, k->s.peer.rkey);
}

/* The partner's SEND into memory that is nobody's region */
static bool received_with(struct keys *k, uint32_t lkey)
{
	uint8_t got[SEND_PIECE];
	struct ibv_sge sge = { (uintptr_t)got, sizeof(got), lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = 9, .sg_list = &sge, .num_sge = 1 };
	struct ibv_wc wc;

	k->seed++;
	ibv_post_recv(k->s.qp, &wr, &bad);
	ask(&k->s, &(struct side_request){ .what = ASK_FILL, .len = SEND_PIECE, .seed = k->seed });
	return is(k, "the partner's SEND",
		  ask(&k->s, &(struct side_request){ .what = ASK_SEND, .len = 1 }), 0) &&
	       is(k, "the receive", side_completion(&k->s, &wc), 0) &&
	       is(k, "the bytes are there", holds(got, sizeof(got), k->seed, 0), true);
}

static bool reserved(struct keys *k)
{
	uint8_t from[5000], to[5000] = { 0 }, *gone = anonymous(PAGE);
	uint32_t lkey = 0;
	bool ok;

	memset(from, 0x5a, sizeof(from));
	ok = is(k, "before it was asked for", with_lkey(k, IBV_WR_RDMA_WRITE, from, 8, 0xff),
		IBV_WC_LOC_PROT_ERR) &&
	     is(k, "connecting again", side_reconnect(&k->s), 0) &&
	     is(k, "asked for", k->dv.reserved_lkey(k->s.pd, &lkey), 0) &&
	     is(k, "WRITE", with_lkey(k, IBV_WR_RDMA_WRITE, from, sizeof(from), lkey), 0) &&
	     is(k, "READ", with_lkey(k, IBV_WR_RDMA_READ, to, sizeof(to), lkey), 0) &&
	     is(k, "the bytes are there", memcmp(from, to, sizeof(to)), 0) &&
	     received_with(k, lkey) && refused(k, at(k, 0), 8, lkey);
	munmap(gone, PAGE);
	return ok &&
	       is(k, "memory that is not there", with_lkey(k, IBV_WR_RDMA_WRITE, gone, 8, lkey),
		  IBV_WC_LOC_PROT_ERR) &&
	       is(k, "connecting again", side_reconnect(&k->s), 0);
}

static const struct test {
	const char *name;
	bool (*run)(struct keys *k);
	bool direct; /* needs direct verbs */
} tests[] = {
	{ "type-1", type_1, false },
	{ "type-2", type_2, false },
	{ "zero-based", zero_based, false },
	{ "bind-refused", bind_refused, false },
	{ "dealloc-bound", dealloc_bound, false },
	{ "shown", shown, false },
	{ "fast", fast, true },
	{ "fast-order", fast_order, true },
	{ "fast-prefix", fast_prefix, true },
	{ "fast-pages", fast_pages, true },
	{ "fast-window", fast_window, true },
	{ "pool-cache", pool_cache, true },
	{ "pool-reuse", pool_reuse, true },
	{ "pool-watermark", pool_watermark, true },
	{ "pool-refused", pool_refused, true },
	{ "pool-threads", pool_threads, true },
	{ "reserved", reserved, true },
};
#define TESTS (sizeof(tests) / sizeof(tests[0]))

static bool run_one(struct keys *k, const struct test *t)
{
	bool ok;

	k->why[0] = '\0';
	if (t->direct && !k->dv.create_pool) {
		printf("skipped %s: no direct verbs in this process\n", t->name);
		return true;
	}
	ok = t->run(k);
	printf("%s %s%s%s\n", ok ? "ok" : "FAILED", t->name, ok ? "" : ": ", k->why);
	fflush(stdout);
	return ok;
}

static bool run(struct keys *k, const char *const *names, int n)
{
	bool ok = true;

	for (size_t i = 0; i < TESTS && ok; i++) {
		bool wanted = !n;

		for (int j = 0; j < n; j++)
			wanted |= !strcmp(names[j], tests[i].name);
		if (wanted)
			ok = run_one(k, &tests[i]);
	}
	return ok && !ask(&k->s, &(struct side_request){ .what = ASK_END });
}

static bool prepare(struct keys *k)
{
	find_direct_verbs(&k->dv);
	k->mem = anonymous(SIZE);
	k->mr = k->mem ? ibv_reg_mr(k->s.pd, k->mem, SIZE, SIDE_ACCESS | IBV_ACCESS_MW_BIND) : NULL;
	return k->mr;
}

int main(int argc, char **argv)
{
	const char *names[16], *dev = NULL, *host;
	int c, n = 0, gid_index = 1, port = 18516;
	struct keys k = { 0 };
	bool ok;

	while ((c = getopt(argc, argv, "d:g:p:t:x:lE")) != -1) {
		switch (c) {
		case 'd':
			dev = optarg;
			break;
		case 'g':
			gid_index = atoi(optarg);
			break;
		case 'p':
			port = atoi(optarg);
			break;
		case 'x':
			k.look = optarg;
			break;
		case 'l':
			k.lossy = true;
			break;
		case 'E':
			k.rxe = true;
			break;
		case 't':
			if (n < 16)
				names[n++] = optarg;
			break;
		default:
			fprintf(stderr, "usage: rdma_keys [-d DEV] [-g GID-INDEX] [-p PORT] [-x "
					"CMD] [-l] [-E] [-t TEST]... [HOST]\n");
			return 2;
		}
	}
	host = argv[optind];
	if (!side_open(&k.s, dev, gid_index) || !prepare(&k) || !side_meet(&k.s, host, port))
		return 1;
	ok = host ? side_serve(&k.s) : run(&k, names, n);
	if (ok) {
		ibv_dereg_mr(k.mr);
		side_close(&k.s);
	}
	return ok ? 0 : 1;
}
