// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Traffic of the QPs of each program, for metrics */
#include <string.h>

#include "daemon/clients/programs.h"
#include "daemon/datapath/worker.h"
#include "objects.h"
#include "qp.h"
#include "xrc_target.h"

/* QPs that are read in one pause of their worker */
#define AT_ONCE 64

/* A target QP of XRC counts for the program that created it, whichever handles are left. */
static struct xd_program *qp_traffic_program_of(const struct xd_qp *qp)
{
	return qp->target ? qp->target->program : xd_program_of(qp->obj.client);
}

void xd_qp_retire(const struct xd_qp *qp)
{
	xt_qp_add_traffic(qp->xt, &qp_traffic_program_of(qp)->ended);
}

struct batch {
	struct xd_workers *workers;
	uint32_t worker, n;
	struct xd_qp *qp[AT_ONCE];
};

static void qp_traffic_finish(struct batch *b)
{
	struct xd_program *p;

	if (!b->n)
		return;
	xd_worker_pause(b->workers, b->worker);
	for (uint32_t i = 0; i < b->n; i++) {
		p = qp_traffic_program_of(b->qp[i]);
		xt_qp_add_traffic(b->qp[i]->xt, &p->live);
		p->qps++;
	}
	xd_worker_resume_no_wake(b->workers, b->worker);
	b->n = 0;
}

/* A target QP has a handle of each client that opened it, and counts once. */
static bool counts(const struct xd_qp *qp, uint32_t worker)
{
	return qp->xt && qp->worker == worker && (!qp->target || qp->target->handles == qp);
}

static void sum_worker(struct xd_clients *cs, uint32_t worker)
{
	struct batch b = { .workers = cs->dev->workers, .worker = worker };
	const struct xd_client *c;
	struct xd_qp *qp;
	uint32_t handle;

	for (c = cs->first; c; c = c->next) {
		for (handle = 0; (qp = xd_object_next(c, XD_QP, &handle));) {
			if (!counts(qp, worker))
				continue;
			b.qp[b.n++] = qp;
			if (b.n == AT_ONCE)
				qp_traffic_finish(&b);
		}
	}
	qp_traffic_finish(&b);
}

static void clear(struct xd_program *p)
{
	memset(&p->live, 0, sizeof(p->live));
	p->qps = 0;
}

void xd_qps_sum_traffic(struct xd_clients *cs)
{
	struct xd_program *p;

	clear(&cs->programs.others);
	for (p = cs->programs.first; p; p = p->next)
		clear(p);
	for (uint32_t i = 0; i < xd_workers_count(cs->dev->workers); i++)
		sum_worker(cs, i);
}
