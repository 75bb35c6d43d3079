/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Work that may take long or hang, outside of the control thread: pinning gigabytes, and any
 * touch of a file that a client sent. Such a file may lie on a file system of the client's
 * own making, whose answer to close() never comes.
 *
 * Each client has one job running at most (client.h), so that who hangs one hangs itself.
 */
#ifndef XD_JOBS_H
#define XD_JOBS_H

#include <stdbool.h>
#include <stddef.h>

/* A job is a member of what it is for. */
#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

struct xd_loop;
struct xd_jobs;

struct xd_job {
	void (*run)(struct xd_job *job);  /* in a thread */
	void (*done)(struct xd_job *job); /* then in the control thread; may free the job */
	struct xd_job *next;
};

struct xd_jobs *xd_jobs_new(struct xd_loop *loop, unsigned int max_threads);
/* done() is called for everything first. false: a job hangs, all stays as it is. */
bool xd_jobs_free(struct xd_jobs *jobs);
void xd_jobs_add(struct xd_jobs *jobs, struct xd_job *job);
/* Waits for what is under way and calls done(). false: seconds passed and some is left. */
bool xd_jobs_drain(struct xd_jobs *jobs, unsigned int seconds);

#endif /* XD_JOBS_H */
