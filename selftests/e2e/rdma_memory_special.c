/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Tests of rdma_memory: on-demand, null, device memory, dma-buf, imported and reregistered regions.
 */
#include "rdma_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEMAND (EP_ACCESS | IBV_ACCESS_ON_DEMAND)

/* An ordinary region must work after refused registrations. */
static bool check_other_region(struct owner *o)
{
	return check_access(o, o->ep.mr, o->ep.buf, 100000);
}

/* ---- on demand ------------------------ */

static bool odp_has(struct owner *o, uint64_t caps)
{
	struct ibv_device_attr_ex attr = { 0 };

	return !ibv_query_device_ex(o->ep.ctx, NULL, &attr) &&
	       (attr.odp_caps.general_caps & caps) == caps;
}

/* A request that must fail: checks its status and that the QP is in ERR, then reconnects. */
static bool access_fails(struct owner *o, const char *step, int result, int wanted)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = { 0 };

	return expect(o, step, result, wanted) &&
	       (!ibv_query_qp(o->ep.qp, &attr, IBV_QP_STATE, &init) || fail(o, "query QP")) &&
	       (attr.qp_state == IBV_QPS_ERR || fail(o, "%s: the QP is not in ERR", step)) &&
	       reconnect(o);
}

/* @p: 1 MiB that is not mapped, or with PROT_NONE */
static bool inaccessible(struct owner *o, struct ibv_mr *mr, uint8_t *p)
{
	return access_fails(o, "partner's WRITE", partner_rdma(o, EP_WRITE, mr, p, MIB),
			    IBV_WC_REM_OP_ERR) &&
	       access_fails(o, "partner's READ", partner_rdma(o, EP_READ, mr, p, MIB),
			    IBV_WC_REM_OP_ERR) &&
	       access_fails(o, "own WRITE", own_rdma(o, IBV_WR_RDMA_WRITE, mr, p, MIB),
			    IBV_WC_LOC_PROT_ERR) &&
	       access_fails(o, "own READ", own_rdma(o, IBV_WR_RDMA_READ, mr, p, MIB),
			    IBV_WC_LOC_PROT_ERR);
}

/* One region whose memory becomes accessible, read-only, unmapped and mapped again. */
static bool check_remapping(struct owner *o, struct ibv_mr *mr, uint8_t *p)
{
	bool ok;

	ok = inaccessible(o, mr, p) && !mprotect(p, MIB, RW) && check_access(o, mr, p, MIB) &&
	     !mprotect(p, MIB, PROT_READ) && check_partner_read(o, mr, p, MIB, 4) &&
	     access_fails(o, "WRITE to a read-only page", partner_rdma(o, EP_WRITE, mr, p, MIB),
			  IBV_WC_REM_OP_ERR) &&
	     (has_pattern(p, MIB, 4, 0) || fail(o, "a read-only page changed"));
	munmap(p, MIB);
	ok = ok && inaccessible(o, mr, p);
	return mmap(p, MIB, RW, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == p && ok &&
	       check_access(o, mr, p, MIB);
}

static bool on_demand(struct owner *o, void *addr, size_t length, uint8_t *p)
{
	struct ibv_mr *mr = reg(o, addr, length, DEMAND);
	bool ok = mr && check_remapping(o, mr, p);

	return mr && dereg(o, mr) && ok;
}

static bool test_on_demand(struct owner *o)
{
	uint8_t *p = mmap(NULL, MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool ok;

	if (!odp_has(o, IBV_ODP_SUPPORT))
		return skip(o, "no on-demand paging");
	ok = p != MAP_FAILED && on_demand(o, p, MIB, p);
	munmap(p, MIB);
	return ok;
}

static bool test_implicit(struct owner *o)
{
	uint8_t *p = mmap(NULL, MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), stack[5000];
	struct ibv_mr *mr;
	bool ok;

	if (!odp_has(o, IBV_ODP_SUPPORT_IMPLICIT))
		return skip(o, "no implicit on-demand paging");
	ok = p != MAP_FAILED && on_demand(o, NULL, SIZE_MAX, p);
	munmap(p, MIB);
	mr = reg(o, NULL, SIZE_MAX, DEMAND);
	/* it also covers the stack and memory of another region */
	return ok && mr && check_access(o, mr, stack, sizeof(stack)) &&
	       check_access(o, mr, o->ep.buf, 100000) && dereg(o, mr);
}

/* ---- advice ------------------------ */

#define PREFETCH IBV_ADVISE_MR_ADVICE_PREFETCH
#define PREFETCH_WRITE IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE
#define NO_FAULT IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT

static bool advised(struct owner *o, const char *what, enum ibv_advise_mr_advice advice,
		    uint32_t flags, struct ibv_sge sge, int wanted)
{
	int err = ibv_advise_mr(o->ep.pd, advice, flags, &sge, 1);

	return err == wanted || fail(o, "%s: %s, not %s", what, strerror(err), strerror(wanted));
}

static size_t resident(uint8_t *p)
{
	uint8_t page[MIB / PAGE];
	size_t n = 0;

	if (mincore(p, MIB, page))
		return SIZE_MAX;
	for (size_t i = 0; i < sizeof(page); i++)
		n += page[i] & 1;
	return n;
}

static bool expect_resident(struct owner *o, uint8_t *p, size_t wanted)
{
	size_t n = resident(p);

	return n == wanted || fail(o, "%zu pages are resident, not %zu", n, wanted);
}

/* @p: 1 MiB that was never accessed, in the on-demand regions @mr and @ro, which is read-only */
static bool prefetch_works(struct owner *o, struct ibv_mr *mr, struct ibv_mr *ro, uint8_t *p)
{
	struct ibv_sge some = { (uintptr_t)p + 100, 2 * PAGE, mr->lkey };
	struct ibv_sge all = { (uintptr_t)p, MIB, mr->lkey };

	return expect_resident(o, p, 0) && advised(o, "no fault", NO_FAULT, 0, all, 0) &&
	       expect_resident(o, p, 0) &&
	       advised(o, "prefetch", PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, some, 0) &&
	       advised(o, "asynchronous prefetch", PREFETCH, 0, some, 0) &&
	       expect_resident(o, p, 3) &&
	       advised(o, "prefetch to write", PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, all, 0) &&
	       expect_resident(o, p, MIB / PAGE) &&
	       advised(o, "prefetch a read-only region to write", PREFETCH_WRITE, 0,
		       (struct ibv_sge){ (uintptr_t)p, PAGE, ro->lkey }, EPERM) &&
	       advised(o, "prefetch a read-only region", PREFETCH, 0,
		       (struct ibv_sge){ (uintptr_t)p, PAGE, ro->lkey }, 0);
}

static bool advice_refused(struct owner *o, struct ibv_mr *mr, uint8_t *p)
{
	struct ibv_sge at = { (uintptr_t)p, PAGE, mr->lkey }, end = at, stale = at, plain = at;
	const uint32_t flush = IBV_ADVISE_MR_FLAG_FLUSH;

	end.addr = (uintptr_t)p + MIB - PAGE + 1;
	stale.lkey++;
	plain.addr = (uintptr_t)o->ep.buf;
	plain.lkey = o->ep.mr->lkey;
	return advised(o, "beyond the end", PREFETCH, 0, end, EFAULT) &&
	       advised(o, "no such key", PREFETCH, 0, stale, ENOENT) &&
	       advised(o, "a region not on demand", PREFETCH, 0, plain, ENOENT) &&
	       advised(o, "unknown flags", PREFETCH, 2, at, EINVAL) &&
	       advised(o, "unknown advice", 9, 0, at, EOPNOTSUPP) &&
	       ibv_advise_mr(o->ep.pd, PREFETCH, 0, &at, 0) == EINVAL && !munmap(p, PAGE) &&
	       advised(o, "prefetch a hole", PREFETCH, flush, at, EFAULT) &&
	       advised(o, "asynchronous prefetch of a hole", PREFETCH, 0, at, 0);
}

static bool test_advise(struct owner *o)
{
	uint8_t *p = map_anonymous(MIB);
	struct ibv_mr *mr, *ro;
	bool ok;

	if (!odp_has(o, IBV_ODP_SUPPORT))
		return skip(o, "no on-demand paging");
	/* with transparent huge pages more pages than requested would be resident */
	madvise(p, MIB, MADV_NOHUGEPAGE);
	munmap(p, MIB);
	p = mmap(p, MIB, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(p, MIB, MADV_NOHUGEPAGE);
	mr = reg(o, p, MIB, DEMAND);
	ro = reg(o, p, MIB, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_REMOTE_READ);
	if (!mr || !ro)
		return false;
	ok = prefetch_works(o, mr, ro, p) && advice_refused(o, mr, p);
	munmap(p, MIB);
	return dereg(o, mr) && dereg(o, ro) && ok;
}

/* ---- null region, device memory ------------------------ */

/* Reads give zeros, writes are discarded, and peers have no access. */
static bool test_null(struct owner *o)
{
	struct ibv_mr *mr = ibv_alloc_null_mr(o->ep.pd), on_peer = { .rkey = o->ep.peer.rkey };
	struct ibv_sge sge[3];
	bool ok;

	if (!mr && errno == EOPNOTSUPP)
		return skip(o, "no null region");
	if (!mr)
		return fail(o, "ibv_alloc_null_mr: %s", strerror(errno));
	/* the null region is the second of three SGEs */
	sge[0] = (struct ibv_sge){ (uintptr_t)o->ep.buf, 1000, o->ep.mr->lkey };
	sge[1] = (struct ibv_sge){ 0x123456789abcull, 3001, mr->lkey };
	sge[2] = (struct ibv_sge){ (uintptr_t)o->ep.buf + 1000, 999, o->ep.mr->lkey };
	fill_pattern(o->ep.buf, 2000, 71, 0);
	ok = expect_ok(o, "WRITE of zeros", ep_rdma_list(&o->ep, IBV_WR_RDMA_WRITE, sge, 3)) &&
	     expect_ok(o, "READ back", own_rdma(o, IBV_WR_RDMA_READ, o->ep.mr, o->ep.buf, 5000)) &&
	     ((has_pattern(o->ep.buf, 1000, 71, 0) && all_bytes(o->ep.buf + 1000, 3001, 0) &&
	       has_pattern(o->ep.buf + 4001, 999, 71, 1000)) ||
	      fail(o, "WRITE of zeros: wrong data"));
	fill_pattern(o->ep.buf, 5000, 72, 0);
	ok = ok && expect_ok(o, "WRITE", own_rdma(o, IBV_WR_RDMA_WRITE, o->ep.mr, o->ep.buf, 5000));
	memset(o->ep.buf, 0, 5000);
	ok = ok &&
	     expect_ok(o, "READ, the second SGE discarded",
		       ep_rdma_list(&o->ep, IBV_WR_RDMA_READ, sge, 3)) &&
	     ((has_pattern(o->ep.buf, 1000, 72, 0) &&
	       has_pattern(o->ep.buf + 1000, 999, 72, 4001)) ||
	      fail(o, "READ: wrong data"));
	on_peer.rkey = mr->lkey;
	ok = ok &&
	     access_fails(o, "partner's READ of it", partner_rdma(o, EP_READ, &on_peer, NULL, 8),
			  IBV_WC_REM_ACCESS_ERR) &&
	     (ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, EP_ACCESS) ==
		      IBV_REREG_MR_ERR_INPUT ||
	      fail(o, "rereg_mr succeeded"));
	return dereg(o, mr) && ok;
}

#define DM_LEN 100000u

static bool dm_holds(struct owner *o, struct ibv_dm *dm, uint32_t seed)
{
	uint8_t *copy = malloc(DM_LEN);
	bool ok = copy && !ibv_memcpy_from_dm(copy, dm, 0, DM_LEN) &&
		  has_pattern(copy, DM_LEN, seed, 0);

	free(copy);
	return ok || fail(o, "the device memory has wrong data");
}

static bool dm_fill(struct ibv_dm *dm, uint32_t seed)
{
	uint8_t *copy = malloc(DM_LEN);
	bool ok;

	fill_pattern(copy, DM_LEN, seed, 0);
	ok = !ibv_memcpy_to_dm(dm, 0, copy, DM_LEN);
	free(copy);
	return ok;
}

/* Regions of device memory are zero-based. */
static bool dm_used(struct owner *o, struct ibv_dm *dm, struct ibv_mr *mr)
{
	return expect_ok(o, "fill", fill_partner(o, 81, DM_LEN)) &&
	       expect_ok(o, "partner's WRITE", partner_rdma(o, EP_WRITE, mr, NULL, DM_LEN)) &&
	       dm_holds(o, dm, 81) && dm_fill(dm, 82) &&
	       check_partner_read(o, mr, NULL, DM_LEN, 82) && dm_fill(dm, 83) &&
	       check_own_write(o, mr, NULL, DM_LEN, 83) &&
	       expect_ok(o, "fill", fill_partner(o, 84, DM_LEN)) &&
	       expect_ok(o, "own READ", own_rdma(o, IBV_WR_RDMA_READ, mr, NULL, DM_LEN)) &&
	       dm_holds(o, dm, 84) &&
	       access_fails(o, "WRITE beyond the end",
			    partner_rdma(o, EP_WRITE, mr, NULL, DM_LEN + 1),
			    IBV_WC_REM_ACCESS_ERR) &&
	       dm_holds(o, dm, 84);
}

static bool dm_refused(struct owner *o, struct ibv_dm *dm, uint64_t max)
{
	struct ibv_alloc_dm_attr most = { .length = max }, more = { .length = max + 1 };
	const int access = EP_ACCESS | IBV_ACCESS_ZERO_BASED;
	uint32_t word = 0;

	if (ibv_alloc_dm(o->ep.ctx, &more) || errno != ENOMEM || ibv_alloc_dm(o->ep.ctx, &most) ||
	    errno != ENOMEM)
		return fail(o, "more device memory than there is: %s", strerror(errno));
	if (ibv_reg_dm_mr(o->ep.pd, dm, 4, DM_LEN, access) || errno != EINVAL ||
	    ibv_reg_dm_mr(o->ep.pd, dm, -4ull, 8, access) || errno != EINVAL ||
	    ibv_reg_dm_mr(o->ep.pd, dm, 0, 8, EP_ACCESS) || errno != EINVAL)
		return fail(o, "impossible regions: %s", strerror(errno));
	return (ibv_memcpy_to_dm(dm, DM_LEN, &word, 4) == EINVAL &&
		ibv_memcpy_from_dm(&word, dm, -4ull, 8) == EINVAL &&
		ibv_memcpy_from_dm(&word, dm, 2, 4) == EINVAL) ||
	       fail(o, "impossible copies");
}

static bool dm_part(struct owner *o, struct ibv_dm *dm)
{
	struct ibv_mr *mr = ibv_reg_dm_mr(o->ep.pd, dm, 4096, 8000,
					  EP_ACCESS | IBV_ACCESS_ZERO_BASED |
						  IBV_ACCESS_RELAXED_ORDERING);
	uint8_t copy[8000];

	if (!mr)
		return fail(o, "a region of a part: %s", strerror(errno));
	return expect_ok(o, "fill", fill_partner(o, 85, 8000)) &&
	       expect_ok(o, "WRITE to a part", partner_rdma(o, EP_WRITE, mr, NULL, 8000)) &&
	       ((!ibv_memcpy_from_dm(copy, dm, 4096, 8000) && has_pattern(copy, 8000, 85, 0)) ||
		fail(o, "the part has wrong data")) &&
	       dereg(o, mr);
}

static bool test_device(struct owner *o)
{
	struct ibv_alloc_dm_attr attr = { .length = DM_LEN, .log_align_req = 6 };
	struct ibv_device_attr_ex dev = { 0 };
	struct ibv_dm *dm;
	struct ibv_mr *mr;
	bool ok;

	if (ibv_query_device_ex(o->ep.ctx, NULL, &dev) || !dev.max_dm_size)
		return skip(o, "no device memory");
	dm = ibv_alloc_dm(o->ep.ctx, &attr);
	mr = dm ? ibv_reg_dm_mr(o->ep.pd, dm, 0, DM_LEN, EP_ACCESS | IBV_ACCESS_ZERO_BASED) : NULL;
	if (!mr)
		return fail(o, "device memory: %s", strerror(errno));
	ok = dm_used(o, dm, mr) && dm_part(o, dm) && dm_refused(o, dm, dev.max_dm_size) &&
	     (ibv_free_dm(dm) == EBUSY || fail(o, "freed although a region uses it")) &&
	     (ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, o->ep.pd, NULL, 0, 0) ==
		      IBV_REREG_MR_ERR_INPUT ||
	      fail(o, "rereg_mr succeeded"));
	return dereg(o, mr) && expect_ok(o, "ibv_free_dm", -ibv_free_dm(dm)) && ok;
}

/* ---- dma-buf ------------------------ */

/*
 * @p: the program's mapping of the buffer. The region starts at offset @off and has the address
 * @iova.
 */
static bool buffer_used(struct owner *o, int fd, uint8_t *p)
{
	const uint64_t off = 3 * PAGE + 100, iova = 0x7000000ull + 100;
	const size_t len = 300000;
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(o->ep.pd, off, len, iova, fd, EP_ACCESS);
	const void *at = (const void *)(uintptr_t)iova;
	bool ok;

	if (!mr)
		return fail(o, "ibv_reg_dmabuf_mr: %s", strerror(errno));
	ok = expect_ok(o, "fill", fill_partner(o, 95, len)) &&
	     expect_ok(o, "partner's WRITE", partner_rdma(o, EP_WRITE, mr, at, len)) &&
	     (has_pattern(p + off, len, 95, 0) || fail(o, "the buffer has wrong data"));
	fill_pattern(p + off, len, 96, 0);
	ok = ok && check_partner_read(o, mr, at, len, 96) && check_own_write(o, mr, at, len, 96) &&
	     access_fails(o, "WRITE beyond the end", partner_rdma(o, EP_WRITE, mr, at, len + 1),
			  IBV_WC_REM_ACCESS_ERR) &&
	     (ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, o->ep.pd, NULL, 0, 0) ==
		      IBV_REREG_MR_ERR_INPUT ||
	      fail(o, "rereg_mr succeeded"));
	return dereg(o, mr) && ok;
}

static bool buffer_refused(struct owner *o, const char *what, uint64_t off, uint64_t iova, int fd,
			   int access, int wanted)
{
	struct ibv_mr *mr;
	int err;

	errno = 0;
	mr = ibv_reg_dmabuf_mr(o->ep.pd, off, PAGE, iova, fd, access);
	err = errno;
	return (!mr && err == wanted) || fail(o, "%s: %s", what, mr ? "registered" : strerror(err));
}

static bool test_buffer(struct owner *o)
{
	int fd = memfd_create("buffer", MFD_CLOEXEC | MFD_ALLOW_SEALING),
	    file = open("/", O_RDONLY);
	uint8_t *p;
	bool ok;

	if (fd < 0 || ftruncate(fd, MIB))
		return fail(o, "memfd: %s", strerror(errno));
	p = mmap(NULL, MIB, RW, MAP_SHARED, fd, 0);
	if (!buffer_refused(o, "a memfd that may shrink", 0, 0, fd, EP_ACCESS, EINVAL) &&
	    strstr(o->error, strerror(EOPNOTSUPP))) {
		o->error[0] = '\0';
		return skip(o, "no regions of dma-bufs");
	}
	ok = !o->error[0] && !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) && buffer_used(o, fd, p) &&
	     buffer_refused(o, "beyond its end", MIB, 0, fd, EP_ACCESS, EFAULT) &&
	     buffer_refused(o, "an iova with another offset within the page", 0, 8, fd, EP_ACCESS,
			    EINVAL) &&
	     buffer_refused(o, "on demand", 0, 0, fd, DEMAND, EINVAL) &&
	     buffer_refused(o, "no descriptor", 0, 0, -1, EP_ACCESS, EBADF) &&
	     buffer_refused(o, "a folder", 0, 0, file, IBV_ACCESS_REMOTE_READ, EINVAL);
	munmap(p, MIB);
	close(fd);
	close(file);
	return ok && check_other_region(o);
}

static bool test_udmabuf(struct owner *o)
{
	int dev = open("/dev/udmabuf", O_RDWR | O_CLOEXEC), buffer, fd;
	struct udmabuf_create create = { .size = MIB };
	uint8_t *p;
	bool ok;

	if (dev < 0)
		return skip(o, "no /dev/udmabuf");
	fd = memfd_create("udmabuf", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, MIB) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK))
		return fail(o, "memfd: %s", strerror(errno));
	create.memfd = (uint32_t)fd;
	buffer = ioctl(dev, UDMABUF_CREATE, &create);
	if (buffer < 0)
		return fail(o, "udmabuf: %s", strerror(errno));
	p = mmap(NULL, MIB, RW, MAP_SHARED, fd, 0);
	ok = buffer_used(o, buffer, p) &&
	     buffer_refused(o, "beyond its end", MIB, 0, buffer, EP_ACCESS, EFAULT);
	munmap(p, MIB);
	close(buffer);
	close(fd);
	close(dev);
	return ok;
}

/* ---- another process ------------------------ */

/* The child process: two QPs in the imported PD, connected to each other. */
struct importer {
	struct endpoint ep;
	struct ibv_qp *qp[2];
};

static struct ibv_qp *importer_qp(struct endpoint *ep)
{
	struct ibv_qp_init_attr init = {
		.send_cq = ep->cq,
		.recv_cq = ep->cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	return ibv_create_qp(ep->pd, &init);
}

static bool connected(struct endpoint *ep, struct ibv_qp *qp, uint32_t dest)
{
	struct ibv_qp_attr attr = rc_attr(ep->gid_index, own_gid(ep->ctx, ep->gid_index), dest);

	attr.qp_access_flags = EP_ACCESS;
	return !reset_to_rts(qp, &attr);
}

static bool importer_open(struct importer *x, const struct owner *o)
{
	struct endpoint *ep = &x->ep;

	ep->gid_index = o->ep.gid_index;
	ep->ctx = ibv_import_device(dup(o->ep.ctx->cmd_fd));
	ep->pd = ep->ctx ? ibv_import_pd(ep->ctx, o->ep.pd->handle) : NULL;
	ep->cq = ep->pd ? ibv_create_cq(ep->ctx, 16, NULL, NULL, 0) : NULL;
	ep->buf = map_anonymous(MIB);
	ep->mr = ep->cq ? ibv_reg_mr(ep->pd, ep->buf, MIB, EP_ACCESS) : NULL;
	x->qp[0] = ep->mr ? importer_qp(ep) : NULL;
	x->qp[1] = x->qp[0] ? importer_qp(ep) : NULL;
	ep->qp = x->qp[0];
	return x->qp[1] && connected(ep, x->qp[0], x->qp[1]->qp_num) &&
	       connected(ep, x->qp[1], x->qp[0]->qp_num);
}

static int importer_rdma(struct importer *x, enum ibv_wr_opcode opcode, const void *at,
			 uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)x->ep.buf, MIB, x->ep.mr->lkey };

	return ep_rdma(&x->ep, opcode, &sge, (uintptr_t)at, rkey);
}

/*
 * Imports the parent's PD and region, and transfers to and from the region. Returns 0 or the failed
 * step.
 */
static int importer_main(const struct owner *o, const struct ibv_mr *parents, int in, int out)
{
	struct importer x = { 0 };
	struct ibv_mr *mr;
	struct ibv_pd *pd;
	char byte;

	if (!importer_open(&x, o))
		return 1;
	/* the context inherited from the parent can import as well */
	if (!(pd = ibv_import_pd(o->ep.ctx, o->ep.pd->handle)) || pd->context != o->ep.ctx ||
	    ibv_dealloc_pd(pd))
		return 9;
	if (ibv_import_pd(x.ep.ctx, 12345) || errno != ENOENT)
		return 2;
	mr = ibv_import_mr(x.ep.pd, parents->handle);
	if (!mr || mr->rkey != parents->rkey || mr->length != MIB || mr->addr ||
	    ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) !=
		    IBV_REREG_MR_ERR_INPUT)
		return 3;
	if (importer_rdma(&x, IBV_WR_RDMA_READ, parents->addr, mr->rkey) ||
	    !has_pattern(x.ep.buf, MIB, 91, 0))
		return 4;
	fill_pattern(x.ep.buf, MIB, 92, 0);
	if (importer_rdma(&x, IBV_WR_RDMA_WRITE, parents->addr, mr->rkey))
		return 5;
	if (write(out, "", 1) != 1 || read(in, &byte, 1) != 1)
		return 6;
	/* the parent has deregistered the region */
	if (importer_rdma(&x, IBV_WR_RDMA_WRITE, parents->addr, mr->rkey) != IBV_WC_REM_ACCESS_ERR)
		return 7;
	ibv_unimport_mr(mr);
	ibv_destroy_qp(x.qp[0]);
	ibv_destroy_qp(x.qp[1]);
	ibv_dereg_mr(x.ep.mr);
	ibv_unimport_pd(x.ep.pd);
	ibv_destroy_cq(x.ep.cq);
	return ibv_close_device(x.ep.ctx) ? 8 : 0;
}

static bool test_import(struct owner *o)
{
	uint8_t *p = mmap(NULL, MIB, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = p == MAP_FAILED ? NULL : reg(o, p, MIB, EP_ACCESS);
	int to[2], from[2], status = -1;
	char byte;
	pid_t pid;
	bool ok;

	if (mr && is_direct())
		return dereg(o, mr) && skip(o, "a direct context exports no objects");
	if (!mr || pipe(to) || pipe(from))
		return fail(o, "set-up: %s", strerror(errno));
	fill_pattern(p, MIB, 91, 0);
	pid = fork();
	if (!pid)
		_exit(importer_main(o, mr, to[0], from[1]));
	close(from[1]);
	ok = read(from[0], &byte, 1) == 1 && has_pattern(p, MIB, 92, 0);
	ok = dereg(o, mr) && write(to[1], "", 1) == 1 && ok;
	close(from[0]);
	close(to[0]);
	close(to[1]);
	if (waitpid(pid, &status, 0) != pid || status || !ok)
		return fail(o, "the importing process failed at step %d", WEXITSTATUS(status));
	munmap(p, MIB);
	mr = reg(o, o->ep.buf, MIB, EP_ACCESS);
	return mr && check_access(o, mr, o->ep.buf, MIB) && dereg(o, mr);
}

/* ---- ibv_rereg_mr ------------------------ */

static bool rereg(struct owner *o, struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *p,
		  size_t len, int access, int wanted)
{
	int result = ibv_rereg_mr(mr, flags, pd, p, len, access);

	return result == wanted || fail(o, "rereg_mr, flags %d: %d, not %d", flags, result, wanted);
}

/* Every combination of changes; each is checked by transfers. */
static bool each_rereg(struct owner *o, struct ibv_mr *mr, uint8_t *p, uint8_t *q,
		       struct ibv_pd *other)
{
	const int at = IBV_REREG_MR_CHANGE_TRANSLATION, pd = IBV_REREG_MR_CHANGE_PD;
	const int acc = IBV_REREG_MR_CHANGE_ACCESS, ro = IBV_ACCESS_REMOTE_READ;

	return rereg(o, mr, acc, NULL, NULL, 0, ro, 0) &&
	       access_fails(o, "WRITE, read-only", partner_rdma(o, EP_WRITE, mr, p, 8),
			    IBV_WC_REM_ACCESS_ERR) &&
	       rereg(o, mr, at | acc, NULL, q, MIB / 2, EP_ACCESS, 0) &&
	       check_access(o, mr, q, MIB / 2) &&
	       access_fails(o, "WRITE to the old address", partner_rdma(o, EP_WRITE, mr, p, 8),
			    IBV_WC_REM_ACCESS_ERR) &&
	       rereg(o, mr, at, NULL, p, MIB, 0, 0) && check_access(o, mr, p, MIB) &&
	       rereg(o, mr, pd, other, NULL, 0, 0, 0) &&
	       access_fails(o, "WRITE, other PD", partner_rdma(o, EP_WRITE, mr, p, 8),
			    IBV_WC_REM_ACCESS_ERR) &&
	       rereg(o, mr, pd | acc, o->ep.pd, NULL, 0, DEMAND, 0) &&
	       check_access(o, mr, p, MIB) && rereg(o, mr, at | pd, other, q, MIB, 0, 0) &&
	       rereg(o, mr, at | pd | acc, o->ep.pd, q + 77, 99999,
		     EP_ACCESS | IBV_ACCESS_RELAXED_ORDERING, 0) &&
	       check_access(o, mr, q + 77, 99999);
}

static bool rereg_refused(struct owner *o, struct ibv_mr *mr, uint8_t *q)
{
	const int at = IBV_REREG_MR_CHANGE_TRANSLATION, acc = IBV_REREG_MR_CHANGE_ACCESS;
	const int input = IBV_REREG_MR_ERR_INPUT;

	return rereg(o, mr, 0, NULL, NULL, 0, 0, input) &&
	       rereg(o, mr, 8, NULL, NULL, 0, 0, input) &&
	       rereg(o, mr, IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0, input) &&
	       rereg(o, mr, at, NULL, NULL, MIB, 0, input) &&
	       rereg(o, mr, at, NULL, q, 0, 0, input) &&
	       rereg(o, mr, at, NULL, (void *)8, MIB, 0, input) &&
	       rereg(o, mr, acc, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE, input) &&
	       rereg(o, mr, at, NULL, q, MIB, EP_ACCESS, input) &&
	       check_access(o, mr, q + 77, 99999);
}

static bool test_rereg(struct owner *o)
{
	uint8_t *p = map_anonymous(MIB), *q = map_anonymous(MIB);
	struct ibv_pd *other = ibv_alloc_pd(o->ep.ctx);
	struct ibv_mr *mr = reg(o, p, MIB, EP_ACCESS);
	bool ok;

	if (!mr || !other)
		return false;
	ok = each_rereg(o, mr, p, q, other) && rereg_refused(o, mr, q);
	ok = dereg(o, mr) && ok && expect_ok(o, "ibv_dealloc_pd", -ibv_dealloc_pd(other)) &&
	     (has_pattern(q + 77, 99999, 4, 0) || fail(o, "deregistering changed the memory"));
	munmap(p, MIB);
	munmap(q, MIB);
	return ok;
}

/* ---- the tests ------------------------ */

const struct test memory_special[] = {
	{ "on-demand", test_on_demand, "an on-demand region follows munmap, mmap and mprotect" },
	{ "implicit", test_implicit,
	  "an implicit on-demand region covers the whole address space" },
	{ "advise", test_advise, "ibv_advise_mr prefetches pages of an on-demand region" },
	{ "null", test_null, "a null region reads as zeros and discards writes" },
	{ "device", test_device, "device memory can be read and written" },
	{ "buffer", test_buffer, "a memfd can be registered as a dma-buf" },
	{ "udmabuf", test_udmabuf, "a udmabuf can be registered" },
	{ "import", test_import, "another process can import a PD and an MR" },
	{ "rereg", test_rereg, "ibv_rereg_mr changes translation, PD and access" },
	{ 0 },
};
