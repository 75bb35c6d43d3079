// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Loopback between two engines, to memory that has to be waited for: the peer receives a message,
 * and its program stops or destroys the QP before the engine of the sender has seen that.
 */
#include "slow.h"

static struct xt_engine *other; /* of b */

/* ---- how the peer ends --------------------------------------------------------------------- */

static void destroyed(void)
{
	h_destroy(&b);
	b = (struct h_qp){ 0 };
}

/* In steps, as in the daemon; the sender runs in between. */
static void removed(void)
{
	xt_qp_remove(b.qp);
	xt_engine_run(h->engine, h->now);
	xt_loopback_peer_stopped(xt_loopback_sender(b.qp), b.qp, h->now);
	xt_qp_withdraw(b.qp);
	xt_engine_run(h->engine, h->now);
	xt_qp_free(b.qp);
	free(b.sq);
	free(b.rq);
	b = (struct h_qp){ 0 };
}

static void in_error(void)
{
	h_modify(&b, XR_QPS_ERR);
}

static void in_reset(void)
{
	h_modify(&b, XR_QPS_RESET);
}

/* rdma_disconnect() and rdma_destroy_qp() */
static void destroyed_in_error(void)
{
	in_error();
	xt_engine_run(other, h->now);
	destroyed();
}

/* As the daemon does for MODIFY_QP, and DESTROY_QP after that */
static void destroyed_in_reset(void)
{
	struct xt_qp *sender = xt_loopback_sender(b.qp);

	in_error();
	in_reset();
	xt_loopback_peer_stopped(sender, b.qp, h->now);
	destroyed();
}

static const struct end {
	const char *what;
	void (*apply)(void);
} ends[] = {
	{ "destroyed", destroyed },
	{ "removed", removed },
	{ "moved to ERR", in_error },
	{ "moved to RESET", in_reset },
	{ "destroyed in ERR", destroyed_in_error },
	{ "destroyed in RESET", destroyed_in_reset },
};

/* ---- the tests ----------------------------------------------------------------------------- */

static void begin_two(void)
{
	struct xt_engine *own;

	begin(true);
	own = h->engine;
	other = h_engine(h);
	h_destroy(&b);
	h->engine = other;
	h_create(h, &b);
	h->engine = own;
	h_modify(&a, XR_QPS_RESET);
	if (!connect(&a, &b, true) || !connect(&b, &a, true))
		TAP_OK(false, "QPs of two engines are connected");
}

static void run(struct xt_engine *e)
{
	for (unsigned i = 0; i < 20; i++)
		xt_engine_run(e, h->now);
}

/* Lets the timeouts of the sender pass. */
static void wait(void)
{
	for (unsigned i = 0; i < 10; i++) {
		h->now += 2000000;
		run(h->engine);
	}
}

static void end_two(const char *what)
{
	h_destroy(&a);
	if (b.qp)
		h_destroy(&b);
	TAP_OK(!allocated, "%s: no access is left", what);
	xt_engine_free(other);
	h_free(h);
}

#define NONE UINT32_MAX /* it has not completed */

/* Polls all completions: the SENDs have wr_id 2 and 4. */
static bool sends_complete(uint32_t first, uint32_t second)
{
	uint32_t status[2] = { NONE, NONE };
	struct xr_cqe cqe;

	while (h_poll(h, &cqe))
		if (!cqe.is_recv)
			status[cqe.wr_id == 4] = cqe.status;
	if (status[0] == first && status[1] == second)
		return true;
	printf("# status %d and %d\n", (int)status[0], (int)status[1]);
	return false;
}

/* stored: SENDs whose data is stored, and that are received, before the peer ends; of two */
static void test_end(const struct end *end, unsigned stored)
{
	begin_two();
	for (unsigned i = 0; i < 2; i++) {
		h_post_recv(&b, 1 + 2 * i, SLOW + i * MTU, MTU, slow_key);
		post(&a, 2 + 2 * i, XR_WR_SEND, FAST, 0, 64);
	}
	xt_qp_doorbell(a.qp, h->now);
	run(h->engine);
	TAP_OK(pending() == 2 && idle(), "the data of two SENDs is posted");
	for (unsigned i = 0; i < stored; i++)
		finish(0);
	run(other);
	for (unsigned i = 0; i < stored; i++)
		TAP_OK(completes(1 + 2 * i, 0), "SEND %u is received", i);
	TAP_OK(idle(), "no SEND has completed");
	end->apply();
	wait();
	TAP_OK(sends_complete(stored > 0 ? 0 : IBV_WC_RETRY_EXC_ERR, stored > 1 ? 0
								     : stored > 0
									     ? IBV_WC_RETRY_EXC_ERR
									     : IBV_WC_WR_FLUSH_ERR),
	       "%u complete with success after the peer was %s, the others fail", stored,
	       end->what);
	end_two(end->what);
}

/* The other engine may wait for this one, so the round ends. */
static void test_busy(void)
{
	begin_two();
	h_post_recv(&b, 1, FAST, MTU, fast_key);
	post(&a, 2, XR_WR_SEND, FAST, 0, 64);
	xt_qp_doorbell(a.qp, h->now);
	h->lock_busy = true;
	h->locks = 0;
	xt_engine_run(h->engine, h->now);
	TAP_OK(h->locks == 1 && idle(), "an engine that is busy is tried once in a round");
	h->lock_busy = false;
	run(h->engine);
	TAP_OK(completes(1, 0) && completes(2, 0), "the SEND is received in a later one");
	end_two("a busy engine");
}

int main(void)
{
	test_busy();
	for (unsigned i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		for (unsigned stored = 0; stored <= 2; stored++)
			test_end(&ends[i], stored);
	return tap_end();
}
