// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Keys and deregistration of regions; registration is in mr_register.c. */
#include "mr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <xroce/view.h>

#include "daemon/base/json.h"
#include "daemon/base/loop.h"
#include "daemon/base/options.h"
#include "daemon/clients/request.h"
#include "daemon/datapath/grace.h"
#include "daemon/io/tables.h"
#include "daemon/memory/region.h"
#include "client_memory.h"
#include "dm.h"
#include "objects.h"
#include "pd.h"

uint32_t xd_mr_rkey(const struct xd_mr *mr)
{
	return mr->mem->tiers & 1u << XR_SEG_NULL ? 0 : xt_key_value(mr->key);
}

/* ---- deregistration -------------------------------------------------------------- */

/* Leaves the memory if accesses that were submitted before are still under way. */
static void unmap_run(struct xd_client_job *job)
{
	struct xd_mr *mr = container_of(job, struct xd_mr, unmap);

	xd_grace_wait(job->client->dev->workers, mr->grace);
	if (mr->reply) {
		xd_ending_region(&mr->ending, mr->mem);
		if (!xd_ending_over(&mr->ending))
			return;
	}
	xd_mem_free(mr->mem);
	mr->mem = NULL;
}

void xd_key_free(struct xd_client *c, struct xt_key *key)
{
	xd_tables_del_key(c->dev->tables, key->index);
	xt_keys_release(c->dev->shared.keys, key);
}

static void free_unmapped(struct xd_client *c, struct xd_mr *mr)
{
	xd_key_free(c, mr->key);
	xd_shm_free(c, &mr->lists);
	xd_user_uncharge(c, mr->charged);
	if (mr->reply)
		xd_reply_send(c, 0, NULL);
	free(mr);
}

static void mr_free_run(struct xd_client_job *job)
{
	xd_mem_free(container_of(job, struct xd_mr, unmap)->mem);
}

static void free_done(struct xd_client_job *job)
{
	free_unmapped(job->client, container_of(job, struct xd_mr, unmap));
}

static void mr_unused(struct xd_client *c, struct xd_ending *e)
{
	struct xd_mr *mr = container_of(e, struct xd_mr, ending);

	mr->unmap.run = mr_free_run;
	mr->unmap.done = free_done;
	xd_client_add_job(c, &mr->unmap);
}

static void unmap_done(struct xd_client_job *job)
{
	struct xd_mr *mr = container_of(job, struct xd_mr, unmap);

	if (!mr->mem) {
		free_unmapped(job->client, mr);
		return;
	}
	mr->ending.then = mr_unused;
	xd_ending_wait(job->client, &mr->ending);
}

/* The key was withdrawn. */
static void end_mr(struct xd_mr *mr, bool reply)
{
	struct xd_client *c = mr->obj.client;
	struct xd_workers *ws = c->dev->workers;
	bool blocks;

	mr->grace = xd_grace_mark(ws);
	mr->pd->obj.refs--;
	if (mr->dm)
		mr->dm->obj.refs--;
	xd_object_del(&mr->obj);
	mr->reply = reply;
	mr->unmap.run = unmap_run;
	mr->unmap.done = unmap_done;
	blocks = (mr->mem && mr->mem->mappings) || !xd_grace_over(ws, mr->grace);
	/* windows that were bound to the region are freed first */
	xd_client_do_job_in_turn(c, &mr->unmap, blocks);
}

static void free_mr(struct xd_object *obj)
{
	struct xd_mr *mr = container_of(obj, struct xd_mr, obj);

	xt_keys_withdraw(obj->client->dev->shared.keys, mr->key);
	end_mr(mr, false);
}

int xd_do_dereg_mr(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_handle_req *q = req->body;
	struct xd_mr *mr = xd_object_get(c, XD_MR, q->handle);

	if (!mr)
		return -ENOENT;
	if (!xt_keys_withdraw_unbound(c->dev->shared.keys, mr->key))
		return xd_refuse(c, -EBUSY, "windows are bound to the region");
	end_mr(mr, true);
	return XD_LATER;
}

/* ---- show ------------------------------------------------------------------------ */

void xd_show_access(struct json *j, uint32_t access)
{
	char s[40] = "";

#define X(flag, name)                                                                              \
	if (access & (flag))                                                                       \
		strcat(s, "," name);
	XR_ACCESS_NAMES(X)
#undef X
	json_text(j, "access", *s ? s + 1 : s);
}

static void show_tiers(struct json *j, uint32_t tiers)
{
	char s[40] = "";

	if (tiers & 1u << XR_SEG_MAPPING)
		strcat(s, ",shared");
	if (tiers & 1u << XR_SEG_FD)
		strcat(s, ",adopted");
	if (tiers & 1u << XR_SEG_PRIVATE)
		strcat(s, ",private");
	if (tiers & 1u << XR_SEG_DM)
		strcat(s, ",device");
	if (tiers & 1u << XR_SEG_NULL)
		strcat(s, ",null");
	json_text(j, "tier", *s ? s + 1 : s);
}

static const char *const states[] = { "free", "valid", "invalid" };

static void show_mr(struct json *j, struct xd_object *obj)
{
	const struct xd_mr *mr = container_of(obj, struct xd_mr, obj);

	json_number(j, "lkey", xt_key_value(mr->key));
	json_number(j, "client", obj->client->id);
	json_number(j, "pd", mr->pd->id->number);
	json_hex(j, "addr", mr->addr);
	json_number(j, "length", mr->length);
	xd_show_access(j, mr->access);
	json_text(j, "state", states[mr->key->entry.state]);
	if (mr->mem->xt.integrity)
		json_text(j, "tier", "pieces");
	else
		show_tiers(j, mr->mem->tiers);
	json_boolean(j, "pinned", mr->mem->pinned);
	json_hex(j, "iova", mr->iova);
	json_text(j, "path", "daemon");
}

static const char *tier_name(uint32_t tier)
{
	static const char *const names[] = {
		[XR_TIER_OWN] = "own",
		[XR_TIER_NULL] = "null",
		[XR_TIER_DEVICE] = "device",
		[XR_TIER_PIECES] = "pieces",
	};

	return tier < sizeof(names) / sizeof(names[0]) ? names[tier] : "?";
}

static void put_view(struct json *j, const struct xr_view_mr *r, const struct xd_client *c)
{
	bool known = r->state < sizeof(states) / sizeof(states[0]);

	json_number(j, "lkey", r->key);
	json_number(j, "client", c->id);
	json_number(j, "pd", r->pd);
	json_hex(j, "addr", r->addr);
	json_number(j, "length", r->length);
	xd_show_access(j, r->access);
	json_text(j, "state", known ? states[r->state] : "?");
	json_text(j, "tier", tier_name(r->tier));
	json_boolean(j, "pinned", false);
	json_hex(j, "iova", r->iova);
	json_text(j, "path", "direct");
}

void xd_take_refused(const struct xt_key *key, struct xr_view_refused *r)
{
	const struct xt_refused *last = &key->refused;

	*r = (struct xr_view_refused){
		.at = __atomic_load_n(&last->at, __ATOMIC_RELAXED),
		.count = __atomic_load_n(&last->count, __ATOMIC_RELAXED),
		.qpn = __atomic_load_n(&last->qpn, __ATOMIC_RELAXED),
		.why = __atomic_load_n(&last->why, __ATOMIC_RELAXED),
	};
}

void xd_show_refused(struct json *j, const struct xr_view_refused *r)
{
	static const char *const texts[] = {
#define X(name, action, text) text,
		XR_REASONS(X)
#undef X
	};

	json_number(j, "refused", r->count);
	if (r->why == XR_OK || r->why >= XR_REASON_COUNT)
		return;
	json_begin(j, "last_error", '{');
	xd_show_moment(j, r->at);
	json_number(j, "qpn", r->qpn);
	json_text(j, "reason", texts[r->why]);
	json_end(j, '}');
}

/* One worker is paused at a time, to add what its engine has counted to the regions' totals. */
static void settle_usage(const struct xd_clients *cs)
{
	struct xd_workers *ws = cs->dev->workers;

	for (uint32_t i = 0; i < xd_workers_count(ws); i++) {
		xd_worker_pause(ws, i);
		xt_usage_settle(xd_worker_engine(ws, i));
		xd_worker_resume_no_wake(ws, i);
	}
}

static void take_usage(const struct xt_usage *usage, struct xr_view_use *use)
{
	for (uint32_t i = 0; i < XT_USES; i++) {
		use[i].count = __atomic_load_n(&usage->of[i].count, __ATOMIC_RELAXED);
		use[i].bytes = __atomic_load_n(&usage->of[i].bytes, __ATOMIC_RELAXED);
	}
}

static void put_usage(struct json *j, uint32_t references, const struct xr_view_use *of)
{
	static const char *const names[XT_USES][2] = {
		[XT_USE_REMOTE_WRITE] = { "remote_writes", "remote_write_bytes" },
		[XT_USE_REMOTE_READ] = { "remote_reads", "remote_read_bytes" },
		[XT_USE_REMOTE_ATOMIC] = { "remote_atomics", "remote_atomic_bytes" },
		[XT_USE_LOCAL_READ] = { "local_reads", "local_read_bytes" },
		[XT_USE_LOCAL_WRITE] = { "local_writes", "local_write_bytes" },
	};

	json_number(j, "references", references);
	for (uint32_t use = XT_USE_NONE + 1; use < XT_USES; use++) {
		json_number(j, names[use][0], of[use].count);
		json_number(j, names[use][1], of[use].bytes);
	}
}

static void show_mr_detail(struct json *j, struct xd_object *obj)
{
	const struct xd_mr *mr = container_of(obj, struct xd_mr, obj);
	struct xr_view_use use[XR_VIEW_USES];
	struct xr_view_refused refused;

	show_mr(j, obj);
	take_usage(&mr->key->usage, use);
	put_usage(j, obj->refs, use);
	xd_take_refused(mr->key, &refused);
	xd_show_refused(j, &refused);
}

static void show_mr_view(struct json *j, const void *record, const struct xd_client *c, bool detail)
{
	const struct xr_view_mr *r = record;

	put_view(j, r, c);
	if (!detail)
		return;
	put_usage(j, r->references, r->use);
	xd_show_refused(j, &r->refused);
}

struct xd_object *xd_find_key(const struct xd_clients *cs, uint32_t number, uint32_t kind)
{
	const struct xt_key *key = xt_keys_by_index(cs->dev->shared.keys, XR_KEY_INDEX(number));
	struct xd_object *obj = key && xt_key_value(key) == number ? key->owner : NULL;

	return obj && obj->kind == kind && obj->client ? obj : NULL;
}

static uint32_t mr_number_of(const struct xd_object *obj)
{
	return xt_key_value(container_of(obj, struct xd_mr, obj)->key);
}

static bool find_mr(const struct xd_clients *cs, uint32_t number, struct xd_object **obj)
{
	*obj = xd_find_key(cs, number, XD_MR);
	return true;
}

const struct xd_kind_ops xd_mr_ops = {
	.name = "mrs",
	.list = XR_SHOW_MRS,
	.show = show_mr,
	.detail_list = XR_SHOW_MR_DETAILS,
	.show_detail = show_mr_detail,
	.show_view = show_mr_view,
	.number = mr_number_of,
	.find = find_mr,
	.before_details = settle_usage,
	.free = free_mr,
	.client_limit = offsetof(struct xd_options, client_max_mr),
	.user_limit = offsetof(struct xd_options, user_max_mr),
	.device_limit = offsetof(struct xd_options, max_mr),
	.bytes = sizeof(struct xd_mr) + sizeof(struct xd_mem) + sizeof(struct xt_key),
};
