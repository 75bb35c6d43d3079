// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Memory regions. A registration describes to the daemon how each part of the range can be reached:
 * see the tiers in docs/provider.md.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "provider/base/debug.h"
#include "provider/base/fail.h"
#include "provider/memory/adopt.h"
#include "provider/memory/convert.h"
#include "provider/memory/own_memory.h"
#include "provider/memory/tiers.h"
#include "provider/verbs/buf.h"
#include "provider/verbs/mr.h"
#include "provider/verbs/newer_verbs.h"
#include "provider/verbs/pd.h"
#include "provider/verbs/request.h"

#define REG_MR "ibv_reg_mr"

/* ---- /proc/self/mem and maps --------------------------------------------------- */

struct proc_fds {
	int fd[2]; /* /proc/self/mem, /proc/self/maps */
};

/* Returns @err, which opening a file in /proc/self failed with. */
static int explain_proc(int err)
{
	if (err == -ENOENT)
		xp_refuse(REG_MR, err, "cannot open files in /proc/self: /proc must be mounted");
	if (err == -EACCES)
		xp_refuse(REG_MR, err,
			  "cannot open /proc/self/mem: the process is not dumpable. It changed its "
			  "user or PR_SET_DUMPABLE before it loaded libibverbs or by a bare system "
			  "call, or was forked by a process that had done so");
	return err;
}

static int open_proc(struct proc_fds *p)
{
	int err;

	p->fd[0] = xp_own_memory_open();
	if (p->fd[0] < 0)
		return p->fd[0];
	p->fd[1] = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (p->fd[1] < 0) {
		err = -errno;
		close(p->fd[0]);
		return err;
	}
	return 0;
}

/*
 * A registration under way. The request has struct xr_reg_mr_req at its end, with the segments; in
 * REREG_MR it is preceded by `front` bytes of struct xr_rereg_mr_req.
 */
struct registration {
	uint32_t type; /* XR_MSG_REG_MR, XR_MSG_REREG_MR */
	const struct xr_rereg_mr_req *rereg;
	size_t front;
	struct xp_layout layout;
};

/* Sends a registration, with /proc/self/mem and maps until the daemon has accepted one. */
static int send_registration(struct xp_context *ctx, const struct registration *r, uint8_t *req,
			     struct xr_reg_mr_rep *rep)
{
	struct xr_reg_mr_req *reg = (struct xr_reg_mr_req *)(req + r->front);
	const struct xp_layout *l = &r->layout;
	int fds[XR_MSG_MAX_FDS], err = 0;
	struct xp_call call = {
		.type = r->type,
		.req = req,
		.req_len = r->front + sizeof(*reg) + l->segments * sizeof(reg->segment[0]),
		.fds = fds,
		.nfds = l->nfds,
		.rep = rep,
		.rep_len = sizeof(*rep),
	};
	bool first = !ctx->host && !__atomic_load_n(&ctx->proc_fds_sent, __ATOMIC_ACQUIRE);
	struct proc_fds proc;

	memcpy(fds, l->fds, l->nfds * sizeof(int));
	if (first) {
		err = open_proc(&proc);
		if (err)
			return explain_proc(err);
		memcpy(fds + l->nfds, proc.fd, sizeof(proc.fd));
		call.nfds += 2;
		reg->flags |= XR_REGF_PROC_FDS;
	}
	err = xp_call(ctx, &call);
	if (first) {
		xp_close_fds(proc.fd, 2);
		if (!err)
			__atomic_store_n(&ctx->proc_fds_sent, true, __ATOMIC_RELEASE);
	}
	return err;
}

/* ---- register ------------------------------------------------------------------ */

/*
 * Checks and normalizes access flags. Flags that verbs lets a device ignore, and hints for
 * hardware, are dropped.
 */
static int mr_check_access(unsigned int *access)
{
	*access &= ~(XR_ACCESS_OPTIONAL | XR_ACCESS_HUGETLB);
	if (*access & XR_ACCESS_FLUSH_PERSISTENT)
		return xp_refuse(REG_MR, EOPNOTSUPP,
				 "access 0x%x: no memory can be flushed to persistence", *access);
	if (*access & ~XR_ACCESS_REGION)
		return xp_refuse(REG_MR, EINVAL, "access 0x%x, supported 0x%x", *access,
				 XR_ACCESS_REGION);
	if (!xr_access_valid(*access))
		return xp_refuse(REG_MR, EINVAL,
				 "access 0x%x: remote write and atomic access need "
				 "IBV_ACCESS_LOCAL_WRITE",
				 *access);
	return 0;
}

/* Fills in the fields that do not depend on the daemon's reply. */
static int init_mr(struct xp_mr *mr, struct ibv_pd *ibpd, void *addr, size_t length, uint64_t iova,
		   unsigned int access)
{
	int err = mr_check_access(&access);

	if (err)
		return err;
	/* Zero based: peers address the region by offset. */
	if (access & IBV_ACCESS_ZERO_BASED && iova == (uintptr_t)addr)
		iova = 0;
	if ((uintptr_t)addr + length < (uintptr_t)addr || iova + length < iova)
		return xp_refuse(REG_MR, EINVAL, "length %zu exceeds the address space", length);
	mr->ctx = xp_own_pd(ibpd)->ctx;
	mr->ibmr.context = ibpd->context;
	mr->ibmr.pd = ibpd;
	mr->ibmr.addr = addr;
	mr->ibmr.length = length;
	mr->access = access;
	mr->iova = iova;
	return 0;
}

/* Returns the request, to be freed, or NULL if out of memory. */
static uint8_t *mr_new_request(const struct xp_mr *mr, const struct registration *r)
{
	const struct xp_layout *l = &r->layout;
	size_t list = l->segments * sizeof(struct xr_mr_segment);
	uint8_t *req = calloc(1, r->front + sizeof(struct xr_reg_mr_req) + list);
	struct xr_reg_mr_req *reg;

	if (!req)
		return NULL;
	if (r->front)
		memcpy(req, r->rereg, r->front);
	reg = (struct xr_reg_mr_req *)(req + r->front);
	*reg = (struct xr_reg_mr_req){
		.pd = mr->ibmr.pd->handle,
		.access = mr->access,
		.addr = (uintptr_t)mr->ibmr.addr,
		.length = mr->ibmr.length,
		.iova = mr->iova,
		.segments = l->segments,
	};
	if (list)
		memcpy(reg->segment, l->segment, list);
	return req;
}

static void set_keys(struct xp_mr *mr, const struct xr_reg_mr_rep *rep)
{
	mr->ibmr.handle = rep->handle;
	mr->ibmr.lkey = rep->lkey;
	mr->ibmr.rkey = rep->rkey;
}

/* Lays the region out and registers it. On error it references no pages. */
static int try_to_register(struct xp_context *ctx, struct xp_mr *mr, struct registration *r)
{
	const struct xp_range range = {
		.addr = (uintptr_t)mr->ibmr.addr,
		.length = mr->ibmr.length,
		.written = mr->access & XR_ACCESS_WRITE,
		.on_demand = mr->access & IBV_ACCESS_ON_DEMAND,
	};
	struct xr_reg_mr_rep rep;
	uint8_t *req = NULL;
	int err;

	r->layout = (struct xp_layout){ 0 };
	/* A direct context accesses the memory where it is. */
	err = ctx->host ? 0 : explain_proc(xp_lay_out(&range, ctx->uffd_device, &r->layout));
	if (!err) {
		req = mr_new_request(mr, r);
		err = req ? send_registration(ctx, r, req, &rep) : -ENOMEM;
	}
	free(req);
	if (err) {
		xp_page_refs_release(&r->layout.refs);
	} else {
		mr->refs = r->layout.refs;
		set_keys(mr, &rep);
	}
	return err;
}

static bool has_shared_segment(const struct xp_layout *l)
{
	unsigned int i;

	for (i = 0; i < l->segments && l->segment[i].kind != XR_SEG_MAPPING; i++)
		;
	return i < l->segments;
}

/*
 * The daemon compares segments of the shared tier with /proc/PID/maps. Another thread may have
 * changed the mappings in between, e.g. an mmap() that was merged with a neighbour. Then the daemon
 * replies EINVAL and the region is laid out again.
 */
static int register_mr(struct xp_context *ctx, struct xp_mr *mr, struct registration *r)
{
	bool retry;
	int err, tries = 0;

	do {
		err = try_to_register(ctx, mr, r);
		retry = err == -EINVAL && has_shared_segment(&r->layout) && ++tries < 3;
		free(r->layout.segment);
	} while (retry);
	if (err == -EFAULT)
		xp_refuse(REG_MR, err, "part of %p, length %zu, is not mapped or not accessible",
			  mr->ibmr.addr, mr->ibmr.length);
	return err;
}

struct ibv_mr *xp_reg_mr_iova2(struct ibv_pd *ibpd, void *addr, size_t length, uint64_t iova,
			       unsigned int access)
{
	struct registration r = { .type = XR_MSG_REG_MR };
	struct xp_context *ctx = xp_own_pd(ibpd)->ctx;
	struct xp_mr *mr;
	int err;

	if (xp_health(ctx) != XP_HEALTHY)
		return xp_null(xp_refuse(REG_MR, EIO, "%s", xp_health_text(ctx)));
	/* ib_uverbs_reg_mr() of the kernel refuses this for all devices. */
	if (((uintptr_t)addr ^ iova) & (xp_page_size() - 1))
		return xp_null(xp_refuse(REG_MR, EINVAL,
					 "addr %p and iova 0x%llx differ in their offset in a page",
					 addr, (unsigned long long)iova));
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return xp_null(xp_refuse_memory(REG_MR));
	err = init_mr(mr, ibpd, addr, length, iova, access);
	if (!err)
		err = register_mr(ctx, mr, &r);
	if (err) {
		free(mr);
		return xp_null(err);
	}
	return &mr->ibmr;
}

int xp_send_proc_files(struct ibv_pd *ibpd)
{
	struct xp_context *ctx = xp_own_pd(ibpd)->ctx;
	static char byte;
	struct ibv_mr *mr;

	if (ctx->host || __atomic_load_n(&ctx->proc_fds_sent, __ATOMIC_ACQUIRE))
		return 0;
	mr = xp_reg_mr_iova2(ibpd, &byte, 1, (uintptr_t)&byte, IBV_ACCESS_ON_DEMAND);
	return mr ? -xp_dereg_mr(mr) : -errno;
}

/* ---- regions of one segment ---------------------------------------------------- */

static int register_segment(struct xp_mr *mr, const struct xr_mr_segment *seg, int fd)
{
	struct registration r = {
		.type = XR_MSG_REG_MR,
		.layout = { .segment = (struct xr_mr_segment *)seg, .segments = 1 },
	};
	struct xr_reg_mr_rep rep;
	struct xp_call call = {
		.type = XR_MSG_REG_MR,
		.req = mr_new_request(mr, &r),
		.req_len = sizeof(struct xr_reg_mr_req) + sizeof(*seg),
		.fds = &fd,
		.nfds = fd >= 0,
		.rep = &rep,
		.rep_len = sizeof(rep),
	};
	int err = call.req ? xp_call(mr->ctx, &call) : -ENOMEM;

	free((void *)call.req);
	if (!err)
		set_keys(mr, &rep);
	return err;
}

struct ibv_mr *xp_reg_segment(struct ibv_pd *ibpd, const struct xr_mr_segment *seg, int fd,
			      uint64_t iova, unsigned int access)
{
	struct xp_mr *mr = calloc(1, sizeof(*mr));
	int err;

	if (!mr)
		return xp_null(xp_refuse_memory(REG_MR));
	err = init_mr(mr, ibpd, NULL, seg->length, iova, access);
	if (!err && access & IBV_ACCESS_ON_DEMAND)
		err = xp_refuse(
			REG_MR, EINVAL,
			"IBV_ACCESS_ON_DEMAND: only memory of the program can be on demand");
	if (!err)
		err = register_segment(mr, seg, fd);
	if (err) {
		free(mr);
		return xp_null(err);
	}
	mr->fixed = true;
	return &mr->ibmr;
}

struct ibv_mr *xp_alloc_null_mr(struct ibv_pd *ibpd)
{
	struct xr_mr_segment seg = { .kind = XR_SEG_NULL, .length = SIZE_MAX };

	return xp_reg_segment(ibpd, &seg, -1, 0, IBV_ACCESS_LOCAL_WRITE);
}

/*
 * Populates part of a memfd, which the program need not have mapped. Pages of a dma-buf are present
 * and cannot be populated. Errors are ignored: later accesses to absent pages fail.
 */
static void populate_file(int fd, uint64_t off, uint64_t length)
{
	const uint64_t in_page = off & ((uint64_t)sysconf(_SC_PAGESIZE) - 1);
	void *p = mmap(NULL, length + in_page, PROT_READ, MAP_SHARED, fd, (off_t)(off - in_page));

	if (p == MAP_FAILED)
		return;
	xp_populate((uintptr_t)p, length + in_page, false);
	munmap(p, length + in_page);
}

/* The daemon accepts dma-bufs of /dev/udmabuf, and memfds that are sealed against shrinking. */
struct ibv_mr *xp_reg_dmabuf_mr(struct ibv_pd *ibpd, uint64_t off, size_t length, uint64_t iova,
				int fd, int access)
{
	const uint64_t in_page = (uint64_t)sysconf(_SC_PAGESIZE) - 1;
	struct xr_mr_segment seg = { .kind = XR_SEG_FD, .offset = off, .length = length };
	const int known = XR_ACCESS_WRITE | XR_ACCESS_REMOTE_READ | XR_ACCESS_OPTIONAL;

	if (access & ~known || !length || (off ^ iova) & in_page)
		return xp_null(
			xp_refuse("ibv_reg_dmabuf_mr", EINVAL,
				  "access 0x%x, supported 0x%x; length %zu, not 0; offset and iova "
				  "need the same offset in a page",
				  access, known, length));
	if (fcntl(fd, F_GETFD) < 0)
		return xp_null(xp_refuse("ibv_reg_dmabuf_mr", EBADF, "fd %d is not open", fd));
	populate_file(fd, off, length);
	return xp_reg_segment(ibpd, &seg, fd, iova, (unsigned int)access);
}

/* ---- attributes in a struct ------------------------------------------------------ */

static int refuse_ex(int err, const char *why)
{
	return xp_refuse("ibv_reg_mr_ex", err, "%s", why);
}

#define REG_MR_KNOWN                                                                               \
	(XP_REG_MR_IOVA | XP_REG_MR_ADDR | XP_REG_MR_FD | XP_REG_MR_FD_OFFSET | XP_REG_MR_BUF)

/* The combinations that libibverbs and the kernel allow */
static int check_ex(const struct ibv_pd *ibpd, const struct xp_mr_init_attr *attr)
{
	const uint64_t mask = attr->comp_mask;

	if (mask & XP_REG_MR_DMAH)
		return refuse_ex(EOPNOTSUPP, "IBV_REG_MR_MASK_DMAH: the device has no DMA handles");
	if (mask & ~(uint64_t)REG_MR_KNOWN)
		return xp_refuse("ibv_reg_mr_ex", EOPNOTSUPP, "comp_mask 0x%llx, supported 0x%x",
				 (unsigned long long)mask, REG_MR_KNOWN);
	if (mask & XP_REG_MR_BUF && !(mask & XP_REG_MR_ADDR))
		return refuse_ex(EINVAL, "IBV_REG_MR_MASK_BUF needs IBV_REG_MR_MASK_ADDR");
	if (!(mask & XP_REG_MR_FD) == !(mask & XP_REG_MR_ADDR))
		return refuse_ex(EINVAL, "comp_mask needs either IBV_REG_MR_MASK_ADDR or _FD");
	if (mask & XP_REG_MR_FD && (~mask & (XP_REG_MR_FD_OFFSET | XP_REG_MR_IOVA)))
		return refuse_ex(EINVAL, "IBV_REG_MR_MASK_FD needs _FD_OFFSET and _IOVA");
	if (mask & XP_REG_MR_ADDR && mask & XP_REG_MR_FD_OFFSET)
		return refuse_ex(EINVAL, "IBV_REG_MR_MASK_FD_OFFSET needs IBV_REG_MR_MASK_FD");
	if (mask & XP_REG_MR_BUF)
		return xp_buf_check(attr->buf, ibpd, attr->addr, attr->length);
	return 0;
}

struct ibv_mr *xp_reg_mr_ex(struct ibv_pd *ibpd, const struct ibv_mr_init_attr *init)
{
	const struct xp_mr_init_attr *attr = (const struct xp_mr_init_attr *)init;
	int err = check_ex(ibpd, attr);

	if (err)
		return xp_null(err);
	if (attr->comp_mask & XP_REG_MR_FD)
		return xp_reg_dmabuf_mr(ibpd, attr->fd_offset, attr->length, attr->iova, attr->fd,
					attr->access);
	return xp_reg_mr_iova2(ibpd, attr->addr, attr->length,
			       attr->comp_mask & XP_REG_MR_IOVA ? attr->iova
								: (uintptr_t)attr->addr,
			       (unsigned int)attr->access);
}

struct ibv_mr *xp_reg_buf_mr(struct ibv_pd *ibpd, struct ibv_buf *buf, void *addr, size_t length,
			     int access)
{
	const struct xp_mr_init_attr attr = {
		.length = length,
		.access = access,
		.comp_mask = XP_REG_MR_BUF | XP_REG_MR_ADDR,
		.addr = addr,
		.buf = buf,
	};

	return xp_reg_mr_ex(ibpd, (const struct ibv_mr_init_attr *)&attr);
}

/* ---- import -------------------------------------------------------------------- */

struct ibv_mr *xp_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	struct xr_import_mr_req req = { .pd = xp_own_pd(pd)->ibpd.handle, .handle = handle };
	struct xp_mr *mr = calloc(1, sizeof(*mr));
	struct xr_import_mr_rep rep;
	int err;

	if (!mr)
		return xp_null(xp_refuse_memory("ibv_import_mr"));
	err = xp_request(xp_own_pd(pd)->ctx, XR_MSG_IMPORT_MR, &req, sizeof(req), &rep,
			 sizeof(rep));
	if (err) {
		free(mr);
		return xp_null(err);
	}
	mr->ibmr = (struct ibv_mr){
		.context = pd->context,
		.pd = pd,
		.length = rep.length,
		.handle = handle,
		.lkey = rep.lkey,
		.rkey = rep.rkey,
	};
	mr->ctx = xp_own_pd(pd)->ctx;
	mr->fixed = true;
	mr->imported = true;
	return &mr->ibmr;
}

void xp_unimport_mr(struct ibv_mr *ibmr)
{
	free(ibmr);
}

/* ---- deregister, reregister ---------------------------------------------------- */

int xp_dereg_mr(struct ibv_mr *ibmr)
{
	struct xp_context *ctx = xp_mr(ibmr)->ctx;
	struct xp_mr *mr = xp_mr(ibmr);
	int err = mr->imported ? 0 : xp_release(ctx, XR_MSG_DEREG_MR, ibmr->handle, NULL);

	if (err)
		return -err;
	xp_page_refs_release(&mr->refs);
	free(mr);
	return 0;
}

#define REREG_MR "ibv_rereg_mr"
#define REREG_FLAGS                                                                                \
	(IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS)

static int check_rereg(const struct ibv_mr *ibmr, int flags, const struct ibv_pd *ibpd,
		       const void *addr, size_t length, int access)
{
	if (!flags || flags & ~REREG_FLAGS)
		return xp_refuse(REREG_MR, EINVAL, "flags 0x%x, known 0x%x", flags, REREG_FLAGS);
	if (flags & IBV_REREG_MR_CHANGE_PD && (!ibpd || !xp_is_of(ibpd, xp_pd, xp_mr(ibmr)->ctx)))
		return xp_refuse(REREG_MR, EINVAL, "pd is missing or of another context");
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION && (!addr || !length))
		return xp_refuse(REREG_MR, EINVAL, "addr %p, length %zu", addr, length);
	if (access && !(flags & IBV_REREG_MR_CHANGE_ACCESS))
		return xp_refuse(REREG_MR, EINVAL, "access 0x%x without IBV_REREG_MR_CHANGE_ACCESS",
				 access);
	return 0;
}

/*
 * Sends the whole layout, whatever changes: other access flags may require write access to memory
 * that was only read before.
 */
int xp_rereg_mr(struct ibv_mr *ibmr, int flags, struct ibv_pd *ibpd, void *addr, size_t length,
		int access)
{
	struct xr_rereg_mr_req head = { .handle = ibmr->handle, .rereg_flags = flags };
	struct registration r = {
		.type = XR_MSG_REREG_MR,
		.rereg = &head,
		.front = offsetof(struct xr_rereg_mr_req, reg),
	};
	bool moves = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
	struct xp_mr *mr = xp_mr(ibmr), changed = { 0 };
	struct xp_context *ctx = xp_mr(ibmr)->ctx;
	int err;

	err = mr->fixed
		      ? xp_refuse(REREG_MR, EINVAL, "the region is not of the program's own memory")
		      : check_rereg(ibmr, flags, ibpd, addr, length, access);
	if (!err)
		err = init_mr(&changed, flags & IBV_REREG_MR_CHANGE_PD ? ibpd : ibmr->pd,
			      moves ? addr : ibmr->addr, moves ? length : ibmr->length,
			      moves ? (uintptr_t)addr : mr->iova,
			      flags & IBV_REREG_MR_CHANGE_ACCESS ? access : mr->access);
	if (!err)
		err = register_mr(ctx, &changed, &r);
	if (err) {
		/* The region is unchanged, unless the daemon is gone. */
		errno = -err;
		return xp_health(ctx) == XP_HEALTHY ? IBV_REREG_MR_ERR_INPUT : IBV_REREG_MR_ERR_CMD;
	}
	xp_page_refs_release(&mr->refs);
	*mr = changed;
	return 0;
}
