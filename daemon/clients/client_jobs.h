/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Jobs of one client run one after the other, so that a client that blocks a job blocks only
 * itself.
 */
#ifndef XD_CLIENT_JOBS_H
#define XD_CLIENT_JOBS_H

#include <stdbool.h>

#include "daemon/base/jobs.h"

struct xd_client;

/* A member of what the job is for, which done() frees */
struct xd_client_job {
	struct xd_job job;
	struct xd_client *client;
	void (*run)(struct xd_client_job *job); /* in a thread */
	void (*done)(
		struct xd_client_job *job); /* in the control thread, also while the client ends */
	struct xd_client_job *next;
};

struct xd_client_jobs {
	struct xd_client_job *first, **tail; /* the first one runs */
	bool finishing; /* done() of a job is called, and the first one waits for it */
};

void xd_client_jobs_init(struct xd_client_jobs *jobs);

void xd_client_add_job(struct xd_client *c, struct xd_client_job *job);
/* The same before the jobs that wait, if a job's done() calls it. May take that job again. */
void xd_client_add_next_job(struct xd_client *c, struct xd_client_job *job);
/*
 * Runs a job at once in this thread. For jobs that neither block nor use descriptors of the client.
 */
void xd_client_do_job(struct xd_client *c, struct xd_client_job *job);

#endif /* XD_CLIENT_JOBS_H */
