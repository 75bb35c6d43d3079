// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Keys that work requests change: memory windows, invalidation by either side, and fast
 * registration by the direct verbs, which are looked up in the preloaded library. Each test is one
 * function, which may serve as an example.
 *
 *   rdma_keys [options]         the driver: owns the memory and runs the tests
 *   rdma_keys [options] HOST    its partner: executes requests of the driver (endpoint.h)
 *
 *   -d DEV   device (default: the first)     -g N     GID index (default 1)
 *   -t NAME  run one test (may be repeated)  -p PORT  TCP port for set-up (18516)
 *   -x CMD   shell command that the test "show" runs while a window is bound, and after it, and the
 *            test "show-use" when its keys were used
 *   -l       packets are lost: if a NAK is lost, the request ends with retry exceeded instead
 *   -E       the driver's device is rdma_rxe, which deviates from the standard (docs/interop.md)
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "endpoint.h"

#include "../lib/direct_verbs.h"

#define PAGE 4096u
#define SIZE (64 * PAGE)
#define FROM 5000u /* windows: [FROM, FROM + LEN) of the memory */
#define LEN 20000u
#define RW (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

struct keys {
	struct endpoint ep;
	uint8_t *mem;
	struct ibv_mr *mr;
	struct direct_verbs dv;
	unsigned flushed; /* calls of the pool's flushed callback */
	uint32_t seed;	  /* of the partner's last WRITE */
	bool lossy, rxe;
	const char *command; /* -x */
	char error[200];     /* message of the first failure */
};

static bool expect(struct keys *k, const char *what, long got, long want)
{
	if (got != want && !k->error[0])
		snprintf(k->error, sizeof(k->error), "%s: %ld, expected %ld", what, got, want);
	return got == want;
}

/* ---- work requests of the driver and of the partner ------------------------------- */

static int post(struct keys *k, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	int err;

	wr->send_flags |= IBV_SEND_SIGNALED;
	err = ibv_post_send(k->ep.qp, wr, &bad);
	return err ? -err : ep_completion(&k->ep, &wc);
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
		/* librxe dereferences the region also when unbinding */
		.bind_info = { len || k->rxe ? k->mr : NULL, len ? (uintptr_t)k->mem + from : 0,
			       len, access },
	};
	struct ibv_wc wc;
	int err = ibv_bind_mw(k->ep.qp, mw, &bind);

	if (err)
		return -err;
	err = ep_completion(&k->ep, &wc);
	return !err && wc.opcode != IBV_WC_BIND_MW ? -EBADMSG : err;
}

static int local_inv(struct keys *k, uint32_t key)
{
	return post(k, &(struct ibv_send_wr){ .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = key });
}

/* Has the partner post a SEND with Invalidate, and checks the completion of its receive. */
static bool remote_inv(struct keys *k, uint32_t key, int status)
{
	unsigned invalidated = k->rxe ? 1 << 2 : IBV_WC_WITH_INV;
	struct ibv_recv_wr *bad, wr = { .wr_id = 9 };
	struct ibv_wc wc = { 0 };
	int got;

	ibv_post_recv(k->ep.qp, &wr, &bad);
	got = ep_call(&k->ep, &(struct ep_request){ .op = EP_SEND_INV, .rkey = key });
	if (!expect(k, "SEND with Invalidate", got, status))
		return false;
	got = ep_completion(&k->ep, &wc);
	if (status)
		return expect(k, "receive of SEND with Invalidate", got, IBV_WC_REM_INV_REQ_ERR);
	return expect(k, "receive of SEND with Invalidate", got, 0) &&
	       expect(k, "invalidated key", wc.invalidated_rkey, key) &&
	       expect(k, "wc_flags", wc.wc_flags & invalidated, invalidated);
}

static int partner_rdma(struct keys *k, uint32_t op, uint64_t addr, uint32_t len, uint32_t rkey)
{
	return ep_call(&k->ep,
		       &(struct ep_request){ .op = op, .addr = addr, .len = len, .rkey = rkey });
}

/* Has the partner post a WRITE, which must complete with this status. */
static bool partner_writes(struct keys *k, uint64_t addr, uint32_t len, uint32_t rkey, int status)
{
	int got;

	k->seed++;
	ep_call(&k->ep, &(struct ep_request){ .op = EP_FILL, .len = len, .seed = k->seed });
	got = partner_rdma(k, EP_WRITE, addr, len, rkey);
	if (k->lossy && status && got == IBV_WC_RETRY_EXC_ERR)
		got = status;
	return expect(k, "WRITE of the partner", got, status);
}

/* Has the partner post a WRITE, which must fail with remote access error. Reconnects. */
static bool write_refused(struct keys *k, uint64_t addr, uint32_t len, uint32_t rkey)
{
	return partner_writes(k, addr, len, rkey, IBV_WC_REM_ACCESS_ERR) &&
	       expect(k, "reconnect", ep_reconnect(&k->ep), 0);
}

/*
 * Like write_refused(), for a WRITE outside the window but inside its region, which rdma_rxe
 * allows.
 */
static bool write_beyond(struct keys *k, uint64_t addr, uint32_t len, uint32_t rkey)
{
	return k->rxe ? expect(k, "reconnect", ep_reconnect(&k->ep), 0)
		      : write_refused(k, addr, len, rkey);
}

/* Checks that the data of the partner's last WRITE is in memory. */
static bool check_data(struct keys *k, uint32_t from, uint32_t len)
{
	return expect(k, "data in memory", has_pattern(k->mem + from, len, k->seed, 0), true);
}

static uint64_t addr_of(const struct keys *k, uint32_t from)
{
	return (uintptr_t)k->mem + from;
}

/* ---- windows --------------------------------------------------------------------------- */

static bool type_1(struct keys *k)
{
	struct ibv_mw *mw = ibv_alloc_mw(k->ep.pd, IBV_MW_TYPE_1);
	uint32_t old;
	bool ok;

	ok = expect(k, "allocated", !!mw, 1) &&
	     expect(k, "bind", bind_1(k, mw, FROM, LEN, RW), 0) &&
	     partner_writes(k, addr_of(k, FROM), LEN, mw->rkey, 0) && check_data(k, FROM, LEN) &&
	     expect(k, "READ of the partner",
		    partner_rdma(k, EP_READ, addr_of(k, FROM), LEN, mw->rkey), 0) &&
	     write_beyond(k, addr_of(k, FROM - 1), LEN, mw->rkey) &&
	     write_beyond(k, addr_of(k, FROM + 1), LEN, mw->rkey);
	old = ok ? mw->rkey : 0;
	/* a type 1 window belongs to no QP, so errors of QPs do not unbind it */
	ok = ok && partner_writes(k, addr_of(k, FROM), LEN, mw->rkey, 0) &&
	     expect(k, "bind to another range",
		    bind_1(k, mw, FROM + LEN, LEN, IBV_ACCESS_REMOTE_READ), 0) &&
	     write_refused(k, addr_of(k, FROM), LEN, old) &&
	     write_refused(k, addr_of(k, FROM + LEN), LEN, mw->rkey) &&
	     expect(k, "deregister a region with a window", ibv_dereg_mr(k->mr),
		    k->rxe ? EINVAL : EBUSY) &&
	     expect(k, "unbind", bind_1(k, mw, 0, 0, 0), 0) &&
	     write_refused(k, addr_of(k, FROM + LEN), 8, mw->rkey);
	return ok && expect(k, "deallocate", ibv_dealloc_mw(mw), 0);
}

/* A bound window of type 2 cannot be bound again. rdma_rxe of newer kernels flushes the request. */
static bool bind_bound(struct keys *k, struct ibv_mw *mw)
{
	int got = bind_2(k, mw, FROM, LEN, RW);

	if (k->rxe && got == IBV_WC_WR_FLUSH_ERR)
		got = IBV_WC_MW_BIND_ERR;
	return expect(k, "bind a bound window", got, IBV_WC_MW_BIND_ERR);
}

static bool type_2(struct keys *k)
{
	struct ibv_mw *mw = ibv_alloc_mw(k->ep.pd, IBV_MW_TYPE_2);
	bool ok;

	ok = expect(k, "allocated", !!mw, 1) &&
	     expect(k, "bind", bind_2(k, mw, FROM, LEN, RW), 0) &&
	     partner_writes(k, addr_of(k, FROM), LEN, mw->rkey, 0) && check_data(k, FROM, LEN) &&
	     expect(k, "local invalidate", local_inv(k, mw->rkey), 0) &&
	     write_refused(k, addr_of(k, FROM), LEN, mw->rkey) &&
	     expect(k, "bind again", bind_2(k, mw, FROM, LEN, RW), 0) &&
	     remote_inv(k, mw->rkey, 0) && write_refused(k, addr_of(k, FROM), LEN, mw->rkey) &&
	     /* RESET of the QP has unbound the window */
	     expect(k, "bind again", bind_2(k, mw, FROM, LEN, RW), 0) &&
	     write_beyond(k, addr_of(k, FROM - 1), LEN, mw->rkey) &&
	     expect(k, "unbind after RESET", k->rxe ? local_inv(k, mw->rkey) : 0, 0) &&
	     expect(k, "bind after RESET", bind_2(k, mw, FROM, LEN, RW), 0) && bind_bound(k, mw) &&
	     expect(k, "reconnect", ep_reconnect(&k->ep), 0);
	return ok && expect(k, "deallocate", ibv_dealloc_mw(mw), 0);
}

static bool zero_based(struct keys *k)
{
	struct ibv_mw *mw = ibv_alloc_mw(k->ep.pd, IBV_MW_TYPE_2);
	bool ok;

	ok = expect(k, "allocated", !!mw, 1) &&
	     expect(k, "bind", bind_2(k, mw, FROM, LEN, RW | IBV_ACCESS_ZERO_BASED), 0) &&
	     partner_writes(k, 0, LEN, mw->rkey, 0) && check_data(k, FROM, LEN) &&
	     partner_writes(k, 100, 1000, mw->rkey, 0) && check_data(k, FROM + 100, 1000) &&
	     write_beyond(k, 1, LEN, mw->rkey);
	return ok && expect(k, "deallocate", ibv_dealloc_mw(mw), 0);
}

static bool bind_refused(struct keys *k)
{
	struct ibv_mw *mw = ibv_alloc_mw(k->ep.pd, IBV_MW_TYPE_2);
	bool ok;

	ok = expect(k, "allocated", !!mw, 1) &&
	     expect(k, "bind beyond the region", bind_2(k, mw, SIZE - LEN + 1, LEN, RW),
		    IBV_WC_MW_BIND_ERR) &&
	     expect(k, "reconnect", ep_reconnect(&k->ep), 0) &&
	     expect(k, "invalidate a region", local_inv(k, k->mr->lkey), IBV_WC_MW_BIND_ERR) &&
	     expect(k, "reconnect", ep_reconnect(&k->ep), 0) &&
	     remote_inv(k, k->mr->rkey, IBV_WC_REM_ACCESS_ERR) &&
	     expect(k, "reconnect", ep_reconnect(&k->ep), 0);
	return ok && expect(k, "deallocate", ibv_dealloc_mw(mw), 0);
}

#define BINDS 60u /* at most EP_DEPTH */

/* Posts binds of a bound window, and makes the CQ smaller before all of them are executed. */
static bool resize_once(struct keys *k, struct ibv_mw *mw)
{
	struct ibv_mw_bind bind = {
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = { k->mr, addr_of(k, FROM), LEN, RW },
	};
	struct ibv_wc wc;
	bool ok = true;

	for (uint32_t i = 0; i < BINDS && ok; i++)
		ok = expect(k, "bind", ibv_bind_mw(k->ep.qp, mw, &bind), 0);
	ok = ok && expect(k, "smaller CQ", ibv_resize_cq(k->ep.cq, 2 * EP_DEPTH), 0);
	for (uint32_t i = 0; i < BINDS && ok; i++)
		ok = expect(k, "completion of a bind", ep_completion(&k->ep, &wc), 0);
	return ok && expect(k, "larger CQ", ibv_resize_cq(k->ep.cq, 4 * EP_DEPTH), 0);
}

/* Resizing a CQ executes binds in the control thread, in the place of a worker. */
static bool bind_resize(struct keys *k)
{
	struct ibv_mw *mw = ibv_alloc_mw(k->ep.pd, IBV_MW_TYPE_1);
	bool ok;

	ok = expect(k, "allocated", !!mw, 1) && expect(k, "bind", bind_1(k, mw, FROM, LEN, RW), 0);
	for (int i = 0; i < 100 && ok; i++)
		ok = resize_once(k, mw);
	return ok && expect(k, "deallocate", ibv_dealloc_mw(mw), 0);
}

/* Deallocating a bound window revokes its R_Key. */
static bool dealloc_bound(struct keys *k)
{
	struct ibv_mw *mw = ibv_alloc_mw(k->ep.pd, IBV_MW_TYPE_2);
	uint32_t rkey;
	bool ok;

	ok = expect(k, "allocated", !!mw, 1) && expect(k, "bind", bind_2(k, mw, FROM, LEN, RW), 0);
	rkey = ok ? mw->rkey : 0;
	return ok && expect(k, "deallocate", ibv_dealloc_mw(mw), 0) &&
	       write_refused(k, addr_of(k, FROM), LEN, rkey);
}

/* Runs the command of -x while a window is bound, and again when it is not. */
static bool show(struct keys *k)
{
	struct ibv_mw *mw = ibv_alloc_mw(k->ep.pd, IBV_MW_TYPE_2);
	bool ok;

	ok = expect(k, "allocated", !!mw, 1) &&
	     expect(k, "bind", bind_2(k, mw, FROM, LEN, RW), 0) &&
	     expect(k, "command", k->command ? system(k->command) : 0, 0) &&
	     expect(k, "invalidate", local_inv(k, mw->rkey), 0) &&
	     expect(k, "second command", k->command ? system(k->command) : 0, 0);
	return expect(k, "deallocate", mw ? ibv_dealloc_mw(mw) : 0, 0) && ok;
}

/*
 * Runs the command of -x after a WRITE through a window, a WRITE and a READ of the region, and a
 * WRITE beyond the window, which is refused.
 */
static bool show_use(struct keys *k)
{
	struct ibv_mw *mw = ibv_alloc_mw(k->ep.pd, IBV_MW_TYPE_1);
	bool ok;

	ok = expect(k, "allocated", !!mw, 1) &&
	     expect(k, "bind", bind_1(k, mw, FROM, LEN, RW), 0) &&
	     partner_writes(k, addr_of(k, FROM), LEN, mw->rkey, 0) &&
	     partner_writes(k, addr_of(k, 0), 2 * LEN, k->mr->rkey, 0) &&
	     expect(k, "READ", partner_rdma(k, EP_READ, addr_of(k, 0), 3 * LEN, k->mr->rkey), 0) &&
	     write_beyond(k, addr_of(k, FROM + LEN), LEN, mw->rkey) &&
	     expect(k, "command", k->command ? system(k->command) : 0, 0);
	return expect(k, "deallocate", mw ? ibv_dealloc_mw(mw) : 0, 0) && ok;
}

/* ---- fast registration ----------------------------------------------------------------- */

static int reg(struct keys *k, struct ibv_mr *mr, uint8_t variant)
{
	struct ibv_wc wc;
	int err;

	xrocedv_update_key(mr, variant);
	err = k->dv.post_reg_mr(k->ep.qp, mr, 1, IBV_ACCESS_LOCAL_WRITE | RW, IBV_SEND_SIGNALED);
	if (err)
		return -err;
	err = ep_completion(&k->ep, &wc);
	return !err && wc.opcode != XROCEDV_WC_REG_MR ? -EBADMSG : err;
}

/* Three separate pages; the list starts within the first and ends within the last. */
static const struct {
	uint32_t page, off, len;
} apart[] = { { 40, 1000, PAGE - 1000 }, { 3, 0, PAGE }, { 17, 0, 77 } };
#define APART_LEN (PAGE - 1000 + PAGE + 77)

static void set_apart(const struct keys *k, struct xrocedv_sg sg[3])
{
	for (int i = 0; i < 3; i++)
		sg[i] = (struct xrocedv_sg){ addr_of(k, apart[i].page * PAGE + apart[i].off),
					     apart[i].len };
}

static bool check_apart(struct keys *k)
{
	uint32_t done = 0;

	for (int i = 0; i < 3; i++) {
		if (!expect(k, "data in memory",
			    has_pattern(k->mem + apart[i].page * PAGE + apart[i].off, apart[i].len,
					k->seed, done),
			    true))
			return false;
		done += apart[i].len;
	}
	return true;
}

static bool fast(struct keys *k)
{
	struct ibv_mr *mr = k->dv.alloc_mr(k->ep.pd, 8);
	struct xrocedv_sg sg[3];
	uint32_t old;
	bool ok;

	set_apart(k, sg);
	ok = expect(k, "allocated", !!mr, 1) &&
	     expect(k, "mapped", k->dv.map_mr_sg(mr, sg, 3, NULL, PAGE), 3) &&
	     expect(k, "length", mr->length, APART_LEN) &&
	     expect(k, "register", reg(k, mr, 1), 0) &&
	     partner_writes(k, sg[0].addr, APART_LEN, mr->rkey, 0) && check_apart(k) &&
	     expect(k, "READ of the partner",
		    partner_rdma(k, EP_READ, sg[0].addr, APART_LEN, mr->rkey), 0) &&
	     expect(k, "data at the partner",
		    ep_call(&k->ep, &(struct ep_request){ .op = EP_CHECK,
							  .len = APART_LEN,
							  .seed = k->seed }),
		    0) &&
	     expect(k, "local invalidate", local_inv(k, mr->rkey), 0);
	old = ok ? mr->rkey : 0;
	ok = ok && expect(k, "map again", k->dv.map_mr_sg(mr, &sg[1], 1, NULL, PAGE), 1) &&
	     expect(k, "register again", reg(k, mr, 2), 0) &&
	     write_refused(k, sg[0].addr, 100, old) &&
	     partner_writes(k, sg[1].addr, PAGE, mr->rkey, 0) && check_data(k, 3 * PAGE, PAGE) &&
	     remote_inv(k, mr->rkey, 0) && write_refused(k, sg[1].addr, PAGE, mr->rkey);
	return ok && expect(k, "deregister", ibv_dereg_mr(mr), 0);
}

static bool fast_order(struct keys *k)
{
	struct ibv_mr *mr = k->dv.alloc_mr(k->ep.pd, 8);
	struct xrocedv_sg sg[3];
	bool ok;

	set_apart(k, sg);
	ok = expect(k, "allocated", !!mr, 1) && write_refused(k, sg[0].addr, 8, mr->rkey) &&
	     expect(k, "register an unmapped region",
		    k->dv.post_reg_mr(k->ep.qp, mr, 1, RW | IBV_ACCESS_LOCAL_WRITE, 0), EINVAL) &&
	     expect(k, "mapped", k->dv.map_mr_sg(mr, sg, 3, NULL, PAGE), 3) &&
	     expect(k, "invalidate a free region", local_inv(k, mr->rkey), 0) &&
	     expect(k, "register", reg(k, mr, 1), 0) &&
	     expect(k, "register twice", reg(k, mr, 2), IBV_WC_MW_BIND_ERR) &&
	     expect(k, "reconnect", ep_reconnect(&k->ep), 0);
	if (ok)
		xrocedv_update_key(mr, 1);
	ok = ok && partner_writes(k, sg[0].addr, APART_LEN, mr->rkey, 0) &&
	     expect(k, "invalidate another variant", local_inv(k, mr->rkey + 1),
		    IBV_WC_MW_BIND_ERR) &&
	     expect(k, "reconnect", ep_reconnect(&k->ep), 0) &&
	     expect(k, "deregister a registered region", ibv_dereg_mr(mr), 0);
	return ok;
}

/*
 * map_mr_sg stops at an element that does not continue a page, and when the region has no more
 * pages.
 */
static bool fast_prefix(struct keys *k)
{
	struct ibv_mr *mr = k->dv.alloc_mr(k->ep.pd, 2);
	struct xrocedv_sg sg[3] = {
		{ addr_of(k, 100), PAGE - 100 },
		{ addr_of(k, 2 * PAGE), 500 },
		{ addr_of(k, 2 * PAGE + 500), 100 },
	};
	uint64_t off = 50;
	bool ok;

	ok = expect(k, "allocated", !!mr, 1) &&
	     expect(k, "map all", k->dv.map_mr_sg(mr, sg, 3, &off, PAGE), 3) &&
	     expect(k, "length", mr->length, PAGE - 150 + 600) &&
	     expect(k, "address", (uintptr_t)mr->addr - addr_of(k, 0), 150) &&
	     expect(k, "remaining offset", off, 0);
	sg[2].addr = addr_of(k, 3 * PAGE);
	ok = ok && expect(k, "a gap within a page", k->dv.map_mr_sg(mr, sg, 3, NULL, PAGE), 2) &&
	     expect(k, "length", mr->length, PAGE - 100 + 500);
	sg[1].length = 3 * PAGE;
	ok = ok &&
	     expect(k, "list longer than the region", k->dv.map_mr_sg(mr, sg, 2, &off, PAGE), 1) &&
	     expect(k, "bytes mapped of the second element", off, PAGE) &&
	     expect(k, "length", mr->length, 2 * PAGE - 100);
	return ok && expect(k, "page size", k->dv.map_mr_sg(mr, sg, 1, NULL, 1000), -EINVAL) &&
	       expect(k, "deregister", ibv_dereg_mr(mr), 0);
}

/*
 * Access to read-only and unmapped pages fails when the region is used, not when it is registered.
 */
static bool fast_pages(struct keys *k)
{
	struct ibv_mr *mr = k->dv.alloc_mr(k->ep.pd, 8);
	uint8_t *p = map_anonymous(2 * PAGE);
	struct xrocedv_sg sg = { (uintptr_t)p, 2 * PAGE };
	bool ok;

	ok = expect(k, "allocated", mr && p, 1) &&
	     expect(k, "mapped", k->dv.map_mr_sg(mr, &sg, 1, NULL, PAGE), 1) &&
	     expect(k, "register", reg(k, mr, 1), 0) &&
	     partner_writes(k, sg.addr, 2 * PAGE, mr->rkey, 0) &&
	     expect(k, "data in memory", has_pattern(p, 2 * PAGE, k->seed, 0), true);
	mprotect(p, PAGE, PROT_READ);
	ok = ok && partner_writes(k, sg.addr, PAGE, mr->rkey, IBV_WC_REM_OP_ERR) &&
	     expect(k, "reconnect", ep_reconnect(&k->ep), 0) &&
	     expect(k, "unchanged data", has_pattern(p, PAGE, k->seed - 1, 0), true);
	munmap(p, 2 * PAGE);
	return ok && partner_writes(k, sg.addr + PAGE, 8, mr->rkey, IBV_WC_REM_OP_ERR) &&
	       expect(k, "reconnect", ep_reconnect(&k->ep), 0) &&
	       expect(k, "deregister", ibv_dereg_mr(mr), 0);
}

/* A window bound to a fast region keeps it from being invalidated. */
static bool fast_window(struct keys *k)
{
	struct ibv_mr *mr = k->dv.alloc_mr(k->ep.pd, 8), *whole = k->mr;
	struct ibv_mw *mw = ibv_alloc_mw(k->ep.pd, IBV_MW_TYPE_1);
	struct xrocedv_sg sg = { addr_of(k, 0), 8 * PAGE };
	bool ok;

	ok = expect(k, "allocated", mr && mw, 1) &&
	     expect(k, "mapped", k->dv.map_mr_sg(mr, &sg, 1, NULL, PAGE), 1) &&
	     expect(k, "register",
		    k->dv.post_reg_mr(k->ep.qp, mr, 1,
				      RW | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND, 0),
		    0);
	k->mr = mr;
	ok = ok && expect(k, "bind", bind_1(k, mw, FROM, LEN, RW), 0) &&
	     partner_writes(k, addr_of(k, FROM), LEN, mw->rkey, 0) && check_data(k, FROM, LEN) &&
	     expect(k, "invalidate a region with a window", local_inv(k, mr->rkey),
		    IBV_WC_MW_BIND_ERR) &&
	     expect(k, "reconnect", ep_reconnect(&k->ep), 0) &&
	     expect(k, "deregister a region with a window", ibv_dereg_mr(mr), EBUSY) &&
	     expect(k, "deallocate", ibv_dealloc_mw(mw), 0);
	k->mr = whole;
	return ok && expect(k, "invalidate", local_inv(k, mr->rkey), 0) &&
	       expect(k, "deregister", ibv_dereg_mr(mr), 0);
}

/* ---- pools ----------------------------------------------------------------------------- */

/* Threads that use a pool together may flush it at the same time. */
static void count_flush(struct xrocedv_pool *pool, void *arg)
{
	__atomic_add_fetch(&((struct keys *)arg)->flushed, 1, __ATOMIC_RELAXED);
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
	return k->dv.create_pool(k->ep.pd, &attr);
}

/* Maps page @n of the memory without its last n + 1 bytes. */
static const struct xrocedv_mapping *map_page(struct keys *k, struct xrocedv_pool *pool, uint32_t n)
{
	struct xrocedv_sg sg = { addr_of(k, n * PAGE), PAGE - n - 1 };

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
	ok = expect(k, "mapped", !!m, 1) && expect(k, "length", m->length, APART_LEN) &&
	     expect(k, "address", m->addr, sg[0].addr) &&
	     partner_writes(k, m->addr, APART_LEN, m->rkey, 0) && check_apart(k);
	again = ok ? k->dv.pool_map(pool, sg, 3) : NULL;
	ok = ok && expect(k, "same mapping for the same list", again == m, 1);
	other = ok ? map_page(k, pool, 7) : NULL;
	ok = ok && expect(k, "another list", other && other != m, 1) &&
	     expect(k, "no more regions", !map_page(k, pool, 8) && errno == EAGAIN, 1) &&
	     expect(k, "unmap", k->dv.pool_unmap(m), 0) &&
	     expect(k, "mapped once more than unmapped", !map_page(k, pool, 8), 1) &&
	     expect(k, "unmap", k->dv.pool_unmap(again), 0) &&
	     expect(k, "unmap too often", k->dv.pool_unmap(m), EINVAL);
	rkey = ok ? m->rkey : 0;
	ok = ok && partner_writes(k, sg[0].addr, APART_LEN, rkey, 0) && /* dirty */
	     expect(k, "from the cache", k->dv.pool_map(pool, sg, 3) == m && m->rkey == rkey, 1) &&
	     expect(k, "unmap", k->dv.pool_unmap(m), 0) &&
	     expect(k, "flush", k->dv.flush_pool(pool), 0) && expect(k, "flushed", k->flushed, 1) &&
	     write_refused(k, sg[0].addr, 8, rkey) &&
	     partner_writes(k, other->addr, other->length, other->rkey, 0) &&
	     expect(k, "new key after the flush",
		    k->dv.pool_map(pool, sg, 3) == m && m->rkey != rkey, 1) &&
	     partner_writes(k, m->addr, APART_LEN, m->rkey, 0) && check_apart(k) &&
	     expect(k, "destroy a pool in use", k->dv.destroy_pool(pool), EBUSY) &&
	     expect(k, "unmap", k->dv.pool_unmap(m) || k->dv.pool_unmap(other), 0);
	return ok && expect(k, "destroy", k->dv.destroy_pool(pool), 0);
}

/* A full pool reuses the region that was unmapped first, and its old key becomes invalid. */
static bool pool_reuse(struct keys *k)
{
	struct xrocedv_pool *pool = new_pool(k, 2, 0, XROCEDV_POOL_CACHE);
	const struct xrocedv_mapping *m[4];
	uint32_t rkey[4] = { 0 };
	bool ok = expect(k, "created", !!pool, 1);

	for (uint32_t i = 0; i < 3 && ok; i++) {
		m[i] = map_page(k, pool, i);
		ok = expect(k, "mapped", !!m[i], 1);
		rkey[i] = ok ? m[i]->rkey : 0;
		ok = ok && expect(k, "unmap", k->dv.pool_unmap(m[i]), 0);
	}
	return ok && expect(k, "reused region", m[2] == m[0] && m[1] != m[0], 1) &&
	       partner_writes(k, addr_of(k, PAGE), 8, rkey[1], 0) &&
	       partner_writes(k, addr_of(k, 2 * PAGE), 8, rkey[2], 0) &&
	       write_refused(k, addr_of(k, 0), 8, rkey[0]) && expect(k, "flushed", k->flushed, 0) &&
	       expect(k, "destroy a pool with dirty mappings", k->dv.destroy_pool(pool), 0) &&
	       write_refused(k, addr_of(k, PAGE), 8, rkey[1]);
}

static bool pool_watermark(struct keys *k)
{
	struct xrocedv_pool *pool = new_pool(k, 100, 70, 0);
	const struct xrocedv_mapping *m[100];
	uint32_t rkey = 0;
	bool ok = expect(k, "created", !!pool, 1);

	for (uint32_t i = 0; i < 100 && ok; i++) {
		m[i] = map_page(k, pool, i % 8);
		ok = expect(k, "mapped", m[i] && (!i || m[i] != m[i - 1]), 1);
	}
	for (uint32_t i = 0; i < 69 && ok; i++)
		ok = expect(k, "unmap", k->dv.pool_unmap(m[i]), 0);
	rkey = ok ? m[68]->rkey : 0;
	ok = ok && expect(k, "flushed", k->flushed, 0) &&
	     partner_writes(k, addr_of(k, 4 * PAGE), 8, rkey, 0) &&
	     expect(k, "unmap", k->dv.pool_unmap(m[69]), 0) &&
	     expect(k, "flushed", k->flushed, 1) &&
	     write_refused(k, addr_of(k, 4 * PAGE), 8, rkey) &&
	     partner_writes(k, m[70]->addr, 8, m[70]->rkey, 0);
	for (uint32_t i = 70; i < 100 && ok; i++)
		ok = expect(k, "unmap", k->dv.pool_unmap(m[i]), 0);
	return ok && expect(k, "flushed", k->flushed, 1) &&
	       expect(k, "destroy", k->dv.destroy_pool(pool), 0);
}

static bool pool_refused(struct keys *k)
{
	struct xrocedv_pool *pool = new_pool(k, 1, 1, 0);
	const struct xrocedv_mapping *m;
	struct xrocedv_sg sg[3];
	bool ok;

	set_apart(k, sg);
	sg[1].addr += 8;
	ok = expect(k, "created", !!pool, 1) &&
	     expect(k, "list with a gap", !k->dv.pool_map(pool, sg, 3) && errno == EINVAL, 1) &&
	     expect(k, "empty list", !k->dv.pool_map(pool, sg, 0) && errno == EINVAL, 1);
	sg[0] = (struct xrocedv_sg){ addr_of(k, 0), 8 * PAGE + 1 };
	ok = ok && expect(k, "list longer than a region",
			  !k->dv.pool_map(pool, sg, 1) && errno == EINVAL, 1);
	sg[0].length--;
	m = ok ? k->dv.pool_map(pool, sg, 1) : NULL;
	ok = ok && expect(k, "list as long as a region", !!m, 1) &&
	     expect(k, "unmap", k->dv.pool_unmap(m), 0) &&
	     expect(k, "destroy", k->dv.destroy_pool(pool), 0) &&
	     expect(k, "watermark above the size", !new_pool(k, 1, 2, 0) && errno == EINVAL, 1) &&
	     expect(k, "unknown flags", !new_pool(k, 1, 1, 2) && errno == EINVAL, 1) &&
	     expect(k, "pool without regions", !new_pool(k, 0, 0, 0) && errno == EINVAL, 1);
	return ok;
}

struct mapper {
	struct keys *k;
	struct xrocedv_pool *pool;
	unsigned wrong;
};

/* A mapping must not change while one thread uses it, whatever other threads map. */
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
		m->wrong += got->addr != addr_of(m->k, n * PAGE) || got->length != PAGE - n - 1;
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

	if (!expect(k, "created", !!pool, 1))
		return false;
	for (unsigned i = 0; i < 4; i++) {
		m[i] = (struct mapper){ k, pool, 0 };
		n += !pthread_create(&thread[i], NULL, keep_mapping, &m[i]);
	}
	for (unsigned i = 0; i < n; i++) {
		pthread_join(thread[i], NULL);
		wrong += m[i].wrong;
	}
	return expect(k, "threads", n, 4) && expect(k, "errors", wrong, 0) &&
	       expect(k, "destroy", k->dv.destroy_pool(pool), 0);
}

/* ---- the reserved L_Key ---------------------------------------------------------------- */

static int with_lkey(struct keys *k, enum ibv_wr_opcode opcode, void *p, uint32_t len,
		     uint32_t lkey)
{
	struct ibv_sge sge = { (uintptr_t)p, len, lkey };

	return ep_rdma(&k->ep, opcode, &sge, k->ep.peer.addr, k->ep.peer.rkey);
}

/* The partner's SEND is received into memory without a region. */
static bool received_with(struct keys *k, uint32_t lkey)
{
	uint8_t got[SEND_SGE_LEN];
	struct ibv_sge sge = { (uintptr_t)got, sizeof(got), lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = 9, .sg_list = &sge, .num_sge = 1 };
	struct ibv_wc wc;

	k->seed++;
	ibv_post_recv(k->ep.qp, &wr, &bad);
	ep_call(&k->ep,
		&(struct ep_request){ .op = EP_FILL, .len = SEND_SGE_LEN, .seed = k->seed });
	return expect(k, "SEND of the partner",
		      ep_call(&k->ep, &(struct ep_request){ .op = EP_SEND, .len = 1 }), 0) &&
	       expect(k, "receive", ep_completion(&k->ep, &wc), 0) &&
	       expect(k, "data in memory", has_pattern(got, sizeof(got), k->seed, 0), true);
}

static bool reserved(struct keys *k)
{
	uint8_t from[5000], to[5000] = { 0 }, *gone = map_anonymous(PAGE);
	uint32_t lkey = 0;
	bool ok;

	memset(from, 0x5a, sizeof(from));
	ok = expect(k, "WRITE before reserved_lkey()",
		    with_lkey(k, IBV_WR_RDMA_WRITE, from, 8, 0xff), IBV_WC_LOC_PROT_ERR) &&
	     expect(k, "reconnect", ep_reconnect(&k->ep), 0) &&
	     expect(k, "reserved_lkey", k->dv.reserved_lkey(k->ep.pd, &lkey), 0) &&
	     expect(k, "WRITE", with_lkey(k, IBV_WR_RDMA_WRITE, from, sizeof(from), lkey), 0) &&
	     expect(k, "READ", with_lkey(k, IBV_WR_RDMA_READ, to, sizeof(to), lkey), 0) &&
	     expect(k, "data in memory", memcmp(from, to, sizeof(to)), 0) &&
	     received_with(k, lkey) && write_refused(k, addr_of(k, 0), 8, lkey);
	munmap(gone, PAGE);
	return ok &&
	       expect(k, "WRITE from unmapped memory",
		      with_lkey(k, IBV_WR_RDMA_WRITE, gone, 8, lkey), IBV_WC_LOC_PROT_ERR) &&
	       expect(k, "reconnect", ep_reconnect(&k->ep), 0);
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
	{ "bind-resize", bind_resize, false },
	{ "dealloc-bound", dealloc_bound, false },
	{ "show", show, false },
	{ "show-use", show_use, false },
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

	k->error[0] = '\0';
	if (t->direct && !k->dv.create_pool) {
		printf("skipped %s: no direct verbs in this process\n", t->name);
		return true;
	}
	ok = t->run(k);
	printf("%s %s%s%s\n", ok ? "ok" : "FAILED", t->name, ok ? "" : ": ", k->error);
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
	return ok && !ep_call(&k->ep, &(struct ep_request){ .op = EP_END });
}

static bool prepare(struct keys *k)
{
	find_direct_verbs(&k->dv);
	k->mem = map_anonymous(SIZE);
	k->mr = k->mem ? ibv_reg_mr(k->ep.pd, k->mem, SIZE, EP_ACCESS | IBV_ACCESS_MW_BIND) : NULL;
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
			k.command = optarg;
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
	if (!ep_open(&k.ep, dev, gid_index) || !prepare(&k) || !ep_connect(&k.ep, host, port))
		return 1;
	ok = host ? ep_serve(&k.ep) : run(&k, names, n);
	if (ok) {
		ibv_dereg_mr(k.mr);
		ep_close(&k.ep);
	}
	return ok ? 0 : 1;
}
