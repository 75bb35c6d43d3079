// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Events of the QPs of direct programs. What happened between two looks is one change: a QP that
 * was created and destroyed meanwhile has no event.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/base/json.h"
#include "daemon/clients/request.h"
#include "daemon/objects/qp.h"
#include "server.h"
#include "view.h"

/* Records of QPs in a view */
#define QPS (sizeof(((struct xr_view_file *)0)->qp) / sizeof(struct xr_view_qp))

struct look {
	struct xd_client *client;
	struct xd_view_known *present; /* by record */
	uint32_t n;
	bool publish;
};

static struct json *view_monitor_begin(const struct look *l, const struct xd_view_known *qp,
				       const char *event)
{
	struct json *j = l->publish ? xd_publish_begin(l->client->clients, event) : NULL;

	if (!j)
		return NULL;
	json_number(j, "qpn", qp->qpn);
	json_text(j, "type", xd_qp_type_of(qp->type));
	return j;
}

static void publish(const struct look *l, struct json *j)
{
	xd_publish_client(j, l->client);
	xd_publish(l->client->clients);
}

static void publish_plain(const struct look *l, const struct xd_view_known *qp, const char *event)
{
	struct json *j = view_monitor_begin(l, qp, event);

	if (j)
		publish(l, j);
}

static void view_monitor_publish_state(const struct look *l, uint32_t from,
				       const struct xd_view_known *qp, const struct xr_view_qp *r)
{
	struct xt_failure f;
	struct json *j;
	bool failed;

	xd_view_failure(&r->failure, &f);
	failed = (qp->state == XR_QPS_ERR || qp->state == XR_QPS_SQE) && f.cause != XT_CAUSE_NONE &&
		 f.cause != XT_CAUSE_PROGRAM;
	j = view_monitor_begin(l, qp, failed ? "qp_error" : "qp_state");
	if (!j)
		return;
	json_text(j, "from", xd_qp_state_name(from));
	json_text(j, "state", xd_qp_state_name(qp->state));
	if (failed)
		xd_show_failure_cause(j, &f);
	if (r->dest_qpn) {
		json_address(j, "peer", &r->peer);
		json_number(j, "dest_qpn", r->dest_qpn);
	}
	publish(l, j);
}

static const struct xd_view_known *known_at(const struct xd_view *v, uint32_t index)
{
	static const struct xd_view_known none;

	return index < v->n_known ? &v->known[index] : &none;
}

static void compare_qp(void *arg, uint32_t index, const void *record)
{
	const struct xr_view_qp *r = record;
	struct look *l = arg;
	const struct xd_view_known *known = known_at(l->client->view, index);
	struct xd_view_known *present = &l->present[index];
	uint32_t from = known->state;

	*present = (struct xd_view_known){ r->qpn, r->type, r->state };
	l->n = index + 1;
	if (known->qpn != r->qpn) {
		if (known->qpn)
			publish_plain(l, known, "qp_destroyed");
		publish_plain(l, present, "qp_created");
		from = XR_QPS_RESET;
	}
	if (r->state != from)
		view_monitor_publish_state(l, from, present, r);
}

/* Forgets the QPs whose records are not in use any more. */
static void compare_rest(const struct look *l)
{
	const struct xd_view *v = l->client->view;

	for (uint32_t i = 0; i < v->n_known; i++)
		if (v->known[i].qpn && !l->present[i].qpn)
			publish_plain(l, &v->known[i], "qp_destroyed");
}

static void view_monitor_compare(struct xd_client *c, bool publish)
{
	struct xd_view *v = c->view;
	struct look l = { .client = c, .publish = publish };
	uint32_t changes = xd_view_changes(v);

	if (changes == v->changes)
		return;
	l.present = calloc(QPS, sizeof(*l.present));
	if (!l.present)
		return;
	v->changes = changes;
	xd_view_each(v, XR_VIEW_QP, compare_qp, &l);
	compare_rest(&l);
	free(v->known);
	v->known = l.n ? realloc(l.present, l.n * sizeof(*l.present)) : NULL;
	v->n_known = l.n;
	if (!l.n)
		free(l.present);
}

void xd_view_publish_end(struct xd_client *c)
{
	struct look l = { .client = c, .publish = true };

	if (!c->view || !xd_monitored(c->clients))
		return;
	view_monitor_compare(c, true);
	for (uint32_t i = 0; i < c->view->n_known; i++)
		if (c->view->known[i].qpn)
			publish_plain(&l, &c->view->known[i], "qp_destroyed");
}

void xd_views_publish(struct xd_clients *cs, bool publish)
{
	for (struct xd_client *c = cs->first; c; c = c->next)
		if (c->view)
			view_monitor_compare(c, publish);
}
