// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "region.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "proc_maps.h"

/* ---- checking a request ---------------------------------------------------------- */

static bool segment_valid(const struct xr_mr_segment *s, uint32_t nfds)
{
	if ((!s->length && s->kind < XR_SEG_DM) || s->addr + s->length < s->addr ||
	    s->offset + s->length < s->offset || s->flags & ~(uint32_t)XR_SEGF_READONLY)
		return false;
	switch (s->kind) {
	case XR_SEG_FD:
		return s->fd_index < nfds;
	case XR_SEG_MAPPING:
		return s->map_start <= s->addr && s->addr + s->length <= s->map_end;
	case XR_SEG_PRIVATE:
		return true;
	case XR_SEG_DM:
	case XR_SEG_NULL:
		return !s->addr;
	default:
		return false;
	}
}

int xd_mem_check(const struct xr_mr_segment *segment, uint32_t segments, uint64_t addr,
		 uint64_t length, uint32_t nfds)
{
	uint64_t at = addr;
	uint32_t i;

	if (segments > XR_MR_SEGMENTS_MAX || addr + length < addr)
		return -EINVAL;
	for (i = 0; i < segments; i++) {
		if (segment[i].kind >= XR_SEG_DM && segments > 1)
			return -EINVAL;
		if (segment[i].addr != at || !segment_valid(&segment[i], nfds))
			return -EINVAL;
		at += segment[i].length;
	}
	return at == addr + length ? 0 : -EINVAL;
}

/* ---- null memory ------------------------------------------------------------------ */

static int region_null_read(struct xt_mem *mem, const struct xt_mem_seg *seg, uint64_t off,
			    void *dst, size_t len)
{
	memset(dst, 0, len);
	return 0;
}

static int region_null_write(struct xt_mem *mem, const struct xt_mem_seg *seg, uint64_t off,
			     const void *src, size_t len)
{
	return 0;
}

static const struct xt_mem_ops null_ops = { .read = region_null_read, .write = region_null_write };

/* ---- building -------------------------------------------------------------------- */

struct region_build {
	struct xd_mem *mem;
	const struct xd_mem_request *req;
	/* the mappings of the client's process within the region */
	struct xd_vma *vma;
	size_t vmas;
	bool addressed; /* struct xt_mem_seg, of the segment that is being built */
};

static const struct xd_vma *find_vma(const struct region_build *b, const struct xr_mr_segment *s)
{
	size_t i;

	for (i = 0; i < b->vmas; i++)
		if (b->vma[i].start == s->map_start && b->vma[i].end == s->map_end)
			return &b->vma[i];
	return NULL;
}

static int map_segment(struct region_build *b, const struct xr_mr_segment *s,
		       const struct xd_file *f, uint8_t **ptr)
{
	struct xd_mem *mem = b->mem;
	struct xd_mapping *m = &mem->mapping[mem->mappings];
	int err = xd_mapping_new(m, f, s->offset, s->length, mem->writable);

	if (err)
		return err;
	mem->mappings++;
	*ptr = m->ptr;
	/* the client need not have mapped a dma-buf, and then has no address for it */
	b->addressed = !f->dmabuf && s->addr;
	return 0;
}

static int build_adopted(struct region_build *b, const struct xr_mr_segment *s, uint8_t **ptr)
{
	struct xd_file f;
	int err = xd_file_check(&f, b->req->fds[s->fd_index], b->mem->writable);

	return err ? err : map_segment(b, s, &f, ptr);
}

/*
 * Returns -EINVAL if the segment does not match the client's mapping. Other errors: see use_proc().
 */
/* Logs once that this daemon may not follow the links in /proc/PID/map_files. */
static void log_unmapped(int err)
{
	static bool logged; /* atomic */

	if (err == -EPERM && !__atomic_exchange_n(&logged, true, __ATOMIC_RELAXED))
		xd_log(XD_NOTICE,
		       "shared memory of programs is not mapped and not pinned, but copied as "
		       "private memory is: CAP_CHECKPOINT_RESTORE: %s",
		       strerror(-err));
}

static int build_shared(struct region_build *b, const struct xr_mr_segment *s, uint8_t **ptr)
{
	const struct xd_vma *vma = find_vma(b, s);
	struct xd_file f;
	int err;

	if (!vma || !vma->shared || vma->offset + (s->addr - vma->start) != s->offset)
		return -EINVAL;
	err = xd_file_open_mapped(&f, b->req->ticket, vma, b->mem->writable);
	log_unmapped(err);
	if (err)
		return err == -EINVAL ? -EACCES : err;
	err = map_segment(b, s, &f, ptr);
	close(f.fd);
	return err;
}

/*
 * Returns true if memory that could not be mapped is accessed like private memory instead. Not if
 * the segment is invalid, or if the client itself has not mapped the file (dma-buf: address 0).
 */
static bool use_proc(const struct region_build *b, const struct xr_mr_segment *s, int err)
{
	struct xd_proc *proc = b->req->proc;
	struct xd_vma *list;
	size_t count;

	if (!err || err == -EINVAL || err == -EFAULT || err == -EOPNOTSUPP || !proc || !s->addr)
		return false;
	err = xd_proc_list(proc, s->addr, s->addr + s->length, &list, &count);
	if (!err)
		err = xd_vma_check(list, count, s->addr, s->length, b->mem->writable);
	free(list);
	return !err;
}

static int build_kind(struct region_build *b, const struct xr_mr_segment *s, uint8_t **ptr)
{
	int err;

	switch (s->kind) {
	case XR_SEG_FD:
		return build_adopted(b, s, ptr);
	case XR_SEG_DM:
		*ptr = b->req->dm + s->offset;
		return 0;
	case XR_SEG_NULL:
		b->mem->xt.ops = &null_ops;
		return 0;
	default:
		/* writes through /proc/PID/mem would ignore the protection of pages */
		err = xd_vma_check(b->vma, b->vmas, s->addr, s->length, b->mem->writable);
		return err || s->kind == XR_SEG_PRIVATE ? err : build_shared(b, s, ptr);
	}
}

static int build_segment(struct region_build *b, const struct xr_mr_segment *s)
{
	struct xd_mem *mem = b->mem;
	uint32_t kind = s->kind;
	uint8_t *ptr = NULL;
	int err;

	b->addressed = false;
	if (mem->writable && s->flags & XR_SEGF_READONLY)
		return -EFAULT;
	err = build_kind(b, s, &ptr);
	if (use_proc(b, s, err))
		kind = XR_SEG_PRIVATE;
	else if (err)
		return err;
	b->addressed &= kind != XR_SEG_PRIVATE;
	if (kind == XR_SEG_PRIVATE)
		err = xd_proc_start_mover(b->req->proc);
	if (err)
		return err;
	mem->tiers |= 1u << kind;
	mem->xt.seg[mem->xt.nseg++] = (struct xt_mem_seg){
		.off = s->addr - b->req->addr,
		.len = s->length,
		.ptr = ptr,
		.addr = s->addr,
		.writable = mem->writable,
		.addressed = b->addressed,
	};
	return 0;
}

static bool needs_maps(const struct xd_mem_request *req)
{
	uint32_t i;

	for (i = 0; i < req->segments; i++)
		if (req->segment[i].kind == XR_SEG_MAPPING ||
		    req->segment[i].kind == XR_SEG_PRIVATE)
			return true;
	return false;
}

static int build_segments(struct region_build *b)
{
	const struct xd_mem_request *req = b->req;
	uint32_t i;
	int err = 0;

	if (needs_maps(req)) {
		if (!req->proc)
			return -EINVAL;
		err = xd_proc_list(req->proc, req->addr, req->addr + req->length, &b->vma,
				   &b->vmas);
	}
	for (i = 0; i < req->segments && !err; i++)
		err = build_segment(b, &req->segment[i]);
	free(b->vma);
	return err;
}

static void pin_all(struct xd_mem *mem, const struct xd_mem_request *req)
{
	bool all = !xd_seg_alone(req->segment, req->segments);
	uint32_t i;

	for (i = 0; i < mem->mappings; i++) {
		all &= xd_mapping_pin(&mem->mapping[i]);
		if (mem->mapping[i].absent)
			xd_mem_absent(mem);
	}
	mem->pinned = all && !(mem->tiers & 1u << XR_SEG_PRIVATE);
}

static struct xd_mem *mem_alloc(const struct xd_mem_request *req)
{
	struct xd_mem *mem = calloc(1, sizeof(*mem));

	if (!mem)
		return NULL;
	mem->absent = req->absent;
	mem->current = req->current;
	mem->proc = xd_proc_get(req->proc);
	mem->writable = xd_access_writes(req->access);
	mem->xt.ops = &xd_private_ops;
	mem->xt.length = req->length;
	mem->xt.seg = calloc(req->segments + 1, sizeof(*mem->xt.seg));
	mem->mapping = calloc(req->segments + 1, sizeof(*mem->mapping));
	if (!mem->xt.seg || !mem->mapping) {
		xd_mem_free(mem);
		return NULL;
	}
	return mem;
}

uint64_t xd_mem_overhead(uint32_t segments)
{
	return segments * (sizeof(struct xt_mem_seg) + sizeof(struct xd_mapping));
}

int xd_mem_new(const struct xd_mem_request *req, struct xd_mem **out)
{
	struct region_build b = { .req = req };
	int err;

	if (req->access & XR_ACCESS_ON_DEMAND)
		return xd_mem_on_demand(req->proc, req->addr, req->length,
					xd_access_writes(req->access), out);
	b.mem = mem_alloc(req);
	if (!b.mem)
		return -ENOMEM;
	err = build_segments(&b);
	if (err) {
		xd_mem_free(b.mem);
		return err;
	}
	pin_all(b.mem, req);
	*out = b.mem;
	return 0;
}

/*
 * Returns the next segment from *i on whose pages can be absent. *at: the number of mapped segments
 * before *i.
 */
static struct xt_mem_seg *next_sparse(const struct xd_mem *mem, uint32_t *i, uint32_t *at)
{
	struct xt_mem_seg *seg;

	/* device memory has no mappings */
	while (mem->mappings && *i < mem->xt.nseg) {
		seg = &mem->xt.seg[(*i)++];
		/* the mappings belong to the segments with ptr, in order */
		if (seg->ptr && mem->mapping[(*at)++].sparse)
			return seg;
	}
	return NULL;
}

int xd_mem_prepare_unmap(const struct xd_mem *mem)
{
	const struct xt_mem_seg *seg;
	uint32_t i = 0, at = 0, n = 0;

	for (; (seg = next_sparse(mem, &i, &at)); n++)
		if (!seg->addr || !mem->proc)
			return -EOPNOTSUPP;
	return n ? xd_proc_start_mover(mem->proc) : 0;
}

int xd_mem_unmap(struct xd_mem *mem)
{
	const size_t bytes = mem->xt.nseg * sizeof(*mem->xt.seg);
	struct xt_mem_seg *new;
	uint32_t i = 0, at = 0;

	if (mem->before || !next_sparse(mem, &i, &at))
		return 0;
	new = malloc(bytes);
	if (!new)
		return -ENOMEM;
	memcpy(new, mem->xt.seg, bytes);
	do
		new[i - 1].ptr = NULL;
	while (next_sparse(mem, &i, &at));
	mem->checked = true;
	mem->pinned = false;
	mem->tiers = 1u << XR_SEG_PRIVATE;
	mem->before = mem->xt.seg;
	__atomic_store_n(&mem->xt.seg, new, __ATOMIC_RELEASE);
	return 0;
}

void xd_mem_free(struct xd_mem *mem)
{
	if (!mem)
		return;
	while (mem->mappings)
		xd_mapping_free(&mem->mapping[--mem->mappings]);
	xd_proc_put(mem->proc);
	free(mem->mapping);
	free(mem->xt.seg);
	free(mem->before);
	free(mem->xt.integrity);
	free(mem);
}
