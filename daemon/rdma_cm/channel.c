// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Channels and their queues of events.
 *
 * The event descriptor that programs poll is a timer, which has expired while there are events. A
 * client that shares an eventfd with the daemon could make it blocking and full, and so block the
 * daemon, which must not happen to the control thread; the calls for timers never block.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "daemon/base/loop.h"
#include "id.h"

/* ---- the queue ------------------------------------------------------------------ */

/* Of <linux/timerfd.h>, which cannot be included together with <sys/timerfd.h> */
#define TFD_IOC_SET_TICKS _IOW('T', 0, uint64_t)

static struct xd_cm_event *event_of(struct xt_list *in_channel)
{
	return (struct xd_cm_event *)in_channel;
}

static struct xd_cm_event *event_of_id(struct xt_list *in_id)
{
	return container_of(in_id, struct xd_cm_event, in_id);
}

/* Makes the descriptor readable if and only if there are events. */
static void set_readable(struct xd_cm_channel *ch)
{
	struct itimerspec when = { .it_value.tv_nsec = xt_list_empty(&ch->events) ? 0 : 1 };

	timerfd_settime(ch->fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/*
 * Wakes those that wait for the descriptor also if it is readable already, as the kernel does for
 * each event: a program that waits for edges (EPOLLET) may read one event only, or stop reading
 * after an error. A kernel without CONFIG_CHECKPOINT_RESTORE has no such call.
 */
static void channel_wake(struct xd_cm_channel *ch, bool readable)
{
	const uint64_t ticks = 1;

	if (ioctl(ch->fd, TFD_IOC_SET_TICKS, &ticks) && !readable)
		set_readable(ch);
}

static void channel_append(struct xd_cm_channel *ch, struct xd_cm_event *ev)
{
	bool readable = !xt_list_empty(&ch->events);

	xt_list_add_tail(&ch->events, &ev->in_channel);
	xt_list_add_tail(&ev->id->queued, &ev->in_id);
	ev->id->events_queued++;
	channel_wake(ch, readable);
}

static struct xd_cm_event *channel_take(struct xd_cm_channel *ch, struct xd_cm_event *ev)
{
	xt_list_del(&ev->in_channel);
	xt_list_del(&ev->in_id);
	ev->id->events_queued--;
	if (xt_list_empty(&ch->events))
		set_readable(ch);
	return ev;
}

struct xd_cm_event *xd_cm_channel_take_event(struct xd_cm_channel *ch)
{
	return xt_list_empty(&ch->events) ? NULL : channel_take(ch, event_of(ch->events.next));
}

bool xd_cm_channel_next_is(const struct xd_cm_channel *ch, const struct xd_cm_id *id)
{
	return !xt_list_empty(&ch->events) && event_of(ch->events.next)->id == id;
}

/* ---- events --------------------------------------------------------------------- */

/* Memory of queued events counts for the user, so that a program cannot queue any number. */
static const struct xd_bytes event_bytes = { .memory = sizeof(struct xd_cm_event) };

static bool channel_is_failure(uint32_t type, int status)
{
	switch (type) {
	case XD_CM_EVENT_ADDR_ERROR:
	case XD_CM_EVENT_ROUTE_ERROR:
	case XD_CM_EVENT_CONNECT_ERROR:
	case XD_CM_EVENT_UNREACHABLE:
	case XD_CM_EVENT_REJECTED:
	case XD_CM_EVENT_DEVICE_REMOVAL:
	case XD_CM_EVENT_MULTICAST_ERROR:
	case XD_CM_EVENT_ADDR_CHANGE:
		return true;
	default:
		return type < XD_CM_EVENT_USER && status;
	}
}

struct xd_cm_event *xd_cm_event_new(struct xd_cm_id *id, uint32_t type, int status)
{
	struct xd_cm_event *ev;

	id->events++;
	if (channel_is_failure(type, status))
		id->failure = (struct xd_cm_failure){ xd_now(), type, status };
	if (xd_user_charge(id->obj.client, event_bytes))
		return NULL;
	ev = calloc(1, sizeof(*ev));
	if (!ev) {
		xd_user_uncharge(id->obj.client, event_bytes);
		return NULL;
	}
	xt_list_init(&ev->in_channel);
	xt_list_init(&ev->in_id);
	ev->id = id;
	ev->body.uid = id->uid;
	ev->body.id = id->number;
	ev->body.event = type;
	ev->body.status = (uint32_t)status;
	return ev;
}

void xd_cm_event_free(struct xd_cm_event *ev)
{
	xd_user_uncharge(ev->id->obj.client, event_bytes);
	if (ev->request)
		ev->request->request_event = NULL;
	if (ev->join)
		ev->join->event = NULL;
	free(ev);
}

void xd_cm_event_add(struct xd_cm_event *ev)
{
	if (ev->id->uid)
		channel_append(ev->id->obj.client->cm_channel, ev);
	else
		xd_cm_event_free(ev);
}

void xd_cm_event_raise(struct xd_cm_id *id, uint32_t type, int status)
{
	struct xd_cm_event *ev = xd_cm_event_new(id, type, status);

	if (ev)
		xd_cm_event_add(ev);
}

void xd_cm_event_discard(struct xd_cm_event *ev)
{
	xd_cm_event_free(channel_take(ev->id->obj.client->cm_channel, ev));
}

bool xd_cm_event_discard_next(struct xd_cm_id *id, struct xd_cm_id **request)
{
	struct xd_cm_event *ev = id->request_event;

	*request = NULL;
	if (!ev && xt_list_empty(&id->queued))
		return false;
	if (!ev) {
		ev = event_of_id(id->queued.next);
		*request = ev->request;
	}
	xd_cm_event_discard(ev);
	return true;
}

void xd_cm_events_move(struct xd_cm_id *id, struct xd_cm_channel *from, struct xd_cm_channel *to)
{
	struct xt_list events;

	xt_list_init(&events);
	xt_list_move_all(&events, &id->queued);
	while (!xt_list_empty(&events))
		channel_append(to, channel_take(from, event_of_id(events.next)));
}

/* ---- parameters of events -------------------------------------------------------- */

void xd_cm_event_set_data(struct xd_cm_event *ev, uint8_t qp_type, const struct xc_data *data,
			  uint32_t skip)
{
	uint8_t len = data->len > skip ? (uint8_t)(data->len - skip) : 0;
	const uint8_t *from = (const uint8_t *)data->data + skip;

	if (qp_type == IBV_QPT_UD) {
		memcpy(ev->body.param.ud.private_data, from, len);
		ev->body.param.ud.private_data_len = len;
	} else {
		memcpy(ev->body.param.conn.private_data, from, len);
		ev->body.param.conn.private_data_len = len;
	}
}

/* The peer's responder resources limit the program as initiator, and vice versa. */
void xd_cm_event_set_req(struct xd_cm_event *ev, const struct xc_req *req)
{
	struct rdma_ucm_conn_param *p = &ev->body.param.conn;

	p->responder_resources = req->initiator_depth;
	p->initiator_depth = req->responder_resources;
	p->flow_control = req->flow_control;
	p->retry_count = req->retry_count;
	p->rnr_retry_count = req->rnr_retry_count;
	p->srq = req->srq;
	p->qp_num = req->qpn;
	ev->body.ece = (struct rdma_ucm_ece){ req->vendor_id, req->ece_options };
}

/* ---- start and end -------------------------------------------------------------- */

int xd_cm_channel_hello(struct xd_client *c, uint8_t token[XR_TOKEN_LEN], struct xd_reply *rep)
{
	struct xd_cm_channel *ch = calloc(1, sizeof(*ch));
	int err = 0;

	if (!ch)
		return -ENOMEM;
	xt_list_init(&ch->events);
	ch->fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (ch->fd < 0)
		err = -errno;
	else if (getrandom(ch->token, XR_TOKEN_LEN, 0) != XR_TOKEN_LEN)
		err = -EIO;
	if (err) {
		if (ch->fd >= 0)
			close(ch->fd);
		free(ch);
		return err;
	}
	c->cm_channel = ch;
	memcpy(token, ch->token, XR_TOKEN_LEN);
	xd_reply_fd(rep, ch->fd, true);
	return 0;
}

static bool channel_has_token(const struct xd_client *c, const uint8_t *token)
{
	uint8_t differs = 0;
	uint32_t i;

	for (i = 0; i < XR_TOKEN_LEN; i++)
		differs |= c->cm_channel->token[i] ^ token[i];
	return !differs;
}

struct xd_client *xd_cm_channel_by_token(struct xd_client *c, const uint8_t *token)
{
	struct xd_client *of = c->clients->first;

	while (of && (!of->cm_channel || of->ending || of->user != c->user ||
		      !channel_has_token(of, token)))
		of = of->next;
	return of;
}

void xd_cm_channel_close(struct xd_client *c)
{
	if (!c->cm_channel)
		return;
	close(c->cm_channel->fd);
	free(c->cm_channel);
	c->cm_channel = NULL;
}
