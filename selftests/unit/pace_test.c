// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Packet pacing: number of packets sent at exact times. */
#include <errno.h>

#include "daemon/transport/qp.h"
#include "harness.h"
#include "selftests/lib/tap.h"

#define KBPS 100000u				      /* 100 Mbit/s: 80 ns a byte */
#define HEADERS (14 + 20 + XR_UDP_HLEN + XR_BTH_HLEN) /* of a middle packet: no VLAN, IPv4 */
#define FRAME (HEADERS + 1024 + XR_ICRC_LEN)
#define FRAME_NS (FRAME * 80ull)
/* The burst reserves room for the longest headers: VLAN, IPv6, extended headers. */
#define LONGEST (XT_TEMPLATE_LEN + XT_MAX_EXT - HEADERS)
#define START 1000000ull

struct pace {
	struct harness *h;
	struct h_qp q;
	struct h_mr mr;
	uint32_t lkey;
	uint8_t *data;
};

static int set_rate(struct pace *p, uint32_t kbps, uint32_t burst)
{
	struct xr_qp_attr attr = { .rate_limit = kbps };
	int err = xt_qp_modify(p->q.qp, &attr, IBV_QP_RATE_LIMIT, NULL, 4096, p->h->now);

	if (!err)
		xt_qp_set_burst(p->q.qp, burst);
	return err;
}

static void begin(struct pace *p)
{
	p->h = h_new(H_CQE);
	p->h->now = START;
	h_create(p->h, &p->q);
	h_modify(&p->q, XR_QPS_INIT);
	h_modify(&p->q, XR_QPS_RTR);
	h_modify(&p->q, XR_QPS_RTS);
	p->data = calloc(1, 1 << 20);
	p->lkey = h_reg(p->h, &p->mr, p->data, 1 << 20, 0x10000);
}

static void end(struct pace *p)
{
	h_destroy(&p->q);
	h_free(p->h);
	free(p->data);
}

static void post(struct pace *p, uint32_t len)
{
	struct xr_send_wqe *w = h_post_send(&p->q, 1, XR_WR_RDMA_WRITE, 0x10000, len, p->lkey);

	w->remote_addr = 0x5000;
	w->rkey = 0x100;
	xt_qp_doorbell(p->q.qp, p->h->now);
}

/* Runs the engine whenever it is due, up to @until. Returns the number of frames sent. */
static unsigned run(struct pace *p, uint64_t until)
{
	unsigned before = p->h->sent_count, rounds = 0;
	uint64_t next;

	while (p->h->now <= until && rounds++ < 10000) {
		next = xt_engine_run(p->h->engine, p->h->now);
		if (next > until)
			break;
		if (next > p->h->now)
			p->h->now = next;
	}
	p->h->now = until;
	return p->h->sent_count - before;
}

static void test_limits(struct pace *p)
{
	struct xr_qp_attr attr;

	TAP_OK(set_rate(p, XT_MAX_RATE + 1, 0) == -EINVAL, "a rate above the maximum is refused");
	TAP_OK(!set_rate(p, XT_MAX_RATE, 0) && !set_rate(p, XT_MIN_RATE, 0),
	       "the maximum and minimum rates are accepted");
	xt_qp_query(p->q.qp, &attr);
	TAP_OK(attr.rate_limit == XT_MIN_RATE, "a query returns the rate");
	set_rate(p, 0, 0);
	post(p, 30 * 1024);
	TAP_OK(run(p, p->h->now + 1000) == 30, "without a rate limit all packets are sent at once");
}

static void test_rate(struct pace *p)
{
	unsigned i, n, wrong = 0;

	set_rate(p, KBPS, FRAME);
	post(p, 100 * 1024);
	TAP_OK(run(p, p->h->now) == 1, "a burst of one packet is sent at once");
	/* The first packet has a RETH of 16 bytes. */
	TAP_OK(run(p, p->h->now + FRAME_NS + 16 * 80 - 1) == 0,
	       "the second packet is not sent before it is due");
	TAP_OK(run(p, p->h->now + 1) == 1, "the second packet is sent when it is due");
	for (i = 0; i < 20; i++) {
		n = run(p, p->h->now + FRAME_NS - 1);
		wrong += n != 0;
		n = run(p, p->h->now + 1);
		wrong += n != 1;
	}
	TAP_OK(!wrong, "each further packet is sent exactly when due");
}

static bool has_ackreq(const struct h_frame *f)
{
	return f->data[HEADERS - XR_BTH_HLEN + 8] & 0x80;
}

/* At low rates the window never fills; without AckReq the WR would time out. */
static void test_ackreq(struct pace *p)
{
	unsigned i, n, requested = 0;

	set_rate(p, KBPS, FRAME);
	post(p, 10 * 1024);
	n = run(p, p->h->now + 20 * FRAME_NS);
	for (i = 0; i < n; i++)
		requested += has_ackreq(&p->h->sent[i]);
	TAP_OK(n == 10 && requested == 10, "each packet followed by a pause has AckReq set");
}

static void test_burst(struct pace *p)
{
	set_rate(p, KBPS, 8 * FRAME + 16 + LONGEST);
	post(p, 200 * 1024);
	TAP_OK(run(p, p->h->now) == 8, "a burst of eight packets is sent at once");
	TAP_OK(run(p, p->h->now + 4 * FRAME_NS) == 4,
	       "after the burst packets are sent one at a time");
	TAP_OK(run(p, p->h->now + 0) == 0, "no packet is sent before it is due");
	/* Idle time allows one burst, no more. The probe in it has the RETH of the first packet. */
	set_rate(p, KBPS, 8 * FRAME + 16 + LONGEST);
	p->h->now += 100 * FRAME_NS;
	TAP_OK(run(p, p->h->now) == 8, "after idle time one burst is sent at once");
}

static void test_change(struct pace *p)
{
	set_rate(p, XT_MIN_RATE, FRAME);
	post(p, 20 * 1024);
	TAP_OK(run(p, p->h->now + 1000000) == 1,
	       "at the minimum rate the second packet is due much later");
	set_rate(p, 0, 0);
	TAP_OK(run(p, p->h->now + 1000) == 19, "removing the limit sends the rest at once");
}

static void test_reset(struct pace *p)
{
	struct xr_qp_attr attr;

	set_rate(p, XT_MIN_RATE, FRAME);
	post(p, 20 * 1024);
	run(p, p->h->now);
	h_modify(&p->q, XR_QPS_RESET);
	TAP_OK(xt_engine_run(p->h->engine, p->h->now) == XT_NEVER,
	       "RESET cancels the pacing timer");
	xt_qp_query(p->q.qp, &attr);
	TAP_OK(!attr.rate_limit, "RESET removes the rate limit");
}

/* Loopback moves data in units of one packet at the set rate. */
static void test_loopback(struct pace *p)
{
	struct xt_path path = h_path(0x0a000001, 0x0a000001);
	struct xr_qp_attr attr;
	uint32_t mask = h_attr(XR_QPS_RTR, &attr), got = 0;
	struct xr_send_wqe *w;

	path.loopback = true;
	attr.dest_qp_num = p->q.qpn;
	h_modify(&p->q, XR_QPS_INIT);
	xt_qp_modify(p->q.qp, &attr, mask, &path, 4096, p->h->now);
	h_modify(&p->q, XR_QPS_RTS);
	set_rate(p, KBPS, FRAME);
	memset(p->data, 7, 10 * 1024);
	w = h_post_send(&p->q, 1, XR_WR_RDMA_WRITE, 0x10000, 10 * 1024, p->lkey);
	w->remote_addr = 0x20000;
	w->rkey = p->lkey;
	xt_qp_doorbell(p->q.qp, p->h->now);
	run(p, p->h->now + 4 * FRAME_NS);
	while (got < 1 << 16 && p->data[0x10000 + got])
		got++;
	TAP_OK(got == 5 * 1024, "loopback keeps to the rate (%u bytes)", got);
	run(p, p->h->now + 5 * FRAME_NS);
	TAP_OK(p->data[0x10000 + 10 * 1024 - 1] == 7 && p->h->cq_ring->producer == 1,
	       "loopback completes the message at the rate");
}

int main(void)
{
	static void (*const tests[])(struct pace *) = {
		test_limits, test_rate,	 test_ackreq,	test_burst,
		test_change, test_reset, test_loopback,
	};
	struct pace p;
	unsigned i;

	for (i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		begin(&p);
		if (tests[i] == test_loopback)
			h_modify(&p.q, XR_QPS_RESET);
		tests[i](&p);
		end(&p);
	}
	return tap_end();
}
