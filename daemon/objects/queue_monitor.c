// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "queue_monitor.h"

#include "cq.h"
#include "objects.h"
#include "qp.h"
#include "srq.h"

static void publish(const struct xd_object *obj, const char *event, const char *kind,
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

/* Returns true if the queue had another error before, and notes this one. */
static bool is_new(const struct xt_queue_error *error, uint64_t *known)
{
	uint64_t at = __atomic_load_n(&error->at, __ATOMIC_ACQUIRE);

	if (at == *known)
		return false;
	*known = at;
	return true;
}

void xd_cq_publish_error(struct xd_cq *cq)
{
	if (is_new(&cq->xt.error, &cq->known_error))
		publish(&cq->obj, "cq_error", "cq", &cq->xt.error);
}

void xd_srq_publish_error(struct xd_srq *srq)
{
	if (is_new(&srq->xt.error, &srq->known_error))
		publish(&srq->obj, "srq_error", "srq", &srq->xt.error);
}

static void note_or_publish(const struct xd_client *c, bool do_publish)
{
	struct xd_srq *srq;
	struct xd_cq *cq;
	uint32_t h;

	for (h = 0; (cq = xd_object_next(c, XD_CQ, &h));) {
		if (do_publish)
			xd_cq_publish_error(cq);
		else
			is_new(&cq->xt.error, &cq->known_error);
	}
	for (h = 0; (srq = xd_object_next(c, XD_SRQ, &h));) {
		if (do_publish)
			xd_srq_publish_error(srq);
		else
			is_new(&srq->xt.error, &srq->known_error);
	}
}

void xd_queues_publish_errors(struct xd_clients *cs, bool do_publish)
{
	for (const struct xd_client *c = cs->first; c; c = c->next)
		note_or_publish(c, do_publish);
}
