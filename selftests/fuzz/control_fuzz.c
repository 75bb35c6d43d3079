// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Fuzzes the control socket: two clients send requests with any descriptors in any order. After
 * both have ended, the daemon must have none of their resources left. The input is a list of steps.
 * Each starts with a byte: bit 7 selects the client, bits 6:0 are the type of a message, or 127 for
 * an event in the daemon, see happen(). See say() for the rest of a step. seed_control.c writes
 * inputs that are ordinary exchanges.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/clients/client.h"
#include "daemon/datapath/worker.h"
#include "daemon/gsi/gsi.h"
#include "daemon/objects/qp.h"
#include "daemon/server/server.h"
#include "fake_device.h"
#include "input.h"

#include "../lib/fds.h"

#define CLIENTS 2
#define MAX_BODY 4096
#define MAX_FDS 8
#define HAPPENING 127
/* Memory for inputs to register, at addresses that are the same in each process */
#define PRIVATE_AT ((void *)0x200000000000)
#define SHARED_AT ((void *)0x210000000000)
#define READONLY_AT ((void *)0x220000000000)
#define MEMORY_SIZE (1 << 20)
/* This and the next number stand for the first two QPs in commands of rdma_cm. */
#define ANY_QPN 0x51515151u

struct conn {
	struct xd_client *client; /* may be freed already */
	int fd;			  /* the client's end */
	uint32_t seq;
	uint32_t last_type;
};

static struct conn conn[CLIENTS];
static struct xd_timer *stopper;

/* ---- the loop --------------------------------------------------------------------------- */

static void stop_loop(void *arg)
{
	xd_loop_stop(fake.dev.loop);
}

/* Runs the loop until all jobs and events are done. */
static void settle(void)
{
	MUST(xd_jobs_drain(fake_clients()->jobs, 10));
	xd_timer_arm(stopper, 0);
	MUST(!xd_loop_run(fake.dev.loop));
	MUST(xd_jobs_drain(fake_clients()->jobs, 10));
}

static bool alive(const struct conn *c)
{
	const struct xd_client *x;

	for (x = fake_clients()->first; x; x = x->next)
		if (x == c->client)
			return !x->ending;
	return false;
}

static void connect_client(struct conn *c)
{
	int pair[2];

	MUST(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair));
	*c = (struct conn){ .client = xd_client_new(fake_clients(), pair[0], fake_ticket(pair[0])),
			    .fd = pair[1] };
	MUST(c->client);
}

static void disconnect(struct conn *c)
{
	if (alive(c))
		xd_client_end(c->client);
	close(c->fd);
	settle();
}

/* ---- replies ------------------------------------------------------------------------------ */

static void close_received(struct msghdr *msg)
{
	int fds[XR_MSG_MAX_FDS];
	size_t n = received_fds(msg, fds);

	while (n)
		close(fds[--n]);
}

/* Reads and checks replies. Returns their number. */
static unsigned read_replies(struct conn *c)
{
	static uint8_t body[XR_MSG_MAX];
	char control[CMSG_SPACE(XR_MSG_MAX_FDS * sizeof(int))];
	struct xr_msg head;
	struct iovec iov[2] = { { &head, sizeof(head) }, { body, sizeof(body) } };
	unsigned got = 0;
	ssize_t n;

	for (;; got++) {
		struct msghdr msg = { .msg_iov = iov,
				      .msg_iovlen = 2,
				      .msg_control = control,
				      .msg_controllen = sizeof(control) };

		n = recvmsg(c->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		if (n <= 0)
			return got;
		close_received(&msg);
		MUST(!(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)));
		MUST(n == (ssize_t)sizeof(head) + head.length);
		MUST(head.status <= 0 && head.status > -4096);
		/* the body of an error is a text */
		MUST(!head.status || (head.length <= XR_WHY_MAX && !memchr(body, 0, head.length)));
		MUST(head.type == c->last_type && head.seq == c->seq);
	}
}

static void read_all_replies(void)
{
	for (unsigned i = 0; i < CLIENTS; i++)
		MUST(read_replies(&conn[i]) <= 1);
	MUST(!fake.paused);
}

/* ---- requests ------------------------------------------------------------------------------ */

static int memfd_of(size_t size, int seals)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	MUST(fd >= 0 && !ftruncate(fd, (off_t)size));
	if (seals)
		MUST(!fcntl(fd, F_ADD_SEALS, seals));
	return fd;
}

static int socket_of_pair(void)
{
	int pair[2];

	MUST(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	close(pair[0]);
	return pair[1];
}

static int any_fd(uint8_t kind)
{
	switch (kind % 10) {
	case 0:
		return memfd_of(MEMORY_SIZE, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
	case 1:
		return memfd_of(MEMORY_SIZE, F_SEAL_SHRINK);
	case 2:
		return open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	case 3:
		return open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	case 4:
		return memfd_of(MEMORY_SIZE, 0);
	case 5:
		return socket_of_pair();
	case 6:
		return open("/dev/null", O_RDWR | O_CLOEXEC);
	case 7:
		return memfd_of(0, F_SEAL_SHRINK);
	case 8:
		return epoll_create1(EPOLL_CLOEXEC);
	default:
		return open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	}
}

/* Numbers of QPs are not the same in each run, so that inputs cannot contain them. */
static void name_qps(uint8_t *body, uint32_t len)
{
	const struct xd_client *c;
	uint32_t h, at, word, n = 0, qpn[2] = { 0 };
	const struct xd_qp *qp;

	for (c = fake_clients()->first; c; c = c->next)
		for (h = 0; n < 2 && (qp = xd_object_next(c, XD_QP, &h));)
			qpn[n++] = qp->qpn;
	for (at = 0; at + sizeof(word) <= len; at += sizeof(word)) {
		memcpy(&word, body + at, sizeof(word));
		if (word - ANY_QPN < n)
			memcpy(body + at, &qpn[word - ANY_QPN], sizeof(word));
	}
}

/*
 * Sends a message. Input: a byte (bits 2:0 number of descriptors, bit 3 wrong length in the header,
 * bit 4 shorter than a header); 16 bits length of the body; the body; a byte for each descriptor.
 */
static void say(struct conn *c, uint32_t type, struct stream *in)
{
	static uint8_t data[sizeof(struct xr_msg) + MAX_BODY];
	uint8_t how = input_u8(in);
	uint32_t nfds = how & 7, len = input_u16(in) % (MAX_BODY + 1);
	struct xr_msg head = { .type = type, .seq = c->seq + 1, .length = len };
	size_t size = sizeof(head) + len;
	bool was_busy = alive(c) && c->client->connection.busy;
	int fds[MAX_FDS];

	input_bytes(in, data + sizeof(head), len);
	if (type == XR_MSG_CM)
		name_qps(data + sizeof(head), len);
	if (how & 8)
		head.length ^= 1u << (how >> 5);
	memcpy(data, &head, sizeof(head));
	if (how & 16)
		size = len % sizeof(head) + 1;
	for (uint32_t i = 0; i < nfds; i++) {
		fds[i] = any_fd(input_u8(in));
		MUST(fds[i] >= 0);
	}
	if (!alive(c)) {
		while (nfds)
			close(fds[--nfds]);
		return;
	}
	if (!was_busy) {
		struct xr_msg seen = { 0 };

		memcpy(&seen, data, size < sizeof(seen) ? size : sizeof(seen));
		c->last_type = seen.type;
		c->seq = seen.seq;
	}
	xd_client_feed(c->client, data, size, fds, nfds);
	settle();
	read_all_replies();
}

/* Lets the engine carry MADs in both directions. */
static void carry(void)
{
	for (int i = 0; i < 4; i++) {
		xt_engine_run(xd_worker_engine(fake.dev.workers, 0), xd_now());
		settle();
	}
}

static void happen(struct conn *c, struct stream *in)
{
	uint8_t what = input_u8(in);

	switch (what & 7) {
	case 0:
		fake.slow = what & 8;
		break;
	case 1:
		fake.no_route = what & 8;
		break;
	case 2:
		fake.maps_full = what & 8;
		break;
	case 3:
		fake_resolve_all();
		break;
	case 4:
		if (what & 8)
			carry();
		else
			xd_walk_all(fake_clients(), XD_WALK_REFRESH);
		break;
	case 5:
		xd_clients_port_event(fake_clients(), what >> 3);
		break;
	case 6:
		disconnect(c);
		connect_client(c);
		break;
	case 7:
		fake.opt.user_max_pinned = what & 8 ? 64 << 20 : 1 << 20;
		fake.opt.user_max_memory = what & 16 ? 64 << 20 : 1 << 20;
		break;
	}
	settle();
	read_all_replies();
}

/* ---- a run ----------------------------------------------------------------------------------- */

static void *map_at(void *at, int prot, int flags)
{
	void *p = mmap(at, MEMORY_SIZE, prot, flags | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	MUST(p == at);
	return p;
}

static void open_gsi(void)
{
	const struct xd_gsi_config config = {
		.loop = fake.dev.loop,
		.net = fake.dev.net,
		.tables = fake.dev.tables,
		.workers = fake.dev.workers,
	};

	MUST(!xd_gsi_new(&config, &fake.dev.gsi) && fake.map_qps == 1);
}

static void start(void)
{
	static bool started;

	if (started)
		return;
	started = true;
	signal(SIGPIPE, SIG_IGN); /* as in main() of the daemon */
	xd_log_init("fuzz", XD_ERR);
	map_at(PRIVATE_AT, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	map_at(SHARED_AT, PROT_READ | PROT_WRITE, MAP_SHARED);
	map_at(READONLY_AT, PROT_READ, MAP_PRIVATE);
	fake_device_start();
	open_gsi();
	MUST(!xd_server_open(&fake.dev, &fake.server));
	stopper = xd_timer_new(fake.dev.loop, stop_loop, NULL);
	MUST(stopper);
}

/* Returns the number of the next descriptor, which shows if any was leaked. */
static int next_fd(void)
{
	int fd = fcntl(2, F_DUPFD_CLOEXEC, 0);

	close(fd);
	return fd;
}

/* The daemon could not take QP 1 back if the maps were full. The next CM id tries again. */
static void regain_gsi(void)
{
	fake.maps_full = false;
	MUST(!xd_gsi_hold(fake.dev.gsi));
	xd_gsi_release(fake.dev.gsi);
}

static void check_nothing_left(void)
{
	struct xd_clients *cs = fake_clients();

	MUST(!cs->first && !cs->count);
	/* A user whose processor time is not paid off stays until another user connects. */
	xd_limits_free(&cs->limits);
	MUST(!cs->limits.users);
	MUST(!cs->limits.fds.used);
	for (unsigned i = 0; i < XD_KINDS; i++)
		MUST(!cs->kinds.objects[i]);
	MUST(!fake.map_keys && fake.map_qps == 1 && !fake.doorbells);
}

/* Ends connections that the CM engine still remembers, so that no input depends on others. */
static void forget_connections(void)
{
	struct xd_objects *o = &fake.server->objects;

	xd_rdma_cm_free(o->rdma_cm);
	MUST(!xd_rdma_cm_new(o));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stream in = { data, size };
	int first_fd;

	start();
	first_fd = next_fd();
	fake.slow = fake.no_route = fake.maps_full = false;
	fake.opt.user_max_pinned = fake.opt.user_max_memory = 64 << 20;
	for (unsigned i = 0; i < CLIENTS; i++)
		connect_client(&conn[i]);
	for (int i = 0; i < 60 && !input_end(&in); i++) {
		uint8_t step = input_u8(&in);
		struct conn *c = &conn[step >> 7];

		if ((step & 127) == HAPPENING)
			happen(c, &in);
		else
			say(c, step & 127, &in);
	}
	for (unsigned i = 0; i < CLIENTS; i++)
		disconnect(&conn[i]);
	regain_gsi();
	/* which free their users */
	forget_connections();
	check_nothing_left();
	MUST(next_fd() == first_fd);
	return 0;
}
