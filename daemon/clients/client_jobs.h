/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Jobs of one client run one after the other, so that a client that blocks a job blocks only
 * itself. Their processor time is charged to the client (xd_load_charge()).
 */
#ifndef XD_CLIENT_JOBS_H
#define XD_CLIENT_JOBS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/jobs.h"

struct xd_client;

/* Embedded in the struct that holds the job's data */
struct xd_client_job {
	struct xd_job job;
	struct xd_client *client;
	/* In a thread of the job pool */
	void (*run)(struct xd_client_job *job);
	/* Then in the control thread, also if the client is ending. Frees the job's data. */
	void (*done)(struct xd_client_job *job);
	struct xd_client_job *next;
	uint64_t used; /* processor time in ns of run() and of taking the job */
};

struct xd_client_jobs {
	struct xd_client_job *first, **tail; /* the first one runs */
	bool finishing; /* within done() of a job; the first job is not running */
};

void xd_client_jobs_init(struct xd_client_jobs *jobs);

void xd_client_add_job(struct xd_client *c, struct xd_client_job *job);
/*
 * Called by done() of a job: adds a job, possibly the same one, in front of those that wait. Else
 * as xd_client_add_job().
 */
void xd_client_add_next_job(struct xd_client *c, struct xd_client_job *job);
/*
 * Runs a job at once in this thread. For jobs that neither block nor use descriptors of the client.
 */
void xd_client_do_job(struct xd_client *c, struct xd_client_job *job);
/* The same, but as xd_client_add_job() if it would block, or if jobs wait that must come before. */
void xd_client_do_job_in_turn(struct xd_client *c, struct xd_client_job *job, bool blocks);

#endif /* XD_CLIENT_JOBS_H */
