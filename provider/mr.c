// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Memory regions. A registration tells the daemon how each part of the range can
 * be reached: see the tiers in docs/provider.md.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "provider.h"

#define ACCESS_WRITES (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define ACCESS_KNOWN                                                                               \
	(ACCESS_WRITES | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |     \
	 IBV_ACCESS_ON_DEMAND)

/* ---- access -------------------------------------------------------------------------- */

/* Hints are for hardware; what is left must be known and make sense. */
static int check_access(unsigned int *access)
{
	*access &= ~(IBV_ACCESS_OPTIONAL_RANGE | IBV_ACCESS_HUGETLB);
	if (*access & ~ACCESS_KNOWN)
		return -EINVAL;
	if (*access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) &&
	    !(*access & IBV_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	return 0;
}

/* ---- segments ------------------------------------------------------------------------- */

static int add_segment(struct xp_layout *l, const struct xr_mr_segment *seg)
{
	struct xr_mr_segment *last = l->segments ? &l->segment[l->segments - 1] : NULL, *more;

	if (last && last->kind == XR_SEG_PRIVATE && seg->kind == XR_SEG_PRIVATE &&
	    last->flags == seg->flags) {
		last->length += seg->length;
		return 0;
	}
	if (l->segments == XR_MR_SEGMENTS_MAX)
		return -E2BIG;
	if (l->segments == l->room) {
		more = realloc(l->segment, (l->room * 2 + 8) * sizeof(*more));
		if (!more)
			return -ENOMEM;
		l->segment = more;
		l->room = l->room * 2 + 8;
	}
	l->segment[l->segments++] = *seg;
	return 0;
}

static int add_private(struct xp_layout *l, uint64_t start, uint64_t end,
		       const struct xp_mapping *m)
{
	struct xr_mr_segment seg = {
		.kind = XR_SEG_PRIVATE, .addr = start, .length = end - start,
		.flags = m->writable ? 0 : XR_SEGF_READONLY,
	};

	return add_segment(l, &seg);
}

/* Every byte of the range must be there, readable, and writable where the access writes. */
static int lay_out(struct xp_layout *l, uint64_t start, uint64_t length, unsigned int access)
{
	uint64_t end = start + length, at = start, stop;
	struct xp_mapping *m;
	size_t n, i;
	int err;

	err = xp_maps_read(start, end, &m, &n);
	if (err)
		return err;
	for (i = 0; i < n && !err; i++) {
		if (m[i].start > at || !m[i].readable ||
		    (access & ACCESS_WRITES && !m[i].writable)) {
			err = -EFAULT;
			break;
		}
		stop = m[i].end < end ? m[i].end : end;
		err = add_private(l, at, stop, &m[i]);
		at = stop;
	}
	if (!err && at < end)
		err = -EFAULT;
	free(m);
	return err;
}

/* ---- the process's own memory, for the daemon ------------------------------------------- */

struct proc_fds {
	int fd[2];	/* /proc/self/mem, /proc/self/maps */
};

static int open_proc(struct proc_fds *p)
{
	int err;

	p->fd[0] = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	if (p->fd[0] < 0)
		return -errno;
	p->fd[1] = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (p->fd[1] < 0) {
		err = -errno;
		close(p->fd[0]);
		return err;
	}
	return 0;
}

/*
 * REG_MR, or REREG_MR where `front` bytes precede the registration. The daemon gets the
 * process's files with the first region that it accepts.
 */
static int send_layout(struct xp_context *ctx, uint32_t type, uint8_t *req, size_t front,
		       const struct xp_layout *l, struct xr_reg_mr_rep *rep)
{
	struct xr_reg_mr_req *reg = (struct xr_reg_mr_req *)(req + front);
	int fds[XR_MSG_MAX_FDS], err = 0;
	struct xp_call call = {
		.type = type, .req = req,
		.req_len = front + sizeof(*reg) + l->segments * sizeof(reg->segment[0]),
		.fds = fds, .nfds = l->nfds, .rep = rep, .rep_len = sizeof(*rep),
	};
	bool first = !__atomic_load_n(&ctx->proc_fds_sent, __ATOMIC_ACQUIRE);
	struct proc_fds proc;

	memcpy(fds, l->fds, l->nfds * sizeof(int));
	if (first) {
		err = open_proc(&proc);
		if (err)
			return err;
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

/* ---- register ------------------------------------------------------------------------------ */

static int register_region(struct xp_context *ctx, struct xp_mr *mr, uint32_t pd,
			   struct xr_reg_mr_rep *rep)
{
	uint64_t start = (uintptr_t)mr->ibmr.addr, length = mr->ibmr.length;
	struct xp_layout layout = { 0 };
	struct xr_reg_mr_req *req = NULL;
	size_t list;
	int err;

	err = lay_out(&layout, start, length, mr->access);
	if (err)
		goto out;
	list = layout.segments * sizeof(req->segment[0]);
	req = malloc(sizeof(*req) + list);
	if (!req) {
		err = -ENOMEM;
		goto out;
	}
	*req = (struct xr_reg_mr_req){
		.pd = pd, .access = mr->access, .addr = start, .length = length,
		.iova = mr->iova, .segments = layout.segments,
	};
	if (list)
		memcpy(req->segment, layout.segment, list);
	err = send_layout(ctx, XR_MSG_REG_MR, (uint8_t *)req, 0, &layout, rep);
out:
	free(req);
	free(layout.segment);
	return err;
}

struct ibv_mr *xp_reg_mr_iova2(struct ibv_pd *ibpd, void *addr, size_t length, uint64_t iova,
			       unsigned int access)
{
	struct xp_context *ctx = xp_ctx(ibpd->context);
	struct xr_reg_mr_rep rep;
	struct xp_mr *mr;
	int err;

	err = check_access(&access);
	if (!err && (uintptr_t)addr + length < (uintptr_t)addr)
		err = -EINVAL;
	if (err)
		return xp_null(err);
	/* Zero based means that peers count from the start of the region. */
	if (access & IBV_ACCESS_ZERO_BASED && iova == (uintptr_t)addr)
		iova = 0;
	if (iova + length < iova)
		return xp_null(EINVAL);
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return xp_null(ENOMEM);
	mr->ibmr.context = ibpd->context;
	mr->ibmr.pd = ibpd;
	mr->ibmr.addr = addr;
	mr->ibmr.length = length;
	mr->access = access;
	mr->iova = iova;
	err = register_region(ctx, mr, ibpd->handle, &rep);
	if (err) {
		free(mr);
		return xp_null(err);
	}
	mr->ibmr.handle = rep.handle;
	mr->ibmr.lkey = rep.lkey;
	mr->ibmr.rkey = rep.rkey;
	return &mr->ibmr;
}

int xp_dereg_mr(struct ibv_mr *ibmr)
{
	int err = xp_release(xp_ctx(ibmr->context), XR_MSG_DEREG_MR, ibmr->handle, NULL);

	if (err)
		return -err;
	free(ibmr);
	return 0;
}

int xp_rereg_mr(struct ibv_mr *ibmr, int flags, struct ibv_pd *ibpd, void *addr, size_t length,
		int access)
{
	errno = EOPNOTSUPP;
	return IBV_REREG_MR_ERR_INPUT;
}
