// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* ADVISE_MR: checks ranges of regions on demand, which the client then prefetches itself. */
#include <errno.h>

#include "daemon/clients/request.h"
#include "daemon/memory/proc.h"
#include "daemon/memory/region.h"
#include "objects.h"
#include "pd.h"

/* Checks one range. *addr is its address in the client's memory. */
static int advise_check_advice(struct xd_client *c, const struct xd_pd *pd,
			       const struct xr_sge *range, bool write, uint64_t *addr)
{
	struct xt_key *key = xt_keys_by_index(c->dev->shared.keys, XR_KEY_INDEX(range->lkey));
	const struct xr_key_entry *e = key ? &key->entry : NULL;
	const struct xd_mem *mem;
	uint64_t off;

	if (!e || xt_key_value(key) != range->lkey)
		return xd_refuse(c, -ENOENT, "lkey 0x%x belongs to no region", range->lkey);
	if (e->type != XR_KEY_MR)
		return xd_refuse(c, -EINVAL, "lkey 0x%x belongs to a window", range->lkey);
	mem = (const struct xd_mem *)key->mem;
	if (!mem || !mem->on_demand)
		return xd_refuse(c, -ENOENT, "lkey 0x%x: the region is not on demand", range->lkey);
	if (e->pd != pd->id->number || mem->proc->pid != c->identity.pid ||
	    (write && !mem->writable))
		return xd_refuse(c, -EPERM, "lkey 0x%x: %s", range->lkey,
				 e->pd != pd->id->number ? "the region has another PD"
				 : mem->proc->pid != c->identity.pid
					 ? "the region belongs to another process"
					 : "the region is not writable");
	off = range->addr - e->va;
	if (range->addr < e->va || off > e->length || range->length > e->length - off)
		return xd_refuse(c, -EFAULT, "0x%llx, length %u, exceeds the region",
				 (unsigned long long)range->addr, range->length);
	*addr = mem->xt.seg[0].addr + off;
	return 0;
}

int xd_do_advise_mr(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_advise_mr_req *q = req->body;
	struct xd_pd *pd = xd_object_get(c, XD_PD, q->pd);
	struct xr_advise_mr_rep *r = (void *)rep->body;
	uint64_t addr = 0;
	uint32_t i;
	int err = 0;

	if (!pd || !q->ranges || q->ranges > XR_ADVISE_MAX ||
	    req->length < sizeof(*q) + q->ranges * sizeof(q->range[0]))
		return xd_refuse(c, -EINVAL, "pd %u, %u ranges", q->pd, q->ranges);
	xd_reply_body(rep, sizeof(*r) + q->ranges * sizeof(r->addr[0]));
	r->ranges = q->ranges;
	for (i = 0; i < q->ranges && !err; i++) {
		err = advise_check_advice(c, pd, &q->range[i], q->write, &addr);
		r->addr[i] = addr;
	}
	return err;
}
