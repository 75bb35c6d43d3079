/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Completion channels that never block, used as ibv_get_cq_event(3) shows: a program waits for the
 * descriptor, and takes an event then. It ends if there is none. Two programs, one RC QP in each.
 *
 *   rdma_channel [-g GID-INDEX] [-p PORT] TEST [HOST]     TEST is the same on both sides
 *
 *   pingpong   SENDs and WRITEs with immediate data, short ones and those of several packets
 *   beside     the same while another thread polls a CQ, and so may take the packets
 *   left       the same in a second channel, while nobody looks at the first one, which is left
 *   count      events that are read until there are no more, acknowledged late; destroying the CQ
 *              waits for that
 *   solicited  the descriptor becomes readable for solicited completions only
 *   moderated  it becomes readable when a moderated CQ has enough completions
 *
 * Only receives make events, so ACKs make none. pingpong and beside print how many of the events
 * had an empty CQ, as they may.
 */
#include "verbs_util.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#define WAIT_MS 30000
#define QUIET_S 0.2
#define DEPTH 16
#define ROUNDS 500
#define LONG 20000u /* bytes: several packets */

struct peer {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t qpn, rkey, woken;
};

static struct sides sides = { 1, 18515, NULL };
static int sock;
static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct ibv_comp_channel *channel;
static struct ibv_cq *send_cq, *cq; /* cq: of receives, with the channel */
static struct ibv_qp *qp;
static struct peer me, peer;
static char buf[2 * LONG]; /* first half: receives and WRITEs of the peer */
static unsigned int posted, armings, early;

/* ---- set-up -------------------------------------------------------------------- */

/* Both sides get here before either goes on. */
static void meet(void)
{
	MUST(send(sock, &me, sizeof(me), MSG_NOSIGNAL) == sizeof(me) &&
		     recv(sock, &peer, sizeof(peer), MSG_WAITALL) == sizeof(peer),
	     "the other side closed the connection");
}

static void receive(void)
{
	struct ibv_sge sge = { (uintptr_t)buf, LONG, mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	MUST(!ibv_post_recv(qp, &wr, &bad), "post_recv");
}

static void make_qp(void)
{
	struct ibv_qp_init_attr init = {
		.send_cq = send_cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = { DEPTH, DEPTH, 1, 1, 0 },
	};
	struct ibv_qp_attr attr;

	MUST(qp = ibv_create_qp(pd, &init), "QP");
	me = (struct peer){ own_gid(ctx, sides.gid_index), (uintptr_t)buf, qp->qp_num, mr->rkey,
			    0 };
	meet();
	attr = rc_attr(sides.gid_index, peer.gid, peer.qpn);
	attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	MUST(!reset_to_rts(qp, &attr), "RTS");
	for (int i = 0; i < DEPTH; i++)
		receive();
	meet();
}

static void make_channel(void)
{
	int flags;

	MUST(channel = ibv_create_comp_channel(ctx), "channel");
	flags = fcntl(channel->fd, F_GETFL);
	MUST(flags >= 0 && !fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK), "O_NONBLOCK");
	MUST(cq = ibv_create_cq(ctx, DEPTH, NULL, channel, 0), "CQ");
}

static void set_up(void)
{
	sock = connect_sides(&sides, 30);
	MUST(ctx = open_device(NULL), "device");
	MUST(pd = ibv_alloc_pd(ctx), "PD");
	MUST(mr = ibv_reg_mr(pd, buf, sizeof(buf),
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
	     "MR");
	MUST(send_cq = ibv_create_cq(ctx, DEPTH, NULL, NULL, 0), "CQ");
	make_channel();
	make_qp();
}

static void tear_down(void)
{
	MUST(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq) && !ibv_destroy_cq(send_cq) &&
		     !ibv_destroy_comp_channel(channel) && !ibv_dereg_mr(mr) &&
		     !ibv_dealloc_pd(pd) && !ibv_close_device(ctx),
	     "clean-up");
}

/* ---- messages and events ------------------------------------------------------- */

/* Every eighth one has a completion, so that the queue never gets full. */
static void post(enum ibv_wr_opcode opcode, uint32_t len, unsigned int flags)
{
	struct ibv_sge sge = { (uintptr_t)buf + LONG, len, mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = flags | (++posted % 8 ? 0 : IBV_SEND_SIGNALED),
		.wr.rdma = { peer.addr, peer.rkey },
	};
	struct ibv_wc wc;

	MUST(!ibv_post_send(qp, &wr, &bad), "post_send");
	if (wr.send_flags & IBV_SEND_SIGNALED)
		MUST(next_completion(send_cq, &wc, WAIT_MS / 1000.0) == 1 && !wc.status,
		     "completion of a request");
}

static bool readable(int ms)
{
	struct pollfd p = { channel->fd, POLLIN, 0 };
	int n = poll(&p, 1, ms);

	MUST(n >= 0, "poll");
	return n;
}

static bool take_event(void)
{
	struct ibv_cq *from;
	void *context;

	if (ibv_get_cq_event(channel, &from, &context))
		return false;
	MUST(from == cq, "an event of another CQ");
	return true;
}

/* As the man page does */
static void wait_for_event(void)
{
	MUST(readable(WAIT_MS), "no event");
	MUST(take_event(), "the descriptor is readable, but ibv_get_cq_event() fails");
}

static unsigned int poll_all(void)
{
	unsigned int n = 0;
	struct ibv_wc wc;

	for (; ibv_poll_cq(cq, 1, &wc) == 1; n++) {
		MUST(!wc.status, ibv_wc_status_str(wc.status));
		receive();
	}
	return n;
}

static void arm(int solicited_only)
{
	MUST(!ibv_req_notify_cq(cq, solicited_only), "req_notify_cq");
	armings++;
}

/* Waits until n completions have come, or more. Events are taken one by one. */
static void wait_for_messages(unsigned int n)
{
	unsigned int got = poll_all(), found;

	while (got < n) {
		wait_for_event();
		ibv_ack_cq_events(cq, 1);
		arm(0);
		found = poll_all();
		early += !found;
		got += found;
	}
}

/* ---- tests --------------------------------------------------------------------- */

static void ping_pong(enum ibv_wr_opcode opcode, uint32_t len)
{
	for (int i = 0; i < ROUNDS; i++) {
		if (sides.host)
			post(opcode, len, 0);
		wait_for_messages(1);
		if (!sides.host)
			post(opcode, len, 0);
	}
}

static void test_pingpong(void)
{
	static const uint32_t lengths[] = { 8, LONG };

	arm(0);
	for (int i = 0; i < 2; i++) {
		ping_pong(IBV_WR_SEND, lengths[i]);
		ping_pong(IBV_WR_RDMA_WRITE_WITH_IMM, lengths[i]);
	}
	meet();
	printf("%u events with an empty CQ\n", early);
}

static bool stop; /* atomic */

static void *poll_other(void *other)
{
	struct ibv_wc wc;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		MUST(!ibv_poll_cq(other, 1, &wc), "a completion in the other CQ");
	return NULL;
}

static void test_beside(void)
{
	struct ibv_cq *other = ibv_create_cq(ctx, 1, NULL, NULL, 0);
	pthread_t thread;

	MUST(other && !pthread_create(&thread, NULL, poll_other, other), "thread");
	test_pingpong();
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	MUST(!ibv_destroy_cq(other), "destroy_cq");
}

/* Returns the number of descriptors in an epoll set; 0: it is none. */
static unsigned int set_size(int fd)
{
	char path[64], line[256];
	unsigned int n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	MUST(f = fopen(path, "r"), path);
	while (fgets(line, sizeof(line), f))
		n += !strncmp(line, "tfd:", 4);
	fclose(f);
	return n;
}

/*
 * The channel of a direct context is an epoll set. Packets make one of them readable, in which
 * their socket is; it moves to one that the program looks at.
 */
static void test_left(void)
{
	struct ibv_comp_channel *left = channel;
	struct ibv_cq *left_cq = cq;
	double until = now() + WAIT_MS / 1000.0;

	arm(0);
	ping_pong(IBV_WR_SEND, 8);
	meet();
	MUST(!ibv_destroy_qp(qp), "destroy_qp");
	make_channel();
	make_qp();
	arm(0);
	do {
		ping_pong(IBV_WR_SEND, 8);
		me.woken = set_size(channel->fd) != 1;
		meet();
	} while (!(me.woken && peer.woken) && now() < until);
	MUST(me.woken, "packets still make the first channel readable");
	MUST(set_size(left->fd) <= 1, "packets make both channels readable");
	MUST(!ibv_destroy_cq(left_cq) && !ibv_destroy_comp_channel(left), "clean-up");
	meet();
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned int to_ack;

static void *ack_late(void *arg)
{
	(void)arg;
	usleep((useconds_t)(QUIET_S * 1e6));
	pthread_mutex_lock(&lock);
	ibv_ack_cq_events(cq, to_ack);
	to_ack = 0;
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* Each event needs an arming, so reading them all comes to an end while packets arrive. */
static void test_count(void)
{
	unsigned int got = 0, n;
	pthread_t thread;

	for (int i = 0; i < ROUNDS; i++) {
		arm(0);
		if (sides.host)
			post(IBV_WR_SEND, LONG, 0);
		for (got += poll_all(); got == (unsigned int)i; got += poll_all()) {
			MUST(readable(WAIT_MS), "no event");
			for (n = 0; take_event(); n++)
				;
			to_ack += n;
			MUST(errno == EAGAIN && n && to_ack <= armings, "number of events");
			arm(0);
		}
		if (!sides.host)
			post(IBV_WR_SEND, LONG, 0);
	}
	meet();
	MUST(to_ack && !ibv_destroy_qp(qp) && !pthread_create(&thread, NULL, ack_late, NULL),
	     "thread");
	MUST(!ibv_destroy_cq(cq), "destroy_cq");
	pthread_mutex_lock(&lock);
	MUST(!to_ack, "ibv_destroy_cq() does not wait for ibv_ack_cq_events()");
	pthread_mutex_unlock(&lock);
	pthread_join(thread, NULL);
	MUST(cq = ibv_create_cq(ctx, DEPTH, NULL, channel, 0), "CQ");
	make_qp();
}

/* Packets of messages without an event, then that of the last one, which has one */
static void send_quietly(unsigned int n, unsigned int flags)
{
	for (; n > 1; n--)
		post(IBV_WR_SEND, LONG, 0);
	meet();
	meet();
	post(IBV_WR_SEND, LONG, flags);
}

/* The descriptor is not readable before the time, although packets have arrived. */
static void wait_quietly(double until)
{
	double left;

	meet();
	left = until - now();
	MUST(left <= 0 || !readable((int)(left * 1000)), "the descriptor is readable too early");
}

/* Before the descriptor is to be quiet, packets make it readable. The CQ is not armed then. */
static void exchange_one(void)
{
	unsigned int got = 0;

	meet();
	post(IBV_WR_SEND, 8, 0);
	while (!got) {
		arm(0);
		wait_for_event();
		ibv_ack_cq_events(cq, 1);
		got = poll_all();
	}
	meet();
}

static void test_solicited(void)
{
	exchange_one();
	for (int i = 0; i < 3; i++) {
		arm(1);
		meet();
		if (sides.host) {
			send_quietly(4, IBV_SEND_SOLICITED);
			continue;
		}
		wait_quietly(now() + QUIET_S);
		MUST(!take_event() && errno == EAGAIN, "an event that is not due");
		meet();
		wait_for_event();
		ibv_ack_cq_events(cq, 1);
		MUST(poll_all() == 4, "not all messages have come");
	}
	meet();
}

/* Three of four completions wait for the end of the period. */
static void test_moderated(void)
{
	struct ibv_modify_cq_attr attr = { IBV_CQ_ATTR_MODERATE, { 4, 65535 } };
	double start;

	exchange_one();
	MUST(!ibv_modify_cq(cq, &attr), "modify_cq");
	arm(0);
	start = now();
	meet();
	if (sides.host) {
		send_quietly(4, 0);
	} else {
		wait_quietly(start + 0.05);
		meet();
		wait_for_messages(4);
	}
	meet();
}

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	{ "pingpong", test_pingpong },	 { "beside", test_beside },
	{ "left", test_left },		 { "count", test_count },
	{ "solicited", test_solicited }, { "moderated", test_moderated },
};

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";

	parse_sides(argc - 1, argv + 1, &sides);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		if (strcmp(name, tests[i].name))
			continue;
		set_up();
		tests[i].run();
		tear_down();
		return 0;
	}
	fprintf(stderr, "no such test: %s\n", name);
	return 2;
}
