// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The CM engine: limits, invalid arguments, and peers that send unexpected or invalid MADs. */
#include <errno.h>

#include "cm_pair.h"

/* ---- limits ---------------------------------------------------------------------- */

static void test_limits(void)
{
	struct xc_req req;
	struct xc_id *id;
	unsigned made = 0;

	begin();
	for (unsigned i = 0; i < 60; i++) {
		req = c_req(a);
		req.qpn = 100 + i;
		made += !xc_connect(a->cm, &req, NULL, &id);
	}
	c_settle(a);
	TAP_OK(made == 60 && b->events == 50, "a peer has at most 50 half-open connections");
	TAP_OK(xc_counters(b->cm)->limited == 10, "REQs beyond the limit are counted");
	for (unsigned i = 0; i < 10; i++)
		xc_destroy(b->event[i].id);
	c_wait(a, 6, false);
	TAP_OK(b->events == 60, "they are successful later");
	while ((id = xc_next(a->cm, NULL)) && !xc_info(id)->orphan)
		xc_destroy(id);
	for (unsigned i = 10; i < 60; i++)
		xc_destroy(b->event[i].id);
	end("limits");

	begin();
	b->ignores = true;
	id = c_connect(a);
	c_settle(a);
	TAP_OK(b->events == 1 && !xc_gauges(b->cm).ids, "an ignored REQ leaves no id");
	c_wait(a, 6, false);
	TAP_OK(b->events == 2, "the peer tries again");
	xc_destroy(id);
	end("ignored");
}

static void test_max_ids(void)
{
	struct xc_id *id;
	unsigned i;

	begin();
	for (i = 0; i < 1001 && c_connect(a); i++)
		a->queued = 0;
	TAP_OK(i == 1000, "the number of ids is limited");
	while ((id = xc_next(a->cm, NULL))) {
		xc_destroy(id);
		a->queued = 0;
	}
	end("ids");
}

/* MADs for a connection from another address change nothing. */
static void test_other_peer(void)
{
	static const enum xc_kind kinds[] = { XC_REJ, XC_DREQ, XC_DREP, XC_REP, XC_RTU, XC_MRA };
	struct c_mad m = { 0 };
	struct c_pair p;

	begin();
	p = c_established(a);
	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct xc_msg msg = {
			.kind = kinds[i],
			.local_id = xc_info(p.active)->local_id,
			.remote_id = xc_info(p.passive)->local_id,
		};

		if (kinds[i] == XC_DREQ)
			msg.dreq.qpn = 0x31;
		if (kinds[i] == XC_REJ)
			msg.rej.message = XC_MESSAGE_OTHER;
		m.path = c_path(a);
		m.path.local.raw[15] = 3;
		xc_mad_encode(m.data, &msg);
		c_pass(a, &m);
		b->queued = 0;
		TAP_OK(c_is(p.passive, XC_ESTABLISHED), "%s of another address",
		       xc_kind_name(kinds[i]));
	}
	xc_destroy(p.active);
	xc_destroy(p.passive);
	end("other peer");
}

/* A REJ without our communication ID ends half-open connections only. */
static void test_rej_by_guid(void)
{
	static const uint8_t guid[8] = { 0x50, 0x54, 0x00, 0xff, 0xfe, 0xd9, 0xd1, 0x00 };
	struct xc_msg rej = {
		.kind = XC_REJ,
		.rej = { .reason = XC_REJ_TIMEOUT, .message = 2, .ari = { guid, sizeof(guid) } },
	};
	struct c_mad m = { 0 };
	struct c_pair p;

	begin();
	p = c_established(a);
	rej.local_id = xc_info(p.active)->local_id;
	m.path = c_path(a);
	xc_mad_encode(m.data, &rej);
	c_pass(a, &m);
	TAP_OK(c_is(p.passive, XC_ESTABLISHED) && xc_counters(b->cm)->unexpected[XC_REJ] == 1,
	       "a REJ by GUID is ignored after the RTU");
	xc_destroy(p.active);
	xc_destroy(p.passive);
	end("REJ by GUID");
}

static void test_invalid_req(void)
{
	struct xc_id *id;
	struct c_mad m;

	begin();
	id = c_connect(a);
	m = a->queue[0];
	a->queued = 0;
	m.data[24 + 43] |= 2 << 1; /* RD */
	c_pass(a, &m);
	TAP_OK(!b->events && c_decode(&b->queue[0]).rej.reason == XC_REJ_TRANSPORT,
	       "a REQ for RD is rejected");
	b->queued = 0;
	m.data[24 + 43] &= ~6;
	m.data[24 + 87] = 77; /* primary remote GID */
	c_pass(a, &m);
	TAP_OK(!b->events && c_decode(&b->queue[0]).rej.reason == XC_REJ_GID &&
		       c_decode(&b->queue[0]).rej.ari.len == 16,
	       "a REQ for another GID is rejected");
	b->queued = 0;
	m.data[2] = 3; /* class version */
	c_pass(a, &m);
	TAP_OK(c_decode(&b->queue[0]).rej.reason == XC_REJ_CLASS_VERSION,
	       "a REQ of another class version is rejected");
	b->queued = 0;
	m.data[1] = 4;
	TAP_OK(!xc_receive(b->cm, &m.path, m.data, XC_MAD_LEN), "another class is no CM MAD");
	m.data[1] = 7;
	TAP_OK(!xc_receive(b->cm, &m.path, m.data, 255), "nor is a short MAD");
	m.data[3] = 0x81;
	c_pass(a, &m);
	TAP_OK(!b->queued && xc_counters(b->cm)->malformed == 2, "another method is malformed");
	xc_destroy(id);
	end("invalid REQ");
}

static void test_invalid_arguments(void)
{
	struct xc_sidr_param param = { .max_cm_retries = 16 };
	struct xc_req req;
	struct xc_id *id;

	begin();
	req = c_req(a);
	req.qpn = 1 << 24;
	TAP_OK(xc_connect(a->cm, &req, NULL, &id) == -EINVAL, "a QPN of more than 24 bits");
	req = c_req(a);
	req.mtu = 6;
	TAP_OK(xc_connect(a->cm, &req, NULL, &id) == -EINVAL, "an unknown MTU");
	req = c_req(a);
	req.data.len = XC_REQ_DATA + 1;
	TAP_OK(xc_connect(a->cm, &req, NULL, &id) == -EINVAL, "too much private data");
	TAP_OK(xc_sidr_request(a->cm, &param, NULL, &id) == -EINVAL, "too many retries");
	end("invalid arguments");
}

/* ---- messages in unexpected states --------------------------------------------------- */

/* Passes a message from the active to the passive end, or back. */
static void pass_msg(struct c_host *from, struct xc_msg *msg)
{
	struct c_mad m = { .path = c_path(from) };

	xc_mad_encode(m.data, msg);
	c_pass(from, &m);
}

static void test_stale_rep(void)
{
	struct xc_rep rep = c_rep();
	struct c_pair p;
	struct xc_id *id;
	struct xc_req req;

	begin();
	p = c_established(a);
	/* The passive side uses the QP of its connection again. */
	req = c_req(a);
	req.qpn = 0x99;
	xc_connect(a->cm, &req, NULL, &id);
	c_settle(a);
	xc_accept(c_last(b)->id, &rep);
	c_settle(a);
	TAP_OK(b->event[b->events - 2].type == XC_EVENT_REJECTED &&
		       b->event[b->events - 2].msg.rej.reason == XC_REJ_STALE &&
		       b->event[b->events - 2].msg.rej.message == XC_MESSAGE_REP,
	       "a REP with the QPN of a connection is rejected as stale");
	TAP_OK(c_last(b)->type == XC_EVENT_DREQ && c_last(b)->id == p.passive,
	       "the old connection is disconnected");
	c_wait(a, 6, false);
	TAP_OK(c_last(b)->type == XC_EVENT_REQ, "the retry of the REQ is a new request");
	xc_destroy(c_last(b)->id);
	xc_destroy(id);
	xc_destroy(p.active);
	xc_destroy(p.passive);
	xc_destroy(b->event[2].id);
	end("stale REP");
}

static void test_late_messages(void)
{
	struct xc_msg rep = { .kind = XC_REP }, dreq = { .kind = XC_DREQ };
	struct xc_rep accepted = c_rep();
	struct xc_id *id, *peer;
	struct c_mad m;

	begin();
	id = c_connect(a);
	c_settle(a);
	peer = c_last(b)->id;
	dreq.local_id = xc_info(id)->local_id;
	dreq.remote_id = xc_info(peer)->local_id;
	pass_msg(a, &dreq);
	TAP_OK(c_is(peer, XC_REQ_RCVD) && c_lose(b) == XC_DREP, "a DREQ before the REP");
	xc_accept(peer, &accepted);
	m = b->queue[0];
	c_settle(a);
	xc_mra(id, 20);
	c_settle(a);
	c_pass(b, &m);
	TAP_OK(c_lose(a) == XC_MRA, "a second REP after the MRA gets the MRA again");
	xc_establish(id, NULL);
	c_settle(a);
	dreq.dreq.qpn = 0x32;
	pass_msg(a, &dreq);
	TAP_OK(c_is(peer, XC_ESTABLISHED) && !b->queued, "a DREQ for another QPN is ignored");
	xc_disconnect(id, NULL);
	c_settle(a);
	xc_reply_disconnect(peer, NULL);
	c_settle(a);
	c_wait(a, 2, false);
	c_pass(b, &m);
	TAP_OK(c_is(id, XC_IDLE) && c_decode(&a->queue[0]).rej.reason == XC_REJ_COMM_ID,
	       "a REP after the end is rejected");
	c_lose(a);
	rep.remote_id = 12345;
	pass_msg(b, &rep);
	TAP_OK(c_decode(&a->queue[0]).rej.reason == XC_REJ_COMM_ID, "as is a REP for no id");
	c_lose(a);
	xc_destroy(id);
	xc_destroy(peer);
	end("late messages");
}

/* A peer cannot have two connections with one communication ID. */
static void test_id_of_another_connection(void)
{
	struct xc_msg msg = { .kind = XC_REP, .rep = { .qpn = 0x77 } };
	struct c_pair p;
	struct xc_req req;
	struct xc_id *id;

	begin();
	p = c_established(a);
	req = c_req(a);
	req.qpn = 0x99;
	xc_connect(a->cm, &req, NULL, &id);
	msg.local_id = xc_info(p.passive)->local_id;
	msg.remote_id = xc_info(id)->local_id;
	msg.rep.guid = xc_info(p.active)->remote_guid;
	pass_msg(b, &msg);
	TAP_OK(c_is(id, XC_REQ_SENT) && c_is(p.active, XC_ESTABLISHED),
	       "a REP with the communication ID of another connection is ignored");
	c_settle(a);
	msg = (struct xc_msg){ .kind = XC_MRA };
	msg.local_id = xc_info(id)->local_id;
	msg.remote_id = xc_info(c_last(b)->id)->local_id;
	msg.mra.message = XC_MESSAGE_REQ;
	msg.mra.service_timeout = 24;
	xc_accept(c_last(b)->id, &(struct xc_rep){ .qpn = 0x77 });
	pass_msg(a, &msg);
	TAP_OK(c_is(c_last(b)->id, XC_REP_SENT), "as is an MRA of a REQ after the REP");
	xc_destroy(c_last(b)->id);
	xc_destroy(id);
	xc_destroy(p.active);
	xc_destroy(p.passive);
	end("ID of another connection");
}

static void test_same_qp_after_rej(void)
{
	struct xc_rej rej = { .reason = XC_REJ_CONSUMER };
	struct xc_id *id, *again, *peer;

	begin();
	id = c_connect(a);
	c_settle(a);
	peer = c_last(b)->id;
	xc_reject(peer, &rej);
	c_settle(a);
	again = c_connect(a);
	c_settle(a);
	TAP_OK(c_last(b)->type == XC_EVENT_REQ && c_last(b)->id != peer,
	       "a QP that was rejected may connect again");
	xc_destroy(peer);
	xc_destroy(c_last(b)->id);
	xc_destroy(id);
	xc_destroy(again);
	end("same QP after REJ");
}

/* Request IDs of SIDR and communication IDs are independent; the GUID of a REQ may be 0. */
static void test_sidr_and_req_ids(void)
{
	struct xc_msg req = { .kind = XC_REQ, .local_id = 5 };
	struct xc_msg sidr = { .kind = XC_SIDR_REQ, .local_id = 5 };

	begin();
	req.req = c_req(a);
	pass_msg(a, &req);
	pass_msg(a, &sidr);
	TAP_OK(b->events == 2 && c_last(b)->type == XC_EVENT_SIDR_REQ,
	       "a SIDR_REQ with the ID of a REQ is another request");
	xc_destroy(b->event[0].id);
	xc_destroy(b->event[1].id);
	end("SIDR and REQ");
}

static void test_sidr_messages(void)
{
	struct xc_msg rep = { .kind = XC_SIDR_REP, .remote_id = 1 };
	struct xc_msg req = { .kind = XC_SIDR_REQ, .local_id = 1 };
	struct c_mad m = { 0 };

	begin();
	pass_msg(b, &rep);
	TAP_OK(xc_counters(a->cm)->unexpected[XC_SIDR_REP] == 1, "a SIDR_REP without a request");
	m.path = c_path(a);
	xc_mad_encode(m.data, &req);
	m.data[2] = 1;
	c_pass(a, &m);
	TAP_OK(c_decode(&b->queue[0]).sidr_rep.status == XC_SIDR_VERSION,
	       "a SIDR_REQ of another class version");
	c_settle(a);
	for (unsigned i = 1; i <= 60; i++) {
		req.local_id = i;
		pass_msg(a, &req);
	}
	TAP_OK(b->events == 50 && xc_counters(b->cm)->limited == 10,
	       "a peer has at most 50 requests without a reply");
	for (unsigned i = 0; i < 50; i++)
		xc_destroy(b->event[i].id);
	end("SIDR messages");
}

/* Hostile timeouts: ids do not stay for hours. */
static void test_long_timeouts(void)
{
	struct xc_rep rep = c_rep();
	struct xc_req req;
	struct xc_id *id, *peer;

	begin();
	req = c_req(a);
	req.local_response_timeout = req.remote_response_timeout = req.ack_timeout = 31;
	req.path.hop_limit = 0;
	xc_connect(a->cm, &req, NULL, &id);
	c_settle(a);
	peer = c_last(b)->id;
	TAP_OK(xc_info(peer)->path.hop_limit, "a hop limit of 0 is not used");
	xc_accept(peer, &rep);
	TAP_OK(xc_deadline(b->cm) < c_now + 20 * C_SECOND,
	       "a response timeout of 2.4 h is limited");
	c_settle(a);
	xc_mra(id, 31);
	c_settle(a);
	TAP_OK(c_is(peer, XC_MRA_REP_RCVD) && xc_deadline(b->cm) < c_now + 160 * C_SECOND,
	       "as is a service timeout");
	xc_establish(id, NULL);
	c_settle(a);
	xc_disconnect(id, NULL);
	c_settle(a);
	xc_reply_disconnect(peer, NULL);
	TAP_OK(xc_deadline(b->cm) < c_now + 10 * C_SECOND, "and TIMEWAIT");
	c_settle(a);
	xc_destroy(id);
	xc_destroy(peer);
	end("long timeouts");
}

/* Rejected requests are kept for duplicates, but not without limit. */
static void test_many_rejected(void)
{
	struct xc_msg req = { .kind = XC_REQ };

	begin();
	req.req = c_req(a);
	for (unsigned i = 1; i <= 5000; i++) {
		req.local_id = i;
		req.req.qpn = i;
		pass_msg(a, &req);
		xc_destroy(c_last(b)->id);
		a->queued = b->queued = b->events = 0;
	}
	TAP_OK(xc_gauges(b->cm).ids == 1000, "rejected requests make room for new ones");
	pass_msg(a, &req);
	TAP_OK(!b->events && c_lose(b) == XC_REJ, "the last one is still known");
	req.local_id = req.req.qpn = 1;
	pass_msg(a, &req);
	TAP_OK(b->events == 1, "the first one is not");
	xc_destroy(c_last(b)->id);
	end("many rejected");
}

int main(void)
{
	test_limits();
	test_max_ids();
	test_many_rejected();
	test_invalid_arguments();
	test_other_peer();
	test_rej_by_guid();
	test_invalid_req();
	test_stale_rep();
	test_late_messages();
	test_id_of_another_connection();
	test_same_qp_after_rej();
	test_sidr_and_req_ids();
	test_sidr_messages();
	test_long_timeouts();
	return tap_end();
}
