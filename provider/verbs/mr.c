// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Memory regions. A registration tells the daemon how each part of the range can
 * be reached: see the tiers in docs/provider.md.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "provider/provider.h"

#define ACCESS_WRITES (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define ACCESS_KNOWN                                                                               \
	(ACCESS_WRITES | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |     \
	 IBV_ACCESS_ON_DEMAND)

/* ---- access -------------------------------------------------------------------- */

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

/* ---- layout -------------------------------------------------------------------- */

int xp_add_segment(struct xp_layout *l, const struct xr_mr_segment *seg)
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

/* The private tier reaches everything, and needs a segment only where the protection changes. */
static int add_private(struct xp_layout *l, uint64_t start, uint64_t end,
		       const struct xp_mapping *m)
{
	struct xr_mr_segment seg = {
		.kind = XR_SEG_PRIVATE,
		.addr = start,
		.length = end - start,
		.flags = m->writable ? 0 : XR_SEGF_READONLY,
	};

	return xp_add_segment(l, &seg);
}

enum tiers { ALL_TIERS, ONLY_PRIVATE };

struct maps {
	struct xp_mapping *m;
	size_t n;
};

/* Every byte of the range must be there, readable, and writable where the access writes. */
static int lay_out_mappings(struct xp_context *ctx, const struct xp_mr *mr, enum tiers tiers,
			    const struct maps *maps, struct xp_layout *l, struct xp_holds *holds)
{
	uint64_t at = (uintptr_t)mr->ibmr.addr, end = at + mr->ibmr.length, stop;
	const struct xp_mapping *m = maps->m;
	int err = 0;
	size_t i;

	l->segments = 0;
	for (i = 0; !err && i < maps->n; i++) {
		if (m[i].start > at || !m[i].readable ||
		    (mr->access & ACCESS_WRITES && !m[i].writable))
			return -EFAULT;
		stop = m[i].end < end ? m[i].end : end;
		if (tiers == ONLY_PRIVATE)
			err = add_private(l, at, stop, &m[i]);
		else
			err = xp_adopt(ctx, &m[i], at, stop, l, holds);
		at = stop;
	}
	return !err && at < end ? -EFAULT : err;
}

/*
 * Checks before it adopts: a range that will be refused is left as it is. One that is
 * scattered over more segments than a message holds is reached by the private tier.
 */
static int lay_out_tiers(struct xp_context *ctx, const struct xp_mr *mr, const struct maps *maps,
			 struct xp_layout *l, struct xp_holds *holds)
{
	int err = lay_out_mappings(ctx, mr, ONLY_PRIVATE, maps, l, holds);

	if (!err)
		err = lay_out_mappings(ctx, mr, ALL_TIERS, maps, l, holds);
	if (err == -E2BIG) {
		xp_unadopt_locked(holds);
		l->nfds = 0;
		err = lay_out_mappings(ctx, mr, ONLY_PRIVATE, maps, l, holds);
	}
	return err;
}

static int keep_private(const struct xp_mr *mr, const struct xp_layout *l, struct xp_holds *holds)
{
	uint64_t start = (uintptr_t)mr->ibmr.addr;
	const struct xr_mr_segment *s = l->segment;
	unsigned int i;
	int err = 0;

	if (!(mr->access & ACCESS_WRITES))
		return 0;
	if (mr->access & IBV_ACCESS_ON_DEMAND)
		return xp_adopt_never(start, start + mr->ibmr.length, holds);
	for (i = 0; i < l->segments && !err; i++)
		if (s[i].kind == XR_SEG_PRIVATE)
			err = xp_adopt_never(s[i].addr, s[i].addr + s[i].length, holds);
	return err;
}

static int lay_out(struct xp_context *ctx, const struct xp_mr *mr, struct xp_layout *l,
		   struct xp_holds *holds)
{
	uint64_t start = (uintptr_t)mr->ibmr.addr;
	struct maps maps = { 0 };
	int err = 0;

	xp_adopt_lock();
	/* Memory on demand need not be there yet. */
	if (!(mr->access & IBV_ACCESS_ON_DEMAND)) {
		err = xp_maps_read(start, start + mr->ibmr.length, &maps.m, &maps.n);
		if (!err)
			err = lay_out_tiers(ctx, mr, &maps, l, holds);
	}
	if (!err)
		err = keep_private(mr, l, holds);
	xp_adopt_unlock();
	free(maps.m);
	return err;
}

/* ---- the process's own memory, for the daemon ---------------------------------- */

struct proc_fds {
	int fd[2]; /* /proc/self/mem, /proc/self/maps */
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
		.type = type,
		.req = req,
		.req_len = front + sizeof(*reg) + l->segments * sizeof(reg->segment[0]),
		.fds = fds,
		.nfds = l->nfds,
		.rep = rep,
		.rep_len = sizeof(*rep),
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

/* ---- register ------------------------------------------------------------------ */

/* Addresses and access of a region, as one of our own: nothing is asked of the daemon. */
static int describe(struct xp_mr *mr, struct ibv_pd *ibpd, void *addr, size_t length, uint64_t iova,
		    unsigned int access)
{
	int err = check_access(&access);

	if (err)
		return err;
	/* Zero based means that peers count from the start of the region. */
	if (access & IBV_ACCESS_ZERO_BASED && iova == (uintptr_t)addr)
		iova = 0;
	if ((uintptr_t)addr + length < (uintptr_t)addr || iova + length < iova)
		return -EINVAL;
	mr->ibmr.context = ibpd->context;
	mr->ibmr.pd = ibpd;
	mr->ibmr.addr = addr;
	mr->ibmr.length = length;
	mr->access = access;
	mr->iova = iova;
	return 0;
}

/* A request with `front` bytes before its xr_reg_mr_req; NULL: out of memory. */
static uint8_t *new_request(const struct xp_mr *mr, size_t front, const struct xp_layout *l)
{
	size_t list = l->segments * sizeof(struct xr_mr_segment);
	uint8_t *req = calloc(1, front + sizeof(struct xr_reg_mr_req) + list);
	struct xr_reg_mr_req *reg;

	if (!req)
		return NULL;
	reg = (struct xr_reg_mr_req *)(req + front);
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

static void take_keys(struct xp_mr *mr, const struct xr_reg_mr_rep *rep)
{
	mr->ibmr.handle = rep->handle;
	mr->ibmr.lkey = rep->lkey;
	mr->ibmr.rkey = rep->rkey;
}

/* Lays the region out and sends it; with an error nothing is held. */
static int send_region(struct xp_context *ctx, struct xp_mr *mr, uint32_t type, size_t front,
		       const struct xr_rereg_mr_req *head, bool *mapped)
{
	struct xp_layout layout = { 0 };
	struct xr_reg_mr_rep rep;
	uint8_t *req = NULL;
	unsigned int i;
	int err;

	*mapped = false;
	err = lay_out(ctx, mr, &layout, &mr->holds);
	for (i = 0; i < layout.segments; i++)
		*mapped |= layout.segment[i].kind == XR_SEG_MAPPING;
	if (!err) {
		req = new_request(mr, front, &layout);
		if (req && front)
			memcpy(req, head, front);
		err = req ? send_layout(ctx, type, req, front, &layout, &rep) : -ENOMEM;
	}
	free(req);
	free(layout.segment);
	if (err)
		xp_unadopt(&mr->holds);
	else
		take_keys(mr, &rep);
	return err;
}

/*
 * The daemon looks at the process's mappings for itself. They may have changed since we looked:
 * another thread's mmap() can make two mappings one.
 */
static int send_region_again(struct xp_context *ctx, struct xp_mr *mr, uint32_t type, size_t front,
			     const struct xr_rereg_mr_req *head)
{
	bool mapped;
	int err, tries = 0;

	do {
		err = send_region(ctx, mr, type, front, head, &mapped);
	} while (err == -EINVAL && mapped && ++tries < 3);
	return err;
}

struct ibv_mr *xp_reg_mr_iova2(struct ibv_pd *ibpd, void *addr, size_t length, uint64_t iova,
			       unsigned int access)
{
	struct xp_context *ctx = xp_ctx(ibpd->context);
	struct xp_mr *mr;
	int err;

	if (xp_health(ctx) != XP_HEALTHY)
		return xp_null(EIO);
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return xp_null(ENOMEM);
	err = describe(mr, ibpd, addr, length, iova, access);
	if (!err)
		err = send_region_again(ctx, mr, XR_MSG_REG_MR, 0, NULL);
	if (err) {
		free(mr);
		return xp_null(err);
	}
	return &mr->ibmr;
}

int xp_send_proc_files(struct ibv_pd *ibpd)
{
	struct xp_context *ctx = xp_ctx(ibpd->context);
	static char byte;
	struct ibv_mr *mr;

	if (__atomic_load_n(&ctx->proc_fds_sent, __ATOMIC_ACQUIRE))
		return 0;
	mr = xp_reg_mr_iova2(ibpd, &byte, 1, (uintptr_t)&byte, IBV_ACCESS_ON_DEMAND);
	return mr ? -xp_dereg_mr(mr) : -errno;
}

/* ---- regions that are one thing, which never changes ---------------------------- */

struct ibv_mr *xp_reg_segment(struct ibv_pd *ibpd, const struct xr_mr_segment *seg, int fd,
			      uint64_t iova, unsigned int access)
{
	struct xp_layout layout = { .segment = (struct xr_mr_segment *)seg, .segments = 1 };
	struct xp_mr *mr = calloc(1, sizeof(*mr));
	struct xr_reg_mr_rep rep;
	uint8_t *req = NULL;
	int err;

	if (!mr)
		return xp_null(ENOMEM);
	err = describe(mr, ibpd, NULL, seg->length, iova, access);
	if (!err && access & IBV_ACCESS_ON_DEMAND)
		err = -EINVAL;
	if (!err) {
		req = new_request(mr, 0, &layout);
		err = req ? 0 : -ENOMEM;
	}
	if (!err) {
		struct xp_call call = {
			.type = XR_MSG_REG_MR,
			.req = req,
			.req_len = sizeof(struct xr_reg_mr_req) + sizeof(*seg),
			.fds = &fd,
			.nfds = fd >= 0,
			.rep = &rep,
			.rep_len = sizeof(rep),
		};

		err = xp_call(xp_ctx(ibpd->context), &call);
	}
	free(req);
	if (err) {
		free(mr);
		return xp_null(err);
	}
	mr->fixed = true;
	take_keys(mr, &rep);
	return &mr->ibmr;
}

struct ibv_mr *xp_alloc_null_mr(struct ibv_pd *ibpd)
{
	struct xr_mr_segment seg = { .kind = XR_SEG_NULL, .length = SIZE_MAX };

	return xp_reg_segment(ibpd, &seg, -1, 0, IBV_ACCESS_LOCAL_WRITE);
}

/* dma-bufs of /dev/udmabuf, and memfds that cannot shrink, of which those are made */
struct ibv_mr *xp_reg_dmabuf_mr(struct ibv_pd *ibpd, uint64_t off, size_t length, uint64_t iova,
				int fd, int access)
{
	const uint64_t in_page = (uint64_t)sysconf(_SC_PAGESIZE) - 1;
	struct xr_mr_segment seg = { .kind = XR_SEG_FD, .offset = off, .length = length };
	const int known = ACCESS_WRITES | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_OPTIONAL_RANGE;

	if (access & ~known || !length || (off ^ iova) & in_page)
		return xp_null(EINVAL);
	if (fcntl(fd, F_GETFD) < 0)
		return xp_null(EBADF);
	return xp_reg_segment(ibpd, &seg, fd, iova, (unsigned int)access);
}

/* ---- deregister, change ---------------------------------------------------------- */

int xp_dereg_mr(struct ibv_mr *ibmr)
{
	struct xp_mr *mr = (struct xp_mr *)ibmr;
	int err = mr->imported
			  ? 0
			  : xp_release(xp_ctx(ibmr->context), XR_MSG_DEREG_MR, ibmr->handle, NULL);

	if (err)
		return -err;
	xp_unadopt(&mr->holds);
	free(mr);
	return 0;
}

#define REREG_KNOWN                                                                                \
	(IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS)

static int rereg_input(const struct ibv_mr *ibmr, int flags, const struct ibv_pd *ibpd,
		       const void *addr, size_t length, int access)
{
	if (!flags || flags & ~REREG_KNOWN)
		return -EINVAL;
	if (flags & IBV_REREG_MR_CHANGE_PD && (!ibpd || ibpd->context != ibmr->context))
		return -EINVAL;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION && (!addr || !length))
		return -EINVAL;
	return access && !(flags & IBV_REREG_MR_CHANGE_ACCESS) ? -EINVAL : 0;
}

/* The region as it will be: the layout is sent anew, since what may be written there may change. */
int xp_rereg_mr(struct ibv_mr *ibmr, int flags, struct ibv_pd *ibpd, void *addr, size_t length,
		int access)
{
	struct xr_rereg_mr_req head = { .handle = ibmr->handle, .rereg_flags = flags };
	bool moves = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
	struct xp_mr *mr = (struct xp_mr *)ibmr, next = { 0 };
	struct xp_context *ctx = xp_ctx(ibmr->context);
	int err;

	err = mr->fixed ? -EINVAL : rereg_input(ibmr, flags, ibpd, addr, length, access);
	if (!err)
		err = describe(&next, flags & IBV_REREG_MR_CHANGE_PD ? ibpd : ibmr->pd,
			       moves ? addr : ibmr->addr, moves ? length : ibmr->length,
			       moves ? (uintptr_t)addr : mr->iova,
			       flags & IBV_REREG_MR_CHANGE_ACCESS ? access : mr->access);
	if (!err)
		err = send_region_again(ctx, &next, XR_MSG_REREG_MR,
					offsetof(struct xr_rereg_mr_req, reg), &head);
	if (err) {
		/* The daemon left the region as it was, as long as there is a daemon. */
		errno = -err;
		return xp_health(ctx) == XP_HEALTHY ? IBV_REREG_MR_ERR_INPUT : IBV_REREG_MR_ERR_CMD;
	}
	xp_unadopt(&mr->holds);
	*mr = next;
	return 0;
}
