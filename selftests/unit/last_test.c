// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What was posted before the QP leaves RTS is sent: xt_qp_catch_up(), xt_qp_sends() */
#include "slow.h"

static struct xt_send_mark mark;

/* The control thread looks at the QP before any worker does. */
static bool sends_more(uint32_t visits)
{
	xt_qp_catch_up(a.qp, ++h->now, visits);
	xt_qp_mark(a.qp, &mark);
	return xt_qp_sends(a.qp, &mark);
}

static bool flushed(uint64_t wr_id)
{
	return completes(wr_id, IBV_WC_WR_FLUSH_ERR);
}

static void test_wire(void)
{
	begin(false);
	h_post_recv(&b, 9, FAST + 4096, 100, fast_key);
	post(&a, 1, XR_WR_SEND, FAST, 0, 100);
	TAP_OK(!sends_more(1) && h->sent_count == 1, "a message that was just posted is sent");
	TAP_OK(!h_modify(&a, XR_QPS_ERR) && flushed(1) && idle(),
	       "behind that, ERR completes it with a flush error");
	settle();
	TAP_OK(completes(9, 0) && !memcmp(fast + 4096, fast, 100), "the peer receives it");
	TAP_OK(h->sent_count == 2, "and only the peer sends afterwards");
	end("wire");
}

/* Over loopback the completion of the sender follows that of the peer. */
static void test_loopback(void)
{
	begin(true);
	h_post_recv(&b, 9, FAST + 4096, 100, fast_key);
	post(&a, 1, XR_WR_SEND, FAST, 0, 100);
	TAP_OK(!sends_more(1) && !h_modify(&a, XR_QPS_ERR) && completes(9, 0) && completes(1, 0),
	       "loopback: a message that was just posted arrives before ERR");
	end("loopback");
}

static void test_private(bool loopback)
{
	const char *how = loopback ? "loopback" : "wire";

	begin(loopback);
	h_post_recv(&b, 9, FAST + 4096, 100, fast_key);
	post(&a, 1, XR_WR_SEND, SLOW, 0, 100);
	TAP_OK(sends_more(1) && !h->sent_count, "%s: a QP whose payload is being read sends", how);
	finish(0);
	xt_engine_run(h->engine, ++h->now);
	TAP_OK(!xt_qp_sends(a.qp, &mark), "%s: no longer when it was read", how);
	h_modify(&a, XR_QPS_ERR);
	settle();
	TAP_OK(!memcmp(fast + 4096, slow, 100), "%s: the message arrived", how);
	end(how);
}

/* 64 messages of 8 packets, and a window of 256 packets */
static void test_window(void)
{
	unsigned i;

	begin(false);
	for (i = 0; i < H_DEPTH; i++)
		post(&a, i, XR_WR_RDMA_WRITE, FAST, FAST + 4096, 8 * MTU);
	TAP_OK(sends_more(2) && h->sent_count <= 2 * XT_QP_BUDGET,
	       "a visit sends a limited number of packets");
	for (i = 0; i < 20; i++)
		xt_engine_run(h->engine, h->now);
	TAP_OK(h->sent_count == 256 && !xt_qp_sends(a.qp, &mark),
	       "a full window is all that is sent");
	for (i = 0; h->sent_count < 300; i++)
		h_receive(h, h->sent[i].data, h->sent[i].len);
	TAP_OK(h->sent_count > 256 && !xt_qp_sends(a.qp, &mark),
	       "responses of the peer do not prolong it");
	end("window");
}

static void test_states(void)
{
	begin(false);
	post(&a, 1, XR_WR_RDMA_WRITE, SLOW, FAST + 4096, 100);
	TAP_OK(sends_more(1), "a QP in RTS sends");
	h_modify(&a, XR_QPS_ERR);
	TAP_OK(!xt_qp_sends(a.qp, &mark), "a QP in ERR does not");
	end("states");
}

static void test_datagrams(void)
{
	unsigned i;

	type = XR_QPT_UD;
	begin(false);
	for (i = 0; i < H_DEPTH; i++) {
		struct xr_send_wqe *w = post(&a, i, XR_WR_SEND, FAST, 0, 100);

		w->ud.ah = AH;
		w->ud.remote_qpn = b.qpn;
	}
	TAP_OK(sends_more(1), "UD: a QP sends until all work requests have completed");
	settle();
	TAP_OK(!xt_qp_sends(a.qp, &mark), "UD: and no longer");
	end("UD");
	type = XR_QPT_RC;
}

int main(void)
{
	test_wire();
	test_loopback();
	test_private(false);
	test_private(true);
	test_window();
	test_states();
	test_datagrams();
	return tap_end();
}
