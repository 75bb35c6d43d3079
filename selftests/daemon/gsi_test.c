// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* QP 1 of the daemon: MADs over loopback, next hops, limits, and its loan to programs */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "control.h"
#include "daemon/base/loop.h"
#include "daemon/cm/cm.h"
#include "daemon/datapath/worker.h"
#include "daemon/gsi/gsi.h"
#include "daemon/gsi/gsi_internal.h"
#include "daemon/netdev/net.h"

#define CM 7
#define PERFORMANCE 4
#define SA 3
#define BIG 4096

static struct xd_gsi *gsi;
static struct {
	unsigned count, in_turn, most_in_turn;
	uint32_t number; /* of the last MAD */
	struct xc_path path;
	unsigned answers; /* MADs to be sent back for each MAD */
	int err;	  /* of the last of them */
} got;

static void fill(uint8_t *mad, uint8_t class, uint32_t number)
{
	memset(mad, 0, XC_MAD_LEN);
	mad[0] = 1;
	mad[1] = class;
	memcpy(mad + 8, &number, sizeof(number));
}

static void on_mad(void *ctx, const struct xc_path *path, const uint8_t *mad)
{
	struct xc_path back = *path;
	unsigned i;

	MUST(ctx == &got);
	got.count++;
	got.in_turn++;
	got.path = *path;
	memcpy(&got.number, mad + 8, sizeof(got.number));
	for (i = 0; i < got.answers; i++)
		got.err = xd_gsi_send(gsi, &back, mad);
}

static const struct xt_counters *engine_counters(void)
{
	return xt_engine_counters(xd_worker_engine(fake.dev.workers, 0));
}

static void run_engine(void)
{
	xt_engine_run(xd_worker_engine(fake.dev.workers, 0), xd_now());
}

static void stop_loop(void *arg)
{
	xd_loop_stop(fake.dev.loop);
}

static void one_turn(void)
{
	struct xd_timer *stop = xd_timer_new(fake.dev.loop, stop_loop, NULL);

	got.in_turn = 0;
	xd_timer_arm(stop, 0);
	MUST(!xd_loop_run(fake.dev.loop));
	xd_timer_free(stop);
	if (got.in_turn > got.most_in_turn)
		got.most_in_turn = got.in_turn;
}

static void turns(unsigned n)
{
	while (n--) {
		run_engine();
		one_turn();
	}
}

/* From the first address of the device to another one of its own, or to that of a peer */
static struct xc_path to(uint8_t last_byte)
{
	struct xc_path path = { .hop_limit = 3, .traffic_class = 0x2a, .flow_label = 0x12345 };

	xd_net_gid(fake.dev.net, 0, &path.local);
	path.peer = path.local;
	path.peer.raw[15] = last_byte;
	return path;
}

static int send_mad(uint8_t last_byte, uint8_t class, uint32_t number)
{
	struct xc_path path = to(last_byte);
	uint8_t mad[XC_MAD_LEN];

	fill(mad, class, number);
	return xd_gsi_send(gsi, &path, mad);
}

static void open_gsi(void)
{
	const struct xd_gsi_config config = {
		.loop = fake.dev.loop,
		.net = fake.dev.net,
		.tables = fake.dev.tables,
		.workers = fake.dev.workers,
	};

	MUST(!xd_gsi_new(&config, &gsi));
	xd_gsi_set_receiver(gsi, on_mad, &got);
	memset(&got, 0, sizeof(got));
	fake.dev.gsi = gsi;
}

static void close_gsi(void)
{
	xd_gsi_free(gsi);
	fake.dev.gsi = gsi = NULL;
	TAP_OK(!xt_qp_by_num(fake.dev.shared.qps, XR_GSI_QPN) && !fake.map_qps,
	       "no QP is left, also not in XDP's map");
}

static void test_exchange(void)
{
	struct xc_path sent = to(2);

	open_gsi();
	TAP_OK(xt_qp_by_num(fake.dev.shared.qps, XR_GSI_QPN) && fake.map_qps == 1,
	       "the daemon has QP 1, also in XDP's map");
	TAP_OK(!send_mad(2, CM, 77), "a MAD is sent");
	turns(2);
	TAP_OK(got.count == 1 && got.number == 77, "and received");
	TAP_OK(xr_gid_equal(&got.path.local, &sent.peer) &&
		       xr_gid_equal(&got.path.peer, &sent.local),
	       "the path names the receiver's and the sender's address");
	TAP_OK(got.path.hop_limit == 3 && got.path.traffic_class == 0x2a &&
		       got.path.flow_label == 0x12345,
	       "hop limit, traffic class and flow label are those of the sender");
	TAP_OK(!send_mad(2, SA, 78), "a MAD of another class is sent");
	turns(2);
	TAP_OK(got.count == 1 && xd_gsi_counters(gsi)->mads_refused == 1, "refused and counted");
	xd_gsi_set_receiver(gsi, NULL, NULL);
	MUST(!send_mad(2, CM, 79));
	turns(2);
	TAP_OK(got.count == 1 && xd_gsi_counters(gsi)->mads_refused == 2,
	       "without a receiver a MAD is refused and counted");
	TAP_OK(xd_gsi_counters(gsi)->mads_sent == 3 && xd_gsi_counters(gsi)->mads_received == 1,
	       "sent and received MADs are counted");
	close_gsi();
}

/* A Get of ClassPortInfo. The daemon's QP has sent it, so the response returns to that QP. */
static int send_get(uint8_t last_byte)
{
	struct xc_path path = to(last_byte);
	uint8_t mad[XC_MAD_LEN];

	fill(mad, PERFORMANCE, 1);
	mad[2] = mad[3] = mad[17] = 1;
	return xd_gsi_send(gsi, &path, mad);
}

static void test_performance_management(void)
{
	const struct xd_gsi_counters *c;
	unsigned i;

	open_gsi();
	c = xd_gsi_counters(gsi);
	xd_gsi_set_receiver(gsi, NULL, NULL);
	TAP_OK(!send_get(2) && (turns(4), c->pma_requests == 1) && c->mads_sent == 2,
	       "a request for port counters is responded to, also without a receiver");
	TAP_OK(c->mads_received == 1 && c->mads_refused == 1,
	       "its response is no request, so that no response follows");
	TAP_OK(!send_mad(2, PERFORMANCE, 1) && (turns(4), c->pma_requests == 2) &&
		       c->mads_sent == 4,
	       "an unsupported request gets a response as well");
	for (i = 0; i < XD_GSI_PMA_BURST; i++)
		MUST(!send_get(2));
	gsi->pma_bucket = 0;
	turns(4);
	TAP_OK(c->pma_requests == 2 + XD_GSI_PMA_BURST && !c->pma_limited,
	       "and so do many at once");
	MUST(!send_get(2));
	gsi->pma_bucket = xd_now() + 3600 * 1000000000ull;
	turns(4);
	TAP_OK(c->pma_requests == 2 + XD_GSI_PMA_BURST && c->pma_limited == 1,
	       "those beyond the rate are dropped and counted");
	close_gsi();
}

/* The response needs a next hop while `waiting` others are being resolved. */
static bool responds_beside(unsigned waiting)
{
	bool responded;

	open_gsi();
	MUST(!send_get(2));
	fake.slow = true;
	while (waiting--)
		MUST(!send_mad(3, CM, waiting));
	turns(4);
	MUST(xd_gsi_counters(gsi)->pma_requests == 1);
	responded = !xd_gsi_counters(gsi)->mads_no_room;
	close_gsi();
	fake_resolve_all();
	fake.slow = false;
	return responded;
}

static void test_responses_wait(void)
{
	TAP_OK(responds_beside(GSI_WAITING_PMA - 1), "a response waits for its next hop");
	TAP_OK(!responds_beside(GSI_WAITING_PMA),
	       "but leaves most of the room to connection management");
}

static void test_flood(void)
{
	uint64_t lost;
	unsigned i;

	open_gsi();
	lost = engine_counters()->no_receive;
	/* the control thread takes none meanwhile */
	for (i = 0; i < GSI_RECEIVES + 100; i++) {
		MUST(!send_mad(2, CM, i));
		run_engine();
	}
	TAP_OK(engine_counters()->no_receive == lost + 100,
	       "MADs without a free buffer are dropped and counted");
	got.answers = 1;
	one_turn();
	TAP_OK(got.in_turn == XD_GSI_BATCH, "one turn takes a batch of MADs");
	got.answers = 0;
	for (i = 0; i < GSI_RECEIVES; i++)
		one_turn();
	/* and answers that the control thread has sent itself */
	TAP_OK(got.count >= GSI_RECEIVES && got.most_in_turn == XD_GSI_BATCH,
	       "the other turns take the rest");
	turns(GSI_RECEIVES);
	TAP_OK(got.count == GSI_RECEIVES + XD_GSI_BATCH, "MADs sent by the receiver arrive");
	for (i = 0; i < BIG; i++) {
		MUST(!send_mad(2, CM, i));
		turns(1);
	}
	turns(2);
	TAP_OK(got.count == GSI_RECEIVES + XD_GSI_BATCH + BIG && got.number == BIG - 1,
	       "all buffers are free again");
	close_gsi();
}

/* MADs that are sent in one turn of the loop are sent together at its end. */
static void test_full_send_queue(void)
{
	open_gsi();
	got.answers = GSI_SENDS + 1;
	MUST(!send_mad(2, CM, 1));
	one_turn();
	TAP_OK(got.err == -ENOBUFS && xd_gsi_counters(gsi)->mads_no_room == 1,
	       "a MAD is refused while the send queue is full");
	got.answers = 0;
	turns(GSI_SENDS);
	TAP_OK(got.count == 1 + GSI_SENDS, "the others arrive");
	TAP_OK(!send_mad(2, CM, 2) && (turns(1), got.number == 2), "the queue has room again");
	close_gsi();
}

#define MORE 10

static void test_next_hops(void)
{
	uint32_t i;
	const struct xd_gsi_counters *c;

	open_gsi();
	c = xd_gsi_counters(gsi);
	fake.no_route = true;
	TAP_OK(send_mad(2, CM, 1) == -ENETUNREACH && xd_gsi_counters(gsi)->mads_no_path == 1,
	       "no route");
	fake.no_route = false;
	fake.slow = true;
	for (i = 0; i < GSI_WAITING + MORE; i++)
		MUST(!send_mad(2, CM, i));
	TAP_OK(gsi->qp->waiting_count == GSI_WAITING && c->mads_no_room == MORE,
	       "the number of MADs that wait for their next hop is limited");
	fake.slow = false;
	TAP_OK(!send_mad(3, CM, 1000) && (turns(2), got.count == 1) && got.number == 1000,
	       "MADs to other peers need not wait");
	fake.slow = true;
	fake_resolve_all();
	turns(GSI_SENDS);
	TAP_OK(got.count == 1 + GSI_WAITING && got.number == GSI_WAITING + MORE - 1,
	       "those that have waited are sent when it is resolved, without the oldest ones");
	TAP_OK(!send_mad(2, CM, 5) && (turns(2), got.number == 5), "which is remembered");
	xd_gsi_net_changed(gsi);
	TAP_OK(!send_mad(2, CM, 6) && (turns(2), got.number == 5),
	       "until the network changes, when it is resolved again");
	fake.no_route = true;
	fake_resolve_all();
	TAP_OK(xd_gsi_counters(gsi)->mads_no_path == 2,
	       "a MAD whose next hop is not found is lost");
	fake.no_route = false;
	MUST(!send_mad(3, CM, 7));
	close_gsi();
	fake_resolve_all();
	fake.slow = false;
}

static int create_gsi(struct conn *c, uint32_t *qp)
{
	struct xr_create_qp_req q = qp_request(alloc_pd(c), create_cq(c, 16, 0));
	int status;

	q.type = XR_QPT_GSI;
	status = ask(c, XR_MSG_CREATE_QP, &q, sizeof(q));
	*qp = handle_of(c);
	return status;
}

static void test_loan(void)
{
	struct conn c, other;
	uint32_t qp;

	start_server("gsi");
	open_gsi();
	open_client(&c);
	open_client(&other);
	TAP_OK(!xd_gsi_hold(gsi) && create_gsi(&c, &qp) == -EBUSY,
	       "a program cannot have QP 1 while it is held");
	MUST(!send_mad(2, CM, 1));
	turns(2);
	TAP_OK(got.number == 1, "the daemon's QP still works");
	xd_gsi_release(gsi);
	TAP_OK(!create_gsi(&c, &qp) && xd_gsi_lent(gsi), "afterwards it can");
	TAP_OK(xd_gsi_hold(gsi) == -EBUSY && send_mad(2, CM, 2) == -EBUSY,
	       "the daemon cannot use QP 1 then");
	TAP_OK(create_gsi(&other, &qp) == -EBUSY, "nor can another program");
	TAP_OK(xd_gsi_lent(gsi), "whose attempt changes nothing");
	close_client(&c);
	TAP_OK(!xd_gsi_lent(gsi) && !send_mad(2, CM, 3) && (turns(2), got.number == 3),
	       "when the program ends, the daemon has QP 1 again");
	fake.maps_full = true;
	TAP_OK(!create_gsi(&other, &qp), "a second program creates it");
	TAP_OK(!ask_handle(&other, XR_MSG_DESTROY_QP, qp) && !xd_gsi_lent(gsi) &&
		       send_mad(2, CM, 4) == -EBUSY,
	       "if the daemon cannot create its own again, it has none");
	fake.maps_full = false;
	TAP_OK(!xd_gsi_hold(gsi) && !send_mad(2, CM, 5) && (turns(2), got.number == 5),
	       "but tries when it is held next");
	xd_gsi_release(gsi);
	close_client(&other);
	close_gsi();
	TAP_OK(nothing_left(), "nothing is left");
	fake_server_stop();
}

int main(void)
{
	test_loan();
	test_exchange();
	test_performance_management();
	test_responses_wait();
	test_flood();
	test_full_send_queue();
	test_next_hops();
	return tap_end();
}
