// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Errors that tests inject: NAKs of the responder, errors of QPs and CQs, events. */
#include "daemon/transport/qp.h"
#include "made.h"

#define WRITE                                                                                      \
	{                                                                                          \
		.opcode = XR_OP_WRITE_ONLY, .va = BASE, .len = 64, .payload = 64                   \
	}

static const struct made write_request = WRITE;

static void receive_injected(struct h_qp *q, const struct made *m, uint8_t kind, uint8_t value)
{
	static struct packet p;
	struct xt_frame f = { .nseg = 1 };

	if (kind == XT_INJECT_NAK || kind == XT_INJECT_RNR) {
		f.refusal.kind = XT_INJECT_ASK;
		q->h->refusal = (struct xt_inject){ kind, value };
	} else {
		f.inject = (struct xt_inject){ kind, value };
	}

	make(q, m, &p);
	f.seg[0] = (struct xt_seg){ p.bytes, p.len };
	f.len = p.len;
	q->h->now += 1000;
	if (parse_frame(&f) == XR_OK)
		xt_engine_rx(q->h->engine, &f, 1, q->h->now);
	xt_engine_run(q->h->engine, q->h->now);
}

static uint32_t state(const struct h_qp *q)
{
	return xt_qp_info(q->qp)->state;
}

/* The counter of a field, and 0 in all other counters of NAKs */
#define ONLY(field) offsetof(struct xt_counters, field), offsetof(struct xt_qp_counters, field)
#define COUNT(counters, offset) (*(const uint64_t *)((const char *)(counters) + (offset)))

static bool counted_once(const struct h_qp *q, size_t engine, size_t own)
{
	const struct xt_counters *c = xt_engine_counters(q->h->engine);
	struct xt_qp_stats s;

	xt_qp_stats(q->qp, &s);
	return xt_counters_naks(c) == 1 && COUNT(c, engine) == 1 && COUNT(&s.counters, own) == 1;
}

static void test_naks(void)
{
	static const struct {
		uint8_t nak;
		unsigned event;
		const char *name;
		size_t engine, own;
	} rows[] = {
		{ XR_NAK_INVALID_REQUEST, IBV_EVENT_QP_REQ_ERR, "invalid request",
		  ONLY(invalid_naks_sent) },
		{ XR_NAK_REMOTE_ACCESS, IBV_EVENT_QP_ACCESS_ERR, "remote access",
		  ONLY(access_naks_sent) },
		{ XR_NAK_REMOTE_OPERATIONAL, IBV_EVENT_QP_FATAL, "remote operational",
		  ONLY(operational_naks_sent) },
		{ XR_NAK_INVALID_RD_REQUEST, IBV_EVENT_QP_REQ_ERR, "invalid RD request",
		  ONLY(rd_naks_sent) },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct h_qp q;
		struct harness *h = begin(&q);
		struct xt_qp_stats stats;
		bool nak;

		memset(memory, 0, 64);
		receive_injected(&q, &write_request, XT_INJECT_NAK, rows[i].nak);
		nak = sent_ack(h, XR_AETH_NAK | rows[i].nak, 0);
		TAP_OK(nak && !memory[0] && state(&q) == XR_QPS_ERR &&
			       h->events[rows[i].event] == 1,
		       "%s: the request is refused, the QP moves to ERR with its event",
		       rows[i].name);
		xt_qp_stats(q.qp, &stats);
		TAP_OK(stats.failure.verr == XR_VERR_INJECTED &&
			       stats.failure.cause == XT_CAUSE_REFUSED &&
			       stats.failure.status == rows[i].nak &&
			       xt_failure_cause(&stats.failure) == XT_CAUSE_INJECTED,
		       "%s: the fault is the reason of the failure", rows[i].name);
		TAP_OK(h->failure.verr == XR_VERR_INJECTED,
		       "%s: the reason is known when the state changes", rows[i].name);
		TAP_OK(counted_once(&q, rows[i].engine, rows[i].own), "%s: counted as sent",
		       rows[i].name);
		end(&q);
	}
}

static void test_received(void)
{
	static const struct {
		uint8_t nak;
		uint32_t status;
		size_t engine, own;
	} rows[] = {
		{ XR_NAK_INVALID_REQUEST, IBV_WC_REM_INV_REQ_ERR, ONLY(invalid_naks_received) },
		{ XR_NAK_REMOTE_ACCESS, IBV_WC_REM_ACCESS_ERR, ONLY(access_naks_received) },
		{ XR_NAK_REMOTE_OPERATIONAL, IBV_WC_REM_OP_ERR, ONLY(operational_naks_received) },
		{ XR_NAK_INVALID_RD_REQUEST, IBV_WC_REM_INV_RD_REQ_ERR, ONLY(rd_naks_received) },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct made nak = { .opcode = XR_OP_ACK,
					  .syndrome = XR_AETH_NAK | rows[i].nak };
		struct xr_cqe cqe = { 0 };
		struct h_qp q;
		struct harness *h = begin(&q);

		h_post_send(&q, 7, XR_WR_SEND, BASE, 64, key);
		xt_qp_doorbell(q.qp, h->now);
		xt_engine_run(h->engine, h->now);
		receive(&q, &nak);
		TAP_OK(h_poll(h, &cqe) && cqe.wr_id == 7 && cqe.status == rows[i].status &&
			       counted_once(&q, rows[i].engine, rows[i].own),
		       "NAK %u of the peer: the WR fails, counted as received", rows[i].nak);
		end(&q);
	}
}

static void test_sequence(void)
{
	struct made next = WRITE;
	struct h_qp q;
	struct harness *h = begin(&q);

	memset(memory, 0, 64);
	receive_injected(&q, &write_request, XT_INJECT_NAK, XR_NAK_PSN_SEQUENCE);
	TAP_OK(sent_ack(h, XR_AETH_NAK | XR_NAK_PSN_SEQUENCE, 0) && !memory[0] &&
		       state(&q) == XR_QPS_RTS,
	       "PSN sequence error: the request is taken for lost");
	receive(&q, &write_request);
	TAP_OK(sent_ack(h, 0, 0) && memory[0], "and accepted when it is sent again");
	next.psn = 1;
	receive(&q, &next);
	TAP_OK(sent_ack(h, 0, 1), "the next one is accepted");
	receive_injected(&q, &next, XT_INJECT_NAK, XR_NAK_REMOTE_ACCESS);
	TAP_OK(sent_ack(h, 0, 1) && state(&q) == XR_QPS_RTS && h->asked == 1,
	       "a duplicate is never refused, and does not count for rules");
	next.psn = 2;
	receive_injected(&q, &next, XT_INJECT_NAK, XR_NAK_REMOTE_ACCESS);
	TAP_OK(state(&q) == XR_QPS_ERR && h->asked == 2, "the next new request is refused");
	end(&q);
}

static void test_rnr(void)
{
	struct h_qp q;
	struct harness *h = begin(&q);

	receive_injected(&q, &write_request, XT_INJECT_RNR, 5);
	TAP_OK(sent_ack(h, XR_AETH_RNR_NAK | 5, 0), "RNR NAK with a timer");
	receive_injected(&q, &write_request, XT_INJECT_RNR, XT_INJECT_OWN_TIMER);
	TAP_OK(sent_ack(h, XR_AETH_RNR_NAK | 12, 0), "RNR NAK with the timer of the QP");
	receive(&q, &write_request);
	TAP_OK(sent_ack(h, 0, 0) && state(&q) == XR_QPS_RTS, "the request is accepted later");
	end(&q);
}

/* The NAK of a packet that came early is sent when its turn comes. */
static void test_early(void)
{
	struct made next = WRITE;
	struct h_qp q;
	struct harness *h = begin(&q);

	next.psn = 1;
	receive_injected(&q, &next, XT_INJECT_NAK, XR_NAK_REMOTE_ACCESS);
	TAP_OK(!h->asked, "a packet that comes early does not count for rules yet");
	h->sent_count = 0;
	receive(&q, &write_request);
	xt_engine_run(h->engine, h->now);
	TAP_OK(state(&q) == XR_QPS_ERR && h->events[IBV_EVENT_QP_ACCESS_ERR] == 1 && h->asked == 1,
	       "a packet that came early is refused after those before it");
	end(&q);
}

static void test_qp(void)
{
	struct xr_cqe cqe = { 0 };
	struct xt_qp_stats stats;
	struct h_qp q;
	struct harness *h = begin(&q);

	h_post_send(&q, 7, XR_WR_SEND, BASE, 64, key);
	h_post_send(&q, 8, XR_WR_SEND, BASE, 64, key);
	xt_qp_doorbell(q.qp, h->now);
	xt_engine_run(h->engine, h->now);
	xt_qp_inject(q.qp, (struct xt_inject){ XT_INJECT_ERROR, IBV_WC_FATAL_ERR }, false);
	TAP_OK(h_poll(h, &cqe) && cqe.wr_id == 7 && cqe.status == IBV_WC_FATAL_ERR &&
		       cqe.vendor_err == XR_VERR_INJECTED && h_poll(h, &cqe) && cqe.wr_id == 8 &&
		       cqe.status == IBV_WC_WR_FLUSH_ERR && state(&q) == XR_QPS_ERR,
	       "the oldest WR completes with the status, the others are flushed");
	end(&q);

	h = begin(&q);
	xt_qp_inject(q.qp, (struct xt_inject){ XT_INJECT_ERROR, IBV_WC_FATAL_ERR }, false);
	xt_qp_stats(q.qp, &stats);
	TAP_OK(state(&q) == XR_QPS_ERR && h->events[IBV_EVENT_QP_FATAL] == 1 &&
		       stats.failure.cause == XT_CAUSE_INJECTED,
	       "without a WR, and without a status, an event reports the error");
	xt_qp_inject(q.qp, (struct xt_inject){ XT_INJECT_ERROR, 0 }, false);
	TAP_OK(h->events[IBV_EVENT_QP_FATAL] == 1, "a QP in ERR is left alone");
	end(&q);
}

static void test_cq(void)
{
	struct xt_qp_stats stats;
	struct h_qp q;
	struct harness *h = begin(&q);

	receive_injected(&q, &write_request, XT_INJECT_CQ, 0);
	TAP_OK(h->cq.overrun && h->cq_errors == 1 && h->events[IBV_EVENT_CQ_ERR] == 1 &&
		       state(&q) == XR_QPS_ERR,
	       "a CQ fails with its event, and the QP with it");
	xt_qp_stats(q.qp, &stats);
	TAP_OK(stats.failure.cause == XT_CAUSE_INJECTED && h->events[IBV_EVENT_QP_FATAL] == 1,
	       "the fault is the reason of the QP's failure");
	end(&q);
}

static void test_events(void)
{
	struct h_qp q;
	struct harness *h = begin(&q);

	receive_injected(&q, &write_request, XT_INJECT_EVENT, IBV_EVENT_PATH_MIG);
	TAP_OK(h->events[IBV_EVENT_PATH_MIG] == 1 && sent_ack(h, 0, 0),
	       "an event of the QP, whose packet is executed");
	xt_qp_inject(q.qp, (struct xt_inject){ XT_INJECT_EVENT, IBV_EVENT_CQ_ERR }, false);
	TAP_OK(h->cq_errors == 1 && !h->cq.overrun, "an event of the CQ, which works on");
	xt_qp_inject(q.qp, (struct xt_inject){ XT_INJECT_EVENT, IBV_EVENT_SRQ_ERR }, false);
	TAP_OK(!h->events[IBV_EVENT_SRQ_ERR], "a QP without SRQ raises no event of one");
	end(&q);
}

int main(void)
{
	test_naks();
	test_received();
	test_sequence();
	test_rnr();
	test_early();
	test_qp();
	test_cq();
	test_events();
	return tap_end();
}
