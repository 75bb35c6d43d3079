// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * How long the control thread keeps others waiting, whatever clients have: in steps, as in
 * pauses_test.c, of a turn of its event loop or of a request. A step takes 1 to 10 ns. Work is
 * divided by time, a millisecond for each piece, so a slow machine has fewer steps in a turn; the
 * limit allows for one that is several times as fast as those of today. The steps for each object
 * show that no work grows with the square of their number.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_user_cm.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "control.h"
#include "daemon/base/loop.h"
#include "daemon/clients/walk.h"
#include "daemon/datapath/worker.h"
#include "daemon/rdma_cm/id.h"

#define MANY 20000		  /* objects of one client */
#define LIMIT 5000000u		  /* steps of a turn or a request: some 10 ms */
#define EACH 2000u		  /* steps for each object */
#define PORTS (60999 - 32768 + 1) /* those of binds without a port, by default */

static __thread uint64_t steps, all_steps;
static uint64_t longest;

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void)
{
	steps++;
	all_steps++;
}

static void note(void)
{
	if (steps > longest)
		longest = steps;
	steps = 0;
}

static void on_turn(void *arg)
{
	(void)arg;
	note();
}

static void short_turns(unsigned objects, const char *what)
{
	uint64_t each = all_steps / objects;

	TAP_OK(longest && longest <= LIMIT && each <= EACH,
	       "%s: at most %llu steps at once, %llu for each", what, (unsigned long long)longest,
	       (unsigned long long)each);
	longest = all_steps = 0;
}

/* ---- the loop and requests --------------------------------------------------------- */

static struct xd_timer *stopper;

static void on_stop(void *arg)
{
	xd_loop_stop(fake.dev.loop);
	(void)arg;
}

static void run_loop(void)
{
	steps = 0;
	xd_timer_arm(stopper, 1000000);
	MUST(!xd_loop_run(fake.dev.loop));
}

/* Closes a connection, and runs the loop until its client is freed. */
static void end(struct conn *c)
{
	uint32_t left = fake_clients()->count - 1;

	while (c->nfds)
		close(c->fds[--c->nfds]);
	close(c->fd);
	while (fake_clients()->count > left)
		run_loop();
}

static void must_ask(struct conn *c, uint32_t type, const void *body, size_t len)
{
	int err;

	steps = 0;
	err = ask_now(c, type, body, len);
	note();
	MUST(!err);
}

/* ---- ids of rdma_cm ----------------------------------------------------------------- */

static int command(struct conn *c, uint32_t cmd, const void *body, size_t in, size_t out)
{
	struct {
		struct xr_cm_req head;
		uint8_t body[384];
	} q = { .head = { .cmd = cmd, .in = (uint16_t)in, .out = (uint16_t)out } };
	int err;

	MUST(in <= sizeof(q.body));
	memcpy(q.body, body, in);
	steps = 0;
	err = ask_now(c, XR_MSG_CM, &q, sizeof(q.head) + in);
	note();
	return err;
}
#define COMMAND(c, name, q, out) command(c, RDMA_USER_CM_CMD_##name, &(q), sizeof(q), out)

static void open_channel(struct conn *c)
{
	connect_client(c);
	MUST(!hello(c, XR_HELLO_CM));
	longest = all_steps = 0;
}

static uint32_t create_id(struct conn *c, uint16_t ps)
{
	struct rdma_ucm_create_id q = { .uid = 1, .ps = ps };

	MUST(!COMMAND(c, CREATE_ID, q, 4));
	return *(uint32_t *)c->body;
}

static struct sockaddr_in6 address(uint8_t last, uint16_t port)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

	a.sin6_addr.s6_addr[0] = 0xfd;
	a.sin6_addr.s6_addr[15] = last;
	return a;
}

static void resolve(struct conn *c, uint32_t id, uint8_t last)
{
	struct rdma_ucm_resolve_ip q = {
		.id = id,
		.dst_addr = address(last, 7),
		.timeout_ms = 60000,
	};

	MUST(!COMMAND(c, RESOLVE_IP, q, 0));
}

static int bind_any(struct conn *c, uint32_t id, uint16_t port)
{
	struct rdma_ucm_bind_ip q = { .id = id, .addr = address(1, port) };

	return COMMAND(c, BIND_IP, q, 0);
}

/* Each id has two events, of which the program reads none. */
static void test_unread_events(void)
{
	struct rdma_ucm_resolve_route q = { .timeout_ms = 1 };
	struct conn c;

	open_channel(&c);
	for (unsigned i = 0; i < MANY; i++) {
		q.id = create_id(&c, RDMA_PS_TCP);
		resolve(&c, q.id, 1);
		MUST(!COMMAND(&c, RESOLVE_ROUTE, q, 0));
	}
	short_turns(MANY, "ids with events that nobody reads");
	end(&c);
	short_turns(MANY, "the end of their program");
}

static void test_unread_joins(void)
{
	struct rdma_ucm_join_ip_mcast q = { .addr = address(1, 0) };
	struct conn c;
	unsigned n = 0;

	open_channel(&c);
	for (unsigned i = 0; i < MANY / XR_MAX_GROUPS; i++) {
		q.id = create_id(&c, RDMA_PS_UDP);
		MUST(!bind_any(&c, q.id, 0));
		q.addr.sin6_addr.s6_addr[0] = 0xff;
		while (!COMMAND(&c, JOIN_IP_MCAST, q, 4))
			n++;
	}
	MUST(n == MANY / XR_MAX_GROUPS * XR_MAX_GROUPS);
	short_turns(n, "joins with events that nobody reads, as many as an id has");
	end(&c);
	short_turns(n, "the end of their program");
}

static void test_ports(void)
{
	struct conn c;
	uint32_t id;
	int err;

	open_channel(&c);
	for (unsigned i = 0; i < PORTS; i++)
		MUST(!bind_any(&c, create_id(&c, RDMA_PS_TCP), 0));
	TAP_OK(longest <= LIMIT && all_steps / PORTS <= PORTS,
	       "all ports are bound: at most %llu steps for one", (unsigned long long)longest);
	longest = all_steps = 0;
	id = create_id(&c, RDMA_PS_TCP);
	err = bind_any(&c, id, 0);
	TAP_OK(err == -EADDRNOTAVAIL && longest <= LIMIT, "no port is left: %llu steps",
	       (unsigned long long)longest);
	end(&c);
	short_turns(PORTS, "the end of their program");
}

/* All ids of a program may have the same port with this option. */
static void test_shared_port(void)
{
	struct {
		struct xr_cm_req head;
		struct rdma_ucm_set_option q;
		int on;
	} q = {
		.head = { .cmd = RDMA_USER_CM_CMD_SET_OPTION, .in = sizeof(q.q) },
		.q = { .optname = RDMA_OPTION_ID_REUSEADDR, .optlen = sizeof(int) },
		.on = 1,
	};
	struct conn c;

	open_channel(&c);
	for (unsigned i = 0; i < MANY; i++) {
		q.q.id = create_id(&c, RDMA_PS_TCP);
		must_ask(&c, XR_MSG_CM, &q, sizeof(q));
		MUST(!bind_any(&c, q.q.id, 4000));
	}
	short_turns(MANY, "ids that share one port");
	end(&c);
	short_turns(MANY, "the end of their program");
}

/* Each id has a timer. */
static void test_resolving(void)
{
	struct conn c;

	fake.slow = true;
	open_channel(&c);
	for (unsigned i = 0; i < MANY; i++)
		resolve(&c, create_id(&c, RDMA_PS_TCP), 99);
	short_turns(MANY, "ids that wait for their neighbours");
	end(&c);
	short_turns(MANY, "the end of their program");
	fake.slow = false;
}

/* ---- verbs -------------------------------------------------------------------------- */

static struct conn c;
static uint32_t pd, cq;

static void create(unsigned n, uint32_t type, const void *body, size_t len, const char *what)
{
	longest = all_steps = 0;
	for (unsigned i = 0; i < n; i++)
		must_ask(&c, type, body, len);
	short_turns(n, what);
}

static void create_objects(void)
{
	struct xr_create_qp_req qp = qp_request(pd, cq);
	struct xr_create_cq_req cqs = { .depth = 1 };
	struct xr_create_srq_req srq = { .pd = pd, .max_wr = 1, .max_sge = 1 };
	struct xr_create_ah_req ah = { .pd = pd, .attr = rtr_attr().ah };
	struct xr_alloc_mw_req mw = { .pd = pd, .type = IBV_MW_TYPE_2 };

	qp.max_send_wr = qp.max_recv_wr = qp.max_send_sge = qp.max_recv_sge = 1;
	create(MANY, XR_MSG_ALLOC_PD, NULL, 0, "protection domains");
	create(MANY, XR_MSG_ALLOC_MW, &mw, sizeof(mw), "windows");
	create(MANY, XR_MSG_CREATE_AH, &ah, sizeof(ah), "address handles");
	create(MANY / 4, XR_MSG_CREATE_CQ, &cqs, sizeof(cqs), "CQs");
	create(MANY / 4, XR_MSG_CREATE_SRQ, &srq, sizeof(srq), "SRQs");
	create(MANY / 4, XR_MSG_CREATE_QP, &qp, sizeof(qp), "QPs");
}

/* The program's QPs are in RTR and have paths. */
static void test_network(void)
{
	struct xr_modify_qp_req q = { .attr = rtr_attr() };
	uint32_t handle = 0;

	longest = all_steps = 0;
	while (xd_object_next(c.client, XD_QP, &handle)) {
		MUST(!to_init(&c, handle) && !to_rtr(&c, handle, q.attr));
		if (handle > 200) /* their number is that of requests, which take long here */
			break;
	}
	longest = all_steps = steps = 0;
	xd_walk_all(fake_clients(), XD_WALK_REFRESH);
	note();
	for (int i = 0; i < 100; i++)
		run_loop();
	short_turns(MANY, "paths are resolved again when the network changes");
}

/* ---- lists ------------------------------------------------------------------------ */

/* Asks for all pieces of a list. select: a name and a value, or NULL */
static void show(uint32_t what, const char *name, const char *value)
{
	struct {
		struct xr_show_req q;
		char text[64];
	} s = { .q = { .what = what, .flags = XR_SHOW_PIECES } };

	if (name)
		s.q.length = (uint32_t)snprintf(s.text, sizeof(s.text), "%s%c%s", name, 0, value) +
			     1;
	do {
		must_ask(&c, XR_MSG_SHOW, &s, sizeof(s.q) + s.q.length);
		s.q.from = ((const struct xr_show_rep *)c.body)->next;
		while (c.nfds)
			close(c.fds[--c.nfds]);
	} while (s.q.from);
}

static void test_lists(void)
{
	longest = all_steps = 0;
	show(XR_SHOW_QPS, NULL, NULL);
	show(XR_SHOW_AHS, NULL, NULL);
	show(XR_SHOW_MRS, NULL, NULL);
	show(XR_SHOW_MWS, NULL, NULL);
	short_turns(MANY * 4, "lists in pieces");
	show(XR_SHOW_QPS, "state", "ERR");
	show(XR_SHOW_MWS, "bound", "yes");
	short_turns(MANY * 2, "lists of which nothing is selected");
	show(XR_SHOW_QPS, "qpn", "17");
	show(XR_SHOW_MWS, "rkey", "17");
	show(XR_SHOW_AHS, "ah", "17");
	short_turns(3, "lookups by number");
}

int main(void)
{
	struct xd_options *o = &fake.opt;

	start_server("turns");
	o->max_qp = o->max_mr = o->max_ah = o->max_pd = o->max_cq = o->max_srq = 2 * MANY;
	o->client_max_qp = o->client_max_mr = o->client_max_ah = o->client_max_pd = 2 * MANY;
	o->client_max_cq = o->client_max_srq = 2 * MANY;
	o->max_cm_id = o->client_max_cm_id = o->user_max_cm_id = 2 * PORTS;
	o->user_max_memory = 4ull << 30;
	stopper = xd_timer_new(fake.dev.loop, on_stop, NULL);
	MUST(stopper);
	xd_loop_set_turn(fake.dev.loop, on_turn, NULL);
	test_unread_events();
	test_unread_joins();
	test_ports();
	test_shared_port();
	test_resolving();
	open_client(&c);
	pd = alloc_pd(&c);
	cq = create_cq(&c, 16, 0);
	create_objects();
	test_network();
	test_lists();
	close(events_fd);
	end(&c);
	short_turns(MANY * 4, "the end of a program with all of this");
	TAP_OK(nothing_left(), "nothing is left");
	xd_loop_set_turn(fake.dev.loop, NULL, NULL);
	xd_timer_free(stopper);
	fake_server_stop();
	return tap_end();
}
