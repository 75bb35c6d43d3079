// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Events come as fixed records through pipes that the daemon writes: the cookie of the object,
 * which is our pointer to it, and for asynchronous events a type. Unmodified programs poll the
 * read ends and make them non-blocking, so what the pipe holds must be what may be delivered.
 *
 * An object that is destroyed leaves records behind. They cannot be taken from the middle of a
 * pipe: they are counted (what the daemon wrote less what was read), recognised and dropped when
 * they come to the head, so that a readable pipe has a live event first. A later object at the
 * same address is not confused with it: its records come after the counted ones.
 *
 * A pipe at its end means that the daemon is gone.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "provider/provider.h"

#define ALL UINT32_MAX /* every record of that cookie */

struct xp_pipe *xp_pipe_new(int fd, size_t record)
{
	struct xp_pipe *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->fd = fd;
	p->record = record;
	pthread_rwlock_init(&p->reading, NULL);
	pthread_mutex_init(&p->lock, NULL);
	return p;
}

void xp_pipe_free(struct xp_pipe *p)
{
	if (!p)
		return;
	close(p->fd);
	pthread_rwlock_destroy(&p->reading);
	pthread_mutex_destroy(&p->lock);
	free(p->stale);
	free(p);
}

/* Under p->lock: true where the record belongs to an object that is gone; it is counted off. */
static bool take_stale(struct xp_pipe *p, uint64_t cookie)
{
	unsigned int i;

	for (i = 0; i < p->nstale && p->stale[i].cookie != cookie; i++)
		;
	if (i == p->nstale)
		return false;
	if (p->stale[i].left != ALL && !--p->stale[i].left)
		p->stale[i] = p->stale[--p->nstale];
	return true;
}

static bool is_stale(const struct xp_pipe *p, uint64_t cookie)
{
	unsigned int i;

	for (i = 0; i < p->nstale; i++) {
		if (p->stale[i].cookie == cookie)
			return true;
	}
	return false;
}

/* Under p->lock: the cookie of the record at the head, which stays there. */
static bool peek(struct xp_pipe *p, uint64_t *cookie)
{
	uint8_t record[16];

	if (recv(p->fd, record, p->record, MSG_PEEK | MSG_DONTWAIT) != (ssize_t)p->record)
		return false;
	memcpy(cookie, record, sizeof(*cookie));
	return true;
}

/*
 * Removes stale records from the head. With another thread inside read() this is
 * left to that thread: it drops what it meets.
 */
static void drop_stale_head(struct xp_pipe *p)
{
	uint8_t record[16];
	uint64_t cookie;
	int cancel;

	if (!p->nstale || pthread_rwlock_trywrlock(&p->reading))
		return;
	cancel = xp_cancel_off();
	pthread_mutex_lock(&p->lock);
	while (p->nstale && peek(p, &cookie) && is_stale(p, cookie)) {
		if (read(p->fd, record, p->record) != (ssize_t)p->record)
			break;
		take_stale(p, cookie);
	}
	pthread_mutex_unlock(&p->lock);
	pthread_rwlock_unlock(&p->reading);
	xp_cancel_restore(cancel);
}

void xp_pipe_forget(struct xp_pipe *p, uint64_t cookie, uint32_t written, const uint32_t *read)
{
	struct xp_stale *stale;
	uint32_t left;

	pthread_mutex_lock(&p->lock);
	left = written == ALL ? ALL : written - *read;
	if (left && p->nstale == p->room) {
		stale = realloc(p->stale, (p->room * 2 + 8) * sizeof(*stale));
		if (stale) {
			p->stale = stale;
			p->room = p->room * 2 + 8;
		}
	}
	if (left && p->nstale < p->room)
		p->stale[p->nstale++] = (struct xp_stale){ cookie, left };
	pthread_mutex_unlock(&p->lock);
	drop_stale_head(p);
}

static void done_reading(void *p)
{
	pthread_rwlock_unlock(&((struct xp_pipe *)p)->reading);
}

/* Programs cancel the thread that waits here. */
static ssize_t read_record(struct xp_pipe *p, void *record)
{
	ssize_t n;

	pthread_rwlock_rdlock(&p->reading);
	pthread_cleanup_push(done_reading, p);
	n = read(p->fd, record, p->record);
	pthread_cleanup_pop(1);
	return n;
}

/*
 * The next record of a live object, as the fd blocks or not. counter() names the count of
 * what was read for the object, or NULL. -ENODATA: the daemon is gone.
 */
static int next_record(struct xp_pipe *p, void *record, uint32_t *(*counter)(const void *record))
{
	uint32_t *count;
	uint64_t cookie;
	bool stale;
	ssize_t n;

	do {
		n = read_record(p, record);
		if (n != (ssize_t)p->record)
			return n < 0 ? -errno : -ENODATA;
		memcpy(&cookie, record, sizeof(cookie));
		pthread_mutex_lock(&p->lock);
		stale = take_stale(p, cookie);
		count = stale ? NULL : counter(record);
		if (count)
			++*count;
		pthread_mutex_unlock(&p->lock);
	} while (stale);
	drop_stale_head(p);
	return 0;
}

static int fail(int err)
{
	errno = err;
	return -1;
}

/* ---- completion channels ------------------------------------------------------- */

struct ibv_comp_channel *xp_create_comp_channel(struct ibv_context *ibctx)
{
	struct xp_channel *ch = calloc(1, sizeof(*ch));
	struct xr_handle_rep rep;
	int fd = -1, err;
	struct xp_call call = {
		.type = XR_MSG_CREATE_CHANNEL,
		.rep = &rep,
		.rep_len = sizeof(rep),
		.rep_fds = &fd,
		.rep_room = 1,
	};

	if (!ch)
		return xp_null(ENOMEM);
	ibctx = xp_here(ibctx);
	err = xp_call(xp_ctx(ibctx), &call);
	if (!err && !call.rep_nfds)
		err = -EPROTO;
	if (!err) {
		ch->pipe = xp_pipe_new(fd, sizeof(uint64_t));
		if (!ch->pipe) {
			close(fd);
			xp_release(xp_ctx(ibctx), XR_MSG_DESTROY_CHANNEL, rep.handle, NULL);
			err = -ENOMEM;
		}
	}
	if (err) {
		free(ch);
		return xp_null(err);
	}
	ch->ibch.context = ibctx;
	ch->ibch.fd = fd;
	ch->handle = rep.handle;
	return &ch->ibch;
}

int xp_destroy_comp_channel(struct ibv_comp_channel *ibch)
{
	struct xp_channel *ch = (struct xp_channel *)ibch;
	struct xp_context *ctx = xp_ctx(ibch->context);
	int err;

	pthread_mutex_lock(&ibch->context->mutex);
	err = ibch->refcnt ? -EBUSY : 0;
	pthread_mutex_unlock(&ibch->context->mutex);
	if (!err)
		err = xp_release(ctx, XR_MSG_DESTROY_CHANNEL, ch->handle, NULL);
	if (err)
		return -err;
	xp_pipe_free(ch->pipe);
	free(ch);
	return 0;
}

static uint32_t *cq_counter(const void *record)
{
	struct xp_cq *cq;

	memcpy(&cq, record, sizeof(cq));
	return &cq->comp_read;
}

/* With the daemon gone: a CQ that was armed and has completions, if only made up ones. */
static struct xp_cq *armed_cq(struct xp_channel *ch)
{
	struct xp_cq *cq;

	pthread_mutex_lock(&ch->ibch.context->mutex);
	for (cq = ch->cqs; cq; cq = cq->next_on_channel) {
		if (xp_cq_has_work(cq) &&
		    __atomic_exchange_n(&cq->ring.queue->word, 0, __ATOMIC_ACQ_REL)) {
			pthread_mutex_lock(&ch->pipe->lock);
			cq->comp_read++;
			pthread_mutex_unlock(&ch->pipe->lock);
			break;
		}
	}
	pthread_mutex_unlock(&ch->ibch.context->mutex);
	return cq;
}

int xp_get_cq_event(struct ibv_comp_channel *ibch, struct ibv_cq **ibcq, void **cq_context)
{
	struct xp_channel *ch = (struct xp_channel *)ibch;
	struct xp_context *ctx = xp_ctx(ibch->context);
	struct xp_cq *cq;
	int err;

	if (xp_health(ctx) == XP_FORKED)
		return fail(EIO);
	err = next_record(ch->pipe, &cq, cq_counter);
	if (err == -ENODATA) {
		xp_set_gone(ctx);
		cq = armed_cq(ch);
		err = cq ? 0 : -EIO;
	}
	if (err)
		return fail(-err);
	*ibcq = &cq->ibcq;
	*cq_context = cq->ibcq.cq_context;
	return 0;
}

void xp_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += n;
	pthread_cond_broadcast(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

/* ---- asynchronous events ------------------------------------------------------- */

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
	struct xp_context *ctx = xp_ctx(xp_here(ibctx));
	struct xr_async_event ev;
	int err;

	if (xp_health(ctx) == XP_FORKED)
		return fail(EIO);
	err = next_record(ctx->async, &ev, async_counter);
	if (err == -ENODATA) {
		xp_set_gone(ctx);
		if (__atomic_exchange_n(&ctx->fatal_told, true, __ATOMIC_ACQ_REL))
			return fail(EIO);
		ev = (struct xr_async_event){ .type = IBV_EVENT_DEVICE_FATAL };
		err = 0;
	}
	if (err)
		return fail(-err);
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
		return false; /* libibverbs does nothing for these either */
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
