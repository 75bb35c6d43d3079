// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ending.h"

#include <time.h>

#include "daemon/base/loop.h"
#include "daemon/clients/client.h"
#include "daemon/datapath/worker.h"
#include "daemon/memory/mover.h"
#include "daemon/memory/proc.h"
#include "daemon/memory/region.h"
#include "daemon/transport/memory/ending.h"
#include "daemon/transport/transport.h"

static void ending_note(struct xd_ending *e, struct xd_proc *proc, const struct xt_mem *mem)
{
	e->proc = xd_proc_get(proc);
	e->mem = mem;
	e->mark = xd_mover_mark(xd_proc_mover(proc));
}

void xd_ending_region(struct xd_ending *e, const struct xd_mem *mem)
{
	ending_note(e, mem ? xd_mem_proc(mem) : NULL, mem ? &mem->xt : NULL);
}

void xd_ending_all(struct xd_ending *e, struct xd_proc *proc)
{
	ending_note(e, proc, NULL);
}

void xd_ending_qp(struct xd_ending *e, struct xt_qp *qp, uint32_t worker)
{
	e->qp = qp;
	e->worker = worker;
	e->until = xd_now() + XT_ENDING_NS;
}

static bool qp_in_use(struct xd_workers *workers, const struct xd_ending *e)
{
	bool ending;

	if (xd_now() > e->until)
		return false;
	xd_worker_pause(workers, e->worker);
	ending = xt_qp_ending(e->qp);
	xd_worker_resume_no_wake(workers, e->worker);
	return ending;
}

static bool accessed(const struct xd_ending *e)
{
	return xd_mover_in_use(xd_proc_mover(e->proc), e->mem, e->mark);
}

bool xd_ending_over(struct xd_ending *e)
{
	if (accessed(e))
		return false;
	xd_proc_put(e->proc);
	return true;
}

static bool in_use(const struct xd_client *c, const struct xd_ending *e)
{
	if (c->ending)
		return false;
	if (e->qp)
		return qp_in_use(c->dev->workers, e);
	return accessed(e);
}

static void pause_run(struct xd_client_job *job)
{
	const struct timespec pause = { .tv_nsec = XT_ENDING_POLL_NS };

	(void)job;
	nanosleep(&pause, NULL);
}

static void ending_ended(struct xd_client *c, struct xd_ending *e)
{
	xd_proc_put(e->proc);
	e->then(c, e);
}

static void pause_done(struct xd_client_job *job)
{
	struct xd_ending *e = container_of(job, struct xd_ending, job);

	if (in_use(job->client, e))
		xd_client_add_next_job(job->client, job);
	else
		ending_ended(job->client, e);
}

void xd_ending_wait(struct xd_client *c, struct xd_ending *e)
{
	if (!in_use(c, e)) {
		ending_ended(c, e);
		return;
	}
	e->job = (struct xd_client_job){ .run = pause_run, .done = pause_done };
	xd_client_add_job(c, &e->job);
}
