// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Files of umad: agents, MADs over loopback, timeouts, limits and hostile programs */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/ib_user_mad.h>

#include "control.h"
#include "daemon/base/loop.h"
#include "daemon/cm/cm.h"
#include "daemon/datapath/worker.h"
#include "daemon/gsi/gsi.h"
#include "daemon/gsi/gsi_internal.h"
#include "daemon/netdev/net.h"
#include "daemon/umad/internal.h"

#define PERFORMANCE 4
#define VENDOR 0x30
#define GET 1
#define GET_RESP 0x81
#define METHOD 3
#define TID 8

struct packet {
	struct ib_user_mad_hdr hdr;
	uint8_t mad[XC_MAD_LEN];
};

static struct xd_gsi *gsi;
static struct conn c;
static int file; /* of that connection */
static struct packet got;

/* ---- helpers -------------------------------------------------------------------- */

static void start(void)
{
	struct xd_gsi_config config;

	start_server("umad");
	config = (struct xd_gsi_config){
		.loop = fake.dev.loop,
		.net = fake.dev.net,
		.tables = fake.dev.tables,
		.workers = fake.dev.workers,
	};
	MUST(!xd_gsi_new(&config, &gsi));
	fake.dev.gsi = gsi;
	xd_umad_start(&fake.server->objects);
}

static int open_file(struct conn *conn)
{
	connect_client(conn);
	MUST(!hello(conn, XR_HELLO_UMAD) && conn->nfds == 1);
	conn->nfds = 0;
	return conn->fds[0];
}

static void close_file(struct conn *conn, int fd)
{
	close(fd);
	disconnect(conn);
	settle();
}

static void stop_loop(void *arg)
{
	xd_loop_stop(fake.dev.loop);
}

/* Runs the engine and the loop, for some milliseconds together. */
static void turns(unsigned int n)
{
	struct xd_timer *stop = xd_timer_new(fake.dev.loop, stop_loop, NULL);

	while (n--) {
		xt_engine_run(xd_worker_engine(fake.dev.workers, 0), xd_now());
		xd_timer_arm(stop, 1000000);
		MUST(!xd_loop_run(fake.dev.loop));
	}
	xd_timer_free(stop);
}

static struct xr_umad_register_req agent_of(uint8_t class, uint64_t methods)
{
	return (struct xr_umad_register_req){ .methods = { methods },
					      .qpn = 1,
					      .mgmt_class = class,
					      .mgmt_class_version = 1,
					      .oui = { 1, 2, 3 } };
}

/* Returns the status. */
static int add_agent(struct conn *conn, uint8_t class, uint64_t methods)
{
	struct xr_umad_register_req q = agent_of(class, methods);

	return ask(conn, XR_MSG_UMAD_REGISTER, &q, sizeof(q));
}

static uint32_t agent(struct conn *conn)
{
	return ((struct xr_umad_agent *)conn->body)->id;
}

static int remove_agent(struct conn *conn, uint32_t id)
{
	struct xr_umad_agent q = { .id = id };

	return ask(conn, XR_MSG_UMAD_UNREGISTER, &q, sizeof(q));
}

static void fill(uint8_t *mad, uint8_t class, uint8_t method, uint8_t tid)
{
	memset(mad, 0, XC_MAD_LEN);
	mad[0] = mad[2] = 1;
	mad[1] = class;
	mad[METHOD] = method;
	mad[TID + 7] = tid;
	mad[17] = class == PERFORMANCE; /* ClassPortInfo */
	memcpy(mad + 37, (uint8_t[]){ 1, 2, 3 }, class == VENDOR ? 3 : 0);
}

static struct packet packet(uint32_t id, uint8_t class, uint8_t tid)
{
	struct packet p = { .hdr = { .id = id,
				     .timeout_ms = 20000,
				     .qpn = htonl(1),
				     .qkey = htonl(XR_GSI_QKEY) } };

	fill(p.mad, class, GET, tid);
	return p;
}

static int send_packet(struct conn *conn, const struct packet *p)
{
	return ask_now(conn, XR_MSG_UMAD_SEND, p, sizeof(*p));
}

/* Returns the length of a MAD that was read, or -1. */
static ssize_t read_file(int fd)
{
	return recv(fd, &got, sizeof(got), MSG_DONTWAIT);
}

/* Sends a MAD from one address of the device to another one. */
static void send_mad(uint32_t from, uint32_t to, const uint8_t *mad)
{
	struct xc_path path = { .hop_limit = 9 };

	xd_net_gid(fake.dev.net, from, &path.local);
	xd_net_gid(fake.dev.net, to, &path.peer);
	MUST(!xd_gsi_send(gsi, &path, mad));
	turns(2);
}

/* ---- tests ---------------------------------------------------------------------- */

static void test_permissions(void)
{
	struct packet p = packet(0, PERFORMANCE, 1);
	struct xr_cm_req cm = { 0 };
	struct conn other;

	file = open_file(&c);
	TAP_OK(ask(&c, XR_MSG_ALLOC_PD, NULL, 0) == -EPERM &&
		       ask(&c, XR_MSG_CM, &cm, sizeof(cm)) == -EPERM &&
		       ask(&c, XR_MSG_QUERY_PORT, NULL, 0) == -EPERM,
	       "a file of umad may send requests of umad only");
	open_client(&other);
	TAP_OK(send_packet(&other, &p) == -EPERM, "which other clients may not send");
	close_client(&other);
	connect_client(&other);
	MUST(!hello(&other, XR_HELLO_CM));
	TAP_OK(send_packet(&other, &p) == -EPERM, "nor channels of rdma_cm");
	disconnect(&other);
	connect_client(&other);
	TAP_OK(hello(&other, XR_HELLO_UMAD | XR_HELLO_CM) == -EINVAL &&
		       hello(&other, XR_HELLO_UMAD | XR_HELLO_OBSERVER) == -EINVAL,
	       "and no client is two of them");
	disconnect(&other);
	TAP_OK(send_packet(&c, &p) == -EIO, "without an agent nothing is sent");
}

static void test_exchange(void)
{
	struct packet p;
	uint8_t mad[XC_MAD_LEN];
	uint32_t id;

	MUST(!add_agent(&c, PERFORMANCE, 0));
	id = agent(&c);
	p = packet(id, PERFORMANCE, 7);
	TAP_OK(!send_packet(&c, &p), "a request to the own port is sent");
	turns(4);
	TAP_OK(read_file(file) == sizeof(got) && got.hdr.id == id && !got.hdr.status &&
		       got.hdr.length == sizeof(got) && ntohl(got.hdr.qpn) == 1 &&
		       got.hdr.grh_present,
	       "its response arrives");
	TAP_OK(got.mad[METHOD] == GET_RESP && got.mad[TID + 7] == 7 &&
		       memcmp(got.mad + TID, p.mad + TID, 4),
	       "with the lower half of the transaction ID, and an upper half of the agent");
	memcpy(mad, got.mad, sizeof(mad));
	send_mad(0, 0, mad);
	TAP_OK(read_file(file) < 0, "the same response again is dropped");
	p = packet(id, VENDOR, 8);
	MUST(!send_packet(&c, &p));
	mad[1] = VENDOR;
	mad[TID + 7] = 8;
	send_mad(1, 0, mad);
	TAP_OK(read_file(file) < 0, "also one from another address");
	mad[TID + 6] = 1;
	send_mad(0, 0, mad);
	TAP_OK(read_file(file) < 0, "or with another transaction ID");
	mad[TID + 6] = 0;
	send_mad(0, 0, mad);
	TAP_OK(read_file(file) == sizeof(got), "but not the right one");
	TAP_OK(!remove_agent(&c, id) && remove_agent(&c, id) == -EINVAL &&
		       remove_agent(&c, 77) == -EINVAL,
	       "an agent is removed once");
}

static void test_timeouts(void)
{
	const struct xd_gsi_counters *n = xd_gsi_counters(gsi);
	const uint64_t *bucket = &fake.server->objects.umads->client->connection.bucket;
	uint64_t sent = n->mads_sent, before;
	struct packet p;

	MUST(!add_agent(&c, VENDOR, 0));
	p = packet(agent(&c), VENDOR, 1);
	p.hdr.timeout_ms = 5;
	p.hdr.retries = 2;
	MUST(!send_packet(&c, &p));
	TAP_OK(send_packet(&c, &p) == -EINVAL, "a transaction ID is used once at a time");
	before = *bucket;
	while (read_file(file) < 0)
		turns(1);
	TAP_OK(*bucket > before, "processor time for sending again is charged to the client");
	TAP_OK(got.hdr.status == ETIMEDOUT && got.hdr.length == sizeof(got.hdr) + 24 &&
		       got.mad[TID + 7] == 1 && n->mads_sent == sent + 3,
	       "a request without response is sent again, then reported");
	turns(10);
	TAP_OK(read_file(file) < 0 && !send_packet(&c, &p), "once");
	MUST(!remove_agent(&c, 0));
	turns(20);
	TAP_OK(read_file(file) < 0, "no report after the agent was removed");
	p.hdr.timeout_ms = 0;
	MUST(!add_agent(&c, VENDOR, 0));
	sent = n->mads_sent;
	TAP_OK(!send_packet(&c, &p) && !send_packet(&c, &p) && (turns(3), read_file(file) < 0) &&
		       n->mads_sent == sent + 2,
	       "nor without a timeout");
	MUST(!remove_agent(&c, 0));
}

/* ---- RMPP ----------------------------------------------------------------------- */

enum {
	RMPP_TYPE = 25,
	RMPP_FLAGS,
	SEGMENT = 31,
	DATA = 1,
	ACK = 2,
	ACTIVE = 1,
	FIRST = 3,
	LAST = 5
};

static void make_segment(uint8_t *mad, uint8_t type, uint8_t flags, uint8_t number)
{
	mad[24] = 1; /* RMPP version */
	mad[RMPP_TYPE] = type;
	mad[RMPP_FLAGS] = flags;
	mad[SEGMENT] = number;
}

static uint32_t add_rmpp_agent(uint8_t version, uint32_t flags)
{
	struct xr_umad_register_req q = agent_of(VENDOR, 0);

	q.rmpp_version = version;
	q.flags = flags;
	MUST(!ask(&c, XR_MSG_UMAD_REGISTER, &q, sizeof(q)));
	return agent(&c);
}

/* Sends a request and stores a response to it. */
static void request_and_response(uint32_t id, uint8_t tid, uint8_t *response)
{
	struct packet p = packet(id, VENDOR, tid);
	const struct umad_send *s = fake.server->objects.umads->send;

	MUST(!send_packet(&c, &p));
	while (!s->used || s->packet.mad[TID + 7] != tid)
		s++;
	memcpy(response, s->packet.mad, XC_MAD_LEN);
	response[METHOD] = GET_RESP;
	turns(2);
}

/* Sends segments of a response, and returns how many the program gets. */
static unsigned int segments(uint8_t *mad, uint8_t count)
{
	unsigned int read = 0;

	for (uint8_t i = 1; i <= count; i++) {
		make_segment(mad, DATA, ACTIVE | (i == 1 ? FIRST : 0) | (i == count ? LAST : 0), i);
		send_mad(0, 0, mad);
		read += read_file(file) == sizeof(got) && got.mad[SEGMENT] == i;
	}
	return read;
}

static void test_segmented_response(void)
{
	uint32_t id = add_rmpp_agent(1, IB_USER_MAD_USER_RMPP), none = add_rmpp_agent(0, 0);
	uint32_t kernel = add_rmpp_agent(1, 0);
	struct packet p = packet(kernel, VENDOR, 9);
	uint8_t mad[XC_MAD_LEN];

	request_and_response(id, 1, mad);
	TAP_OK(segments(mad, 3) == 3, "a program that does RMPP gets each segment of a response");
	make_segment(mad, ACK, ACTIVE, 1);
	send_mad(0, 0, mad);
	TAP_OK(read_file(file) == sizeof(got), "and ACKs");
	mad[RMPP_FLAGS] = 0;
	send_mad(0, 0, mad);
	TAP_OK(read_file(file) < 0, "but no second response without RMPP");
	request_and_response(none, 2, mad);
	TAP_OK(segments(mad, 3) == 3, "so does one whose agent has no RMPP version");
	mad[TID] ^= 1;
	TAP_OK(segments(mad, 3) == 0, "which are not those of another agent");
	make_segment(p.mad, DATA, ACTIVE | FIRST, 1);
	TAP_OK(send_packet(&c, &p) == -EOPNOTSUPP,
	       "the daemon does no RMPP for programs: EOPNOTSUPP");
	request_and_response(kernel, 3, mad);
	TAP_OK(segments(mad, 3) == 0, "nor do these get a segment as if it were the whole");
	TAP_OK(segments(mad, 1) == 1, "but the only segment of a response");
	for (id = 0; id < 3; id++)
		MUST(!remove_agent(&c, id));
}

static unsigned int waiting(void)
{
	const struct umad_send *s = fake.server->objects.umads->send;
	unsigned int n = 0;

	for (unsigned int i = 0; i < XR_UMAD_SENDS; i++)
		n += s[i].used;
	return n;
}

static void test_segmented_request(void)
{
	struct packet p = packet(add_rmpp_agent(1, IB_USER_MAD_USER_RMPP), VENDOR, 7), other;
	uint8_t mad[XC_MAD_LEN];
	int err = 0;

	for (uint8_t i = 1; i <= 3; i++) {
		make_segment(p.mad, DATA, ACTIVE, i);
		err = err ?: send_packet(&c, &p);
	}
	TAP_OK(!err, "segments of a request have one transaction ID");
	other = packet(p.hdr.id, VENDOR, 7);
	TAP_OK(send_packet(&c, &other) == -EINVAL, "which another request cannot have");
	other.hdr.timeout_ms = 0;
	TAP_OK(send_packet(&c, &other) == -EINVAL, "also one that does not wait");
	memcpy(mad, fake.server->objects.umads->send[0].packet.mad, sizeof(mad));
	mad[METHOD] = GET_RESP;
	make_segment(mad, ACK, ACTIVE, 1);
	send_mad(0, 0, mad);
	TAP_OK(read_file(file) == sizeof(got) && waiting() == 2,
	       "an ACK ends the time of one segment");
	MUST(!remove_agent(&c, p.hdr.id));
}

/* A response may wait too: for the ACK of a segment. */
static void test_waiting_response(void)
{
	const struct xd_gsi_counters *n = xd_gsi_counters(gsi);
	struct packet p = packet(add_rmpp_agent(0, 0), VENDOR, 5);
	uint64_t sent = n->mads_sent;

	p.mad[METHOD] = GET_RESP;
	MUST(!send_packet(&c, &p));
	TAP_OK(send_packet(&c, &p) == -EINVAL,
	       "two responses to a request wait one after the other");
	p.hdr.grh_present = 1;
	xd_net_gid(fake.dev.net, 1, (struct xr_addr *)p.hdr.gid);
	TAP_OK(!send_packet(&c, &p), "but not those to two peers");
	p.mad[TID + 7]++;
	p.hdr.timeout_ms = 5;
	p.hdr.retries = 1;
	MUST(!send_packet(&c, &p));
	while (read_file(file) < 0)
		turns(1);
	TAP_OK(got.hdr.status == ETIMEDOUT && n->mads_sent == sent + 4 && waiting() == 2,
	       "they are repeated, then reported");
	p.mad[1] = 5;
	p.mad[METHOD] = GET;
	p.mad[23] = 1;
	p.hdr.timeout_ms = 20000;
	MUST(!send_packet(&c, &p));
	TAP_OK(!memcmp(fake.server->objects.umads->send[2].packet.mad + TID, p.mad + TID, 8),
	       "the attribute modifier tells responses of baseboard management");
	MUST(!remove_agent(&c, p.hdr.id));
}

static void test_requests(void)
{
	const struct xd_gsi_counters *n = xd_gsi_counters(gsi);
	uint64_t refused;
	struct conn other;
	uint8_t mad[XC_MAD_LEN];
	unsigned int i, read = 0;
	int second = open_file(&other);

	MUST(!add_agent(&c, VENDOR, 1 << GET));
	TAP_OK(add_agent(&other, VENDOR, 3 << GET) == -EINVAL,
	       "requests of a method go to one agent");
	MUST(!add_agent(&other, VENDOR, 1 << 2));
	fill(mad, VENDOR, GET, 3);
	send_mad(1, 2, mad);
	TAP_OK(read_file(file) == sizeof(got) && read_file(second) < 0 && got.hdr.gid_index == 2 &&
		       got.hdr.hop_limit == 9 && got.mad[TID + 7] == 3,
	       "that has registered for it");
	mad[37] = 9;
	send_mad(0, 0, mad);
	TAP_OK(read_file(file) < 0, "for this OUI");
	mad[37] = 1;
	mad[0] = 2;
	send_mad(0, 0, mad);
	TAP_OK(read_file(file) < 0, "and base version 1");
	mad[0] = 1;
	refused = n->mads_refused;
	for (i = 0; i < 5000 && n->mads_refused == refused; i++)
		send_mad(0, 0, mad);
	TAP_OK(i < 5000, "the queue of a program that does not read is limited");
	while (read_file(file) == sizeof(got))
		read++;
	TAP_OK(read == i - 1, "what was queued can be read");
	send_mad(0, 0, mad);
	TAP_OK(read_file(file) == sizeof(got), "and then more");
	close_file(&other, second);
	TAP_OK(!add_agent(&c, VENDOR, 1 << 2), "the end of a file frees its agents");
	MUST(!remove_agent(&c, 0) && !remove_agent(&c, 1));
}

static void test_limits(void)
{
	uint8_t tid = 0;
	struct packet p;
	int i;

	for (i = 0; i < XR_UMAD_AGENTS; i++)
		MUST(!add_agent(&c, VENDOR, 0));
	TAP_OK(add_agent(&c, VENDOR, 0) == -ENOMEM, "the agents of a file are limited");
	for (i = 1; i < XR_UMAD_AGENTS; i++)
		MUST(!remove_agent(&c, i));
	do {
		p = packet(0, VENDOR, ++tid);
		i = send_packet(&c, &p);
		turns(1);
	} while (!i);
	TAP_OK(i == -ENOBUFS && tid == XR_UMAD_SENDS + 1,
	       "and its requests that wait for responses");
	MUST(!remove_agent(&c, 0) && !add_agent(&c, VENDOR, 0));
	TAP_OK(!send_packet(&c, &p), "which end with their agent");
	MUST(!remove_agent(&c, 0));
}

static void test_loan(void)
{
	struct xr_create_qp_req q;
	struct conn other;

	open_client(&other);
	q = qp_request(alloc_pd(&other), create_cq(&other, 16, 0));
	q.type = XR_QPT_GSI;
	MUST(!add_agent(&c, PERFORMANCE, 0));
	TAP_OK(ask(&other, XR_MSG_CREATE_QP, &q, sizeof(q)) == -EBUSY,
	       "a program cannot have QP 1 while there are agents");
	MUST(!remove_agent(&c, 0));
	TAP_OK(!ask(&other, XR_MSG_CREATE_QP, &q, sizeof(q)) &&
		       add_agent(&c, PERFORMANCE, 0) == -EBUSY,
	       "and no agent is made while it has");
	close_client(&other);
	settle();
	TAP_OK(!add_agent(&c, PERFORMANCE, 0), "but afterwards");
}

/* Any bytes in requests */
static void test_hostile(void)
{
	uint32_t seed = 1;
	union {
		struct xr_umad_register_req agent;
		struct packet p;
		uint8_t bytes[XR_UMAD_LEN];
	} q;
	struct conn h;
	int fd = open_file(&h), i;
	unsigned int n, made = 0;

	for (i = 0; i < 30000; i++) {
		for (n = 0; n < sizeof(q); n++)
			q.bytes[n] = (seed = seed * 1664525 + 1013904223) >> 24;
		if (i % 3) {
			q.p.hdr.id %= 40;
			q.p.hdr.timeout_ms %= 50;
			q.p.hdr.retries %= 4;
			q.p.hdr.qpn = htonl(1);
			q.p.hdr.qkey = htonl(XR_GSI_QKEY);
			q.p.hdr.pkey_index = 0;
			q.p.hdr.gid_index %= 4;
			q.p.hdr.lid = 0;
			q.p.hdr.grh_present %= 2;
			made += !send_packet(&h, &q.p);
		} else {
			q.agent.qpn %= 3;
			q.agent.flags %= 3;
			q.agent.rmpp_version %= 3;
			made += !ask_now(&h, XR_MSG_UMAD_REGISTER, &q.agent, sizeof(q.agent));
		}
		if (i % 64 == 0)
			turns(1);
	}
	TAP_OK(made > 100, "a hostile program gets %u requests accepted", made);
	TAP_OK(send_packet(&h, &(struct packet){ .hdr.id = UINT32_MAX }) == -EINVAL,
	       "and the daemon still serves it");
	close_file(&h, fd);
	turns(300);
}

int main(void)
{
	int fds;

	start();
	file = open_file(&c);
	close_file(&c, file);
	fds = open_fds();
	test_permissions();
	test_exchange();
	test_timeouts();
	test_segmented_response();
	test_segmented_request();
	test_waiting_response();
	test_requests();
	test_limits();
	test_loan();
	test_hostile();
	close_file(&c, file);
	TAP_OK(!gsi->holders && !fake.server->objects.umads && !fake_clients()->first &&
		       !fake_clients()->limits.fds.used && open_fds() == fds,
	       "nothing is left");
	fake_server_stop();
	xd_gsi_free(gsi);
	return tap_end();
}
