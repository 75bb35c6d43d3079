// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Completion channels. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "provider/base/debug.h"
#include "provider/base/fail.h"
#include "provider/host/host.h"
#include "provider/verbs/channel_set.h"
#include "provider/verbs/child.h"
#include "provider/verbs/comp_channel.h"
#include "provider/verbs/cq.h"
#include "provider/verbs/request.h"

static uint32_t *cq_counter(const void *record)
{
	struct xp_cq *cq;

	memcpy(&cq, record, sizeof(cq));
	return &cq->comp_read;
}

/* ---- channels of direct contexts ----------------------------------------------- */

/*
 * Disarms a CQ that is armed for any completion, if packets were received since it was armed.
 * unsure: they may have been
 */
static bool take_arming(struct xp_cq *cq, uint64_t received, bool unsure)
{
	bool taken = false;
	uint32_t *word;

	xp_lock(&cq->lock); /* against ibv_resize_cq() */
	word = &cq->ring.queue->word;
	if (__atomic_load_n(word, __ATOMIC_RELAXED) & XR_ARM_ANY &&
	    (unsure || cq->armed_at != received))
		taken = __atomic_exchange_n(word, 0, __ATOMIC_ACQ_REL);
	xp_unlock(&cq->lock);
	return taken;
}

/*
 * An early event: a packet made the descriptor readable, but it made no event. Programs may take
 * EAGAIN for an error then, but have to handle an event whose CQ is empty. It is one of a CQ that
 * is armed, and disarms it as all events do. So whoever reads events until there are no more comes
 * to an end, and as no packet causes two, whoever arms the CQ again waits for the next packet.
 * Returns NULL if no CQ has been armed since before the packets.
 */
static struct xp_cq *make_early_event(struct xp_channel *ch, bool unsure)
{
	const struct xp_context *ctx = ch->ctx;
	uint64_t received = ctx->host_ops->received(ctx->host);
	struct xp_cq *cq;

	pthread_mutex_lock(&ch->ibch.context->mutex);
	for (cq = ch->cqs; cq && !take_arming(cq, received, unsure); cq = cq->next_on_channel)
		;
	if (cq)
		cq->comp_early++;
	pthread_mutex_unlock(&ch->ibch.context->mutex);
	return cq;
}

static void count_taken(uint64_t cookie)
{
	((struct xp_cq *)(uintptr_t)cookie)->comp_read++;
}

static int comp_channel_take_event(struct xp_channel *ch, bool waits, struct xp_cq **cq)
{
	const struct xp_host_ops *ops = ch->ctx->host_ops;
	uint64_t cookie;
	int err = (waits ? ops->wait_event : ops->take_event)(ch->ctx->host, ch->host, count_taken,
							      &cookie);

	if (!err)
		*cq = (struct xp_cq *)(uintptr_t)cookie;
	return err;
}

static bool is_woken(const struct xp_channel *ch)
{
	return __atomic_load_n(&ch->ctx->wakes, __ATOMIC_RELAXED) == ch;
}

/*
 * The packets that made a descriptor readable were received before this round, or by it. All that
 * they cause is done then, as rounds follow each other. Returns false if another thread does not
 * end its round soon: they may still be in the socket.
 */
static bool run_round(struct xp_channel *ch)
{
	const struct xp_context *ctx = ch->ctx;
	const struct xp_channel *wakes = __atomic_load_n(&ctx->wakes, __ATOMIC_RELAXED);

	return ctx->host_ops->poll_channel(ctx->host, ch->host, wakes, wakes == ch);
}

/* After a round, which is done or not */
static int take_early(struct xp_channel *ch, struct xp_cq **cq, bool done)
{
	bool was_woken = __atomic_exchange_n(&ch->was_woken, false, __ATOMIC_RELAXED);

	*cq = is_woken(ch) || was_woken ? make_early_event(ch, !done || was_woken) : NULL;
	return *cq ? 0 : -EAGAIN;
}

/*
 * A direct context makes its events itself. The thread that waits runs rounds meanwhile, so that a
 * packet wakes it without another thread in between. Events that are there need no round. If
 * packets make the descriptor readable, one most likely has: then a round comes first.
 */
static int take_direct(struct xp_channel *ch, struct xp_cq **cq)
{
	bool woken = is_woken(ch), done = false;
	int err = comp_channel_take_event(ch, false, cq);

	if (!err && woken)
		ch->ctx->host_ops->woken(ch->ctx->host);
	if (err == -EAGAIN && woken) {
		done = run_round(ch);
		err = comp_channel_take_event(ch, false, cq);
	}
	if (err != -EAGAIN)
		return err;
	if (!xp_channel_never_blocks(ch))
		return comp_channel_take_event(ch, true, cq);
	if (woken && !take_early(ch, cq, done))
		return 0;
	/* Another thread may just be raising the event of the CQ that was armed. */
	done = run_round(ch);
	err = comp_channel_take_event(ch, false, cq);
	return err == -EAGAIN ? take_early(ch, cq, done) : err;
}

/* ---- all channels -------------------------------------------------------------- */

/* Where its events come from. Takes fd, its descriptor. */
static int open_events(struct xp_channel *ch, int fd)
{
	struct xp_context *ctx = ch->ctx;

	ch->ibch.fd = fd;
	if (ctx->host) {
		pthread_mutex_lock(&ctx->conn_lock);
		ch->host = ctx->host_ops->channel(ctx->host, ch->handle);
		pthread_mutex_unlock(&ctx->conn_lock);
		return 0;
	}
	ch->events = xp_event_socket_new(fd, sizeof(uint64_t));
	if (ch->events)
		return 0;
	close(fd);
	return xp_refuse_memory("ibv_create_comp_channel");
}

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
		return xp_null(xp_refuse_memory("ibv_create_comp_channel"));
	ch->ctx = xp_ctx(xp_process_context(ibctx));
	err = xp_call(ch->ctx, &call);
	if (!err && !call.rep_nfds)
		err = -EPROTO;
	if (!err) {
		ch->handle = rep.handle;
		err = open_events(ch, fd);
		if (err)
			xp_release(ch->ctx, XR_MSG_DESTROY_CHANNEL, rep.handle, NULL);
	}
	if (err) {
		free(ch);
		return xp_null(err);
	}
	ch->ibch.context = ch->ctx->shown;
	return &ch->ibch;
}

int xp_destroy_comp_channel(struct ibv_comp_channel *ibch)
{
	struct xp_channel *ch = xp_channel(ibch);
	struct xp_context *ctx = xp_channel(ibch)->ctx;
	int err;

	pthread_mutex_lock(&ibch->context->mutex);
	err = ibch->refcnt ? -EBUSY : 0;
	pthread_mutex_unlock(&ibch->context->mutex);
	if (err)
		xp_refuse("ibv_destroy_comp_channel", err, "%d CQs use the channel", ibch->refcnt);
	else
		err = xp_release(ctx, XR_MSG_DESTROY_CHANNEL, ch->handle, NULL);
	if (err)
		return -err;
	xp_channel_close_set(ch);
	xp_event_socket_free(ch->events);
	free(ch);
	return 0;
}

/*
 * Finds a CQ that is armed and has completions, also those generated because the daemon is gone,
 * and disarms it. Returns NULL if there is none.
 */
static struct xp_cq *notify_armed_cq(struct xp_channel *ch)
{
	struct xp_cq *cq;

	pthread_mutex_lock(&ch->ibch.context->mutex);
	for (cq = ch->cqs; cq; cq = cq->next_on_channel) {
		if (xp_cq_has_work(cq) &&
		    __atomic_exchange_n(&cq->ring.queue->word, 0, __ATOMIC_ACQ_REL)) {
			cq->comp_early++;
			break;
		}
	}
	pthread_mutex_unlock(&ch->ibch.context->mutex);
	return cq;
}

int xp_get_cq_event(struct ibv_comp_channel *ibch, struct ibv_cq **ibcq, void **cq_context)
{
	struct xp_channel *ch = xp_channel(ibch);
	struct xp_context *ctx = xp_channel(ibch)->ctx;
	struct xp_cq *cq;
	int err;

	if (xp_health(ctx) == XP_FORKED)
		return xp_fail(xp_refuse("ibv_get_cq_event", EIO, "%s", XP_FORKED_TEXT));
	pthread_testcancel(); /* also if there is an event already */
	err = ctx->host ? take_direct(ch, &cq) : xp_event_read(ch->events, &cq, cq_counter);
	if (err == -ENODATA) {
		xp_set_gone(ctx);
		cq = notify_armed_cq(ch);
		err = cq ? 0 : -EIO;
	}
	if (err)
		return xp_fail(err);
	__atomic_store_n(&cq->unpolled_event, true, __ATOMIC_RELAXED);
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

void xp_channel_join(struct xp_cq *cq, struct ibv_comp_channel *ibch)
{
	struct xp_channel *ch = xp_channel(ibch);

	pthread_mutex_lock(&ibch->context->mutex);
	ibch->refcnt++;
	cq->next_on_channel = ch->cqs;
	ch->cqs = cq;
	pthread_mutex_unlock(&ibch->context->mutex);
}

void xp_channel_leave(struct xp_cq *cq)
{
	struct ibv_comp_channel *ibch = cq->ibcq.channel;
	struct xp_cq **p;

	pthread_mutex_lock(&ibch->context->mutex);
	for (p = &xp_channel(ibch)->cqs; *p != cq; p = &(*p)->next_on_channel)
		;
	*p = cq->next_on_channel;
	ibch->refcnt--;
	pthread_mutex_unlock(&ibch->context->mutex);
}
