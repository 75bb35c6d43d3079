// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Keys and deregistration of regions; registration is in mr_register.c. */
#include "mr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/base/json.h"
#include "daemon/base/loop.h"
#include "daemon/base/options.h"
#include "daemon/clients/request.h"
#include "daemon/datapath/xdp.h"
#include "daemon/memory/mover.h"
#include "daemon/memory/proc.h"
#include "daemon/memory/region.h"
#include "dm.h"
#include "objects.h"
#include "pd.h"

void xd_mr_drop_key(struct xd_client *c, struct xd_mr *mr)
{
	uint32_t index = mr->key->index;

	xd_workers_pause(c->dev->workers);
	xt_keys_release(c->dev->shared.keys, mr->key);
	xd_workers_resume_no_wake(c->dev->workers);
	mr->key = NULL;
	/* The index cannot be in use again: only the control thread allocates keys. */
	xd_xdp_key_del(c->dev->xdp, index);
}

uint32_t xd_mr_rkey(const struct xd_mr *mr)
{
	return mr->mem->tiers & 1u << XR_SEG_NULL ? 0 : xt_key_value(mr->key);
}

/* ---- deregistration -------------------------------------------------------------- */

static void unmap_run(struct xd_client_job *job)
{
	xd_mem_free(container_of(job, struct xd_mr, unmap)->mem);
}

static void unmap_done(struct xd_client_job *job)
{
	struct xd_mr *mr = container_of(job, struct xd_mr, unmap);
	struct xd_client *c = job->client;

	xd_user_uncharge(c, mr->charged);
	xd_client_uncharge_movers(c);
	if (mr->reply)
		xd_reply_send(c, 0, NULL);
	free(mr);
}

static void unmap_later(struct xd_client *c, struct xd_mr *mr, bool reply)
{
	mr->reply = reply;
	mr->unmap.run = unmap_run;
	mr->unmap.done = unmap_done;
	if (mr->mem && mr->mem->mappings)
		xd_client_add_job(c, &mr->unmap);
	else
		xd_client_do_job(c, &mr->unmap);
}

static void end_mr(struct xd_mr *mr, bool reply)
{
	struct xd_client *c = mr->obj.client;

	if (mr->key)
		xd_mr_drop_key(c, mr);
	xd_shm_free(c, &mr->lists);
	mr->pd->obj.refs--;
	if (mr->dm)
		mr->dm->obj.refs--;
	xd_object_del(&mr->obj);
	unmap_later(c, mr, reply);
}

static void free_mr(struct xd_object *obj)
{
	end_mr(container_of(obj, struct xd_mr, obj), false);
}

/*
 * Writes of a mover are visible to the program before the worker has noticed their end. A program
 * that polls memory may deregister it then, and the work request must not fail: DEREG_MR waits for
 * such writes, but not long, as the memory may hang.
 */
#define WRITES_WAIT_NS 20000000u
#define WRITES_POLL_NS 100000

struct dereg_job {
	struct xd_client_job job;
	uint32_t mr;
	uint64_t until;
};

static bool being_written(const struct xd_mr *mr)
{
	return mr->mem && mr->mem->tiers & 1u << XR_SEG_PRIVATE &&
	       xd_mover_writing(xd_proc_mover(mr->mem->proc));
}

/* -EBUSY: windows are bound to the region; -EAGAIN: its memory is being written. */
static int release_key(struct xd_client *c, struct xd_mr *mr, bool may_wait)
{
	uint32_t index = mr->key->index;
	int err = 0;

	/* Paused, so that no window is bound between the check and the release of the key */
	xd_workers_pause(c->dev->workers);
	if (mr->key->windows)
		err = -EBUSY;
	else if (may_wait && being_written(mr))
		err = -EAGAIN;
	else
		xt_keys_release(c->dev->shared.keys, mr->key);
	xd_workers_resume_no_wake(c->dev->workers);
	if (err)
		return err;
	mr->key = NULL;
	/* The index cannot be in use again: only the control thread allocates keys. */
	xd_xdp_key_del(c->dev->xdp, index);
	return 0;
}

static void dereg_run(struct xd_client_job *job)
{
	const struct timespec pause = { .tv_nsec = WRITES_POLL_NS };

	(void)job;
	nanosleep(&pause, NULL);
}

static void dereg_done(struct xd_client_job *job)
{
	struct dereg_job *j = container_of(job, struct dereg_job, job);
	struct xd_client *c = job->client;
	struct xd_mr *mr;
	int err = 0;

	/* if the client is ending, its regions are freed already */
	if (!c->ending) {
		mr = xd_object_get(c, XD_MR, j->mr);
		err = release_key(c, mr, xd_now() < j->until);
		if (err == -EAGAIN) {
			xd_client_add_next_job(c, &j->job);
			return;
		}
		if (err)
			xd_reply_send(c, err, NULL);
		else
			end_mr(mr, true);
	}
	free(j);
}

static int dereg_later(struct xd_client *c, const struct xd_mr *mr)
{
	struct dereg_job *j = malloc(sizeof(*j));

	if (!j)
		return -ENOMEM;
	*j = (struct dereg_job){
		.job = { .run = dereg_run, .done = dereg_done },
		.mr = mr->obj.handle,
		.until = xd_now() + WRITES_WAIT_NS,
	};
	xd_client_add_job(c, &j->job);
	return XD_LATER;
}

int xd_do_dereg_mr(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_handle_req *q = req->body;
	struct xd_mr *mr = xd_object_get(c, XD_MR, q->handle);
	int err;

	if (!mr)
		return -ENOENT;
	err = release_key(c, mr, true);
	if (err == -EAGAIN)
		return dereg_later(c, mr);
	if (err)
		return err;
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

static void show_mr(struct json *j, struct xd_object *obj)
{
	static const char *const states[] = { "free", "valid", "invalid" };
	const struct xd_mr *mr = container_of(obj, struct xd_mr, obj);

	json_number(j, "lkey", xt_key_value(mr->key));
	json_number(j, "client", obj->client->id);
	json_number(j, "pd", mr->pd->id->number);
	json_hex(j, "addr", mr->addr);
	json_number(j, "length", mr->length);
	xd_show_access(j, mr->access);
	json_text(j, "state", states[mr->key->entry.state]);
	show_tiers(j, mr->mem->tiers);
	json_boolean(j, "pinned", mr->mem->pinned);
	json_hex(j, "iova", mr->iova);
}

const struct xd_kind_ops xd_mr_ops = {
	.name = "mrs",
	.list = XR_SHOW_MRS,
	.show = show_mr,
	.free = free_mr,
	.client_limit = offsetof(struct xd_options, client_max_mr),
	.user_limit = offsetof(struct xd_options, user_max_mr),
	.device_limit = offsetof(struct xd_options, max_mr),
	.bytes = sizeof(struct xd_mr) + sizeof(struct xd_mem) + sizeof(struct xt_key),
};
