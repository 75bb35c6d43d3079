// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Posted writes of UD datagrams and UC messages: order, completions, errors and flush. */
#include <errno.h>

#include "slow.h"

#define N 40
#define GRH 40

static struct xr_send_wqe *send_to(uint64_t wr_id, uint32_t len)
{
	struct xr_send_wqe *w = post(&a, wr_id, XR_WR_SEND, FAST + 64 * wr_id, 0, len);

	if (type != XR_QPT_UD)
		return w;
	w->ud.ah = AH;
	w->ud.remote_qpn = b.qpn;
	w->ud.remote_qkey = QKEY;
	return w;
}

static uint32_t header(void)
{
	return type == XR_QPT_UD ? GRH : 0;
}

/* Posts receives into slow memory, and sends to them; all sends complete. */
static void begin_sends(unsigned receives, unsigned sends, bool loopback)
{
	struct xr_cqe cqe;
	unsigned i;

	begin(loopback);
	for (i = 0; i < receives; i++)
		h_post_recv(&b, i, SLOW + 256 * i, 256, slow_key);
	for (i = 0; i < sends; i++)
		send_to(i, 16 + i);
	ring(&a);
	for (i = 0; i < sends; i++)
		if (!h_poll(h, &cqe) || cqe.is_recv || cqe.status)
			TAP_OK(false, "a send completes when it was sent");
}

static bool received(unsigned i)
{
	struct xr_cqe cqe;

	return h_poll(h, &cqe) && cqe.is_recv && !cqe.status && cqe.wr_id == i &&
	       cqe.wqe_index == i && cqe.byte_len == header() + 16 + i &&
	       !memcmp(slow + 256 * i + header(), fast + 64 * i, 16 + i);
}

static bool fails(unsigned i, uint32_t status)
{
	struct xr_cqe cqe;

	return h_poll(h, &cqe) && cqe.is_recv && cqe.wr_id == i && cqe.status == status;
}

/* GRH and payload are written together, unless the payload is copied from mapped memory. */
static unsigned writes_of(bool loopback)
{
	return type == XR_QPT_UD && loopback ? 2 : 1;
}

/* Finishes the writes of one message. */
static void finish_message(int err, bool loopback)
{
	finish(err);
	if (!err && writes_of(loopback) == 2)
		finish(0);
	settle();
}

static void test_posted(const char *how, bool loopback)
{
	bool ok = true;
	unsigned i;

	begin_sends(N, N, loopback);
	TAP_OK(pending() == writes_of(loopback) * N && !b.qp->waiting.blocks[XT_KEPT_SMALL] &&
		       !b.qp->waiting.blocks[XT_KEPT_LARGE],
	       "%s: the data of all messages is posted, and none waits for an earlier one", how);
	TAP_OK(submitted[0]->last == (writes_of(loopback) == 1) &&
		       submitted[writes_of(loopback) - 1]->last,
	       "%s: the write that ends the message is marked", how);
	TAP_OK(idle(), "%s: no receive completes before its data is stored", how);
	finish_message(0, loopback);
	TAP_OK(received(0) && idle(), "%s: a receive completes when its data is stored", how);
	for (i = 1; i < N; i++) {
		finish_message(0, loopback);
		ok &= received(i);
	}
	TAP_OK(ok && idle() && b.rq->consumer == N, "%s: all are received in order", how);
	end(how);
}

/* A receive with the GRH and the payload in two places */
static void test_two_places(void)
{
	struct xr_recv_wqe *w;
	struct xr_sge *sge;
	const char *how = "UD, GRH and payload in two places";

	begin(false);
	h_post_recv(&b, 0, SLOW, GRH, slow_key);
	w = (struct xr_recv_wqe *)(b.rq + 1);
	sge = (struct xr_sge *)(w + 1);
	sge[1] = (struct xr_sge){ SLOW + 4096, 256, slow_key };
	w->num_sge = 2;
	memset(slow, 0, 5000);
	send_to(0, 16);
	ring(&a);
	TAP_OK(pending() == 2 && submitted[0]->at == 0 && submitted[0]->len == GRH &&
		       !submitted[0]->last && submitted[1]->len == 16 && submitted[1]->last,
	       "%s: two writes, of which the second ends the message", how);
	finish(0);
	settle();
	TAP_OK(!b.qp->rq.taken && h->cq_ring->producer == 1, "%s: the receive waits for both", how);
	finish_all();
	TAP_OK(h->cq_ring->producer == 2 && !memcmp(slow + 4096, fast, 16) && slow[20],
	       "%s: both are stored", how);
	end(how);
}

static void test_failures(const char *how, bool loopback)
{
	begin_sends(4, 3, loopback);
	finish_message(0, loopback);
	finish_message(-EFAULT, loopback);
	TAP_OK(received(0) && fails(1, IBV_WC_LOC_PROT_ERR) && fails(2, IBV_WC_WR_FLUSH_ERR) &&
		       fails(3, IBV_WC_WR_FLUSH_ERR) && idle(),
	       "%s: a receive fails whose data cannot be stored; later ones are flushed", how);
	end(how);

	begin_sends(3, 2, loopback);
	h_modify(&b, XR_QPS_ERR);
	TAP_OK(!allocated && fails(0, IBV_WC_WR_FLUSH_ERR) && fails(1, IBV_WC_WR_FLUSH_ERR) &&
		       fails(2, IBV_WC_WR_FLUSH_ERR),
	       "%s: ERR gives up the posted writes and flushes their receives", how);
	end(how);
}

/* Receives behind posted data that cannot be posted themselves wait for it. */
static void test_order(const char *how)
{
	struct xr_cqe cqe;

	begin(false);
	h_post_recv(&b, 0, SLOW, 256, slow_key);
	h_post_recv(&b, 1, FAST + 20000, 256, fast_key);
	h_post_recv(&b, 2, SLOW, 256, slow_key ^ 1);
	send_to(0, 16);
	send_to(1, 16);
	send_to(2, 16);
	ring(&a);
	for (unsigned i = 0; i < 3; i++)
		h_poll(h, &cqe);
	TAP_OK(idle(), "%s: a receive in mapped memory does not complete before an earlier one",
	       how);
	finish_all();
	TAP_OK(received(0) && h_poll(h, &cqe) && cqe.wr_id == 1 && !cqe.status &&
		       fails(2, IBV_WC_LOC_PROT_ERR) && idle(),
	       "%s: it does afterwards, and then a bad receive fails", how);
	end(how);
}

/* The first part of a receive is stored, the second has no valid key: it fails, and at once. */
static void test_half(const char *how)
{
	struct xr_recv_wqe *r;
	struct xr_cqe cqe;

	begin(false);
	h_post_recv(&b, 0, SLOW, 8, slow_key);
	r = (struct xr_recv_wqe *)(b.rq + 1);
	r->num_sge = 2;
	((struct xr_sge *)(r + 1))[1] = (struct xr_sge){ SLOW + 100, 256, slow_key ^ 1 };
	send_to(0, 64);
	ring(&a);
	while (h_poll(h, &cqe) && !cqe.is_recv)
		;
	TAP_OK(cqe.is_recv && cqe.status == IBV_WC_LOC_PROT_ERR && !allocated,
	       "%s: a receive fails although a part of its data is posted", how);
	end(how);
}

/* UC: a failed WRITE and what follows it is dropped; the QP goes on. */
static void test_failed_write(void)
{
	struct xr_cqe cqe;

	begin(false);
	post(&a, 1, XR_WR_RDMA_WRITE, FAST, SLOW, 3 * MTU);
	ring(&a);
	TAP_OK(h_poll(h, &cqe) && !cqe.status && pending() == 3,
	       "the data of a UC WRITE is posted");
	finish(-EFAULT);
	settle();
	TAP_OK(!allocated && h->engine->counters.unreliable_drops == 1 &&
		       b.qp->info.state == XR_QPS_RTS,
	       "if it cannot be stored, the message is dropped");
	h_post_recv(&b, 0, SLOW, 256, slow_key);
	send_to(0, 16);
	ring(&a);
	h_poll(h, &cqe);
	finish_all();
	TAP_OK(received(0), "the next one is received");
	end("failed UC WRITE");
}

int main(void)
{
	type = XR_QPT_UD;
	test_posted("UD", false);
	test_posted("UD over loopback", true);
	test_failures("UD", false);
	test_failures("UD over loopback", true);
	test_two_places();
	test_order("UD");
	test_half("UD");
	type = XR_QPT_RC;
	test_half("RC");
	type = XR_QPT_UC;
	test_posted("UC", false);
	test_failures("UC", false);
	test_order("UC");
	test_half("UC");
	test_failed_write();
	return tap_end();
}
