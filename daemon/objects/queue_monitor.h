/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Asynchronous errors of CQs and SRQs (IBV_EVENT_CQ_ERR, IBV_EVENT_SRQ_ERR), for the readers of
 * `xroce monitor`. Control thread only; workers may run.
 */
#ifndef XD_QUEUE_MONITOR_H
#define XD_QUEUE_MONITOR_H

#include <stdbool.h>

struct xd_client;
struct xd_cq;
struct xd_place;
struct xd_srq;

/* Publish the last error of a queue, unless it was published or noted before. */
void xd_cq_publish_error(struct xd_cq *cq);
void xd_srq_publish_error(struct xd_srq *srq);
/* The piece of XD_WALK_PUBLISH: the same for queues, and for changes of QPs (qp_monitor.c) */
bool xd_objects_publish(struct xd_client *c, struct xd_place *at);

#endif /* XD_QUEUE_MONITOR_H */
