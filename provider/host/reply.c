// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What replies to requests contain: errors with their reasons, bodies, memory for rings. */
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

int xp_host_add(struct xp_host *h, struct xp_object *obj, enum xp_kind kind)
{
	int err = xp_object_add(&h->objects, obj, kind);

	return err == -EDQUOT ? xp_host_refuse(h, -ENOMEM, "the limit of a context is %u %s",
					       h->objects.most[kind], kind_names[kind])
			      : err;
}

void xp_reply(struct xp_call *call, const void *rep, size_t len)
{
	call->rep_got = len < call->rep_len ? len : call->rep_len;
	if (call->rep_len)
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
