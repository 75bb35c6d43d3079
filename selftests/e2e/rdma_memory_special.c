/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Regions that are not simply memory that is there: on demand and what else verbs has */
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

#define DEMAND (SIDE_ACCESS | IBV_ACCESS_ON_DEMAND)

/* Whatever was refused: an ordinary region is as good as ever. */
static bool others_work(struct owner *o)
{
	return four_ways(o, o->s.mr, o->s.buf, 100000);
}

/* ---- on demand ------------------------ */

static bool odp_has(struct owner *o, uint64_t caps)
{
	struct ibv_device_attr_ex attr = { 0 };

	return !ibv_query_device_ex(o->s.ctx, NULL, &attr) &&
	       (attr.odp_caps.general_caps & caps) == caps;
}

/* An access that cannot be: the request ends with its status, and so does the queue pair. */
static bool faults(struct owner *o, const char *step, int result, int wanted)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = { 0 };

	return expect(o, step, result, wanted) &&
	       (!ibv_query_qp(o->s.qp, &attr, IBV_QP_STATE, &init) || wrong(o, "query QP")) &&
	       (attr.qp_state == IBV_QPS_ERR || wrong(o, "%s: the QP lives on", step)) &&
	       reconnect(o);
}

/* p: a MiB that nobody may touch */
static bool untouchable(struct owner *o, struct ibv_mr *mr, uint8_t *p)
{
	return faults(o, "partner's WRITE", remote(o, ASK_WRITE, mr, p, MIB), IBV_WC_REM_OP_ERR) &&
	       faults(o, "partner's READ", remote(o, ASK_READ, mr, p, MIB), IBV_WC_REM_OP_ERR) &&
	       faults(o, "own WRITE", local(o, IBV_WR_RDMA_WRITE, mr, p, MIB),
		      IBV_WC_LOC_PROT_ERR) &&
	       faults(o, "own READ", local(o, IBV_WR_RDMA_READ, mr, p, MIB), IBV_WC_LOC_PROT_ERR);
}

/* Memory that comes, goes read-only, goes away and comes again, all under one region */
static bool comes_and_goes(struct owner *o, struct ibv_mr *mr, uint8_t *p)
{
	bool ok;

	ok = untouchable(o, mr, p) && !mprotect(p, MIB, RW) && four_ways(o, mr, p, MIB) &&
	     !mprotect(p, MIB, PROT_READ) && remote_read(o, mr, p, MIB, 4) &&
	     faults(o, "WRITE to a read-only page", remote(o, ASK_WRITE, mr, p, MIB),
		    IBV_WC_REM_OP_ERR) &&
	     (holds(p, MIB, 4, 0) || wrong(o, "a read-only page changed"));
	munmap(p, MIB);
	ok = ok && untouchable(o, mr, p);
	return mmap(p, MIB, RW, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == p && ok &&
	       four_ways(o, mr, p, MIB);
}

static bool on_demand(struct owner *o, void *addr, size_t length, uint8_t *p)
{
	struct ibv_mr *mr = reg(o, addr, length, DEMAND);
	bool ok = mr && comes_and_goes(o, mr, p);

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
	uint8_t *p = mmap(NULL, MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), here[5000];
	struct ibv_mr *mr;
	bool ok;

	if (!odp_has(o, IBV_ODP_SUPPORT_IMPLICIT))
		return skip(o, "no implicit on-demand paging");
	ok = p != MAP_FAILED && on_demand(o, NULL, SIZE_MAX, p);
	munmap(p, MIB);
	mr = reg(o, NULL, SIZE_MAX, DEMAND);
	/* whatever else there is: the stack, memory of another region */
	return ok && mr && four_ways(o, mr, here, sizeof(here)) &&
	       four_ways(o, mr, o->s.buf, 100000) && dereg(o, mr);
}

/* ---- advice ------------------------ */

#define PREFETCH IBV_ADVISE_MR_ADVICE_PREFETCH
#define PREFETCH_WRITE IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE
#define NO_FAULT IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT

static bool advised(struct owner *o, const char *what, enum ibv_advise_mr_advice advice,
		    uint32_t flags, struct ibv_sge sge, int wanted)
{
	int err = ibv_advise_mr(o->s.pd, advice, flags, &sge, 1);

	return err == wanted || wrong(o, "%s: %s, not %s", what, strerror(err), strerror(wanted));
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

static bool fetched(struct owner *o, uint8_t *p, size_t wanted)
{
	size_t n = resident(p);

	return n == wanted || wrong(o, "%zu pages are there, not %zu", n, wanted);
}

/* p: a MiB that was never touched, on demand as mr, to be written, and ro, not to be written */
static bool fetches(struct owner *o, struct ibv_mr *mr, struct ibv_mr *ro, uint8_t *p)
{
	struct ibv_sge some = { (uintptr_t)p + 100, 2 * PAGE, mr->lkey };
	struct ibv_sge all = { (uintptr_t)p, MIB, mr->lkey };

	return fetched(o, p, 0) && advised(o, "no fault", NO_FAULT, 0, all, 0) &&
	       fetched(o, p, 0) &&
	       advised(o, "prefetch", PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, some, 0) &&
	       advised(o, "prefetch, later", PREFETCH, 0, some, 0) && fetched(o, p, 3) &&
	       advised(o, "prefetch to write", PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, all, 0) &&
	       fetched(o, p, MIB / PAGE) &&
	       advised(o, "to write, what is not to be written", PREFETCH_WRITE, 0,
		       (struct ibv_sge){ (uintptr_t)p, PAGE, ro->lkey }, EPERM) &&
	       advised(o, "of what is not to be written", PREFETCH, 0,
		       (struct ibv_sge){ (uintptr_t)p, PAGE, ro->lkey }, 0);
}

static bool advice_refused(struct owner *o, struct ibv_mr *mr, uint8_t *p)
{
	struct ibv_sge at = { (uintptr_t)p, PAGE, mr->lkey }, end = at, stale = at, plain = at;
	const uint32_t flush = IBV_ADVISE_MR_FLAG_FLUSH;

	end.addr = (uintptr_t)p + MIB - PAGE + 1;
	stale.lkey++;
	plain.addr = (uintptr_t)o->s.buf;
	plain.lkey = o->s.mr->lkey;
	return advised(o, "beyond the end", PREFETCH, 0, end, EFAULT) &&
	       advised(o, "no such key", PREFETCH, 0, stale, ENOENT) &&
	       advised(o, "a region not on demand", PREFETCH, 0, plain, ENOENT) &&
	       advised(o, "unknown flags", PREFETCH, 2, at, EINVAL) &&
	       advised(o, "unknown advice", 9, 0, at, EOPNOTSUPP) &&
	       ibv_advise_mr(o->s.pd, PREFETCH, 0, &at, 0) == EINVAL && !munmap(p, PAGE) &&
	       advised(o, "a hole, now", PREFETCH, flush, at, EFAULT) &&
	       advised(o, "a hole, later", PREFETCH, 0, at, 0);
}

static bool test_advise(struct owner *o)
{
	uint8_t *p = anonymous(MIB);
	struct ibv_mr *mr, *ro;
	bool ok;

	if (!odp_has(o, IBV_ODP_SUPPORT))
		return skip(o, "no on-demand paging");
	/* transparent huge pages would bring more than was asked for */
	madvise(p, MIB, MADV_NOHUGEPAGE);
	munmap(p, MIB);
	p = mmap(p, MIB, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(p, MIB, MADV_NOHUGEPAGE);
	mr = reg(o, p, MIB, DEMAND);
	ro = reg(o, p, MIB, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_REMOTE_READ);
	if (!mr || !ro)
		return false;
	ok = fetches(o, mr, ro, p) && advice_refused(o, mr, p);
	munmap(p, MIB);
	return dereg(o, mr) && dereg(o, ro) && ok;
}

/* ---- no memory, device memory ------------------------ */

/* Zeros go out, what comes in is lost, and no peer can name it. */
static bool test_null(struct owner *o)
{
	struct ibv_mr *mr = ibv_alloc_null_mr(o->s.pd), on_peer = { .rkey = o->s.peer.rkey };
	struct ibv_sge sge[3];
	bool ok;

	if (!mr && errno == EOPNOTSUPP)
		return skip(o, "no null region");
	if (!mr)
		return wrong(o, "ibv_alloc_null_mr: %s", strerror(errno));
	/* the middle of three pieces: a message with a hole */
	sge[0] = (struct ibv_sge){ (uintptr_t)o->s.buf, 1000, o->s.mr->lkey };
	sge[1] = (struct ibv_sge){ 0x123456789abcull, 3001, mr->lkey };
	sge[2] = (struct ibv_sge){ (uintptr_t)o->s.buf + 1000, 999, o->s.mr->lkey };
	pattern(o->s.buf, 2000, 71, 0);
	ok = good(o, "WRITE of zeros", side_rdma_list(&o->s, IBV_WR_RDMA_WRITE, sge, 3)) &&
	     good(o, "READ back", local(o, IBV_WR_RDMA_READ, o->s.mr, o->s.buf, 5000)) &&
	     ((holds(o->s.buf, 1000, 71, 0) && all(o->s.buf + 1000, 3001, 0) &&
	       holds(o->s.buf + 4001, 999, 71, 1000)) ||
	      wrong(o, "other bytes"));
	pattern(o->s.buf, 5000, 72, 0);
	ok = ok && good(o, "WRITE", local(o, IBV_WR_RDMA_WRITE, o->s.mr, o->s.buf, 5000));
	memset(o->s.buf, 0, 5000);
	ok = ok &&
	     good(o, "READ, the middle lost", side_rdma_list(&o->s, IBV_WR_RDMA_READ, sge, 3)) &&
	     ((holds(o->s.buf, 1000, 72, 0) && holds(o->s.buf + 1000, 999, 72, 4001)) ||
	      wrong(o, "READ: other bytes"));
	on_peer.rkey = mr->lkey;
	ok = ok &&
	     faults(o, "partner's READ of it", remote(o, ASK_READ, &on_peer, NULL, 8),
		    IBV_WC_REM_ACCESS_ERR) &&
	     (ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, SIDE_ACCESS) ==
		      IBV_REREG_MR_ERR_INPUT ||
	      wrong(o, "rereg_mr took it"));
	return dereg(o, mr) && ok;
}

#define DM_LEN 100000u

static bool dm_holds(struct owner *o, struct ibv_dm *dm, uint32_t seed)
{
	uint8_t *copy = malloc(DM_LEN);
	bool ok = copy && !ibv_memcpy_from_dm(copy, dm, 0, DM_LEN) && holds(copy, DM_LEN, seed, 0);

	free(copy);
	return ok || wrong(o, "the device memory holds something else");
}

static bool dm_fill(struct ibv_dm *dm, uint32_t seed)
{
	uint8_t *copy = malloc(DM_LEN);
	bool ok;

	pattern(copy, DM_LEN, seed, 0);
	ok = !ibv_memcpy_to_dm(dm, 0, copy, DM_LEN);
	free(copy);
	return ok;
}

/* A region of it counts from 0. */
static bool dm_used(struct owner *o, struct ibv_dm *dm, struct ibv_mr *mr)
{
	return good(o, "fill", fill(o, 81, DM_LEN)) &&
	       good(o, "partner's WRITE", remote(o, ASK_WRITE, mr, NULL, DM_LEN)) &&
	       dm_holds(o, dm, 81) && dm_fill(dm, 82) && remote_read(o, mr, NULL, DM_LEN, 82) &&
	       dm_fill(dm, 83) && local_write(o, mr, NULL, DM_LEN, 83) &&
	       good(o, "fill", fill(o, 84, DM_LEN)) &&
	       good(o, "own READ", local(o, IBV_WR_RDMA_READ, mr, NULL, DM_LEN)) &&
	       dm_holds(o, dm, 84) &&
	       faults(o, "a byte too much", remote(o, ASK_WRITE, mr, NULL, DM_LEN + 1),
		      IBV_WC_REM_ACCESS_ERR) &&
	       dm_holds(o, dm, 84);
}

static bool dm_refused(struct owner *o, struct ibv_dm *dm, uint64_t max)
{
	struct ibv_alloc_dm_attr most = { .length = max }, more = { .length = max + 1 };
	const int access = SIDE_ACCESS | IBV_ACCESS_ZERO_BASED;
	uint32_t word = 0;

	if (ibv_alloc_dm(o->s.ctx, &more) || errno != ENOMEM || ibv_alloc_dm(o->s.ctx, &most) ||
	    errno != ENOMEM)
		return wrong(o, "more device memory than there is: %s", strerror(errno));
	if (ibv_reg_dm_mr(o->s.pd, dm, 4, DM_LEN, access) || errno != EINVAL ||
	    ibv_reg_dm_mr(o->s.pd, dm, -4ull, 8, access) || errno != EINVAL ||
	    ibv_reg_dm_mr(o->s.pd, dm, 0, 8, SIDE_ACCESS) || errno != EINVAL)
		return wrong(o, "impossible regions: %s", strerror(errno));
	return (ibv_memcpy_to_dm(dm, DM_LEN, &word, 4) == EINVAL &&
		ibv_memcpy_from_dm(&word, dm, -4ull, 8) == EINVAL &&
		ibv_memcpy_from_dm(&word, dm, 2, 4) == EINVAL) ||
	       wrong(o, "impossible copies");
}

static bool dm_part(struct owner *o, struct ibv_dm *dm)
{
	struct ibv_mr *mr = ibv_reg_dm_mr(o->s.pd, dm, 4096, 8000,
					  SIDE_ACCESS | IBV_ACCESS_ZERO_BASED |
						  IBV_ACCESS_RELAXED_ORDERING);
	uint8_t copy[8000];

	if (!mr)
		return wrong(o, "a region of a part: %s", strerror(errno));
	return good(o, "fill", fill(o, 85, 8000)) &&
	       good(o, "WRITE to a part", remote(o, ASK_WRITE, mr, NULL, 8000)) &&
	       ((!ibv_memcpy_from_dm(copy, dm, 4096, 8000) && holds(copy, 8000, 85, 0)) ||
		wrong(o, "the part holds something else")) &&
	       dereg(o, mr);
}

static bool test_device(struct owner *o)
{
	struct ibv_alloc_dm_attr attr = { .length = DM_LEN, .log_align_req = 6 };
	struct ibv_device_attr_ex dev = { 0 };
	struct ibv_dm *dm;
	struct ibv_mr *mr;
	bool ok;

	if (ibv_query_device_ex(o->s.ctx, NULL, &dev) || !dev.max_dm_size)
		return skip(o, "no device memory");
	dm = ibv_alloc_dm(o->s.ctx, &attr);
	mr = dm ? ibv_reg_dm_mr(o->s.pd, dm, 0, DM_LEN, SIDE_ACCESS | IBV_ACCESS_ZERO_BASED) : NULL;
	if (!mr)
		return wrong(o, "device memory: %s", strerror(errno));
	ok = dm_used(o, dm, mr) && dm_part(o, dm) && dm_refused(o, dm, dev.max_dm_size) &&
	     (ibv_free_dm(dm) == EBUSY || wrong(o, "freed under its region")) &&
	     (ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, o->s.pd, NULL, 0, 0) ==
		      IBV_REREG_MR_ERR_INPUT ||
	      wrong(o, "rereg_mr took it"));
	return dereg(o, mr) && good(o, "ibv_free_dm", -ibv_free_dm(dm)) && ok;
}

/* ---- buffers by descriptor ------------------------ */

/* p: the buffer as the program maps it; the region begins at off and is addressed from iova on. */
static bool buffer_used(struct owner *o, int fd, uint8_t *p)
{
	const uint64_t off = 3 * PAGE + 100, iova = 0x7000000ull + 100;
	const size_t len = 300000;
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(o->s.pd, off, len, iova, fd, SIDE_ACCESS);
	const void *at = (const void *)(uintptr_t)iova;
	bool ok;

	if (!mr)
		return wrong(o, "ibv_reg_dmabuf_mr: %s", strerror(errno));
	ok = good(o, "fill", fill(o, 95, len)) &&
	     good(o, "partner's WRITE", remote(o, ASK_WRITE, mr, at, len)) &&
	     (holds(p + off, len, 95, 0) || wrong(o, "the buffer holds something else"));
	pattern(p + off, len, 96, 0);
	ok = ok && remote_read(o, mr, at, len, 96) && local_write(o, mr, at, len, 96) &&
	     faults(o, "a byte too much", remote(o, ASK_WRITE, mr, at, len + 1),
		    IBV_WC_REM_ACCESS_ERR) &&
	     (ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, o->s.pd, NULL, 0, 0) ==
		      IBV_REREG_MR_ERR_INPUT ||
	      wrong(o, "rereg_mr took it"));
	return dereg(o, mr) && ok;
}

static bool buffer_refused(struct owner *o, const char *what, uint64_t off, uint64_t iova, int fd,
			   int access, int wanted)
{
	struct ibv_mr *mr;
	int err;

	errno = 0;
	mr = ibv_reg_dmabuf_mr(o->s.pd, off, PAGE, iova, fd, access);
	err = errno;
	return (!mr && err == wanted) ||
	       wrong(o, "%s: %s", what, mr ? "registered" : strerror(err));
}

static bool test_buffer(struct owner *o)
{
	int fd = memfd_create("buffer", MFD_CLOEXEC | MFD_ALLOW_SEALING),
	    file = open("/", O_RDONLY);
	uint8_t *p;
	bool ok;

	if (fd < 0 || ftruncate(fd, MIB))
		return wrong(o, "memfd: %s", strerror(errno));
	p = mmap(NULL, MIB, RW, MAP_SHARED, fd, 0);
	if (!buffer_refused(o, "one that may shrink", 0, 0, fd, SIDE_ACCESS, EINVAL) &&
	    strstr(o->why, strerror(EOPNOTSUPP))) {
		o->why[0] = '\0';
		return skip(o, "no regions of dma-bufs");
	}
	ok = !o->why[0] && !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) && buffer_used(o, fd, p) &&
	     buffer_refused(o, "beyond its end", MIB, 0, fd, SIDE_ACCESS, EFAULT) &&
	     buffer_refused(o, "another place in the page", 0, 8, fd, SIDE_ACCESS, EINVAL) &&
	     buffer_refused(o, "on demand", 0, 0, fd, DEMAND, EINVAL) &&
	     buffer_refused(o, "no descriptor", 0, 0, -1, SIDE_ACCESS, EBADF) &&
	     buffer_refused(o, "a folder", 0, 0, file, IBV_ACCESS_REMOTE_READ, EINVAL);
	munmap(p, MIB);
	close(fd);
	close(file);
	return ok && others_work(o);
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
		return wrong(o, "memfd: %s", strerror(errno));
	create.memfd = (uint32_t)fd;
	buffer = ioctl(dev, UDMABUF_CREATE, &create);
	if (buffer < 0)
		return wrong(o, "udmabuf: %s", strerror(errno));
	p = mmap(NULL, MIB, RW, MAP_SHARED, fd, 0);
	ok = buffer_used(o, buffer, p) &&
	     buffer_refused(o, "beyond its end", MIB, 0, buffer, SIDE_ACCESS, EFAULT);
	munmap(p, MIB);
	close(buffer);
	close(fd);
	close(dev);
	return ok;
}

/* ---- another process ------------------------ */

/* The other process: two QPs of its own in the imported domain, connected to each other */
struct other {
	struct side s;
	struct ibv_qp *qp[2];
};

static struct ibv_qp *other_qp(struct side *s)
{
	struct ibv_qp_init_attr init = {
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	return ibv_create_qp(s->pd, &init);
}

static bool connected(struct side *s, struct ibv_qp *qp, uint32_t dest)
{
	struct ibv_qp_attr attr = rc_attr(s->gid_index, own_gid(s->ctx, s->gid_index), dest);

	attr.qp_access_flags = SIDE_ACCESS;
	return !reset_to_rts(qp, &attr);
}

static bool other_open(struct other *x, const struct owner *o)
{
	struct side *s = &x->s;

	s->gid_index = o->s.gid_index;
	s->ctx = ibv_import_device(dup(o->s.ctx->cmd_fd));
	s->pd = s->ctx ? ibv_import_pd(s->ctx, o->s.pd->handle) : NULL;
	s->cq = s->pd ? ibv_create_cq(s->ctx, 16, NULL, NULL, 0) : NULL;
	s->buf = anonymous(MIB);
	s->mr = s->cq ? ibv_reg_mr(s->pd, s->buf, MIB, SIDE_ACCESS) : NULL;
	x->qp[0] = s->mr ? other_qp(s) : NULL;
	x->qp[1] = x->qp[0] ? other_qp(s) : NULL;
	s->qp = x->qp[0];
	return x->qp[1] && connected(s, x->qp[0], x->qp[1]->qp_num) &&
	       connected(s, x->qp[1], x->qp[0]->qp_num);
}

static int other_rdma(struct other *x, enum ibv_wr_opcode opcode, const void *at, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)x->s.buf, MIB, x->s.mr->lkey };

	return side_rdma(&x->s, opcode, &sge, (uintptr_t)at, rkey);
}

/* Reads and writes the parent's region by its own names for domain and region. */
static int other_process(const struct owner *o, const struct ibv_mr *parents, int in, int out)
{
	struct other x = { 0 };
	struct ibv_mr *mr;
	struct ibv_pd *pd;
	char byte;

	if (!other_open(&x, o))
		return 1;
	/* so can the context that the parent left us */
	if (!(pd = ibv_import_pd(o->s.ctx, o->s.pd->handle)) || pd->context == o->s.ctx ||
	    ibv_dealloc_pd(pd))
		return 9;
	if (ibv_import_pd(x.s.ctx, 12345) || errno != ENOENT)
		return 2;
	mr = ibv_import_mr(x.s.pd, parents->handle);
	if (!mr || mr->rkey != parents->rkey || mr->length != MIB || mr->addr ||
	    ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) !=
		    IBV_REREG_MR_ERR_INPUT)
		return 3;
	if (other_rdma(&x, IBV_WR_RDMA_READ, parents->addr, mr->rkey) ||
	    !holds(x.s.buf, MIB, 91, 0))
		return 4;
	pattern(x.s.buf, MIB, 92, 0);
	if (other_rdma(&x, IBV_WR_RDMA_WRITE, parents->addr, mr->rkey))
		return 5;
	if (write(out, "", 1) != 1 || read(in, &byte, 1) != 1)
		return 6;
	/* the parent has deregistered it */
	if (other_rdma(&x, IBV_WR_RDMA_WRITE, parents->addr, mr->rkey) != IBV_WC_REM_ACCESS_ERR)
		return 7;
	ibv_unimport_mr(mr);
	ibv_destroy_qp(x.qp[0]);
	ibv_destroy_qp(x.qp[1]);
	ibv_dereg_mr(x.s.mr);
	ibv_unimport_pd(x.s.pd);
	ibv_destroy_cq(x.s.cq);
	return ibv_close_device(x.s.ctx) ? 8 : 0;
}

static bool test_import(struct owner *o)
{
	uint8_t *p = mmap(NULL, MIB, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = p == MAP_FAILED ? NULL : reg(o, p, MIB, SIDE_ACCESS);
	int to[2], from[2], status = -1;
	char byte;
	pid_t pid;
	bool ok;

	if (!mr || pipe(to) || pipe(from))
		return wrong(o, "setting up: %s", strerror(errno));
	pattern(p, MIB, 91, 0);
	pid = fork();
	if (!pid)
		_exit(other_process(o, mr, to[0], from[1]));
	close(from[1]);
	ok = read(from[0], &byte, 1) == 1 && holds(p, MIB, 92, 0);
	ok = dereg(o, mr) && write(to[1], "", 1) == 1 && ok;
	close(from[0]);
	close(to[0]);
	close(to[1]);
	if (waitpid(pid, &status, 0) != pid || status || !ok)
		return wrong(o, "the other process failed at %d", WEXITSTATUS(status));
	munmap(p, MIB);
	mr = reg(o, o->s.buf, MIB, SIDE_ACCESS);
	return mr && four_ways(o, mr, o->s.buf, MIB) && dereg(o, mr);
}

/* ---- regions that change ------------------------ */

static bool rereg(struct owner *o, struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *p,
		  size_t len, int access, int wanted)
{
	int result = ibv_rereg_mr(mr, flags, pd, p, len, access);

	return result == wanted ||
	       wrong(o, "rereg_mr, flags %d: %d, not %d", flags, result, wanted);
}

/* Every combination of what may change; afterwards the region is what the last one said. */
static bool each_rereg(struct owner *o, struct ibv_mr *mr, uint8_t *p, uint8_t *q,
		       struct ibv_pd *other)
{
	const int at = IBV_REREG_MR_CHANGE_TRANSLATION, pd = IBV_REREG_MR_CHANGE_PD;
	const int acc = IBV_REREG_MR_CHANGE_ACCESS, ro = IBV_ACCESS_REMOTE_READ;

	return rereg(o, mr, acc, NULL, NULL, 0, ro, 0) &&
	       faults(o, "WRITE, read-only", remote(o, ASK_WRITE, mr, p, 8),
		      IBV_WC_REM_ACCESS_ERR) &&
	       rereg(o, mr, at | acc, NULL, q, MIB / 2, SIDE_ACCESS, 0) &&
	       four_ways(o, mr, q, MIB / 2) &&
	       faults(o, "WRITE to where it was", remote(o, ASK_WRITE, mr, p, 8),
		      IBV_WC_REM_ACCESS_ERR) &&
	       rereg(o, mr, at, NULL, p, MIB, 0, 0) && four_ways(o, mr, p, MIB) &&
	       rereg(o, mr, pd, other, NULL, 0, 0, 0) &&
	       faults(o, "WRITE, other domain", remote(o, ASK_WRITE, mr, p, 8),
		      IBV_WC_REM_ACCESS_ERR) &&
	       rereg(o, mr, pd | acc, o->s.pd, NULL, 0, DEMAND, 0) && four_ways(o, mr, p, MIB) &&
	       rereg(o, mr, at | pd, other, q, MIB, 0, 0) &&
	       rereg(o, mr, at | pd | acc, o->s.pd, q + 77, 99999,
		     SIDE_ACCESS | IBV_ACCESS_RELAXED_ORDERING, 0) &&
	       four_ways(o, mr, q + 77, 99999);
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
	       rereg(o, mr, at, NULL, q, MIB, SIDE_ACCESS, input) &&
	       four_ways(o, mr, q + 77, 99999);
}

static bool test_rereg(struct owner *o)
{
	uint8_t *p = anonymous(MIB), *q = anonymous(MIB);
	struct ibv_pd *other = ibv_alloc_pd(o->s.ctx);
	struct ibv_mr *mr = reg(o, p, MIB, SIDE_ACCESS);
	bool ok;

	if (!mr || !other)
		return false;
	ok = each_rereg(o, mr, p, q, other) && rereg_refused(o, mr, q);
	ok = dereg(o, mr) && ok && good(o, "ibv_dealloc_pd", -ibv_dealloc_pd(other)) &&
	     (holds(q + 77, 99999, 4, 0) || wrong(o, "deregistering changed it"));
	munmap(p, MIB);
	munmap(q, MIB);
	return ok;
}

/* ---- the list ------------------------ */

const struct test memory_special[] = {
	{ "on-demand", test_on_demand, "a region on demand, whose memory comes and goes" },
	{ "implicit", test_implicit, "the whole address space on demand" },
	{ "advise", test_advise, "memory on demand, fetched by advice" },
	{ "null", test_null, "the region that is no memory" },
	{ "device", test_device, "device memory" },
	{ "buffer", test_buffer, "a memfd as a buffer by its descriptor" },
	{ "udmabuf", test_udmabuf, "a dma-buf of ordinary memory" },
	{ "import", test_import, "a domain and a region that two processes have" },
	{ "rereg", test_rereg, "all that rereg_mr can change" },
	{ 0 },
};
