// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Memory regions. The engine accesses the memory of the program where it is. A registration brings
 * its pages into memory, as the kernel does when it pins them, but pins nothing: a program that
 * unmaps memory of a region and maps other memory there lets its peers access the latter.
 */
#include "mr.h"

#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "daemon/io/tables.h"
#include "publish.h"

#ifndef DMA_BUF_MAGIC
#define DMA_BUF_MAGIC 0x444d4142
#endif

/* Nothing is mapped below: the address 0 is that of no segment. */
#define LOWEST 4096u

/* ---- memory ------------------------------------------------------------------------------- */

static void one_segment(struct xp_mr_memory *m, uint64_t addr, uint64_t length)
{
	m->seg[0] = (struct xt_mem_seg){
		.len = length,
		.ptr = (uint8_t *)(uintptr_t)addr,
		.addr = addr,
		.writable = true,
	};
	m->nseg = 1;
	m->ops = &xp_local_ops;
	m->length = length;
}

/* The first page is not mapped, so an access to it fails. */
static void whole_address_space(struct xt_mem_seg *seg)
{
	seg[0] = (struct xt_mem_seg){ .len = LOWEST, .ptr = NULL, .writable = true };
	seg[1] = (struct xt_mem_seg){ .off = LOWEST,
				      .len = UINT64_MAX - LOWEST,
				      .ptr = (uint8_t *)(uintptr_t)LOWEST,
				      .addr = LOWEST,
				      .writable = true };
}

/* As in the daemon, the file is a dma-buf, or a memfd that cannot shrink. */
static int check_descriptor(struct xp_host *h, const struct xr_mr_segment *s, int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct statfs fs;
	off_t size;

	if (seals < 0 ? fstatfs(fd, &fs) || fs.f_type != DMA_BUF_MAGIC : !(seals & F_SEAL_SHRINK))
		return xp_host_refuse(h, -EINVAL,
				      "the descriptor is of neither a dma-buf nor a memfd that is "
				      "sealed against shrinking");
	size = lseek(fd, 0, SEEK_END);
	if (size < 0 || s->offset + s->length < s->offset || s->offset + s->length > (uint64_t)size)
		return xp_host_refuse(h, -EFAULT, "the descriptor has %lld bytes", (long long)size);
	return 0;
}

/* Memory of a descriptor is mapped by the host, as the program need not have mapped it. */
static int map_descriptor(struct xp_host *h, struct xp_mr_memory *m, uint32_t access,
			  const struct xr_mr_segment *s, int fd)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), in_page = s->offset & (page - 1);
	int prot = access & XR_ACCESS_WRITE ? PROT_READ | PROT_WRITE : PROT_READ;
	int err = check_descriptor(h, s, fd);
	void *p;

	if (err)
		return err;
	p = mmap(NULL, s->length + in_page, prot, MAP_SHARED, fd, (off_t)(s->offset - in_page));
	if (p == MAP_FAILED)
		return xp_host_refuse(h, errno == ENOMEM ? -ENOMEM : -EOPNOTSUPP,
				      "the descriptor cannot be mapped: %s", strerror(errno));
	m->mapping = p;
	m->mapped = s->length + in_page;
	one_segment(m, (uintptr_t)p + in_page, s->length);
	return 0;
}

static int device_memory(struct xp_host *h, struct xp_mr_memory *m, const struct xr_mr_segment *s)
{
	struct xp_dm_object *dm = xp_object_get(&h->objects, XP_KIND_DM, s->fd_index);

	if (!dm)
		return -ENOENT;
	if (s->offset + s->length < s->offset || s->offset + s->length > dm->length)
		return xp_host_refuse(h, -EINVAL,
				      "offset %llu, length %llu: the device memory has %llu bytes",
				      (unsigned long long)s->offset, (unsigned long long)s->length,
				      (unsigned long long)dm->length);
	one_segment(m, (uintptr_t)dm->base + s->offset, s->length);
	m->dm = dm;
	dm->obj.refs++;
	return 0;
}

static int null_memory(struct xp_host *h, struct xp_mr_memory *m, const struct xr_mr_segment *s,
		       uint32_t access)
{
	if (access & ~(uint32_t)XR_ACCESS_LOCAL_WRITE)
		return xp_host_refuse(h, -EINVAL, "access 0x%x of a null region", access);
	m->is_null = true;
	m->seg[0] = (struct xt_mem_seg){ .len = s->length, .writable = true };
	m->nseg = 1;
	m->ops = &xp_null_ops;
	m->length = s->length;
	return 0;
}

static int lay_out_segment(struct xp_host *h, struct xp_mr_memory *m, uint32_t access,
			   const struct xr_reg_mr_req *q, const struct xp_call *call)
{
	const struct xr_mr_segment *s = q->segment;

	if (s->length != q->length)
		return -EINVAL;
	switch (s->kind) {
	case XR_SEG_FD:
		return call->nfds ? map_descriptor(h, m, access, s, call->fds[0]) : -EINVAL;
	case XR_SEG_DM:
		return device_memory(h, m, s);
	case XR_SEG_NULL:
		return null_memory(h, m, s, access);
	default:
		return -EINVAL;
	}
}

/* Flags that a device may ignore are not part of it. */
static uint32_t known_access(uint32_t access)
{
	return access & ~(XR_ACCESS_OPTIONAL | XR_ACCESS_HUGETLB);
}

static int mr_check_request(struct xp_host *h, const struct xr_reg_mr_req *q, size_t length)
{
	uint32_t access = known_access(q->access);

	if (access & ~XR_ACCESS_REGION)
		return xp_host_refuse(h, -EOPNOTSUPP, "access 0x%x, supported 0x%x", access,
				      XR_ACCESS_REGION);
	if (!xr_access_valid(access))
		return xp_host_refuse(h, -EINVAL,
				      "access 0x%x: remote write and atomic access need "
				      "IBV_ACCESS_LOCAL_WRITE",
				      access);
	if (q->segments > 1 || length < sizeof(*q) + q->segments * sizeof(q->segment[0]) ||
	    q->addr + q->length < q->addr || q->iova + q->length < q->iova)
		return xp_host_refuse(h, -EINVAL, "invalid flags, segments or iova");
	return 0;
}

/*
 * Memory that the daemon would pin counts as registered, before it is brought into memory. That on
 * demand does not, nor do device memory and null regions.
 */
static int add_pages(struct xp_host *h, struct xp_mr_memory *m, const struct xr_reg_mr_req *q)
{
	uint64_t in_page = q->addr % XR_CLAIM_PAGE, pages;
	int err;

	if (known_access(q->access) & XR_ACCESS_ON_DEMAND || !q->length)
		return 0;
	pages = q->length / XR_CLAIM_PAGE +
		(in_page + q->length % XR_CLAIM_PAGE + XR_CLAIM_PAGE - 1) / XR_CLAIM_PAGE;
	if (pages > UINT32_MAX)
		pages = UINT32_MAX; /* more than anybody has */
	err = xp_host_add_pages(h, (uint32_t)pages);
	if (!err)
		m->pages = (uint32_t)pages;
	return err;
}

static int not_mapped(struct xp_host *h, const struct xr_reg_mr_req *q, int err)
{
	return xp_host_refuse(h, err,
			      "memory at 0x%llx, length %llu, is not mapped or not accessible as "
			      "requested",
			      (unsigned long long)q->addr, (unsigned long long)q->length);
}

/* Memory at an address of the program */
static int lay_out_address(struct xp_host *h, struct xp_mr_memory *m, const struct xr_reg_mr_req *q,
			   uint32_t access)
{
	int err;

	one_segment(m, q->addr, q->length);
	if (q->length && q->addr < LOWEST)
		return not_mapped(h, q, -EFAULT);
	if (access & XR_ACCESS_ON_DEMAND)
		return 0;
	err = add_pages(h, m, q);
	if (err)
		return err;
	err = xp_populate_pages(q->addr, q->length, access & XR_ACCESS_WRITE);
	return err ? not_mapped(h, q, err) : 0;
}

static int mr_lay_out(struct xp_host *h, struct xp_mr_memory *m, const struct xr_reg_mr_req *q,
		      const struct xp_call *call)
{
	uint32_t access = known_access(q->access);
	int err;

	if (q->segments) {
		err = q->segment[0].kind == XR_SEG_FD ? add_pages(h, m, q) : 0;
		return err ? err : lay_out_segment(h, m, access, q, call);
	}
	if (access & XR_ACCESS_ON_DEMAND && !q->addr && q->length == UINT64_MAX) {
		one_segment(m, 0, UINT64_MAX);
		whole_address_space(m->seg);
		m->nseg = 2;
		return 0;
	}
	return lay_out_address(h, m, q, access);
}

static void mr_free_memory(struct xp_mr_memory *m)
{
	if (m->mapping)
		munmap(m->mapping, m->mapped);
	if (m->dm)
		m->dm->obj.refs--;
}

/* Entered, if the region has a key. */
static void use_memory(struct xp_mr_object *mr, const struct xp_mr_memory *m)
{
	mr->memory = *m;
	mr->mem = (struct xt_mem){
		.ops = m->ops, .length = m->length, .nseg = m->nseg, .seg = mr->memory.seg
	};
}

void xp_mr_free(struct xp_host *h, struct xp_mr_object *mr)
{
	xp_host_del_pages(h, mr->memory.pages);
	mr_free_memory(&mr->memory);
	xp_shared_free(mr->shared, mr->shared_size);
	free(mr->own_seg);
	free(mr->integrity);
	free(mr);
}

/* ---- keys --------------------------------------------------------------------------------- */

int xp_mr_new_key(struct xp_host *h, struct xp_mr_object *mr)
{
	mr->key = xt_keys_alloc(h->shared.keys);
	return mr->key ? 0
		       : xp_host_refuse(h, -ENOMEM, "the context has %u regions and windows",
					h->env.attr->max_mr);
}

/* Others see how many regions use device memory. Entered. */
static void show_device_memory(struct xp_host *h, const struct xp_dm_object *dm)
{
	if (dm)
		xp_view_change(h, &dm->obj);
}

int xp_mr_mirror_key(struct xp_host *h, struct xp_mr_object *mr)
{
	int err = xd_tables_set_key(h->tables, mr->key->index, &mr->key->entry);

	if (err) {
		xt_keys_release(h->shared.keys, mr->key);
		mr->key = NULL;
	} else {
		mr->key->owner = &mr->obj;
		xp_view_add(h, &mr->obj);
		show_device_memory(h, mr->memory.dm);
	}
	return err;
}

int xp_mr_end_key(struct xp_host *h, struct xp_mr_object *mr)
{
	uint32_t index, bound;

	xp_host_enter(h);
	bound = mr->key->windows;
	index = mr->key->index;
	if (!bound) {
		xp_view_remove(h, &mr->obj);
		xt_keys_release(h->shared.keys, mr->key);
		xd_tables_del_key(h->tables, index);
	}
	xp_host_leave_quietly(h);
	if (bound)
		return xp_host_refuse(h, -EBUSY, "windows are bound to the region");
	xp_unpublish_key(h, &mr->place);
	return 0;
}

static void mr_set_entry(const struct xp_mr_object *mr, struct xr_key_entry *e)
{
	e->va = mr->iova;
	e->length = mr->length;
	e->pd = mr->pd->number;
	e->qpn = 0;
	e->access = mr->access & ~(uint32_t)XR_ACCESS_ON_DEMAND;
	e->state = XR_KEY_VALID;
	e->type = XR_KEY_MR;
}

static void mr_set_key(struct xp_mr_object *mr)
{
	mr_set_entry(mr, &mr->key->entry);
	mr->key->mem = &mr->mem;
}

/* Packets cannot name a key without remote access, so the kernel need not know it. */
static int publish_key(struct xp_host *h, struct xp_mr_object *mr, const struct xr_key_entry *entry)
{
	if (entry->access & XR_ACCESS_REMOTE)
		return xp_publish_key(h, &mr->place, mr->key->index, entry, 0);
	xp_unpublish_key(h, &mr->place);
	return 0;
}

static void host_reply_mr(const struct xp_mr_object *mr, struct xp_call *call)
{
	struct xr_reg_mr_rep rep = { .handle = mr->obj.handle, .lkey = xt_key_value(mr->key) };

	rep.rkey = mr->memory.is_null ? 0 : rep.lkey;
	xp_reply(call, &rep, sizeof(rep));
}

/* ---- register ----------------------------------------------------------------------------- */

static int reg_key(struct xp_host *h, struct xp_mr_object *mr)
{
	int err;

	xp_host_enter(h);
	err = xp_mr_new_key(h, mr);
	if (!err) {
		mr_set_key(mr);
		err = xp_mr_mirror_key(h, mr);
	}
	xp_host_leave_quietly(h);
	if (err)
		return err;
	err = publish_key(h, mr, &mr->key->entry);
	if (err)
		xp_mr_end_key(h, mr);
	return err;
}

static void mr_take_values(struct xp_mr_object *mr, const struct xr_reg_mr_req *q)
{
	mr->addr = q->addr;
	mr->length = q->length;
	mr->iova = q->iova;
	mr->access = known_access(q->access);
}

int xp_do_reg_mr(struct xp_host *h, struct xp_call *call)
{
	const struct xr_reg_mr_req *q = call->req;
	struct xp_pd *pd = xp_object_get(&h->objects, XP_KIND_PD, q->pd);
	struct xp_mr_memory m = { 0 };
	struct xp_mr_object *mr;
	int err;

	if (!pd)
		return -ENOENT;
	err = mr_check_request(h, q, call->req_len);
	if (err)
		return err;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -ENOMEM;
	mr->pd = pd;
	mr_take_values(mr, q);
	err = mr_lay_out(h, &m, q, call);
	use_memory(mr, &m);
	if (!err)
		err = xp_host_add(h, &mr->obj, XP_KIND_MR);
	if (!err)
		err = reg_key(h, mr);
	if (err) {
		xp_host_del(h, &mr->obj);
		xp_mr_free(h, mr);
		return err;
	}
	pd->obj.refs++;
	host_reply_mr(mr, call);
	return 0;
}

/* ---- reregister --------------------------------------------------------------------------- */

/*
 * A change of the memory changes the variant of the key, so that the old key becomes invalid. A
 * change of access rights or of the PD keeps the key.
 */
static int mr_change(struct xp_host *h, struct xp_mr_object *mr, const struct xp_mr_object *to,
		     const struct xp_mr_memory *m, bool new_memory)
{
	struct xr_key_entry old;
	struct xp_mr_object was;
	int err = 0;

	xp_host_enter(h);
	if (mr->key->windows) {
		err = xp_host_refuse(h, -EBUSY, "%u windows are bound to the region",
				     mr->key->windows);
	} else {
		was = *mr;
		old = mr->key->entry;
		mr->pd = to->pd;
		mr->addr = to->addr;
		mr->length = to->length;
		mr->iova = to->iova;
		mr->access = to->access;
		use_memory(mr, m);
		mr_set_key(mr);
		if (new_memory)
			mr->key->entry.variant++;
		err = xd_tables_set_key(h->tables, mr->key->index, &mr->key->entry);
		if (err) {
			mr->key->entry = old;
			*mr = was;
		} else {
			xp_view_change(h, &mr->obj);
		}
	}
	xp_host_leave_quietly(h);
	return err;
}

/* The kernel knows the new key before the program does. */
static int change_published(struct xp_host *h, struct xp_mr_object *mr,
			    const struct xp_mr_object *to, const struct xp_mr_memory *m,
			    bool new_memory)
{
	struct xr_key_entry old = mr->key->entry, entry = old;
	int err, put_back;

	mr_set_entry(to, &entry);
	entry.variant += new_memory;
	err = publish_key(h, mr, &entry);
	if (err)
		return err;
	err = mr_change(h, mr, to, m, new_memory);
	put_back = err ? publish_key(h, mr, &old) : 0;
	if (put_back)
		h->env.debug("region 0x%x: %s", xt_key_value(mr->key), strerror(-put_back));
	return err;
}

int xp_do_rereg_mr(struct xp_host *h, struct xp_call *call)
{
	const uint32_t known = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD |
			       IBV_REREG_MR_CHANGE_ACCESS;
	const struct xr_rereg_mr_req *q = call->req;
	struct xp_mr_object *mr = xp_object_get(&h->objects, XP_KIND_MR, q->handle), to = { 0 };
	bool new_memory = q->rereg_flags & IBV_REREG_MR_CHANGE_TRANSLATION;
	struct xp_mr_memory m = { 0 };
	struct xr_reg_mr_req reg;
	struct xp_pd *old_pd;
	uint32_t old_pages;
	int err;

	if (!mr)
		return -ENOENT;
	if (mr->memory.dm || mr->memory.is_null || mr->memory.mapping)
		return xp_host_refuse(h, -EINVAL,
				      "a region of device memory, a descriptor or a null region "
				      "cannot change");
	if (!q->rereg_flags || q->rereg_flags & ~known || mr->shared || q->reg.segments)
		return xp_host_refuse(h, -EINVAL, "flags 0x%x, 1 to 7; no region of work requests",
				      q->rereg_flags);
	to.pd = mr->pd;
	if (q->rereg_flags & IBV_REREG_MR_CHANGE_PD)
		to.pd = xp_object_get(&h->objects, XP_KIND_PD, q->reg.pd);
	if (!to.pd)
		return -ENOENT;
	reg = (struct xr_reg_mr_req){
		.access = q->rereg_flags & IBV_REREG_MR_CHANGE_ACCESS ? q->reg.access : mr->access,
		.addr = new_memory ? q->reg.addr : mr->addr,
		.length = new_memory ? q->reg.length : mr->length,
		.iova = new_memory ? q->reg.iova : mr->iova,
	};
	mr_take_values(&to, &reg);
	err = mr_check_request(h, &reg, sizeof(reg));
	if (!err)
		err = mr_lay_out(h, &m, &reg, call);
	old_pd = mr->pd;
	old_pages = mr->memory.pages;
	if (!err)
		err = change_published(h, mr, &to, &m, new_memory);
	xp_host_del_pages(h, err ? m.pages : old_pages);
	if (err)
		return err;
	old_pd->obj.refs--;
	mr->pd->obj.refs++;
	host_reply_mr(mr, call);
	return 0;
}

/* ---- deregister --------------------------------------------------------------------------- */

int xp_do_dereg_mr(struct xp_host *h, struct xp_call *call)
{
	const struct xr_handle_req *q = call->req;
	struct xp_mr_object *mr = xp_object_get(&h->objects, XP_KIND_MR, q->handle);
	struct xp_dm_object *dm;
	int err;

	if (!mr)
		return -ENOENT;
	dm = mr->memory.dm;
	err = xp_mr_end_key(h, mr);
	if (err)
		return err;
	mr->pd->obj.refs--;
	xp_host_del(h, &mr->obj);
	xp_mr_free(h, mr);
	if (dm) {
		xp_host_enter(h);
		show_device_memory(h, dm);
		xp_host_leave_quietly(h);
	}
	return 0;
}

/* ---- advice ------------------------------------------------------------------------------- */

/* Checks one range. *addr is its address in the program's memory. Entered. */
static int mr_check_advice(struct xp_host *h, const struct xp_pd *pd, const struct xr_sge *range,
			   bool write, uint64_t *addr)
{
	struct xt_key *key = xt_keys_by_index(h->shared.keys, XR_KEY_INDEX(range->lkey));
	const struct xp_mr_object *mr;
	uint64_t off;

	if (!key || xt_key_value(key) != range->lkey)
		return xp_host_refuse(h, -ENOENT, "lkey 0x%x belongs to no region", range->lkey);
	if (key->entry.type != XR_KEY_MR)
		return xp_host_refuse(h, -EINVAL, "lkey 0x%x belongs to a window", range->lkey);
	mr = (const void *)((const char *)key->mem - offsetof(struct xp_mr_object, mem));
	if (!(mr->access & XR_ACCESS_ON_DEMAND))
		return xp_host_refuse(h, -ENOENT, "lkey 0x%x: the region is not on demand",
				      range->lkey);
	if (mr->pd != pd || (write && !(mr->access & XR_ACCESS_WRITE)))
		return xp_host_refuse(h, -EPERM, "lkey 0x%x: %s", range->lkey,
				      mr->pd != pd ? "the region has another PD"
						   : "the region is not writable");
	off = range->addr - mr->iova;
	if (range->addr < mr->iova || off > mr->length || range->length > mr->length - off)
		return xp_host_refuse(h, -EFAULT, "0x%llx, length %u, exceeds the region",
				      (unsigned long long)range->addr, range->length);
	*addr = mr->addr + off;
	return 0;
}

int xp_do_advise_mr(struct xp_host *h, struct xp_call *call)
{
	const struct xr_advise_mr_req *q = call->req;
	struct xp_pd *pd = xp_object_get(&h->objects, XP_KIND_PD, q->pd);
	struct {
		struct xr_advise_mr_rep head;
		uint64_t addr[XR_ADVISE_MAX];
	} rep = { 0 };
	int err = 0;

	if (!pd || !q->ranges || q->ranges > XR_ADVISE_MAX ||
	    call->req_len < sizeof(*q) + q->ranges * sizeof(q->range[0]))
		return xp_host_refuse(h, -EINVAL, "pd %u, %u ranges", q->pd, q->ranges);
	rep.head.ranges = q->ranges;
	xp_host_enter(h);
	for (uint32_t i = 0; i < q->ranges && !err; i++)
		err = mr_check_advice(h, pd, &q->range[i], q->write, &rep.addr[i]);
	xp_host_leave_quietly(h);
	if (!err)
		xp_reply(call, &rep, sizeof(rep.head) + q->ranges * sizeof(rep.addr[0]));
	return err;
}

/* ---- the reserved L_Key ------------------------------------------------------------------- */

/* The program's own work requests access its own memory, so there is nothing to permit. */
int xp_do_reserved_lkey(struct xp_host *h, struct xp_call *call)
{
	const struct xr_reserved_lkey_rep rep = { .lkey = XR_RESERVED_LKEY };

	whole_address_space(h->reserved_lkey_seg);
	xp_host_enter(h);
	h->reserved_lkey = (struct xt_mem){
		.ops = &xp_local_ops, .length = UINT64_MAX, .nseg = 2, .seg = h->reserved_lkey_seg
	};
	h->reserved_lkey_mem = &h->reserved_lkey;
	xp_host_leave_quietly(h);
	xp_reply(call, &rep, sizeof(rep));
	return 0;
}
