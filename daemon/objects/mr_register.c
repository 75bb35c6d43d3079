// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * REG_MR and REREG_MR. A job builds the region, then the control thread changes its key. A key is
 * in XDP's map before its value is sent to the client.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/clients/request.h"
#include "daemon/datapath/grace.h"
#include "daemon/io/tables.h"
#include "daemon/memory/proc.h"
#include "daemon/memory/region.h"
#include "absent.h"
#include "dm.h"
#include "mr.h"
#include "objects.h"
#include "pd.h"

#define PAGE 4096u

/* ---- requests -------------------------------------------------------------------- */

/* A registration: the region as requested, and the job that builds it */
struct mr_register_build {
	struct xd_client_job job;
	struct xd_mr *mr;      /* new, or the one to change */
	bool rereg;	       /* REREG_MR, not REG_MR */
	bool unmapped;	       /* no segment is accessed by a mapping, see absent.h */
	bool new_memory;       /* IBV_REREG_MR_CHANGE_TRANSLATION */
	struct xd_mr *changed; /* by REREG_MR */
	struct xd_pd *pd;
	struct xd_dm *dm;
	uint32_t access, flags;
	uint64_t addr, length, iova;
	struct xd_bytes charged;

	struct xr_mr_segment *segment;
	uint32_t segments;
	int *fds; /* for segments, then mem and maps with XR_REGF_PROC_FDS */
	uint32_t nfds;

	int err;
	uint8_t *dm_bytes;    /* memory of dm, which itself may be freed before the job runs */
	struct xd_proc *proc; /* address space if there is no new one */
	struct xd_proc_quota quota; /* for new_proc */
	struct xd_proc *new_proc;   /* created from descriptors of this request */
	struct xd_mem *mem;
	uint64_t grace;		 /* REREG_MR: when the key was withdrawn */
	struct xd_ending ending; /* REREG_MR: of accesses to the old memory */
};

static int mr_register_check_access(struct xd_client *c, uint32_t *access)
{
	*access &= ~(XR_ACCESS_OPTIONAL | XR_ACCESS_HUGETLB);
	if (*access & ~XR_ACCESS_REGION)
		return xd_refuse(c, -EOPNOTSUPP, "access 0x%x, supported 0x%x", *access,
				 XR_ACCESS_REGION);
	if (!xr_access_valid(*access))
		return xd_refuse(
			c, -EINVAL,
			"access 0x%x: remote write and atomic access need IBV_ACCESS_LOCAL_WRITE",
			*access);
	return 0;
}

/* Returns the size of the whole pages, which are pinned. */
static uint64_t mr_register_pages_of(uint64_t addr, uint64_t length)
{
	uint64_t first = addr & ~(uint64_t)(PAGE - 1);

	if (length > UINT64_MAX / 2)
		return UINT64_MAX;
	return length ? (addr + length - first + PAGE - 1) & ~(uint64_t)(PAGE - 1) : 0;
}

/*
 * Returns the bytes to charge. Memory on demand is not pinned, and device memory was charged when
 * it was allocated.
 */
static struct xd_bytes cost_of(const struct mr_register_build *b, const struct xr_reg_mr_req *q)
{
	struct xd_bytes cost = { .memory = xd_mem_overhead(q->segments) };

	if (!(b->access & XR_ACCESS_ON_DEMAND) && !xd_seg_alone(q->segment, q->segments))
		cost.pinned = mr_register_pages_of(b->addr, b->length);
	return cost;
}

static uint32_t segment_fds(const struct mr_register_build *b)
{
	return b->nfds - (b->flags & XR_REGF_PROC_FDS ? 2 : 0);
}

/* Checks the only segment of a region of device memory or a null region. */
static int check_alone(struct xd_client *c, struct mr_register_build *b,
		       const struct xr_mr_segment *s)
{
	if (b->rereg || b->nfds)
		return xd_refuse(c, -EINVAL,
				 "a region of device memory or a null region cannot change");
	if (s->kind == XR_SEG_NULL)
		return b->access & ~(uint32_t)XR_ACCESS_LOCAL_WRITE
			       ? xd_refuse(c, -EINVAL, "access 0x%x of a null region", b->access)
			       : 0;
	b->dm = xd_object_get(c, XD_DM, s->fd_index);
	if (!b->dm)
		return -ENOENT;
	b->dm_bytes = b->dm->piece.ptr;
	if (s->offset + s->length > b->dm->length)
		return xd_refuse(c, -EINVAL,
				 "offset %llu, length %llu: the device memory has %llu bytes",
				 (unsigned long long)s->offset, (unsigned long long)s->length,
				 (unsigned long long)b->dm->length);
	return 0;
}

static int mr_register_check_request(struct xd_client *c, struct mr_register_build *b,
				     const struct xr_reg_mr_req *q, uint32_t length)
{
	int err;

	if (q->flags & ~(uint32_t)XR_REGF_PROC_FDS || q->segments > XR_MR_SEGMENTS_MAX ||
	    length < sizeof(*q) + q->segments * sizeof(q->segment[0]) ||
	    (q->flags & XR_REGF_PROC_FDS && b->nfds < 2) || b->iova + b->length < b->iova)
		return xd_refuse(c, -EINVAL, "invalid flags, segments or iova");
	/* A region on demand has no segments. */
	if (b->access & XR_ACCESS_ON_DEMAND)
		return q->segments || b->addr + b->length < b->addr
			       ? xd_refuse(c, -EINVAL, "a region on demand has no segments")
			       : 0;
	err = xd_mem_check(q->segment, q->segments, b->addr, b->length, segment_fds(b));
	if (err)
		return xd_refuse(c, err, "the segments are not the memory of the region");
	if (!err && xd_seg_alone(q->segment, q->segments))
		err = check_alone(c, b, q->segment);
	return err;
}

static struct mr_register_build *build_new(struct xd_mr *mr, bool rereg)
{
	struct mr_register_build *b = mr ? calloc(1, sizeof(*b)) : NULL;

	if (!b)
		return NULL;
	b->mr = mr;
	b->rereg = rereg;
	return b;
}

static void build_free(struct mr_register_build *b)
{
	if (!b->rereg)
		free(b->mr);
	xd_proc_put(b->proc);
	free(b->segment);
	free(b->fds);
	free(b);
}

/* Copies what the job needs and takes the descriptors of the request. */
static int fill_build(struct xd_client *c, struct mr_register_build *b,
		      const struct xr_reg_mr_req *q, struct xd_request *req)
{
	size_t list = q->segments * sizeof(q->segment[0]);
	uint32_t i;
	int err;

	b->segment = malloc(list + 1);
	b->fds = malloc((b->nfds + 1) * sizeof(*b->fds));
	if (!b->segment || !b->fds)
		return -ENOMEM;
	err = b->flags & XR_REGF_PROC_FDS ? xd_client_take_proc(c, &b->quota) : 0;
	if (err)
		return err;
	memcpy(b->segment, q->segment, list);
	b->segments = q->segments;
	for (i = 0; i < b->nfds; i++) {
		b->fds[i] = req->fds[i];
		req->fds[i] = -1;
	}
	b->proc = xd_proc_get(xd_client_proc(c));
	b->unmapped = xd_client_unmapped(c);
	return 0;
}

/* ---- the job --------------------------------------------------------------------- */

static void build_run(struct xd_client_job *job)
{
	struct mr_register_build *b = container_of(job, struct mr_register_build, job);
	const struct xd_identity *id = &job->client->identity;
	uint32_t n = segment_fds(b), i;
	struct xd_mem_request req = {
		.addr = b->addr,
		.length = b->length,
		.access = b->access,
		.segment = b->segment,
		.segments = b->segments,
		.fds = b->fds,
		.dm = b->dm_bytes,
		.ticket = job->client->ticket,
		.absent = &job->client->objects->memory.absent,
		.current = &job->client->objects->memory.proc,
	};

	if (b->flags & XR_REGF_PROC_FDS)
		b->err = xd_proc_new(job->client->dev->movers, &b->fds[n], id->pid, b->quota,
				     &b->new_proc);
	req.proc = b->new_proc ? b->new_proc : b->proc;
	if (!b->err)
		b->err = xd_mem_new(&req, &b->mem);
	if (!b->err && b->unmapped)
		b->err = xd_mem_prepare_unmap(b->mem);
	for (i = 0; i < n; i++)
		close(b->fds[i]);
}

/* ---- keys ------------------------------------------------------------------------ */

static void mr_register_set_key(struct xt_key *key, const struct mr_register_build *b)
{
	key->entry.va = b->iova;
	key->entry.length = b->length;
	key->entry.pd = b->pd->id->number;
	key->entry.qpn = 0;
	key->entry.access = b->access & ~(uint32_t)XR_ACCESS_ON_DEMAND;
	key->entry.state = XR_KEY_VALID;
	key->entry.type = XR_KEY_MR;
	key->mem = &b->mem->xt;
}

static int mr_register_make_key(struct xd_client *c, struct mr_register_build *b)
{
	struct xt_keys *keys = c->dev->shared.keys;
	struct xd_mr *mr = b->mr;
	int err;

	mr->key = xt_keys_reserve(keys);
	if (!mr->key)
		return -ENOMEM;
	mr_register_set_key(mr->key, b);
	mr->key->owner = &mr->obj;
	err = xd_tables_set_key(c->dev->tables, mr->key->index, &mr->key->entry);
	if (err)
		xt_keys_release(keys, mr->key);
	else
		xt_keys_publish(keys, mr->key);
	return err;
}

/*
 * A change of the memory changes the variant of the key, so that the old key becomes invalid. A
 * change of access rights or of the PD keeps the key, as other drivers do. The key is withdrawn,
 * and no engine uses it.
 */
static int change_key(struct xd_client *c, struct mr_register_build *b)
{
	struct xt_key *key = b->mr->key;
	struct xr_key_entry old = key->entry;
	struct xt_mem *old_mem = key->mem;
	int err;

	mr_register_set_key(key, b);
	if (b->new_memory)
		key->entry.variant++;
	err = xd_tables_set_key(c->dev->tables, key->index, &key->entry);
	if (err) {
		key->entry = old;
		key->mem = old_mem;
	}
	xt_keys_publish(c->dev->shared.keys, key);
	return err;
}

/* ---- after the job --------------------------------------------------------------- */

static void mr_register_take_values(struct xd_mr *mr, struct mr_register_build *b)
{
	mr->access = b->access;
	mr->addr = b->addr;
	mr->length = b->length;
	mr->iova = b->iova;
	mr->charged = b->charged;
	b->charged = (struct xd_bytes){ 0 };
	mr->pd = b->pd;
	mr->pd->obj.refs++;
	mr->dm = b->dm;
	if (mr->dm)
		mr->dm->obj.refs++;
	mr->mem = b->mem;
	b->mem = NULL;
	b->mr = NULL;
}

static int finish_reg(struct xd_client *c, struct mr_register_build *b)
{
	int err = xd_object_add(c, &b->mr->obj, XD_MR);

	if (err)
		return err;
	if (xd_client_unmapped(c))
		err = xd_mem_unmap(b->mem);
	if (!err)
		err = mr_register_make_key(c, b);
	if (err) {
		xd_object_del(&b->mr->obj);
		return err;
	}
	mr_register_take_values(b->mr, b);
	return 0;
}

/* Leaves the old memory and its charge in b, for mr_register_release(). */
static int finish_rereg(struct xd_client *c, struct mr_register_build *b)
{
	struct xd_mem *old = b->mr->mem;
	struct xd_bytes charged = b->mr->charged;
	int err = xd_client_unmapped(c) ? xd_mem_unmap(b->mem) : 0;

	if (!err)
		err = change_key(c, b);
	if (err)
		return err;
	b->mr->pd->obj.refs--;
	mr_register_take_values(b->mr, b);
	b->mem = old;
	b->charged = charged;
	return 0;
}

static void objects_reply_mr(const struct xd_mr *mr, struct xd_reply *rep)
{
	struct xr_reg_mr_rep *r = XD_REPLY(rep, xr_reg_mr_rep);

	r->handle = mr->obj.handle;
	r->lkey = xt_key_value(mr->key);
	r->rkey = xd_mr_rkey(mr);
}

static void release_run(struct xd_client_job *job)
{
	xd_mem_free(container_of(job, struct mr_register_build, job)->mem);
}

static void release_done(struct xd_client_job *job)
{
	struct mr_register_build *b = container_of(job, struct mr_register_build, job);
	struct xd_client *c = job->client;

	xd_user_uncharge(c, b->charged);
	build_free(b);
}

/* Unmapping takes time, so it is left to a job. */
static bool takes_time(const struct xd_mem *mem)
{
	return mem && mem->mappings;
}

/* Releases b, with the memory of a failed registration or the memory that a REREG_MR replaced. */
static void mr_register_release(struct xd_client *c, struct mr_register_build *b)
{
	b->job.run = release_run;
	b->job.done = release_done;
	if (takes_time(b->mem))
		xd_client_add_next_job(c, &b->job);
	else
		xd_client_do_job(c, &b->job);
}

/* Explains why the memory of a region cannot be used. Some errors have explained themselves. */
static void mr_register_explain(struct xd_client *c, const struct mr_register_build *b)
{
	const char *what =
		b->err == -EFAULT ? "is not mapped or not accessible as requested"
		: b->err == -EINVAL
			? "is not what the segments describe; its mappings may have changed"
		: b->err == -EOPNOTSUPP ? "is of a file or dma-buf that the daemon cannot map"
					: NULL;

	if (what)
		xd_refuse(c, b->err, "memory at 0x%llx, length %llu, %s",
			  (unsigned long long)b->addr, (unsigned long long)b->length, what);
}

/* Nothing uses the old memory, or the rights that the region had, any more. */
static void mr_register_unused(struct xd_client *c, struct xd_ending *e)
{
	struct mr_register_build *b = container_of(e, struct mr_register_build, ending);
	struct xd_reply *rep = xd_reply_start();

	if (!c->ending)
		objects_reply_mr(b->changed, rep);
	mr_register_release(c, b);
	xd_reply_send(c, 0, rep);
}

/* Ends a request that has failed, or a registration. */
static void end_build(struct xd_client *c, struct mr_register_build *b, int err)
{
	struct xd_mr *mr = b->mr;
	struct xd_reply *rep = xd_reply_start();

	if (!err && !c->ending)
		err = finish_reg(c, b);
	if (!err && !c->ending)
		objects_reply_mr(mr, rep);
	if (b->err)
		mr_register_explain(c, b);
	mr_register_release(c, b);
	xd_reply_send(c, err, rep);
}

static void mr_register_grace_run(struct xd_client_job *job)
{
	xd_grace_wait(job->client->dev->workers,
		      container_of(job, struct mr_register_build, job)->grace);
}

static void change_done(struct xd_client_job *job)
{
	struct mr_register_build *b = container_of(job, struct mr_register_build, job);
	struct xd_client *c = job->client;
	struct xd_mr *mr = b->mr;
	int err = c->ending ? -ECANCELED : finish_rereg(c, b);

	if (err) {
		end_build(c, b, err);
		return;
	}
	b->changed = mr;
	xd_ending_region(&b->ending, b->mem);
	b->ending.then = mr_register_unused;
	xd_ending_wait(c, &b->ending);
}

/* No engine may use the key while it is changed, as its fields are changed one by one. */
static int start_change(struct xd_client *c, struct mr_register_build *b)
{
	struct xd_workers *ws = c->dev->workers;
	struct xt_key *key = b->mr->key;

	if (!xt_keys_withdraw_unbound(c->dev->shared.keys, key))
		return xd_refuse(c, -EBUSY, "windows are bound to the region");
	b->grace = xd_grace_mark(ws);
	b->job.run = mr_register_grace_run;
	b->job.done = change_done;
	if (xd_grace_over(ws, b->grace))
		xd_client_do_job(c, &b->job);
	else
		xd_client_add_next_job(c, &b->job);
	return XD_LATER;
}

static void build_done(struct xd_client_job *job)
{
	struct mr_register_build *b = container_of(job, struct mr_register_build, job);
	struct xd_client *c = job->client;
	int err = b->err;

	if (b->new_proc)
		xd_client_set_proc(c, b->new_proc);
	if (!err && !c->ending && b->rereg)
		err = start_change(c, b);
	if (err != XD_LATER)
		end_build(c, b, err);
}

static int start_build(struct xd_client *c, struct mr_register_build *b,
		       const struct xr_reg_mr_req *q, struct xd_request *req, uint32_t length)
{
	int err = mr_register_check_access(c, &b->access);

	b->nfds = req->nfds;
	b->flags = q->flags;
	if (!err)
		err = mr_register_check_request(c, b, q, length);
	if (err)
		return err;
	b->charged = cost_of(b, q);
	err = xd_user_charge(c, b->charged);
	if (err)
		return err;
	err = fill_build(c, b, q, req);
	if (err) {
		xd_user_uncharge(c, b->charged);
		return err;
	}
	b->job.run = build_run;
	b->job.done = build_done;
	/*
	 * Building a region on demand does not block, so it needs a job only if the client sent
	 * descriptors.
	 */
	if (b->access & XR_ACCESS_ON_DEMAND && !b->nfds)
		xd_client_do_job(c, &b->job);
	else
		xd_client_add_job(c, &b->job);
	return XD_LATER;
}

int xd_do_reg_mr(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_reg_mr_req *q = req->body;
	struct xd_pd *pd = xd_object_get(c, XD_PD, q->pd);
	struct xd_mr *mr;
	struct mr_register_build *b;
	int err;

	if (!pd)
		return -ENOENT;
	mr = calloc(1, sizeof(*mr));
	b = build_new(mr, false);
	if (!b) {
		free(mr);
		return -ENOMEM;
	}
	b->pd = pd;
	b->access = q->access;
	b->addr = q->addr;
	b->length = q->length;
	b->iova = q->iova;
	err = start_build(c, b, q, req, req->length);
	if (err != XD_LATER)
		build_free(b);
	return err;
}

static int fill_rereg(struct xd_client *c, struct mr_register_build *b,
		      const struct xr_rereg_mr_req *q)
{
	const uint32_t known = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD |
			       IBV_REREG_MR_CHANGE_ACCESS;
	struct xd_mr *mr = b->mr;
	bool new_memory;

	if (!q->rereg_flags || q->rereg_flags & ~known ||
	    mr->key->entry.flags & (XR_KEYF_FAST | XR_KEYF_INTEGRITY))
		return xd_refuse(c, -EINVAL, "flags 0x%x, 1 to 7; no region of work requests",
				 q->rereg_flags);
	b->new_memory = new_memory = q->rereg_flags & IBV_REREG_MR_CHANGE_TRANSLATION;
	b->pd = q->rereg_flags & IBV_REREG_MR_CHANGE_PD ? xd_object_get(c, XD_PD, q->reg.pd)
							: mr->pd;
	if (!b->pd)
		return -ENOENT;
	b->access = q->rereg_flags & IBV_REREG_MR_CHANGE_ACCESS ? q->reg.access : mr->access;
	b->addr = new_memory ? q->reg.addr : mr->addr;
	b->length = new_memory ? q->reg.length : mr->length;
	b->iova = new_memory ? q->reg.iova : mr->iova;
	return 0;
}

int xd_do_rereg_mr(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_rereg_mr_req *q = req->body;
	struct xd_mr *mr = xd_object_get(c, XD_MR, q->handle);
	uint32_t front = offsetof(struct xr_rereg_mr_req, reg);
	struct mr_register_build *b;
	int err;

	if (!mr)
		return -ENOENT;
	if (mr->mem->tiers & (1u << XR_SEG_DM | 1u << XR_SEG_NULL))
		return xd_refuse(c, -EINVAL,
				 "a region of device memory or a null region cannot change");
	b = build_new(mr, true);
	if (!b)
		return -ENOMEM;
	err = fill_rereg(c, b, q);
	if (!err)
		err = start_build(c, b, &q->reg, req, req->length - front);
	if (err != XD_LATER)
		build_free(b);
	return err;
}
