/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A pool of threads for work that may block, so that the control thread never does: mapping and
 * pinning of gigabytes, and any use of a descriptor that a client sent. Such a descriptor may be of
 * a FUSE file system of the client, on which even close() need not return.
 *
 * Each client has at most one job running (clients/client_jobs.h), so a client that blocks a job
 * blocks only itself.
 */
#ifndef XD_JOBS_H
#define XD_JOBS_H

#include <stdbool.h>
#include <stddef.h>

/* The structure that a job is a member of */
#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

struct xd_loop;
struct xd_jobs;

struct xd_job {
	void (*run)(struct xd_job *job);  /* in a thread of the pool */
	void (*done)(struct xd_job *job); /* afterwards in the control thread; may free the job */
	struct xd_job *next;
};

struct xd_jobs *xd_jobs_new(struct xd_loop *loop, unsigned int max_threads);
/*
 * Waits up to 2 seconds for all jobs and calls their done(). Returns false if a job hangs; then
 * nothing is freed. NULL allowed.
 */
bool xd_jobs_free(struct xd_jobs *jobs);
void xd_jobs_add(struct xd_jobs *jobs, struct xd_job *job);
/* Waits for all jobs and calls their done(). Returns false if some are left after `seconds`. */
bool xd_jobs_drain(struct xd_jobs *jobs, unsigned int seconds);

#endif /* XD_JOBS_H */
