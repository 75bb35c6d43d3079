// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Asynchronous events. */
#include "provider/base/debug.h"
#include "provider/base/fail.h"
#include "provider/verbs/async_event.h"
#include "provider/verbs/child.h"
#include "provider/verbs/cq.h"
#include "provider/verbs/event_socket.h"
#include "provider/verbs/qp.h"
#include "provider/verbs/request.h"
#include "provider/verbs/srq.h"

enum element { PORT, CQ, QP, SRQ };

static enum element element_of(uint32_t type)
{
	switch (type) {
	case IBV_EVENT_CQ_ERR:
		return CQ;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return QP;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return SRQ;
	default:
		return PORT;
	}
}

static uint32_t *async_counter(const void *record)
{
	const struct xr_async_event *ev = record;

	switch (element_of(ev->type)) {
	case CQ:
		return &((struct xp_cq *)(uintptr_t)ev->element)->async_read;
	case QP:
		return &((struct xp_qp *)(uintptr_t)ev->element)->async_read;
	case SRQ:
		return &((struct xp_srq *)(uintptr_t)ev->element)->async_read;
	default:
		return NULL;
	}
}

int xp_get_async_event(struct ibv_context *ibctx, struct ibv_async_event *event)
{
	struct xp_context *ctx = xp_ctx(xp_process_context(ibctx));
	struct xr_async_event ev;
	int err;

	if (xp_health(ctx) == XP_FORKED)
		return xp_fail(xp_refuse("ibv_get_async_event", EIO, "%s", XP_FORKED_TEXT));
	err = xp_event_read(ctx->async, &ev, async_counter);
	if (err == -ENODATA) {
		xp_set_gone(ctx);
		if (__atomic_exchange_n(&ctx->fatal_delivered, true, __ATOMIC_ACQ_REL))
			return xp_fail(
				xp_refuse("ibv_get_async_event", EIO, "%s", xp_health_text(ctx)));
		ev = (struct xr_async_event){ .type = IBV_EVENT_DEVICE_FATAL };
		err = 0;
	}
	if (err)
		return xp_fail(err);
	event->event_type = ev.type;
	switch (element_of(ev.type)) {
	case CQ:
		event->element.cq = (struct ibv_cq *)(uintptr_t)ev.element;
		break;
	case QP:
		event->element.qp = (struct ibv_qp *)(uintptr_t)ev.element;
		break;
	case SRQ:
		event->element.srq = (struct ibv_srq *)(uintptr_t)ev.element;
		break;
	default:
		event->element.port_num = ev.element;
	}
	return 0;
}

bool xp_is_our_event(const struct ibv_async_event *event)
{
	switch (element_of(event->event_type)) {
	case CQ:
		return xp_is_ours(event->element.cq->context);
	case QP:
		return xp_is_ours(event->element.qp->context);
	case SRQ:
		return xp_is_ours(event->element.srq->context);
	default:
		return false; /* device and port events: nothing to acknowledge */
	}
}

static void ack(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed)
{
	pthread_mutex_lock(mutex);
	++*completed;
	pthread_cond_broadcast(cond);
	pthread_mutex_unlock(mutex);
}

void xp_ack_async_event(struct ibv_async_event *event)
{
	struct ibv_cq *cq = event->element.cq;
	struct ibv_qp *qp = event->element.qp;
	struct ibv_srq *srq = event->element.srq;

	switch (element_of(event->event_type)) {
	case CQ:
		ack(&cq->mutex, &cq->cond, &cq->async_events_completed);
		break;
	case QP:
		ack(&qp->mutex, &qp->cond, &qp->events_completed);
		break;
	case SRQ:
		ack(&srq->mutex, &srq->cond, &srq->events_completed);
		break;
	default:
		break;
	}
}
