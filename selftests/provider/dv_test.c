// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Direct verbs: fast registration, pools, integrity regions, reserved L_Key */
#include "fixture.h"

#include <sys/wait.h>

#include <xroce/ring.h>
#include <xroce/tables.h>

#include "../lib/direct_verbs.h"
#include "../lib/tap.h"

#define PAGE 4096u
#define ADDR 0x10000000ull /* not mapped: the fake daemon moves no data */
#define RW (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

/* resolved at run time, since the library is preloaded */
static struct direct_verbs dv;

/* ---- fast registration -------------------------------------------------------- */

static void allocation(struct fixture *f)
{
	unsigned int before = fake_objects(&f->daemon);
	struct ibv_mr *mr = dv.alloc_mr(f->pd, 4), *other = dv.alloc_mr(f->pd, XROCEDV_MAX_PAGES);

	TAP_OK(dv.is_supported(f->ctx->device), "is_supported: true for an xroce device");
	TAP_OK(mr && other && mr->lkey == mr->rkey && mr->pd == f->pd && mr->context == f->ctx &&
		       mr->rkey != other->rkey,
	       "alloc_mr: regions of 4 and 4096 pages");
	TAP_OK(!dv.alloc_mr(f->pd, 0) && errno == EINVAL, "alloc_mr: 0 pages are EINVAL");
	TAP_OK(!dv.alloc_mr(f->pd, XROCEDV_MAX_PAGES + 1) && errno == EINVAL,
	       "alloc_mr: too many pages are EINVAL");
	TAP_OK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) != 0,
	       "rereg_mr is refused for such a region");
	TAP_OK(!ibv_dereg_mr(mr) && !ibv_dereg_mr(other) && fake_objects(&f->daemon) == before,
	       "the regions are deregistered");
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
	       "map_mr_sg: a list of three elements");
	sg[1].length -= 8;
	TAP_OK(dv.map_mr_sg(mr, sg, 3, NULL, PAGE) == 2,
	       "map_mr_sg: stops at an element that cannot follow");
	sg[1].length += 8;
	TAP_OK(dv.map_mr_sg(mr, sg, 0, NULL, PAGE) == -EINVAL, "map_mr_sg: no elements are EINVAL");
	TAP_OK(dv.map_mr_sg(mr, sg, 3, NULL, PAGE / 2) == -EINVAL &&
		       dv.map_mr_sg(mr, sg, 3, NULL, PAGE + 1) == -EINVAL &&
		       dv.map_mr_sg(mr, sg, 3, NULL, 2 * XROCEDV_MAX_PAGE_SIZE) == -EINVAL,
	       "map_mr_sg: invalid page sizes are EINVAL");
	off = sg[0].length;
	TAP_OK(dv.map_mr_sg(mr, sg, 3, &off, PAGE) == -EINVAL,
	       "map_mr_sg: an offset beyond the first element is EINVAL");
	sg[2].length = 0;
	TAP_OK(dv.map_mr_sg(mr, sg, 3, NULL, PAGE) == -EINVAL,
	       "map_mr_sg: an element of length 0 is EINVAL");
	sg[2] = (struct xrocedv_sg){ -100ull, 200 };
	TAP_OK(dv.map_mr_sg(mr, sg, 3, NULL, PAGE) == -EINVAL,
	       "map_mr_sg: an element that wraps around is EINVAL");
	TAP_OK(mr->length == PAGE - 100 + PAGE - 8, "map_mr_sg: an error changes nothing");
	plain = ibv_reg_mr(f->pd, byte, sizeof(byte), IBV_ACCESS_LOCAL_WRITE);
	TAP_OK(plain && dv.map_mr_sg(plain, sg, 1, NULL, PAGE) == -EINVAL,
	       "map_mr_sg: EINVAL for a region of ibv_reg_mr");
	ibv_dereg_mr(plain);
	ibv_dereg_mr(mr);
}

static void gaps(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 8, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(f, cq, cq, IBV_QPS_RTS);
	struct ibv_mr *mr = dv.alloc_mr(f->pd, 7), *one = dv.alloc_mr(f->pd, 1);
	struct ibv_mr *large = dv.alloc_mr(f->pd, 1000);
	struct xrocedv_sg sg[4] = { { ADDR + 1, 3 }, { ADDR, 5000 }, { 9, 1 }, { 77, 1 } };
	struct xrocedv_sg many[300];
	struct xr_send_wqe wqe;
	uint64_t list[6], off = 2;
	unsigned int i;

	TAP_OK(dv.map_mr_sg(mr, sg, 3, NULL, XROCEDV_SG_GAPS) == 3 && mr->length == 5004 &&
		       (uintptr_t)mr->addr == ADDR + 1,
	       "map_mr_sg, gaps: elements of any address and length");
	TAP_OK(dv.map_mr_sg(mr, sg, 4, NULL, XROCEDV_SG_GAPS) == 3,
	       "map_mr_sg, gaps: an element takes the room of two pages");
	TAP_OK(dv.map_mr_sg(mr, sg, 3, &off, XROCEDV_SG_GAPS) == 3 && !off && mr->length == 5002 &&
		       (uintptr_t)mr->addr == ADDR + 3,
	       "map_mr_sg, gaps: with an offset");
	TAP_OK(!dv.post_reg_mr(qp, mr, 77, RW, 0) &&
		       fake_send_entry(&f->daemon, qp->qp_num, 0, &wqe, sizeof(wqe)) == 1 &&
		       wqe.reg.pages == 3 && wqe.reg.page_shift == XR_FAST_PIECES &&
		       wqe.bind_len == 5002 && wqe.remote_addr == ADDR + 3,
	       "post_reg_mr, gaps: the entry has pieces");
	fake_pages(&f->daemon, mr->rkey, wqe.reg.list, list, 6);
	TAP_OK(list[0] == ADDR + 3 && list[1] == 1 && list[2] == ADDR && list[3] == 5000 &&
		       list[4] == 9 && list[5] == 1,
	       "post_reg_mr, gaps: the list has addresses and lengths");
	off = 3;
	TAP_OK(dv.map_mr_sg(mr, sg, 3, &off, XROCEDV_SG_GAPS) == -EINVAL &&
		       dv.map_mr_sg(mr, sg, 0, NULL, XROCEDV_SG_GAPS) == -EINVAL &&
		       dv.map_mr_sg(one, sg, 1, NULL, XROCEDV_SG_GAPS) == -EINVAL,
	       "map_mr_sg, gaps: EINVAL for the offset, no elements, and no room");
	sg[1].length = 0;
	TAP_OK(dv.map_mr_sg(mr, sg, 3, NULL, XROCEDV_SG_GAPS) == -EINVAL,
	       "map_mr_sg, gaps: an empty element is EINVAL");
	sg[1] = (struct xrocedv_sg){ XR_PIECE_END - 1, 2 };
	TAP_OK(dv.map_mr_sg(mr, sg, 3, NULL, XROCEDV_SG_GAPS) == -EINVAL,
	       "map_mr_sg, gaps: an address beyond the limit is EINVAL");
	for (i = 0; i < 300; i++)
		many[i] = (struct xrocedv_sg){ ADDR + i * 8, 3 };
	TAP_OK(dv.map_mr_sg(large, many, 300, NULL, XROCEDV_SG_GAPS) == 256,
	       "map_mr_sg, gaps: stops behind 256 short elements");
	ibv_dereg_mr(mr);
	ibv_dereg_mr(one);
	ibv_dereg_mr(large);
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
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

	TAP_OK(dv.post_reg_mr(qp, mr, 1, RW, 0) == EINVAL,
	       "post_reg_mr: EINVAL if no pages are set");
	dv.map_mr_sg(mr, &sg, 1, NULL, PAGE);
	TAP_OK(dv.post_reg_mr(qp, mr, 1, RW, 0) == EINVAL,
	       "post_reg_mr: EINVAL if the QP is not in RTS");
	to_state(qp, IBV_QPS_RTS);
	TAP_OK(dv.post_reg_mr(qp, mr, 1, RW, IBV_SEND_INLINE) == EINVAL,
	       "post_reg_mr: EINVAL for unknown flags");
	dv.map_mr_sg(stranger, &sg, 1, NULL, PAGE);
	TAP_OK(dv.post_reg_mr(qp, stranger, 1, RW, 0) == EPERM,
	       "post_reg_mr: EPERM for another PD");
	xrocedv_update_key(mr, 0x5a);
	TAP_OK(!dv.post_reg_mr(qp, mr, 77, RW, IBV_SEND_SIGNALED | IBV_SEND_FENCE),
	       "post_reg_mr: succeeds");
	TAP_OK(fake_send_entry(&f->daemon, qp->qp_num, 0, &wqe, sizeof(wqe)) == 1 &&
		       wqe.wr_id == 77 && wqe.opcode == XR_WR_REG_MR &&
		       wqe.flags == (XR_SEND_SIGNALED | XR_SEND_FENCE) && wqe.reg.key == mr->rkey &&
		       (mr->rkey & 0xff) == 0x5a && wqe.reg.access == RW && wqe.reg.pages == 3 &&
		       wqe.reg.page_shift == 12 && wqe.remote_addr == ADDR + 100 &&
		       wqe.bind_len == 2 * PAGE,
	       "post_reg_mr: the entry has key, access, pages, address and length");
	fake_pages(&f->daemon, mr->rkey, wqe.reg.list, page, 3);
	TAP_OK(page[0] == ADDR && page[1] == ADDR + PAGE && page[2] == ADDR + 2 * PAGE,
	       "post_reg_mr: the page list has the pages");
	dv.map_mr_sg(mr, &sg, 1, NULL, PAGE);
	i = wqe.reg.list;
	dv.post_reg_mr(qp, mr, 78, RW, 0);
	fake_send_entry(&f->daemon, qp->qp_num, 1, &wqe, sizeof(wqe));
	TAP_OK(wqe.reg.list != i, "post_reg_mr: the next registration uses the other list");
	for (i = 0; i < 10 && !full; i++)
		full = dv.post_reg_mr(qp, mr, 0, RW, 0);
	TAP_OK(full == ENOMEM && i == 7, "post_reg_mr: ENOMEM if the queue is full");
	TAP_OK(!ibv_dereg_mr(mr) && !ibv_dereg_mr(stranger) && !ibv_dealloc_pd(pd) &&
		       !ibv_destroy_qp(qp) && !ibv_destroy_cq(cq),
	       "all objects are destroyed");
}

/* A region of a parent domain and a QP of its PD can be used together. */
static void parents(struct fixture *f)
{
	struct ibv_parent_domain_init_attr attr = { .pd = f->pd };
	struct ibv_pd *parent = ibv_alloc_parent_domain(f->ctx, &attr);
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 8, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(f, cq, cq, IBV_QPS_RTS);
	struct ibv_mr *mr = dv.alloc_mr(parent, 3);
	struct xrocedv_sg sg = { ADDR, PAGE };

	dv.map_mr_sg(mr, &sg, 1, NULL, PAGE);
	TAP_OK(!dv.post_reg_mr(qp, mr, 1, RW, 0),
	       "post_reg_mr: a parent domain and its PD are the same");
	ibv_dereg_mr(mr);
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
	ibv_dealloc_pd(parent);
}

/* ---- integrity regions ------------------------------------------------------------- */

static struct xrocedv_integrity_attr integrity_attr(const struct ibv_sge *data)
{
	return (struct xrocedv_integrity_attr){
		.wr_id = 77,
		.access = RW,
		.send_flags = IBV_SEND_SIGNALED,
		.block_size = 512,
		.memory = { .type = XROCEDV_SIG_CRC32C, .check = XROCEDV_SIG_CHECK_GUARD },
		.wire = { .type = XROCEDV_SIG_T10DIF_1, .check = 7, .app_tag = 3, .ref_tag = 9 },
		.data = data,
		.num_data = 2,
	};
}

static struct ibv_sge pieces[4];

/* Each row makes valid attributes invalid. */
static int refused(struct ibv_qp *qp, struct ibv_mr *mr, unsigned int row)
{
	struct xrocedv_integrity_attr a = integrity_attr(pieces);
	struct ibv_sge bad[4];

	memcpy(bad, pieces, sizeof(bad));
	switch (row) {
	case 0:
		a.send_flags = IBV_SEND_INLINE;
		break;
	case 1:
		a.block_size = 1024;
		break;
	case 2:
		a.memory.type = (enum xrocedv_signature_type)6;
		break;
	case 3:
		a.memory.type = (enum xrocedv_signature_type)257;
		break;
	case 4:
		a.memory.check = XROCEDV_SIG_CHECK_APP_TAG;
		break;
	case 5:
		a.wire.check = 0x100;
		break;
	case 6:
		a.wire.type = XROCEDV_SIG_T10DIF_3;
		break;
	case 7:
		a.wire.seed = 0x10000;
		break;
	case 8:
		a.memory = a.wire = (struct xrocedv_signature){ 0 };
		break;
	case 9:
		a.num_data = 0;
		break;
	case 10:
		a.num_data = 5;
		break;
	case 11:
		a.num_data = UINT32_MAX;
		break;
	case 12:
		a.pi = pieces + 2;
		a.num_pi = 1;
		break;
	case 13:
		bad[0].length++;
		break;
	case 14:
		bad[1].length = 0;
		break;
	case 15:
		bad[0].addr = -8ull;
		break;
	case 16:
		bad[1].lkey = XR_RESERVED_LKEY;
		break;
	}
	a.data = bad;
	return dv.post_reg_integrity(qp, mr, &a);
}

static void integrity(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 8, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(f, cq, cq, IBV_QPS_RTR);
	struct ibv_mr *mr = dv.alloc_integrity_mr(f->pd, 4), *fast = dv.alloc_mr(f->pd, 4);
	struct xrocedv_integrity_attr attr = integrity_attr(pieces);
	struct ibv_pd *pd = ibv_alloc_pd(f->ctx);
	struct ibv_mr *stranger = dv.alloc_integrity_mr(pd, 4);
	struct xrocedv_integrity_error error;
	struct xr_integrity_list *l;
	struct xr_send_wqe wqe;
	uint64_t words[12];
	unsigned int row;

	TAP_OK(!dv.alloc_integrity_mr(f->pd, 0) && errno == EINVAL &&
		       !dv.alloc_integrity_mr(f->pd, XROCEDV_INTEGRITY_MAX_PIECES + 1) &&
		       errno == EINVAL,
	       "alloc_integrity_mr: no pieces and too many are EINVAL");
	TAP_OK(mr && mr->lkey == mr->rkey && mr->pd == f->pd && stranger,
	       "alloc_integrity_mr: regions are allocated");
	TAP_OK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) != 0,
	       "rereg_mr is refused for an integrity region");
	pieces[0] = (struct ibv_sge){ ADDR + 1, 600, 0x100 };
	pieces[1] = (struct ibv_sge){ ADDR + 5000, 3 * 516 - 600, 0x200 };
	TAP_OK(dv.post_reg_integrity(qp, mr, &attr) == EINVAL,
	       "post_reg_integrity: EINVAL if the QP is not in RTS");
	to_state(qp, IBV_QPS_RTS);
	for (row = 0; row <= 16; row++)
		TAP_OK(refused(qp, mr, row) == EINVAL, "post_reg_integrity: EINVAL, row %u", row);
	TAP_OK(dv.post_reg_integrity(qp, fast, &attr) == EINVAL &&
		       dv.post_reg_mr(qp, mr, 1, RW, 0) == EINVAL &&
		       dv.map_mr_sg(mr, (struct xrocedv_sg[]){ { ADDR, 1 } }, 1, NULL, PAGE) ==
			       -EINVAL,
	       "a region of another kind is EINVAL");
	TAP_OK(dv.post_reg_integrity(qp, stranger, &attr) == EPERM,
	       "post_reg_integrity: EPERM for another PD");
	xrocedv_update_key(mr, 0x5a);
	TAP_OK(!dv.post_reg_integrity(qp, mr, &attr) && mr->length == 3 * 520 &&
		       (uintptr_t)mr->addr == ADDR + 1,
	       "post_reg_integrity: succeeds, the length is that on the wire");
	TAP_OK(fake_send_entry(&f->daemon, qp->qp_num, 0, &wqe, sizeof(wqe)) == 1 &&
		       wqe.wr_id == 77 && wqe.opcode == XR_WR_REG_INTEGRITY &&
		       wqe.flags == XR_SEND_SIGNALED && wqe.reg.key == mr->rkey &&
		       (mr->rkey & 0xff) == 0x5a && wqe.reg.access == RW &&
		       wqe.remote_addr == ADDR + 1 && wqe.bind_len == 3 * 520,
	       "post_reg_integrity: the entry has key, access, address and length");
	fake_pages(&f->daemon, mr->rkey, wqe.reg.list, words, 10);
	l = (struct xr_integrity_list *)words;
	TAP_OK(l->block == 512 && l->data_pieces == 2 && !l->pi_pieces &&
		       l->memory.type == XR_SIG_CRC32C && l->wire.check == 7 &&
		       l->wire.ref_tag == 9 && l->piece[1].lkey == 0x200 &&
		       l->piece[1].length == 3 * 516 - 600,
	       "post_reg_integrity: the list has signatures and pieces");
	row = wqe.reg.list;
	pieces[0].length = 512;
	pieces[1].length = 1024;
	pieces[2] = (struct ibv_sge){ ADDR, 12, 0x300 };
	attr.pi = pieces + 2;
	attr.num_pi = 1;
	dv.post_reg_integrity(qp, mr, &attr);
	fake_send_entry(&f->daemon, qp->qp_num, 1, &wqe, sizeof(wqe));
	fake_pages(&f->daemon, mr->rkey, wqe.reg.list, words, 12);
	TAP_OK(wqe.reg.list != row && l->pi_pieces == 1 && l->piece[2].lkey == 0x300,
	       "post_reg_integrity: the next one uses the other list, with PI apart");
	TAP_OK(!dv.check_integrity(mr, &error) && dv.check_integrity(fast, &error) == -EINVAL,
	       "check_integrity: no error; another region is EINVAL");
	TAP_OK(!ibv_dereg_mr(mr) && !ibv_dereg_mr(stranger) && !ibv_dereg_mr(fast) &&
		       !ibv_dealloc_pd(pd) && !ibv_destroy_qp(qp) && !ibv_destroy_cq(cq),
	       "all objects are destroyed");
}

static void lkey(struct fixture *f)
{
	uint32_t key = 0;

	TAP_OK(!dv.reserved_lkey(f->pd, &key) && key == XR_RESERVED_LKEY,
	       "reserved_lkey: granted after /proc/self/mem was sent");
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
		{ "max_pages 0", { 0, PAGE, 3, 0, RW, 0, NULL, NULL } },
		{ "max_pages too large", { XROCEDV_MAX_PAGES + 1, PAGE, 3, 0, RW, 0, NULL, NULL } },
		{ "page_size not a power of two", { 4, PAGE + 8, 3, 0, RW, 0, NULL, NULL } },
		{ "page_size too small", { 4, PAGE / 2, 3, 0, RW, 0, NULL, NULL } },
		{ "pool_size 0", { 4, PAGE, 0, 0, RW, 0, NULL, NULL } },
		{ "pool_size too large", { 4, PAGE, XROCEDV_MAX_POOL + 1, 0, RW, 0, NULL, NULL } },
		{ "dirty_watermark above pool_size", { 4, PAGE, 3, 4, RW, 0, NULL, NULL } },
		{ "windows", { 4, PAGE, 3, 0, RW | IBV_ACCESS_MW_BIND, 0, NULL, NULL } },
		{ "remote write without local write",
		  { 4, PAGE, 3, 0, IBV_ACCESS_REMOTE_WRITE, 0, NULL, NULL } },
		{ "unknown flags", { 4, PAGE, 3, 0, RW, 2, NULL, NULL } },
	};
	unsigned int before = fake_objects(&f->daemon), i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		TAP_OK(!dv.create_pool(f->pd, &rows[i].attr) && errno == EINVAL,
		       "create_pool: EINVAL for %s", rows[i].what);
	TAP_OK(fake_objects(&f->daemon) == before,
	       "create_pool: leaves nothing behind after an error");
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
	       "create_pool: creates three regions, a QP and a CQ");
	a = map_at(pool, 1);
	b = map_at(pool, 2);
	c = map_at(pool, 3);
	TAP_OK(a && b && c && a->addr == ADDR + PAGE && a->length == PAGE && a->lkey == a->rkey &&
		       a->rkey != b->rkey && a->pool == pool,
	       "pool_map: three lists have different keys");
	TAP_OK(map_at(pool, 2) == b && !dv.pool_unmap(b),
	       "pool_map: the same list has the same mapping");
	TAP_OK(!map_at(pool, 4) && errno == EAGAIN, "pool_map: EAGAIN if all regions are mapped");
	rkey = a->rkey;
	TAP_OK(!dv.pool_unmap(a) && dv.pool_unmap(a) == EINVAL,
	       "pool_unmap: EINVAL if called more often than pool_map");
	TAP_OK(map_at(pool, 1) == a && a->rkey == rkey,
	       "pool_map: a dirty mapping comes from the cache");
	TAP_OK(!dv.pool_unmap(a) && map_at(pool, 4) == a && a->rkey != rkey &&
		       XR_KEY_INDEX(a->rkey) == XR_KEY_INDEX(rkey),
	       "pool_map: another list reuses a dirty region with another key");
	TAP_OK(dv.destroy_pool(pool) == EBUSY, "destroy_pool: EBUSY if something is mapped");
	dv.pool_unmap(a);
	dv.pool_unmap(b);
	TAP_OK(!dv.flush_pool(pool) && flushed == 1, "flush_pool: calls the callback");
	rkey = b->rkey;
	b = map_at(pool, 2);
	TAP_OK(b && b->rkey != rkey && c->addr == ADDR + 3 * PAGE,
	       "pool_map: a flushed list gets a new key");
	dv.pool_unmap(b);
	dv.pool_unmap(c);
	TAP_OK(!dv.destroy_pool(pool) && fake_objects(&f->daemon) == before,
	       "destroy_pool: frees everything");
	fake_automatic(&f->daemon, false, 0);
}

/* A failed WR has no lasting effect: the pool reconnects its QP. */
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
	TAP_OK(pool && !map_at(pool, 1) && errno == EIO, "pool_map: EIO if the registration fails");
	a = map_at(pool, 1);
	b = map_at(pool, 2);
	TAP_OK(a && b, "pool_map: later registrations succeed");
	fake_automatic(&f->daemon, true, 2);
	rkey = a->rkey;
	TAP_OK(!dv.pool_unmap(a) && !dv.pool_unmap(b) && !flushed,
	       "pool_unmap: succeeds even if the flush at the watermark fails");
	TAP_OK(map_at(pool, 1) == a && a->rkey != rkey,
	       "after a failed flush, the list is not cached");
	TAP_OK(!dv.pool_unmap(a) && flushed == 1, "the next unmap flushes again");
	TAP_OK(!dv.destroy_pool(pool), "destroy_pool: succeeds when nothing is mapped");
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
	TAP_OK(!status, "in a child process, functions of the parent's pool return EIO");
	TAP_OK(!dv.pool_unmap(a) && !dv.destroy_pool(pool), "the parent's pool still works");
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
	TAP_OK(!map_at(pool, 2) && errno == EIO, "daemon gone: pool_map returns EIO");
	TAP_OK(!dv.pool_unmap(a) && dv.flush_pool(pool) == EIO,
	       "daemon gone: flush_pool returns EIO");
	TAP_OK(!dv.destroy_pool(pool), "daemon gone: destroy_pool succeeds");
}

int main(void)
{
	struct fixture f = { 0 };

	TAP_OK(find_direct_verbs(&dv), "libxroce.so exports the direct verbs");
	setup(&f);
	lkey(&f);
	allocation(&f);
	mapping(&f);
	gaps(&f);
	posting(&f);
	parents(&f);
	integrity(&f);
	pool_attributes(&f);
	pool_cache(&f);
	pool_failures(&f);
	pool_of_the_parent(&f);
	pool_without_daemon(&f);
	teardown(&f);
	return tap_end();
}
