// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "unload.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "request.h"

struct unload_job {
	struct xd_client_job job;
	uint32_t kind, handle;
	xd_unloaded_fn then;
	uint64_t request[];
};

/* Only gives the control thread another turn. */
static void unload_do_nothing(struct xd_client_job *job)
{
}

static void next_piece(struct xd_client_job *job)
{
	struct unload_job *j = container_of(job, struct unload_job, job);
	struct xd_client *c = job->client;
	struct xd_object *obj = c->ending ? NULL : xd_object_get(c, j->kind, j->handle);
	struct xd_reply *rep;
	int err;

	if (obj && !xd_object_unload(obj)) {
		xd_client_add_job(c, job);
		return;
	}
	if (!c->ending) {
		rep = xd_reply_start();
		err = obj ? j->then(obj, j->request, rep) : -ENOENT;
		if (err != XD_LATER)
			xd_reply_send(c, err, rep);
	}
	free(j);
}

int xd_after_unload(struct xd_object *obj, const void *request, size_t length, xd_unloaded_fn then,
		    struct xd_reply *rep)
{
	struct unload_job *j;

	if (xd_object_unload(obj))
		return then(obj, request, rep);
	j = malloc(sizeof(*j) + length);
	if (!j)
		return -ENOMEM;
	*j = (struct unload_job){
		.job = { .run = unload_do_nothing, .done = next_piece },
		.kind = obj->kind,
		.handle = obj->handle,
		.then = then,
	};
	if (length)
		memcpy(j->request, request, length);
	xd_client_add_job(obj->client, &j->job);
	return XD_LATER;
}
