// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "queue_monitor.h"

#include "daemon/base/loop.h"
#include "cq.h"
#include "objects.h"
#include "qp.h"
#include "srq.h"

static void queue_monitor_publish(const struct xd_object *obj, const char *event, const char *kind,
				  const struct xt_queue_error *error)
{
	struct json *j = xd_publish_begin(obj->client->clients, event);
	struct xt_failure failure = {
		.cause = (uint8_t)__atomic_load_n(&error->cause, __ATOMIC_RELAXED),
	};

	if (!j)
		return;
	json_number(j, kind, obj->handle);
	json_number(j, "qpn", __atomic_load_n(&error->qpn, __ATOMIC_RELAXED));
	json_text(j, "reason", xd_qp_failure_reason(&failure));
	xd_publish_client(j, obj->client);
	xd_publish(obj->client->clients);
}

/*
 * Returns true if the queue had another error before, and notes this one. What has happened before
 * the first reader is not published.
 */
static bool queue_monitor_is_new(const struct xd_object *obj, const struct xt_queue_error *error,
				 uint64_t *known)
{
	uint64_t at = __atomic_load_n(&error->at, __ATOMIC_ACQUIRE);

	if (at == *known)
		return false;
	*known = at;
	return at >= obj->client->clients->monitors.since;
}

void xd_cq_publish_error(struct xd_cq *cq)
{
	if (queue_monitor_is_new(&cq->obj, &cq->xt.error, &cq->known_error))
		queue_monitor_publish(&cq->obj, "cq_error", "cq", &cq->xt.error);
}

void xd_srq_publish_error(struct xd_srq *srq)
{
	if (queue_monitor_is_new(&srq->obj, &srq->xt.error, &srq->known_error))
		queue_monitor_publish(&srq->obj, "srq_error", "srq", &srq->xt.error);
}

/* Publishes a queue after *handle. Returns false if none is left. */
static bool publish_next(const struct xd_client *c, uint32_t kind, uint32_t *handle)
{
	void *queue = xd_object_next(c, kind, handle);

	if (queue && kind == XD_CQ)
		xd_cq_publish_error(queue);
	else if (queue)
		xd_srq_publish_error(queue);
	return queue;
}

bool xd_objects_publish(struct xd_client *c, struct xd_place *at)
{
	bool left = true;

	for (; at->kind < XD_KINDS; at->kind++, at->handle = 0) {
		if (at->kind != XD_QP && at->kind != XD_CQ && at->kind != XD_SRQ)
			continue;
		for (left = true; left;) {
			if (xd_loop_must_yield(c->dev->loop))
				return false;
			left = at->kind == XD_QP ? !xd_qps_publish(c, &at->handle)
						 : publish_next(c, at->kind, &at->handle);
		}
	}
	return true;
}
