// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * If the RTU is lost, the first packet of the QP establishes the connection at the passive side
 * (IBTA 12.9.7.2). Workers report such QPs; the control thread finds their ids.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/base/loop.h"
#include "id.h"

/* QPs beyond are forgotten: the repeated REP makes the peer send its RTU again. */
#define MAX_REPORTED 64

struct xd_cm_comm_est {
	pthread_mutex_t lock;
	uint32_t qpn[MAX_REPORTED], n;
	int eventfd;
	struct xd_watch *watch;
};

static void comm_est_report(struct xd_objects *o, uint32_t qpn)
{
	struct xd_cm_comm_est *e = o->rdma_cm->comm_est;
	uint64_t one = 1;

	pthread_mutex_lock(&e->lock);
	if (e->n < MAX_REPORTED)
		e->qpn[e->n++] = qpn;
	pthread_mutex_unlock(&e->lock);
	(void)!write(e->eventfd, &one, sizeof(one)); /* full: a wake-up is pending */
}

static bool comm_est_take(struct xd_cm_comm_est *e, uint32_t *qpn)
{
	bool any;

	pthread_mutex_lock(&e->lock);
	any = e->n;
	if (any)
		*qpn = e->qpn[--e->n];
	pthread_mutex_unlock(&e->lock);
	return any;
}

static void comm_est_establish(struct xd_rdma_cm *cm, uint32_t qpn)
{
	struct xd_cm_id *id = xd_cm_id_by_qpn(cm, qpn);

	if (id && id->conn)
		xc_notify_established(id->conn);
}

static void on_report(void *arg, uint32_t events)
{
	struct xd_rdma_cm *cm = arg;
	uint64_t count;
	uint32_t qpn;

	if (read(cm->comm_est->eventfd, &count, sizeof(count)) < 0)
		return;
	while (comm_est_take(cm->comm_est, &qpn))
		comm_est_establish(cm, qpn);
	xd_rdma_cm_arm(cm);
}

int xd_cm_comm_est_start(struct xd_rdma_cm *cm)
{
	struct xd_cm_comm_est *e = calloc(1, sizeof(*e));

	if (!e)
		return -ENOMEM;
	cm->comm_est = e;
	pthread_mutex_init(&e->lock, NULL);
	e->eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (e->eventfd < 0)
		return -errno;
	e->watch = xd_watch_add(cm->dev->loop, e->eventfd, EPOLLIN, on_report, cm);
	if (!e->watch)
		return -ENOMEM;
	cm->objects->comm_est = comm_est_report;
	return 0;
}

void xd_cm_comm_est_stop(struct xd_rdma_cm *cm)
{
	struct xd_cm_comm_est *e = cm->comm_est;

	cm->objects->comm_est = NULL;
	if (!e)
		return;
	xd_watch_del(e->watch);
	if (e->eventfd >= 0)
		close(e->eventfd);
	pthread_mutex_destroy(&e->lock);
	free(e);
}
