// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What replies to requests contain: errors with their reasons, bodies, memory for rings. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "requests.h"

int xp_host_refuse(struct xp_host *h, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(h->env.why, XR_WHY_MAX, fmt, ap);
	va_end(ap);
	return err;
}

static const char *const kind_names[XP_KINDS] = {
	[XP_KIND_PD] = "PDs",
	[XP_KIND_MR] = "regions",
	[XP_KIND_CHANNEL] = "channels",
	[XP_KIND_CQ] = "CQs",
	[XP_KIND_QP] = "QPs",
	[XP_KIND_AH] = "address handles",
	[XP_KIND_SRQ] = "SRQs",
	[XP_KIND_MW] = "windows",
	[XP_KIND_DM] = "pieces of device memory",
	[XP_KIND_XRCD] = "XRC domains",
};

static int reply_claim(struct xp_host *h, uint32_t kind, uint32_t count, uint32_t reply_give_back,
		       uint32_t *claimed)
{
	const struct xr_claim_req req = { .kind = kind,
					  .count = count,
					  .give_back = reply_give_back };
	struct xr_claim_rep rep = { 0 };
	int err = h->env.request(h->env.arg, XR_MSG_CLAIM, &req, sizeof(req), &rep, sizeof(rep));

	*claimed = rep.count;
	return err;
}

/* Claims what is needed beyond what was claimed. An error is that of the daemon, with its text. */
static int claim_more(struct xp_host *h, uint32_t kind, uint32_t n)
{
	struct xp_claims *claims = &h->claims;
	uint32_t unused = claims->n[kind] - h->objects.used[kind], count;
	int err;

	if (n <= unused)
		return 0;
	err = reply_claim(h, kind, n - unused, 0, &count);
	if (err)
		return err;
	if (count < n - unused || count > UINT32_MAX - claims->n[kind])
		return -EPROTO;
	claims->n[kind] += count;
	claims->spare[kind] = unused + count - n;
	return 0;
}

/* Keeps as many as a claim has got beyond what was needed, so that small needs have no request. */
static void reply_give_back(struct xp_host *h, uint32_t kind)
{
	struct xp_claims *claims = &h->claims;
	uint32_t unused = claims->n[kind] - h->objects.used[kind], count;
	char why[XR_WHY_MAX];

	if (h->closes || unused <= claims->spare[kind] ||
	    unused - claims->spare[kind] <= claims->spare[kind])
		return;
	/* of the request that is served now */
	memcpy(why, h->env.why, sizeof(why));
	unused -= claims->spare[kind];
	if (!reply_claim(h, kind, 0, unused, &count))
		claims->n[kind] -= unused;
	memcpy(h->env.why, why, sizeof(why));
}

int xp_host_add(struct xp_host *h, struct xp_object *obj, enum xp_kind kind)
{
	int err = claim_more(h, kind, 1);

	if (err)
		return err;
	err = xp_object_add(&h->objects, obj, kind);
	return err == -EDQUOT ? xp_host_refuse(h, -ENOMEM, "the limit of a context is %u %s",
					       h->objects.most[kind], kind_names[kind])
			      : err;
}

void xp_host_del(struct xp_host *h, struct xp_object *obj)
{
	enum xp_kind kind = obj->kind;

	if (!obj->handle)
		return;
	xp_object_del(&h->objects, obj);
	reply_give_back(h, kind);
}

int xp_host_add_pages(struct xp_host *h, uint32_t n)
{
	int err = claim_more(h, XP_PAGES, n);

	if (!err)
		xp_objects_count(&h->objects, XP_PAGES, n);
	return err;
}

void xp_host_del_pages(struct xp_host *h, uint32_t n)
{
	if (!n)
		return;
	xp_objects_count(&h->objects, XP_PAGES, -n);
	reply_give_back(h, XP_PAGES);
}

void xp_reply(struct xp_call *call, const void *rep, size_t len)
{
	call->rep_got = len < call->rep_len ? len : call->rep_len;
	if (!call->rep_len)
		return; /* there may be no buffer */
	memset(call->rep, 0, call->rep_len);
	memcpy(call->rep, rep, call->rep_got);
}

/* ---- memory ------------------------------------------------------------------------------- */

void *xp_shared_alloc(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

void xp_shared_free(void *p, size_t size)
{
	if (p)
		munmap(p, size);
}

struct xr_queue *xp_queue_new(uint32_t depth, uint32_t stride, size_t *size)
{
	struct xr_queue *q;

	*size = sizeof(*q) + (size_t)depth * stride;
	q = xp_shared_alloc(*size);
	if (!q)
		return NULL;
	q->magic = XR_QUEUE_MAGIC;
	q->depth = depth;
	q->stride = stride;
	q->entries_off = sizeof(*q);
	return q;
}

struct xr_shm_ref xp_shared_ref(const void *p, size_t size)
{
	return (struct xr_shm_ref){ .offset = (uintptr_t)p, .length = p ? size : 0 };
}
