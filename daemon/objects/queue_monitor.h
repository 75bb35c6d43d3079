/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Asynchronous errors of CQs and SRQs (IBV_EVENT_CQ_ERR, IBV_EVENT_SRQ_ERR), for the readers of
 * `xroce monitor`. Control thread only; workers may run.
 */
#ifndef XD_QUEUE_MONITOR_H
#define XD_QUEUE_MONITOR_H

#include <stdbool.h>

struct xd_clients;
struct xd_cq;
struct xd_srq;

/* Publish the last error of a queue, unless it was published or noted before. */
void xd_cq_publish_error(struct xd_cq *cq);
void xd_srq_publish_error(struct xd_srq *srq);
/* publish: does the same for all queues; else notes the errors that they have had so far only. */
void xd_queues_publish_errors(struct xd_clients *cs, bool publish);

#endif /* XD_QUEUE_MONITOR_H */
