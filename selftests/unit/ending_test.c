// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Accesses that outlive the right to their memory: what must not complete before they have ended */
#include <errno.h>

#include "slow.h"

#define WINDOW_VARIANT 0x55

/* Time passes until waiting QPs look again. */
static void look_again(void)
{
	h->now += XT_ENDING_POLL_NS;
	settle();
}

static void pass_limit(void)
{
	h->now += XT_ENDING_NS;
	settle();
}

/* Finishes all accesses that are being executed. */
static void finish_executing(void)
{
	while (finish(0))
		;
	look_again();
}

/* Returns the status of a completion, -1 if there is none. Others are dropped. */
static int status_of(uint64_t wr_id)
{
	struct xr_cqe cqe;
	int status = -1;

	while (h_poll(h, &cqe))
		if (cqe.wr_id == wr_id)
			status = (int)cqe.status;
	return status;
}

/* ---- keys ------------------------------------------------------------------------------- */

static struct xt_key *make_window(bool type_2)
{
	struct xt_key *key = xt_keys_alloc(h->shared.keys);

	key->entry.pd = 1;
	key->entry.type = XR_KEY_MW;
	key->entry.flags = type_2 ? XR_KEYF_TYPE_2 : 0;
	return key;
}

/* Posts a binding of a window to all of the slow memory, or to nothing. */
static void post_bind(const struct xt_key *window, uint64_t wr_id, uint64_t len)
{
	struct xr_send_wqe *w = h_post_send(&b, wr_id, XR_WR_BIND_MW, 0, 0, 0);

	w->bind.mw_rkey = xt_key_value(window);
	w->bind.new_rkey = XR_KEY(window->index, WINDOW_VARIANT);
	w->bind.mr_lkey = slow_key;
	w->bind.access = XR_ACCESS_REMOTE_WRITE;
	w->remote_addr = SLOW;
	w->bind_len = len;
}

static void post_inv(struct h_qp *q, uint64_t wr_id, uint32_t key)
{
	h_post_send(q, wr_id, XR_WR_LOCAL_INV, 0, 0, 0)->invalidate_rkey = key;
}

/* The peer of b writes by a window, and the write has been submitted. */
static struct xt_key *begin_window(bool loopback, bool type_2)
{
	struct xt_key *window;

	begin(loopback);
	slow_mr.key->entry.access |= XR_ACCESS_MW_BIND;
	window = make_window(type_2);
	post_bind(window, 1, SIZE);
	ring(&b);
	TAP_OK(completes(1, 0), "a window of type %d is bound", type_2 ? 2 : 1);
	post(&a, 2, XR_WR_RDMA_WRITE, FAST, SLOW, 64)->rkey = xt_key_value(window);
	ring(&a);
	return window;
}

static void test_local_inv(bool loopback)
{
	struct xt_key *window = begin_window(loopback, true);

	post_inv(&b, 3, xt_key_value(window));
	ring(&b);
	look_again();
	TAP_OK(idle() && pending() == 1 && window->entry.state == XR_KEY_FREE,
	       "LOCAL_INV ends the key at once, but does not complete during a WRITE through it");
	finish_executing();
	TAP_OK(!status_of(3) && !memcmp(slow, fast, 64), "it completes when the WRITE has ended");
	end("LOCAL_INV");
}

static void test_limit(void)
{
	struct xt_key *window = begin_window(false, true);

	post_inv(&b, 3, xt_key_value(window));
	ring(&b);
	hanging = true;
	look_again();
	TAP_OK(!status_of(3) && pending() == 1,
	       "LOCAL_INV does not wait long for memory that hangs");
	finish_executing();
	end("LOCAL_INV of memory that hangs");
}

/* Accesses that were submitted later, by other windows of the region, do not delay it. */
static void test_others(void)
{
	struct xt_key *window = begin_window(false, true);

	post_inv(&b, 3, xt_key_value(window));
	ring(&b);
	post(&a, 4, XR_WR_RDMA_WRITE, FAST, SLOW + 4096, 64);
	ring(&a);
	TAP_OK(idle() && pending() == 2, "a WRITE by the region's own key follows");
	finish(0);
	look_again();
	TAP_OK(!status_of(3) && pending() == 1, "LOCAL_INV does not wait for it");
	finish_executing();
	end("other accesses");
}

static void test_error(void)
{
	struct xt_key *window = begin_window(false, true);

	post_inv(&b, 3, xt_key_value(window));
	post_inv(&b, 4, xt_key_value(window));
	ring(&b);
	executing = true;
	h_modify(&b, XR_QPS_ERR);
	look_again();
	TAP_OK(idle(), "a QP in ERR does not flush a LOCAL_INV that has begun");
	finish_executing();
	TAP_OK(completes(3, 0) && completes(4, IBV_WC_WR_FLUSH_ERR),
	       "the LOCAL_INV succeeds, those behind it are flushed");
	end("LOCAL_INV in ERR");
}

static void test_unbind(void)
{
	struct xt_key *window = begin_window(false, false);

	post_bind(window, 3, 0);
	ring(&b);
	look_again();
	TAP_OK(idle() && pending() == 1, "unbinding does not complete during a WRITE");
	finish_executing();
	TAP_OK(!status_of(3), "it completes when the WRITE has ended");
	end("unbinding");
}

/* Another pair of QPs invalidates the key of a fast region by which a writes. */
static void test_send_inv(bool loopback)
{
	struct xt_key *key;
	struct h_qp c, d;

	begin(loopback);
	h_create_type(h, &c, type);
	h_create_type(h, &d, type);
	TAP_OK(connect(&c, &d, loopback) && connect(&d, &c, loopback), "other QPs are connected");
	key = xt_keys_alloc(h->shared.keys);
	key->entry = slow_mr.key->entry;
	key->entry.flags = XR_KEYF_FAST;
	key->mem = &slow_mr.mem;
	post(&a, 2, XR_WR_RDMA_WRITE, FAST, SLOW, 64)->rkey = xt_key_value(key);
	ring(&a);
	h_post_recv(&d, 3, FAST + 8192, 64, fast_key);
	post(&c, 4, XR_WR_SEND_WITH_INV, FAST, 0, 64)->invalidate_rkey = xt_key_value(key);
	ring(&c);
	look_again();
	TAP_OK(idle() && pending() == 1 && key->entry.state == XR_KEY_FREE,
	       "a SEND with Invalidate does not complete during a WRITE by another QP");
	finish(0);
	look_again();
	TAP_OK(!status_of(3) && !memcmp(fast + 8192, fast, 64),
	       "its receive completes when the WRITE has ended");
	h_destroy(&c);
	h_destroy(&d);
	end("SEND with Invalidate");
}

/* ---- QPs that end ----------------------------------------------------------------------- */

static void begin_read(bool loopback)
{
	begin(loopback);
	post(&a, 1, XR_WR_RDMA_READ, SLOW, FAST, 3 * MTU);
	ring(&a);
	executing = true;
}

static void test_flushed_read(bool loopback)
{
	begin_read(loopback);
	h_modify(&a, XR_QPS_ERR);
	look_again();
	TAP_OK(idle() && pending(), "a READ is not flushed while its data is being stored");
	finish_executing();
	TAP_OK(completes(1, IBV_WC_WR_FLUSH_ERR), "it is flushed afterwards");
	end("flushed READ");

	begin_read(loopback);
	executing = false;
	h_modify(&a, XR_QPS_ERR);
	TAP_OK(completes(1, IBV_WC_WR_FLUSH_ERR) && !pending(),
	       "it is flushed at once if its data can be kept from memory");
	end("flushed READ");

	begin_read(loopback);
	h_modify(&a, XR_QPS_ERR);
	pass_limit();
	TAP_OK(completes(1, IBV_WC_WR_FLUSH_ERR) && pending(),
	       "the flush does not wait long for memory that hangs");
	finish_executing();
	end("flushed READ of memory that hangs");
}

static void test_failed_read(void)
{
	begin_read(false);
	finish(-EFAULT);
	look_again();
	TAP_OK(idle() && pending() == 2, "a READ does not fail while data of it is being stored");
	finish_executing();
	TAP_OK(completes(1, IBV_WC_LOC_PROT_ERR), "it fails afterwards");
	end("failed READ");
}

static void test_flushed_receive(void)
{
	begin(false);
	h_post_recv(&b, 1, SLOW, 64, slow_key);
	post(&a, 2, XR_WR_SEND, FAST, 0, 64);
	ring(&a);
	executing = true;
	h_modify(&b, XR_QPS_ERR);
	look_again();
	TAP_OK(idle() && pending() == 1, "a receive is not flushed while its data is being stored");
	finish_executing();
	TAP_OK(completes(1, IBV_WC_WR_FLUSH_ERR), "it is flushed afterwards");
	end("flushed receive");
}

static void test_failed_receive(void)
{
	struct xr_recv_wqe *w;

	begin(false);
	h_post_recv(&b, 1, SLOW, 64, slow_key);
	w = (struct xr_recv_wqe *)(b.rq + 1);
	w->num_sge = 2;
	((struct xr_sge *)(w + 1))[1] = (struct xr_sge){ FAST, 64, 0x7777 };
	post(&a, 2, XR_WR_SEND, FAST, 0, 128);
	ring(&a);
	TAP_OK(status_of(1) == IBV_WC_LOC_PROT_ERR && !submissions,
	       "a receive fails before a part of it is stored");
	end("failed receive");
}

/* Over loopback, it is the peer that writes to the memory of the QP. */
static void test_loopback_receive(void)
{
	begin(true);
	h_post_recv(&b, 1, FAST, 64, fast_key);
	post(&a, 2, XR_WR_RDMA_WRITE_WITH_IMM, FAST, SLOW, 64);
	ring(&a);
	executing = true;
	h_modify(&b, XR_QPS_ERR);
	look_again();
	TAP_OK(idle() && pending() == 1, "nothing is flushed while a loopback peer writes");
	finish_executing();
	TAP_OK(status_of(1) == IBV_WC_WR_FLUSH_ERR, "it is flushed afterwards");
	end("loopback peer");
}

static void test_reset(void)
{
	begin_read(false);
	TAP_OK(!xt_qp_ending(a.qp), "nothing is given up");
	h_modify(&a, XR_QPS_RESET);
	TAP_OK(xt_qp_ending(a.qp), "RESET tells that data of a READ is being stored");
	finish_executing();
	TAP_OK(!xt_qp_ending(a.qp) && idle(), "and when it is stored");
	end("RESET");

	begin_read(false);
	xt_qp_remove(a.qp);
	TAP_OK(xt_qp_ending(a.qp), "so does a QP that was removed");
	finish_executing();
	TAP_OK(!xt_qp_ending(a.qp) && idle(), "and when it is stored");
	xt_qp_free(a.qp);
	a.qp = NULL;
	end("removed QP");
}

int main(void)
{
	test_local_inv(false);
	test_local_inv(true);
	test_limit();
	test_others();
	test_error();
	test_unbind();
	test_send_inv(false);
	test_send_inv(true);
	test_flushed_read(false);
	test_flushed_read(true);
	test_failed_read();
	test_flushed_receive();
	test_failed_receive();
	test_loopback_receive();
	test_reset();
	return tap_end();
}
