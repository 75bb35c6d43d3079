// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "client_jobs.h"

#include "daemon/base/loop.h"
#include "client.h"
#include "load.h"

void xd_client_jobs_init(struct xd_client_jobs *jobs)
{
	jobs->first = NULL;
	jobs->tail = &jobs->first;
}

static void client_jobs_start(struct xd_client *c)
{
	xd_jobs_add(c->clients->jobs, &c->jobs.first->job);
}

static void run_job(struct xd_job *job)
{
	static __thread uint64_t lap; /* processor time at the end of the thread's last job */
	struct xd_client_job *j = container_of(job, struct xd_client_job, job);
	uint64_t end;

	j->run(j);
	end = xd_cpu_time();
	j->used = end - lap;
	lap = end;
}

/* Calls done(), which frees a client that ends with its last job. */
static void client_jobs_finish(struct xd_client_job *j)
{
	struct xd_client *c = j->client;
	struct xd_loop *loop = c->dev->loop;
	bool ending = c->ending;

	xd_load_charge(c, j->used);
	j->done(j);
	if (ending)
		xd_loop_lap(loop); /* the time is nobody's */
	else
		xd_load_charge_lap(c);
}

static void finish_job(struct xd_job *job)
{
	struct xd_client_job *j = container_of(job, struct xd_client_job, job);
	struct xd_client *c = j->client;
	struct xd_client_job *next = j->next;

	c->jobs.first = next;
	if (!next)
		c->jobs.tail = &c->jobs.first;
	c->jobs.finishing = next;
	client_jobs_finish(j);
	if (!next)
		return;
	c->jobs.finishing = false;
	client_jobs_start(c);
}

static void client_jobs_prepare(struct xd_client *c, struct xd_client_job *job)
{
	job->job.run = run_job;
	job->job.done = finish_job;
	job->client = c;
	job->next = NULL;
}

void xd_client_add_job(struct xd_client *c, struct xd_client_job *job)
{
	bool idle = !c->jobs.first;

	client_jobs_prepare(c, job);
	*c->jobs.tail = job;
	c->jobs.tail = &job->next;
	if (idle)
		client_jobs_start(c);
}

void xd_client_add_next_job(struct xd_client *c, struct xd_client_job *job)
{
	if (!c->jobs.finishing) {
		xd_client_add_job(c, job);
		return;
	}
	client_jobs_prepare(c, job);
	job->next = c->jobs.first;
	c->jobs.first = job;
}

void xd_client_do_job(struct xd_client *c, struct xd_client_job *job)
{
	job->client = c;
	job->run(job);
	job->done(job);
}

void xd_client_do_job_in_turn(struct xd_client *c, struct xd_client_job *job, bool blocks)
{
	if (blocks || c->jobs.first)
		xd_client_add_job(c, job);
	else
		xd_client_do_job(c, job);
}
