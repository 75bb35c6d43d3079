// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Memory regions. The engine accesses the memory of the program where it is. A registration brings
 * its pages into memory, as the kernel does when it pins them, but pins nothing: a program that
 * unmaps memory of a region and maps other memory there lets its peers access the latter.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/io/tables.h"
#include "requests.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

/* Nothing is mapped below: the address 0 is that of no segment. */
#define LOWEST 4096u

static int populate(struct xp_host *h, uint64_t addr, uint64_t length, bool write)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start = addr & ~(page - 1);
	uint64_t end = (addr + length + page - 1) & ~(page - 1);

	if (!length || !madvise((void *)(uintptr_t)start, end - start,
				write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
		return 0;
	/* EINVAL: Linux before 5.14, or memory of a device */
	if (errno == EINVAL && !msync((void *)(uintptr_t)start, end - start, MS_ASYNC))
		return 0;
	return xp_host_refuse(h, errno == ENOMEM && !write ? -EFAULT : -EFAULT,
			      "memory at 0x%llx, length %llu, is not mapped or not accessible",
			      (unsigned long long)addr, (unsigned long long)length);
}

static void one_segment(struct xp_mr_object *mr, uint64_t addr, uint64_t length)
{
	mr->seg[0] = (struct xt_mem_seg){
		.len = length,
		.ptr = (uint8_t *)(uintptr_t)addr,
		.addr = addr,
		.writable = true,
	};
	mr->mem = (struct xt_mem){
		.ops = &xp_local_ops, .length = length, .nseg = 1, .seg = mr->seg
	};
}

/* The first page is not mapped, so an access to it fails. */
static void whole_address_space(struct xp_mr_object *mr)
{
	mr->seg[0] = (struct xt_mem_seg){ .len = LOWEST, .ptr = NULL, .writable = true };
	mr->seg[1] = (struct xt_mem_seg){ .off = LOWEST,
					  .len = UINT64_MAX - LOWEST,
					  .ptr = (uint8_t *)(uintptr_t)LOWEST,
					  .addr = LOWEST,
					  .writable = true };
	mr->mem = (struct xt_mem){
		.ops = &xp_local_ops, .length = UINT64_MAX, .nseg = 2, .seg = mr->seg
	};
}

/* Memory of a descriptor is mapped by the host, as the program need not have mapped it. */
static int map_descriptor(struct xp_host *h, struct xp_mr_object *mr, const struct xr_mr_segment *s,
			  int fd)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), in_page = s->offset & (page - 1);
	struct stat st;
	void *p;

	if (!fstat(fd, &st) && S_ISREG(st.st_mode) &&
	    (s->offset + s->length < s->offset || s->offset + s->length > (uint64_t)st.st_size))
		return xp_host_refuse(h, -EINVAL, "the file has %llu bytes",
				      (unsigned long long)st.st_size);
	p = mmap(NULL, s->length + in_page, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		 (off_t)(s->offset - in_page));
	if (p == MAP_FAILED)
		return xp_host_refuse(h, -EOPNOTSUPP, "the descriptor cannot be mapped: %s",
				      strerror(errno));
	mr->mapping = p;
	mr->mapped = s->length + in_page;
	one_segment(mr, (uintptr_t)p + in_page, s->length);
	return 0;
}

static int lay_out(struct xp_host *h, struct xp_mr_object *mr, const struct xr_reg_mr_req *q,
		   const struct xp_call *call)
{
	const struct xr_mr_segment *s = q->segment;

	if (q->segments > 1 || call->req_len < sizeof(*q) + q->segments * sizeof(*s))
		return -EINVAL;
	if (q->segments && s->kind == XR_SEG_NULL) {
		mr->is_null = true;
		mr->seg[0] = (struct xt_mem_seg){ .len = q->length, .writable = true };
		mr->mem = (struct xt_mem){
			.ops = &xp_null_ops, .length = q->length, .nseg = 1, .seg = mr->seg
		};
		return 0;
	}
	if (q->segments && s->kind == XR_SEG_FD && call->nfds)
		return map_descriptor(h, mr, s, call->fds[0]);
	if (q->segments)
		return -EINVAL;
	if (!q->addr && q->length == UINT64_MAX) {
		whole_address_space(mr);
		return 0;
	}
	if (q->length && q->addr < LOWEST)
		return xp_host_refuse(h, -EFAULT, "memory at 0x%llx is not mapped",
				      (unsigned long long)q->addr);
	one_segment(mr, q->addr, q->length);
	return q->access & XR_ACCESS_ON_DEMAND
		       ? 0
		       : populate(h, q->addr, q->length, q->access & XR_ACCESS_WRITE);
}

static void free_mr(struct xp_mr_object *mr)
{
	if (mr->mapping)
		munmap(mr->mapping, mr->mapped);
	xp_shared_free(mr->shared, mr->shared_size);
	free(mr);
}

static int add_key(struct xp_host *h, struct xp_mr_object *mr, const struct xr_reg_mr_req *q)
{
	int err;

	xp_host_enter(h);
	err = xt_keys_prepare(h->shared.keys);
	mr->key = err ? NULL : xt_keys_alloc(h->shared.keys);
	if (mr->key) {
		mr->key->entry.va = q->iova;
		mr->key->entry.length = q->length;
		mr->key->entry.pd = mr->pd->number;
		mr->key->entry.access = q->access & ~(uint32_t)XR_ACCESS_ON_DEMAND;
		mr->key->entry.state = XR_KEY_VALID;
		mr->key->entry.type = XR_KEY_MR;
		mr->key->mem = &mr->mem;
		err = xd_tables_set_key(h->tables, mr->key->index, &mr->key->entry);
		if (err)
			xt_keys_release(h->shared.keys, mr->key);
	} else if (!err) {
		err = xp_host_refuse(h, -ENOMEM, "the context has %u regions", h->env.attr->max_mr);
	}
	xp_host_leave_quietly(h);
	return err;
}

int xp_do_reg_mr(struct xp_host *h, struct xp_call *call)
{
	const struct xr_reg_mr_req *q = call->req;
	struct xp_pd *pd = xp_object_get(&h->objects, XP_KIND_PD, q->pd);
	struct xp_mr_object *mr = pd ? calloc(1, sizeof(*mr)) : NULL;
	struct xr_reg_mr_rep rep = { 0 };
	int err;

	if (!mr)
		return pd ? -ENOMEM : -ENOENT;
	mr->pd = pd;
	err = lay_out(h, mr, q, call);
	if (!err)
		err = xp_object_add(&h->objects, &mr->obj, XP_KIND_MR);
	if (!err)
		err = add_key(h, mr, q);
	if (err) {
		xp_object_del(&h->objects, &mr->obj);
		free_mr(mr);
		return err;
	}
	pd->obj.refs++;
	rep.handle = mr->obj.handle;
	rep.lkey = xt_key_value(mr->key);
	rep.rkey = mr->is_null ? 0 : rep.lkey;
	xp_reply(call, &rep, sizeof(rep));
	return 0;
}

int xp_do_dereg_mr(struct xp_host *h, struct xp_call *call)
{
	const struct xr_handle_req *q = call->req;
	struct xp_mr_object *mr = xp_object_get(&h->objects, XP_KIND_MR, q->handle);
	uint32_t index, bound;

	if (!mr)
		return -ENOENT;
	xp_host_enter(h);
	bound = mr->key->windows;
	index = mr->key->index;
	if (!bound) {
		xt_keys_release(h->shared.keys, mr->key);
		xd_tables_del_key(h->tables, index);
	}
	xp_host_leave_quietly(h);
	if (bound)
		return xp_host_refuse(h, -EBUSY, "%u windows are bound to the region", bound);
	mr->pd->obj.refs--;
	xp_object_del(&h->objects, &mr->obj);
	free_mr(mr);
	return 0;
}
