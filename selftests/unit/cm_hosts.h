/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Two CM engines without a network. MADs that an engine sends wait in a queue; a test delivers,
 * loses or repeats them. Events are recorded. Time stands still unless a test advances it.
 */
#ifndef CM_HOSTS_H
#define CM_HOSTS_H

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cm/cm.h"
#include "daemon/cm/mad.h"
#include "selftests/lib/tap.h"

#define C_QUEUE 256
#define C_SECOND 1000000000ull
#define C_RESPONSE 20 /* CM response timeout: 4.3 s */
#define C_RETRIES 15

struct c_mad {
	struct xc_path path; /* of the sender */
	uint8_t data[XC_MAD_LEN];
};

struct c_event {
	enum xc_event_type type;
	int status;
	struct xc_id *id;
	struct xc_msg msg; /* without valid pointers */
	bool has_msg;
	uint8_t data[XC_MAD_LEN]; /* private data */
	uint8_t data_len;
};

struct c_host {
	struct xc_cm *cm;
	struct c_host *peer;
	struct xr_addr gid;
	struct c_mad queue[C_QUEUE]; /* sent */
	unsigned queued;
	struct c_event event[C_QUEUE];
	unsigned events;
	bool ignores; /* calls xc_ignore() for new ids */
	/* Bytes that random() returns before it makes some up */
	uint8_t random[64];
	unsigned random_len;
	uint64_t seed;
};

static uint64_t c_now = C_SECOND;

static void c_send(void *ctx, const struct xc_path *path, const uint8_t mad[XC_MAD_LEN])
{
	struct c_host *h = ctx;
	struct c_mad *m = &h->queue[h->queued];

	if (h->queued == C_QUEUE)
		abort();
	m->path = *path;
	memcpy(m->data, mad, XC_MAD_LEN);
	h->queued++;
}

static struct xc_data c_data_of(const struct xc_msg *msg)
{
	switch (msg->kind) {
	case XC_REQ:
		return msg->req.data;
	case XC_REP:
		return msg->rep.data;
	case XC_REJ:
		return msg->rej.data;
	case XC_RTU:
	case XC_DREP:
		return msg->rtu.data;
	case XC_DREQ:
		return msg->dreq.data;
	case XC_SIDR_REQ:
		return msg->sidr_req.data;
	case XC_SIDR_REP:
		return msg->sidr_rep.data;
	default:
		return (struct xc_data){ NULL, 0 };
	}
}

static void c_event(void *ctx, struct xc_id *id, const struct xc_event *event)
{
	struct c_host *h = ctx;
	struct c_event *e = &h->event[h->events];
	struct xc_data data;

	if (h->events++ == C_QUEUE)
		abort();
	*e = (struct c_event){ .type = event->type, .status = event->status, .id = id };
	if (event->msg) {
		e->has_msg = true;
		e->msg = *event->msg;
		data = c_data_of(event->msg);
		e->data_len = data.len;
		memcpy(e->data, data.data ? data.data : "", data.len);
	}
	if (h->ignores && (e->type == XC_EVENT_REQ || e->type == XC_EVENT_SIDR_REQ))
		xc_ignore(id);
}

static uint64_t c_time(void *ctx)
{
	return c_now;
}

static void c_random(void *ctx, void *buf, size_t len)
{
	struct c_host *h = ctx;
	uint8_t *p = buf;

	if (h->random_len >= len) {
		memcpy(p, h->random, len);
		h->random_len -= len;
		memmove(h->random, h->random + len, h->random_len);
		return;
	}
	while (len--) {
		h->seed = h->seed * 6364136223846793005ull + 1442695040888963407ull;
		*p++ = h->seed >> 56;
	}
}

static const struct xc_ops c_ops = {
	.send = c_send,
	.event = c_event,
	.now = c_time,
	.random = c_random,
};

__attribute__((unused)) static void c_start(struct c_host *h, uint32_t ip, uint64_t guid)
{
	static uint64_t starts;
	struct xc_config config = {
		.guid = guid,
		.mra_timeout = 24,
		.max_ids = 1000,
		.max_half_open = 100,
		.max_source_half_open = 50,
	};

	xr_gid_set_ipv4(&h->gid, htobe32(ip));
	h->seed = ++starts;
	h->cm = xc_new(&config, &c_ops, h);
}

/* Makes two hosts, 10.9.0.1 and 10.9.0.2. */
__attribute__((unused)) static void c_new(struct c_host **a, struct c_host **b)
{
	*a = calloc(1, sizeof(**a));
	*b = calloc(1, sizeof(**b));
	(*a)->peer = *b;
	(*b)->peer = *a;
	c_start(*a, 0x0a090001, 0x505400fffed9d100);
	c_start(*b, 0x0a090002, 0x505400fffe96a500);
}

__attribute__((unused)) static void c_free(struct c_host *a)
{
	xc_free(a->cm);
	free(a);
}

__attribute__((unused)) static struct xc_path c_path(const struct c_host *h)
{
	return (struct xc_path){ .local = h->gid, .peer = h->peer->gid, .hop_limit = 64 };
}

/* Passes a MAD of the host to its peer. */
__attribute__((unused)) static void c_pass(struct c_host *h, const struct c_mad *m)
{
	struct xc_path path = m->path;

	path.local = m->path.peer;
	path.peer = m->path.local;
	path.hop_limit--;
	xc_receive(h->peer->cm, &path, m->data, XC_MAD_LEN);
}

__attribute__((unused)) static struct xc_msg c_decode(const struct c_mad *m)
{
	struct xc_msg msg;

	if (xc_mad_decode(m->data, XC_MAD_LEN, &msg) != XC_DECODED)
		abort();
	return msg;
}

/* Removes the oldest MAD from the queue and returns its kind, XC_NUM_KINDS: the queue is empty. */
__attribute__((unused)) static enum xc_kind c_take(struct c_host *h, struct c_mad *m)
{
	if (!h->queued)
		return XC_NUM_KINDS;
	*m = h->queue[0];
	memmove(h->queue, h->queue + 1, --h->queued * sizeof(*m));
	return c_decode(m).kind;
}

/* Delivers the oldest MAD of the host's queue and returns its kind. */
__attribute__((unused)) static enum xc_kind c_deliver(struct c_host *h)
{
	struct c_mad m;
	enum xc_kind kind = c_take(h, &m);

	if (kind != XC_NUM_KINDS)
		c_pass(h, &m);
	return kind;
}

/* Loses the oldest MAD of the host's queue and returns its kind. */
__attribute__((unused)) static enum xc_kind c_lose(struct c_host *h)
{
	struct c_mad m;

	return c_take(h, &m);
}

/* Delivers MADs both ways until none is left. */
__attribute__((unused)) static void c_settle(struct c_host *h)
{
	while (h->queued || h->peer->queued) {
		c_deliver(h);
		c_deliver(h->peer);
	}
}

__attribute__((unused)) static struct c_event *c_last(struct c_host *h)
{
	static struct c_event none = { .type = -1 };

	return h->events ? &h->event[h->events - 1] : &none;
}

/* Runs the timers of both hosts for some seconds. Delivers MADs unless they are to be lost. */
__attribute__((unused)) static void c_wait(struct c_host *h, unsigned seconds, bool lose)
{
	uint64_t end = c_now + seconds * C_SECOND, next, other;

	for (;;) {
		if (lose)
			h->queued = h->peer->queued = 0;
		c_settle(h);
		next = xc_deadline(h->cm);
		other = xc_deadline(h->peer->cm);
		next = other < next ? other : next;
		if (next > end)
			break;
		c_now = next > c_now ? next : c_now;
		xc_run(h->cm);
		xc_run(h->peer->cm);
	}
	c_now = end;
}

__attribute__((unused)) static struct xc_req c_req(const struct c_host *h)
{
	return (struct xc_req){
		.path = c_path(h),
		.service_id = xc_ip_service_id(0x106, 7174),
		.transport = XC_RC,
		.qpn = 0x27,
		.starting_psn = 0x520cc5,
		.responder_resources = 1,
		.initiator_depth = 1,
		.remote_response_timeout = C_RESPONSE,
		.local_response_timeout = C_RESPONSE,
		.max_cm_retries = C_RETRIES,
		.retry_count = 7,
		.rnr_retry_count = 7,
		.ack_timeout = 17,
		.mtu = 3,
		.pkey = 0xffff,
		.data = { "hello", 5 },
	};
}

__attribute__((unused)) static struct xc_rep c_rep(void)
{
	return (struct xc_rep){
		.qpn = 0x31,
		.starting_psn = 0xa29824,
		.responder_resources = 1,
		.initiator_depth = 1,
		.target_ack_delay = 15,
		.rnr_retry_count = 7,
		.data = { "welcome", 7 },
	};
}

__attribute__((unused)) static struct xc_id *c_connect(struct c_host *h)
{
	struct xc_req req = c_req(h);
	struct xc_id *id = NULL;

	xc_connect(h->cm, &req, NULL, &id);
	return id;
}

struct c_pair {
	struct xc_id *active, *passive;
};

/* Connects a to b. */
__attribute__((unused)) static struct c_pair c_established(struct c_host *a)
{
	struct c_host *b = a->peer;
	struct xc_rep rep = c_rep();
	struct c_pair p;

	p.active = c_connect(a);
	c_settle(a);
	p.passive = c_last(b)->id;
	xc_accept(p.passive, &rep);
	c_settle(a);
	xc_establish(p.active, NULL);
	c_settle(a);
	return p;
}

__attribute__((unused)) static bool c_is(const struct xc_id *id, enum xc_state state)
{
	return xc_info(id)->state == state;
}

#endif /* CM_HOSTS_H */
