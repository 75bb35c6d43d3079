// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Events of QPs: created, destroyed, states, errors, NAKs, timeouts. */
#include <string.h>

#include "daemon/base/json.h"
#include "daemon/base/log.h"
#include "daemon/base/log_program.h"
#include "daemon/base/loop.h"
#include "daemon/datapath/worker.h"
#include "objects.h"
#include "qp.h"

/* QPs that are read in one pause of their worker */
#define AT_ONCE 64

/* Present values, to compare with struct xd_qp_known, and the text of an event */
struct present {
	struct xd_qp *qp;
	struct xd_qp_known known;
	struct xt_failure failure;
	struct xr_addr peer;
	uint32_t dest_qpn;
};

static const struct {
	const char *direction, *nak;
	size_t offset; /* in struct xt_qp_counters */
} naks[] = {
#define NAK(direction, nak, field)                                                                 \
	{                                                                                          \
		direction, nak, offsetof(struct xt_qp_counters, field)                             \
	}
	NAK("sent", "RNR", rnr_naks_sent),
	NAK("received", "RNR", rnr_naks_received),
	NAK("sent", "PSN sequence", seq_naks_sent),
	NAK("received", "PSN sequence", seq_naks_received),
	NAK("sent", "remote access", access_naks_sent),
	NAK("received", "remote access", access_naks_received),
	NAK("sent", "invalid request", invalid_naks_sent),
	NAK("received", "invalid request", invalid_naks_received),
	NAK("sent", "remote operational", operational_naks_sent),
	NAK("received", "remote operational", operational_naks_received),
	NAK("sent", "invalid RD request", rd_naks_sent),
	NAK("received", "invalid RD request", rd_naks_received),
#undef NAK
};
_Static_assert(sizeof(naks) / sizeof(naks[0]) == XD_QP_NAKS, "a row for each kind");

/* The QP's worker is paused. */
static void read_qp(struct xd_qp *qp, struct present *p)
{
	struct xt_qp_stats stats;
	struct xr_qp_attr attr;

	xt_qp_stats(qp->xt, &stats);
	xt_qp_query(qp->xt, &attr);
	p->qp = qp;
	p->failure = stats.failure;
	p->peer = xt_qp_path(qp->xt)->dgid;
	p->dest_qpn = attr.dest_qp_num;
	p->known.at = xd_now();
	p->known.state = attr.qp_state;
	p->known.timeouts = stats.counters.timeouts;
	for (int i = 0; i < XD_QP_NAKS; i++)
		memcpy(&p->known.naks[i], (const char *)&stats.counters + naks[i].offset,
		       sizeof(p->known.naks[i]));
}

static struct json *qp_monitor_begin(const struct xd_qp *qp, const char *event)
{
	struct json *j = xd_publish_begin(qp->obj.client->clients, event);

	if (!j)
		return NULL;
	json_number(j, "qpn", qp->qpn);
	json_text(j, "type", xd_qp_type_name(qp));
	return j;
}

static void qp_monitor_publish(struct json *j, const struct xd_qp *qp)
{
	xd_publish_client(j, qp->obj.client);
	xd_publish(qp->obj.client->clients);
}

/* ---- changes --------------------------------------------------------------------- */

static void publish_count(const struct xd_qp *qp, int nak, uint64_t count)
{
	struct json *j = count ? qp_monitor_begin(qp, nak < 0 ? "timeout" : "nak") : NULL;

	if (!j)
		return;
	if (nak >= 0) {
		json_text(j, "direction", naks[nak].direction);
		json_text(j, "nak", naks[nak].nak);
	}
	json_number(j, "count", count);
	qp_monitor_publish(j, qp);
}

static bool qp_monitor_is_failure(const struct xt_failure *f)
{
	return f->cause != XT_CAUSE_NONE && f->cause != XT_CAUSE_PROGRAM;
}

static bool qp_monitor_failed(const struct present *p)
{
	return (p->known.state == XR_QPS_ERR || p->known.state == XR_QPS_SQE) &&
	       qp_monitor_is_failure(&p->failure);
}

static void qp_monitor_publish_state(const struct present *p)
{
	struct json *j;

	if (p->known.state == p->qp->known.state)
		return;
	j = qp_monitor_begin(p->qp, qp_monitor_failed(p) ? "qp_error" : "qp_state");
	if (!j)
		return;
	json_text(j, "from", xd_qp_state_name(p->qp->known.state));
	json_text(j, "state", xd_qp_state_name(p->known.state));
	if (qp_monitor_failed(p))
		xd_show_failure_cause(j, &p->failure);
	if (p->dest_qpn) {
		json_address(j, "peer", &p->peer);
		json_number(j, "dest_qpn", p->dest_qpn);
	}
	qp_monitor_publish(j, p->qp);
}

/* Returns true if nothing is known of the QP since there are readers. */
static bool is_first(const struct xd_qp *qp)
{
	uint64_t since = qp->obj.client->clients->monitors.since;

	return qp->obj.created < since && qp->known.at < since;
}

/*
 * NAKs precede the state, which they may be the reason of. What has happened before the first
 * reader is not published.
 */
static void publish_present(const struct present *p)
{
	const struct xd_qp_known *known = &p->qp->known;

	if (is_first(p->qp)) {
		p->qp->known = p->known;
		return;
	}
	for (int i = 0; i < XD_QP_NAKS; i++)
		publish_count(p->qp, i, p->known.naks[i] - known->naks[i]);
	publish_count(p->qp, -1, p->known.timeouts - known->timeouts);
	qp_monitor_publish_state(p);
	p->qp->known = p->known;
}

void xd_qp_publish_changes(struct xd_qp *qp)
{
	struct xd_workers *workers = qp->obj.client->dev->workers;
	struct present p;

	if (!xd_monitored(qp->obj.client->clients))
		return;
	xd_worker_pause(workers, qp->worker);
	read_qp(qp, &p);
	xd_worker_resume_no_wake(workers, qp->worker);
	publish_present(&p);
}

void xd_qp_publish_created(struct xd_qp *qp)
{
	struct json *j = qp_monitor_begin(qp, "qp_created");

	if (j)
		qp_monitor_publish(j, qp);
}

void xd_qp_publish_destroyed(struct xd_qp *qp)
{
	struct json *j;

	xd_qp_publish_changes(qp);
	j = qp_monitor_begin(qp, "qp_destroyed");
	if (j)
		qp_monitor_publish(j, qp);
}

/* ---- the log ------------------------------------------------------------------------ */

void xd_qp_log_failure(const struct xd_qp *qp)
{
	const struct xd_identity *who = &qp->obj.client->identity;
	const struct xd_log_program about = { who->pid, who->uid, who->comm, qp->qpn };
	struct xt_qp_stats stats;
	const char *status;

	xt_qp_stats(qp->xt, &stats);
	if (!qp_monitor_is_failure(&stats.failure))
		return;
	status = xd_qp_failure_status(&stats.failure);
	xd_log_about(&about);
	xd_log(XD_DEBUG, "QP %u of %s, pid %d, had failed: %s%s%s", qp->qpn, who->comm,
	       (int)who->pid, xd_qp_failure_reason(&stats.failure), *status ? ": " : "", status);
	xd_log_about(NULL);
}

/* ---- all QPs of a client ----------------------------------------------------------- */

static void read_of_worker(struct xd_workers *workers, uint32_t worker, struct present *present,
			   uint32_t n)
{
	uint32_t i = 0;

	while (i < n && present[i].qp->worker != worker)
		i++;
	if (i == n)
		return;
	xd_worker_pause(workers, worker);
	for (; i < n; i++) {
		if (present[i].qp->worker == worker)
			read_qp(present[i].qp, &present[i]);
	}
	xd_worker_resume_no_wake(workers, worker);
}

bool xd_qps_publish(const struct xd_client *c, uint32_t *handle)
{
	struct xd_workers *workers = c->dev->workers;
	struct present present[AT_ONCE];
	struct xd_qp *qp = NULL;
	uint32_t n = 0;

	while (n < AT_ONCE && (qp = xd_object_next(c, XD_QP, handle))) {
		if (qp->xt)
			present[n++].qp = qp;
	}
	for (uint32_t i = 0; i < xd_workers_count(workers); i++)
		read_of_worker(workers, i, present, n);
	for (uint32_t i = 0; i < n; i++)
		publish_present(&present[i]);
	return !qp;
}
