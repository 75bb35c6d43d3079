/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Waits until the workers have executed the posted send work requests, in a job of the client: work
 * requests with private memory need a mover, for which the control thread must not wait.
 */
#ifndef XD_DRAIN_H
#define XD_DRAIN_H

#include <stdint.h>

#include "daemon/clients/client_jobs.h"

struct xd_qp;
struct xr_queue;

#define XD_DRAIN_QPS 64 /* QPs behind these are not waited for */
#define XD_DRAIN_WAIT_NS 1000000000u
#define XD_DRAIN_POLL_NS 200000

struct xd_drain {
	struct xd_client_job job; /* to be added; done() must be set */
	uint32_t n;
	const struct xr_queue *sq[XD_DRAIN_QPS];
	uint32_t end[XD_DRAIN_QPS]; /* producer index when it was added */
};

/* Adds a QP, unless it has nothing to send. */
void xd_drain_add(struct xd_drain *d, const struct xd_qp *qp);
/* run() of the job: waits until those work requests are executed, at most a second. */
void xd_drain_run(struct xd_client_job *job);

#endif /* XD_DRAIN_H */
