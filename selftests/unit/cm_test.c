// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The CM engine: connections between two engines, with lost and repeated MADs, and crashes. */
#include <errno.h>

#include "cm_pair.h"

/* ---- a connection -------------------------------------------------------------- */

static void test_connection(void)
{
	struct xc_rep rep = c_rep();
	struct xc_id *id, *peer;

	begin();
	id = c_connect(a);
	TAP_OK(id && c_is(id, XC_REQ_SENT), "connect sends a REQ");
	TAP_OK(c_deliver(a) == XC_REQ && c_last(b)->type == XC_EVENT_REQ, "the peer reports it");
	TAP_OK(has_data(c_last(b), "hello", XC_REQ_DATA), "with its private data");
	peer = c_last(b)->id;
	TAP_OK(xc_gauges(b->cm).half_open == 1, "the connection is half-open");
	TAP_OK(!xc_accept(peer, &rep) && c_is(peer, XC_REP_SENT), "accept sends a REP");
	TAP_OK(c_deliver(b) == XC_REP && c_last(a)->type == XC_EVENT_REP, "which is reported");
	TAP_OK(has_data(c_last(a), "welcome", XC_REP_DATA), "with its private data");
	TAP_OK(xc_info(id)->remote_qpn == 0x31 && xc_info(peer)->remote_qpn == 0x27,
	       "both sides have the QPN of the peer");
	TAP_OK(!xc_establish(id, &(struct xc_data){ "go", 2 }), "establish sends an RTU");
	TAP_OK(c_deliver(a) == XC_RTU && c_last(b)->type == XC_EVENT_ESTABLISHED,
	       "the peer reports the connection");
	TAP_OK(has_data(c_last(b), "go", XC_RTU_DATA), "with the private data of the RTU");
	TAP_OK(!xc_gauges(b->cm).half_open, "the connection is not half-open");
	TAP_OK(!xc_disconnect(id, &(struct xc_data){ "bye", 3 }), "disconnect sends a DREQ");
	TAP_OK(c_deliver(a) == XC_DREQ && c_last(b)->type == XC_EVENT_DREQ, "which is reported");
	TAP_OK(has_data(c_last(b), "bye", XC_DREQ_DATA), "with its private data");
	TAP_OK(!xc_reply_disconnect(peer, NULL), "the peer replies");
	TAP_OK(c_deliver(b) == XC_DREP && c_last(a)->type == XC_EVENT_DISCONNECTED,
	       "the DREP is reported");
	TAP_OK(c_is(id, XC_TIMEWAIT) && c_is(peer, XC_TIMEWAIT), "both sides are in TIMEWAIT");
	c_wait(a, 1, false);
	TAP_OK(c_last(a)->type == XC_EVENT_TIMEWAIT_EXIT && c_is(id, XC_IDLE) &&
		       c_last(b)->type == XC_EVENT_TIMEWAIT_EXIT && c_is(peer, XC_IDLE),
	       "which they leave");
	TAP_OK(a->events == 3 && b->events == 4, "there are no other events");
	xc_destroy(id);
	xc_destroy(peer);
	end("connection");
}

static void test_calls_in_wrong_state(void)
{
	struct xc_rep rep = c_rep();
	struct xc_rej rej = { .reason = XC_REJ_CONSUMER };
	struct xc_id *id;

	begin();
	id = c_connect(a);
	TAP_OK(xc_accept(id, &rep) == -EINVAL, "accept of an id that sent a REQ");
	TAP_OK(xc_establish(id, NULL) == -EINVAL, "establish before the REP");
	TAP_OK(xc_disconnect(id, NULL) == -EINVAL, "disconnect before the REP");
	TAP_OK(xc_reply_disconnect(id, NULL) == -EINVAL, "reply to no DREQ");
	TAP_OK(xc_notify_established(id) == -EINVAL, "notify of the active side");
	TAP_OK(xc_mra(id, 20) == -EINVAL, "MRA for no message");
	TAP_OK(xc_sidr_reply(id, &(struct xc_sidr_rep){ 0 }) == -EINVAL, "reply to no SIDR_REQ");
	c_settle(a);
	rep.data.len = XC_REP_DATA + 1;
	TAP_OK(xc_accept(c_last(b)->id, &rep) == -EINVAL, "too much private data");
	rej.data.len = XC_REJ_DATA + 1;
	TAP_OK(xc_reject(c_last(b)->id, &rej) == -EINVAL, "too much private data in a REJ");
	xc_destroy(id);
	xc_destroy(c_last(b)->id);
	end("wrong state");
}

/* ---- retries ------------------------------------------------------------------- */

/* Connects with the first MAD of some kinds lost. */
static void test_lost(void)
{
	struct xc_rep rep = c_rep();
	struct xc_id *id, *peer;

	begin();
	id = c_connect(a);
	c_lose(a);
	c_wait(a, 6, false);
	TAP_OK(b->events == 1 && xc_counters(a->cm)->retried[XC_REQ] == 1, "a lost REQ is retried");
	peer = c_last(b)->id;
	xc_accept(peer, &rep);
	c_lose(b);
	c_wait(a, 6, false);
	TAP_OK(a->events == 1 && c_last(a)->type == XC_EVENT_REP, "a lost REP is retried");
	xc_establish(id, NULL);
	c_lose(a);
	TAP_OK(!c_is(peer, XC_ESTABLISHED), "the RTU is lost");
	c_wait(a, 80, false);
	TAP_OK(c_is(peer, XC_ESTABLISHED) && b->events == 2, "the REP is repeated, then the RTU");
	xc_disconnect(id, NULL);
	c_lose(a);
	c_wait(a, 6, false);
	TAP_OK(c_last(b)->type == XC_EVENT_DREQ && b->events == 3, "a lost DREQ is retried");
	xc_reply_disconnect(peer, NULL);
	c_lose(b);
	xc_destroy(peer);
	c_wait(a, 6, false);
	TAP_OK(a->event[1].type == XC_EVENT_DISCONNECTED && !a->event[1].status,
	       "a lost DREP is repeated after the peer destroyed its id");
	xc_destroy(id);
	end("lost MADs");
}

static void test_unreachable(void)
{
	struct xc_id *id;

	begin();
	id = c_connect(a);
	c_wait(a, 120, true);
	TAP_OK(xc_counters(a->cm)->sent[XC_REQ] == C_RETRIES + 1, "a REQ is sent 16 times");
	TAP_OK(a->events == 1 && c_last(a)->type == XC_EVENT_UNREACHABLE &&
		       c_last(a)->status == -ETIMEDOUT,
	       "then the peer is unreachable");
	TAP_OK(xc_counters(a->cm)->rej_sent[XC_REJ_TIMEOUT] == 1, "a REJ is sent");
	xc_destroy(id);
	end("unreachable");
}

/* The passive side gives up, but the active side has established the connection. */
static void test_rtu_lost_for_ever(void)
{
	struct xc_rep rep = c_rep();
	struct xc_id *id, *peer;

	begin();
	id = c_connect(a);
	c_settle(a);
	peer = c_last(b)->id;
	xc_accept(peer, &rep);
	c_settle(a);
	xc_establish(id, NULL);
	c_wait(a, 72, true);
	TAP_OK(c_last(b)->type == XC_EVENT_UNREACHABLE, "no RTU arrives: unreachable");
	TAP_OK(c_is(id, XC_ESTABLISHED), "the REJ is lost, too");
	c_wait(a, 6, false);
	TAP_OK(c_last(a)->type == XC_EVENT_DREQ, "the active side is disconnected by DREQ");
	xc_destroy(id);
	xc_destroy(peer);
	end("no RTU");
}

static void test_disconnect_unreachable(void)
{
	struct c_pair p;

	begin();
	p = c_established(a);
	xc_disconnect(p.active, NULL);
	c_wait(a, 100, true);
	TAP_OK(a->events == 3 && a->event[1].type == XC_EVENT_DISCONNECTED &&
		       a->event[1].status == -ETIMEDOUT,
	       "a DREQ without DREP ends the connection");
	TAP_OK(c_last(a)->type == XC_EVENT_TIMEWAIT_EXIT, "TIMEWAIT follows");
	xc_destroy(p.active);
	xc_destroy(p.passive);
	end("no DREP");
}

/* ---- duplicates ---------------------------------------------------------------- */

static void test_duplicates(void)
{
	struct xc_rep rep = c_rep();
	struct xc_id *id, *peer;
	struct c_mad req, reply, rtu, dreq;

	begin();
	id = c_connect(a);
	req = a->queue[0];
	c_settle(a);
	c_pass(a, &req);
	peer = c_last(b)->id;
	TAP_OK(b->events == 1 && c_decode(&b->queue[0]).kind == XC_MRA,
	       "a second REQ is not reported; an MRA asks for time");
	c_deliver(b);
	TAP_OK(c_is(id, XC_MRA_REQ_RCVD) && xc_deadline(a->cm) > c_now + 60 * C_SECOND,
	       "which extends the timeout");
	xc_accept(peer, &rep);
	reply = b->queue[0];
	c_pass(a, &req);
	TAP_OK(b->queued == 2 && c_decode(&b->queue[1]).kind == XC_REP,
	       "a REQ after the REP is responded to by the REP");
	c_settle(a);
	TAP_OK(a->events == 1, "the second REP is not reported");
	xc_establish(id, NULL);
	rtu = a->queue[0];
	c_settle(a);
	c_pass(b, &reply);
	TAP_OK(a->queued == 1 && c_decode(&a->queue[0]).kind == XC_RTU,
	       "a REP after the RTU is responded to by the RTU");
	c_settle(a);
	c_pass(a, &rtu);
	c_pass(a, &req);
	TAP_OK(b->events == 2 && !b->queued, "a late RTU and a late REQ are ignored");
	xc_disconnect(id, NULL);
	dreq = a->queue[0];
	c_settle(a);
	c_pass(a, &dreq);
	TAP_OK(b->events == 3 && !b->queued, "a second DREQ is not reported");
	xc_reply_disconnect(peer, NULL);
	c_settle(a);
	c_pass(a, &dreq);
	TAP_OK(c_decode(&b->queue[0]).kind == XC_DREP, "a DREQ in TIMEWAIT gets a DREP");
	c_settle(a);
	c_pass(a, &req);
	TAP_OK(c_decode(&b->queue[0]).kind == XC_REJ, "a REQ in TIMEWAIT gets a REJ");
	c_settle(a);
	TAP_OK(xc_counters(b->cm)->duplicates[XC_REQ] == 4, "duplicates are counted");
	xc_destroy(id);
	xc_destroy(peer);
	end("duplicates");
}

static void test_both_disconnect(void)
{
	struct c_pair p;

	begin();
	p = c_established(a);
	xc_disconnect(p.active, NULL);
	xc_disconnect(p.passive, NULL);
	c_settle(a);
	TAP_OK(c_last(a)->type == XC_EVENT_DREQ && c_last(b)->type == XC_EVENT_DREQ,
	       "both sides disconnect: both report the DREQ");
	TAP_OK(c_is(p.active, XC_TIMEWAIT) && c_is(p.passive, XC_TIMEWAIT),
	       "both have sent a DREP");
	xc_destroy(p.active);
	xc_destroy(p.passive);
	end("both disconnect");
}

/* The REJ arrives, but the peer cannot know it. */
static void test_dreq_after_reject(void)
{
	struct xc_rej rej = { .reason = XC_REJ_CONSUMER };
	struct xc_rep rep = c_rep();
	struct xc_id *id, *peer;
	struct xc_msg dreq;

	begin();
	id = c_connect(a);
	c_settle(a);
	peer = c_last(b)->id;
	xc_accept(peer, &rep);
	c_settle(a);
	xc_establish(id, NULL);
	c_lose(a);
	xc_reject(peer, &rej);
	c_deliver(b);
	TAP_OK(c_is(id, XC_TIMEWAIT), "a REJ after the RTU ends the connection");
	c_now = xc_deadline(b->cm);
	xc_run(b->cm);
	dreq = c_decode(&b->queue[0]);
	c_deliver(b);
	TAP_OK(c_decode(&a->queue[0]).kind == XC_DREP && c_decode(&a->queue[0]).tid == dreq.tid,
	       "a DREQ after the REJ gets a DREP with its transaction ID");
	c_settle(a);
	xc_destroy(id);
	xc_destroy(peer);
	end("DREQ after REJ");
}

/* ---- rejects ------------------------------------------------------------------- */

static void test_reject(void)
{
	struct xc_rej rej = { .reason = XC_REJ_CONSUMER,
			      .ari = { "info", 4 },
			      .data = { "no", 2 } };
	struct xc_id *id;
	struct c_mad req;

	begin();
	id = c_connect(a);
	req = a->queue[0];
	c_settle(a);
	TAP_OK(!xc_reject(c_last(b)->id, &rej), "a REQ is rejected");
	xc_destroy(c_last(b)->id);
	c_lose(b);
	c_pass(a, &req);
	TAP_OK(b->events == 1, "after the loss of the REJ, the REQ is not reported again");
	c_settle(a);
	TAP_OK(c_last(a)->type == XC_EVENT_REJECTED && c_last(a)->msg.rej.reason == 28 &&
		       has_data(c_last(a), "no", XC_REJ_DATA) && c_last(a)->msg.rej.ari.len == 4,
	       "the REJ is repeated with its data");
	TAP_OK(c_is(id, XC_IDLE), "the exchange has ended");
	xc_destroy(id);
	end("REJ of a REQ");
}

static void test_reject_rep(void)
{
	struct xc_rej rej = { .reason = XC_REJ_CONSUMER, .data = { "no", 2 } };
	struct xc_rep rep = c_rep();
	struct xc_id *id, *peer;

	begin();
	id = c_connect(a);
	c_settle(a);
	peer = c_last(b)->id;
	xc_accept(peer, &rep);
	c_settle(a);
	TAP_OK(!xc_reject(id, &rej), "a REP is rejected");
	c_lose(a);
	xc_destroy(id);
	c_wait(a, 6, false);
	TAP_OK(c_last(b)->type == XC_EVENT_REJECTED && has_data(c_last(b), "no", XC_REJ_DATA),
	       "a lost REJ is repeated after the id was destroyed");
	xc_destroy(peer);
	end("REJ of a REP");
}

/* REP and REJ are lost: the active side is still waiting for a response to its REQ. */
static void test_req_after_rejected_rep(void)
{
	struct xc_rej rej = { .reason = XC_REJ_CONSUMER, .data = { "no", 2 } };
	struct xc_rep rep = c_rep();
	struct xc_id *id, *peer;
	struct c_mad req;

	begin();
	id = c_connect(a);
	req = a->queue[0];
	c_settle(a);
	peer = c_last(b)->id;
	xc_accept(peer, &rep);
	xc_reject(peer, &rej);
	TAP_OK(c_lose(b) == XC_REP && c_decode(&b->queue[0]).rej.message == XC_MESSAGE_OTHER &&
		       c_lose(b) == XC_REJ,
	       "a REJ after the REP refers to neither REQ nor REP");
	c_pass(a, &req);
	TAP_OK(c_decode(&b->queue[0]).kind == XC_REJ &&
		       c_decode(&b->queue[0]).rej.message == XC_MESSAGE_REQ,
	       "the REJ in response to a second REQ refers to the REQ");
	c_deliver(b);
	TAP_OK(c_last(a)->type == XC_EVENT_REJECTED && has_data(c_last(a), "no", XC_REJ_DATA),
	       "it ends the exchange, with the private data of the first REJ");
	xc_destroy(id);
	xc_destroy(peer);
	end("REQ after a rejected REP");
}

/* The REJ of a side that sent a REP is lost while the peer establishes the connection. */
static void test_destroy_after_rep(void)
{
	struct xc_rep rep = c_rep();
	struct xc_id *id, *peer;

	begin();
	id = c_connect(a);
	c_settle(a);
	peer = c_last(b)->id;
	xc_accept(peer, &rep);
	c_settle(a);
	xc_establish(id, NULL);
	xc_destroy(peer);
	TAP_OK(c_lose(b) == XC_REJ && c_lose(a) == XC_RTU,
	       "the passive side gives up after its REP; REJ and RTU are lost");
	c_settle(a);
	c_wait(a, 6, false);
	TAP_OK(c_last(a)->type == XC_EVENT_DREQ || c_last(a)->type == XC_EVENT_TIMEWAIT_EXIT,
	       "the active side gets a DREQ");
	TAP_OK(a->event[1].type == XC_EVENT_DREQ, "once");
	xc_destroy(id);
	end("REJ after a REP");
}

/* The same, but the active side has got neither REP nor REJ. */
static void test_rep_and_rej_lost(void)
{
	struct xc_rep rep = c_rep();
	struct xc_id *id, *peer;

	begin();
	id = c_connect(a);
	c_settle(a);
	peer = c_last(b)->id;
	xc_accept(peer, &rep);
	xc_destroy(peer);
	b->queued = 0;
	c_wait(a, 10, false);
	TAP_OK(c_last(a)->type == XC_EVENT_REJECTED && c_last(a)->msg.rej.reason == 28,
	       "REP and REJ are lost: the retry of the REQ gets the REJ");
	TAP_OK(b->events == 1, "it is not reported as a new request");
	xc_destroy(id);
	end("REP and REJ lost");
}

/* The REP arrives after the REJ was lost and the DREQ has got its response. */
static void test_late_rep(void)
{
	struct xc_rep rep = c_rep();
	struct xc_id *id, *peer;
	struct c_mad late;

	begin();
	id = c_connect(a);
	c_settle(a);
	peer = c_last(b)->id;
	xc_accept(peer, &rep);
	late = b->queue[0];
	c_lose(b);
	xc_destroy(peer);
	c_lose(b);
	while (c_decode(&b->queue[0]).kind != XC_DREQ || !b->queued) {
		a->queued = b->queued = 0;
		c_now = xc_deadline(b->cm);
		xc_run(b->cm);
	}
	c_settle(a);
	c_pass(b, &late);
	TAP_OK(!xc_establish(id, NULL), "a late REP is accepted");
	c_settle(a);
	TAP_OK(c_last(a)->type == XC_EVENT_REJECTED, "the peer has given up and rejects the RTU");
	xc_destroy(id);
	end("late REP");
}

/* A copy of the REQ gets the REJ of a side that has sent a REP, and the REP arrives before it. */
static void test_rej_overtaken_by_rep(void)
{
	struct xc_rep rep = c_rep();
	struct xc_id *id, *peer;
	struct c_mad req, late;

	begin();
	id = c_connect(a);
	req = a->queue[0];
	c_settle(a);
	peer = c_last(b)->id;
	xc_accept(peer, &rep);
	c_take(b, &late);
	xc_destroy(peer);
	c_lose(b);
	c_pass(a, &req);
	TAP_OK(c_decode(&b->queue[0]).rej.message == XC_MESSAGE_REQ, "a REJ of the REQ is sent");
	c_pass(b, &late);
	c_settle(a);
	TAP_OK(c_last(a)->type == XC_EVENT_REJECTED, "it ends the exchange after a late REP");
	xc_destroy(id);
	end("REJ of the REQ after the REP");
}

/* Brings a connection to a step, then destroys first one side's id, then the other's. */
static void destroy_in_step(unsigned step, bool passive_first)
{
	struct xc_rep rep = c_rep();
	struct xc_id *id, *peer;
	char name[64];

	begin();
	id = c_connect(a);
	c_settle(a);
	peer = c_last(b)->id;
	if (step > 0) {
		xc_accept(peer, &rep);
		c_settle(a);
	}
	if (step > 1) {
		xc_establish(id, NULL);
		c_settle(a);
	}
	if (step > 2) {
		xc_disconnect(id, NULL);
		c_settle(a);
	}
	xc_destroy(passive_first ? peer : id);
	c_settle(a);
	xc_destroy(passive_first ? id : peer);
	snprintf(name, sizeof(name), "%s side destroyed in step %u",
		 passive_first ? "passive" : "active", step);
	end(name);
}

static void test_destroy(void)
{
	for (unsigned step = 0; step < 4; step++) {
		destroy_in_step(step, false);
		destroy_in_step(step, true);
	}
}

static void test_gives_up(void)
{
	struct xc_id *id, *peer;
	struct c_mad req;

	begin();
	id = c_connect(a);
	req = a->queue[0];
	c_settle(a);
	peer = c_last(b)->id;
	xc_destroy(id);
	c_settle(a);
	TAP_OK(c_last(b)->type == XC_EVENT_REJECTED && c_last(b)->msg.rej.reason == XC_REJ_TIMEOUT,
	       "a peer that gives up its REQ is found by its GUID");
	xc_destroy(peer);
	c_pass(a, &req);
	TAP_OK(b->events == 2, "its REQ, late and once more, is not reported");
	end("given up");
}

/* ---- peers that crash -------------------------------------------------------------- */

static void crash(struct c_host *h, uint32_t ip, uint64_t guid)
{
	xc_free(h->cm);
	h->queued = h->events = 0;
	c_start(h, ip, guid);
}

static void crash_a(void)
{
	crash(a, 0x0a090001, 0x505400fffed9d100);
}

static void test_stale(void)
{
	struct c_pair p;
	struct xc_id *id;

	begin();
	p = c_established(a);
	crash_a();
	id = c_connect(a);
	c_settle(a);
	TAP_OK(c_last(a)->type == XC_EVENT_REJECTED && c_last(a)->msg.rej.reason == XC_REJ_STALE,
	       "a REQ with the QPN of a connection is rejected as stale");
	TAP_OK(b->event[b->events - 1].type == XC_EVENT_DISCONNECTED,
	       "the old connection is disconnected");
	xc_destroy(id);
	xc_destroy(p.passive);
	p = c_established(a);
	TAP_OK(c_is(p.active, XC_ESTABLISHED), "the next REQ is successful");
	xc_destroy(p.active);
	xc_destroy(p.passive);
	end("stale");
}

static void test_crash_in_handshake(void)
{
	struct xc_rep rep = c_rep();
	struct xc_id *id, *peer;

	begin();
	c_connect(a);
	c_settle(a);
	peer = c_last(b)->id;
	xc_accept(peer, &rep);
	crash_a();
	c_settle(a);
	TAP_OK(c_last(b)->type == XC_EVENT_REJECTED && c_last(b)->msg.rej.reason == XC_REJ_COMM_ID,
	       "a REP for a peer that has crashed is rejected");
	xc_destroy(peer);
	end("crash before the REP");

	begin();
	id = c_connect(a);
	c_settle(a);
	xc_accept(c_last(b)->id, &rep);
	c_settle(a);
	crash(b, 0x0a090002, 0x505400fffe96a500);
	xc_establish(id, NULL);
	c_settle(a);
	TAP_OK(c_last(a)->type == XC_EVENT_REJECTED, "as is an RTU");
	xc_destroy(id);
	end("crash before the RTU");
}

static void test_dreq_after_crash(void)
{
	struct c_pair p;

	begin();
	p = c_established(a);
	crash_a();
	xc_disconnect(p.passive, NULL);
	c_settle(a);
	TAP_OK(c_last(b)->type == XC_EVENT_DISCONNECTED && !c_last(b)->status,
	       "a DREQ for an unknown connection gets a DREP");
	xc_destroy(p.passive);
	end("DREQ after a crash");
}

/* ---- COMM_EST, MRA, LAP, XRC ------------------------------------------------------- */

static void test_comm_est(void)
{
	struct xc_rep rep = c_rep();
	struct xc_id *id, *peer;

	begin();
	id = c_connect(a);
	c_settle(a);
	peer = c_last(b)->id;
	xc_accept(peer, &rep);
	c_settle(a);
	xc_establish(id, NULL);
	TAP_OK(!xc_notify_established(peer) && c_last(b)->type == XC_EVENT_ESTABLISHED &&
		       !c_last(b)->has_msg,
	       "a packet at the QP establishes the connection");
	TAP_OK(xc_notify_established(peer) == -EISCONN, "once");
	c_settle(a);
	TAP_OK(b->events == 2, "the RTU is not reported any more");
	xc_destroy(id);
	xc_destroy(peer);
	end("COMM_EST");
}

static void test_mra(void)
{
	struct xc_rep rep = c_rep();
	struct xc_id *id, *peer;

	begin();
	id = c_connect(a);
	c_settle(a);
	peer = c_last(b)->id;
	TAP_OK(!xc_mra(peer, 22) && c_deliver(b) == XC_MRA && c_is(id, XC_MRA_REQ_RCVD),
	       "an MRA for a REQ");
	c_wait(a, 20, false);
	TAP_OK(!xc_counters(a->cm)->retried[XC_REQ], "delays the retry");
	c_wait(a, 5, false);
	TAP_OK(xc_counters(a->cm)->retried[XC_REQ] == 1 && c_is(id, XC_MRA_REQ_RCVD),
	       "the retry gets another MRA");
	xc_accept(peer, &rep);
	c_settle(a);
	TAP_OK(!xc_mra(id, 22) && c_deliver(a) == XC_MRA && c_is(peer, XC_MRA_REP_RCVD),
	       "an MRA for a REP");
	c_wait(a, 20, false);
	TAP_OK(!xc_counters(b->cm)->retried[XC_REP], "delays the retry");
	TAP_OK(!xc_establish(id, NULL), "the RTU ends the wait");
	c_settle(a);
	TAP_OK(c_is(peer, XC_ESTABLISHED), "and establishes the connection");
	xc_destroy(id);
	xc_destroy(peer);
	end("MRA");
}

static void test_lap(void)
{
	struct xc_msg lap = { .kind = XC_LAP, .tid = 7 }, apr;
	struct c_mad m = { 0 };
	struct c_pair p;

	begin();
	p = c_established(a);
	m.path = c_path(a);
	lap.local_id = xc_info(p.active)->local_id;
	lap.remote_id = xc_info(p.passive)->local_id;
	xc_mad_encode(m.data, &lap);
	c_pass(a, &m);
	apr = c_decode(&b->queue[0]);
	TAP_OK(apr.kind == XC_APR && apr.apr.status == 2 && apr.tid == 7,
	       "a LAP gets the APR that alternate paths are not supported");
	c_settle(a);
	TAP_OK(c_is(p.passive, XC_ESTABLISHED), "the connection remains");
	xc_destroy(p.active);
	xc_destroy(p.passive);
	end("LAP");
}

static void test_xrc(void)
{
	struct xc_req req;
	struct xc_rep rep = c_rep();
	struct xc_id *id, *peer;
	struct c_mad first, rtu;

	begin();
	req = c_req(a);
	req.transport = XC_XRC;
	xc_connect(a->cm, &req, NULL, &id);
	first = a->queue[0];
	c_settle(a);
	peer = c_last(b)->id;
	TAP_OK(c_last(b)->msg.req.transport == XC_XRC, "a REQ for XRC");
	xc_accept(peer, &rep);
	TAP_OK(c_decode(&b->queue[0]).rep.eecn == 0x31 && !c_decode(&b->queue[0]).rep.qpn,
	       "its REP has the QPN in the EE context field");
	c_settle(a);
	TAP_OK(c_last(a)->msg.rep.qpn == 0x31, "the event has it as the QPN");
	xc_establish(id, NULL);
	rtu = a->queue[0];
	c_settle(a);
	xc_destroy(peer);
	TAP_OK(!b->queued, "a target that is destroyed sends no DREQ");
	c_pass(a, &first);
	TAP_OK(c_last(b)->type == XC_EVENT_ESTABLISHED, "a copy of its REQ is not a new request");
	c_settle(a);
	c_pass(a, &rtu);
	TAP_OK(!b->queued && c_is(id, XC_ESTABLISHED), "nor do copies of REQ and RTU disconnect");
	xc_disconnect(id, NULL);
	c_settle(a);
	TAP_OK(c_last(a)->type == XC_EVENT_DISCONNECTED && c_last(a)->has_msg,
	       "a DREQ for it gets a DREP");
	xc_destroy(id);
	end("XRC");
}

/* ---- SIDR ------------------------------------------------------------------------ */

static struct xc_id *sidr_request(void)
{
	struct xc_sidr_param param = {
		.path = c_path(a),
		.response_timeout = C_RESPONSE,
		.max_cm_retries = C_RETRIES,
		.req = { .service_id = 0x1111c06, .pkey = 0xffff, .data = { "who", 3 } },
	};
	struct xc_id *id = NULL;

	xc_sidr_request(a->cm, &param, NULL, &id);
	return id;
}

static void test_sidr(void)
{
	struct xc_sidr_rep rep = { .qpn = 0x28, .qkey = 0x01234567, .data = { "me", 2 } };
	struct xc_id *id, *peer;

	begin();
	id = sidr_request();
	c_lose(a);
	c_wait(a, 5, false);
	peer = c_last(b)->id;
	TAP_OK(c_last(b)->type == XC_EVENT_SIDR_REQ && has_data(c_last(b), "who", XC_SIDR_REQ_DATA),
	       "a SIDR_REQ is reported, after a retry");
	TAP_OK(!xc_sidr_reply(peer, &rep), "the reply");
	xc_destroy(peer);
	c_lose(b);
	c_wait(a, 5, false);
	TAP_OK(b->events == 1, "a lost SIDR_REP is repeated; the request is not reported again");
	TAP_OK(c_last(a)->type == XC_EVENT_SIDR_REP && c_last(a)->msg.sidr_rep.qpn == 0x28 &&
		       c_last(a)->msg.sidr_rep.qkey == 0x01234567 &&
		       c_last(a)->msg.sidr_rep.service_id == 0x1111c06 &&
		       has_data(c_last(a), "me", XC_SIDR_REP_DATA),
	       "the SIDR_REP is reported");
	xc_destroy(id);
	end("SIDR");

	begin();
	id = sidr_request();
	c_wait(a, 120, true);
	TAP_OK(c_last(a)->type == XC_EVENT_UNREACHABLE, "no SIDR_REP: unreachable");
	xc_destroy(id);
	end("SIDR unreachable");

	begin();
	id = sidr_request();
	c_lose(a);
	xc_destroy(id);
	c_wait(a, 120, true);
	TAP_OK(!xc_counters(a->cm)->retried[XC_SIDR_REQ], "a SIDR_REQ given up is not repeated");
	end("SIDR given up");

	begin();
	id = sidr_request();
	c_settle(a);
	xc_destroy(c_last(b)->id);
	c_settle(a);
	TAP_OK(c_last(a)->msg.sidr_rep.status == XC_SIDR_REJECTED, "a destroyed id rejects");
	xc_destroy(id);
	end("SIDR rejected");
}

int main(void)
{
	test_connection();
	test_calls_in_wrong_state();
	test_lost();
	test_unreachable();
	test_rtu_lost_for_ever();
	test_disconnect_unreachable();
	test_duplicates();
	test_both_disconnect();
	test_dreq_after_reject();
	test_reject();
	test_reject_rep();
	test_req_after_rejected_rep();
	test_destroy_after_rep();
	test_late_rep();
	test_rep_and_rej_lost();
	test_rej_overtaken_by_rep();
	test_destroy();
	test_gives_up();
	test_stale();
	test_crash_in_handshake();
	test_dreq_after_crash();
	test_comm_est();
	test_mra();
	test_lap();
	test_xrc();
	test_sidr();
	return tap_end();
}
