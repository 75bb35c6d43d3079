// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fake_cm.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/rdma_user_cm.h>
#include <xroce/control.h>

#include "../lib/fds.h"

#define CHANNELS 64
#define IDS 4096
#define EVENTS 256

struct channel {
	int fd, events;
	uint8_t token[XR_TOKEN_LEN];
	unsigned int queued;
	struct {
		uint32_t of; /* handle that reports it */
		struct rdma_ucm_event_resp ev;
	} event[EVENTS];
};

struct id {
	struct channel *channel; /* NULL: free */
	uint64_t uid;
	uint32_t group_of; /* of a multicast group */
	uint16_t port;
	bool listens;
	uint32_t reported;
};

static struct channel channels[CHANNELS];
static struct id ids[IDS]; /* by handle */
static uint32_t own_ip, busy_port, next_port = 40000, option, refuse, slow, early_port;
static bool garbage, stale, foreign;
static char own_name[32];

struct question {
	uint32_t op, arg;
};

struct request {
	struct xr_msg head;
	union {
		uint8_t body[8192];
		struct xr_cm_req cm;
		struct xr_hello_req hello;
	};
};

/* ---- events -------------------------------------------------------------------- */

static void show_events(const struct channel *c)
{
	uint64_t one = 1;

	if (!c->queued && read(c->events, &one, sizeof(one)) < 0)
		return;
	if (c->queued && write(c->events, &one, sizeof(one)) < 0)
		_exit(98);
}

static void queue_event(uint32_t of, uint32_t id, uint64_t uid, uint32_t event)
{
	struct channel *c = ids[of].channel;

	if (c->queued == EVENTS)
		_exit(97);
	c->event[c->queued].of = of;
	c->event[c->queued].ev =
		(struct rdma_ucm_event_resp){ .uid = uid, .id = id, .event = event };
	c->queued++;
	show_events(c);
}

static void drop_events(struct channel *c, uint32_t of)
{
	unsigned int i, n = 0;

	for (i = 0; i < c->queued; i++) {
		if (c->event[i].of != of)
			c->event[n++] = c->event[i];
	}
	c->queued = n;
	show_events(c);
}

static uint32_t new_id(struct channel *c, uint64_t uid)
{
	uint32_t h;

	for (h = 1; h < IDS && ids[h].channel; h++)
		;
	if (h == IDS)
		_exit(96);
	ids[h] = (struct id){ .channel = c, .uid = uid };
	return h;
}

/* ---- commands ------------------------------------------------------------------ */

static const struct sockaddr_in *address(const struct xr_cm_req *r)
{
	return r->cmd == RDMA_USER_CM_CMD_BIND
		       ? (const void *)(r->data + offsetof(struct rdma_ucm_bind, addr))
		       : (const void *)(r->data + offsetof(struct rdma_ucm_bind_ip, addr));
}

static bool is_own(uint32_t ip)
{
	return ip == own_ip || ip >> 24 == 127;
}

static int bind_id(struct id *id, const struct xr_cm_req *r)
{
	const struct sockaddr_in *a = address(r);
	uint16_t port = ntohs(a->sin_port);

	if (a->sin_family == AF_INET && ntohl(a->sin_addr.s_addr) &&
	    !is_own(ntohl(a->sin_addr.s_addr)))
		return foreign ? -EADDRNOTAVAIL : -ENODEV;
	if (id->port)
		return -EINVAL;
	if (port && port == busy_port)
		return -EADDRINUSE;
	id->port = port ? port : next_port++;
	return 0;
}

static int resolve(uint32_t h, const struct xr_cm_req *r)
{
	const struct sockaddr_in *a = (const void *)(r->data + sizeof(struct sockaddr_in6));
	uint32_t ip;

	if (r->cmd == RDMA_USER_CM_CMD_RESOLVE_ADDR)
		a = (const void *)(r->data + offsetof(struct rdma_ucm_resolve_addr, dst_addr));
	ip = ntohl(a->sin_addr.s_addr);
	if (is_own(ip) || ip >> 8 == own_ip >> 8)
		queue_event(h, h, ids[h].uid, 0);
	else if (r->data[r->in]) /* the client says that no other daemon has the route */
		queue_event(h, h, ids[h].uid, 1);
	else
		return -ENODEV;
	return 0;
}

static void query(const struct id *id, struct rdma_ucm_query_addr_resp *rep)
{
	struct sockaddr_in *a = (void *)&rep->src_addr;

	a->sin_family = AF_INET;
	a->sin_port = htons(id->port);
	a->sin_addr.s_addr = htonl(own_ip);
	rep->src_size = sizeof(*a);
}

/* Returns the length of the early reply. The port differs from the id's. */
static int put_early_reply(uint8_t *at)
{
	struct id other = { .port = early_port };
	struct rdma_ucm_query_addr_resp rep = { 0 };
	struct xr_cm_early_reply head = { RDMA_USER_CM_CMD_QUERY, RDMA_USER_CM_QUERY_ADDR,
					  sizeof(rep) };

	if (!early_port)
		return 0;
	query(&other, &rep);
	memcpy(at, &head, sizeof(head));
	memcpy(at + sizeof(head), &rep, sizeof(rep));
	return sizeof(head) + sizeof(rep);
}

static int get_event(struct channel *c, struct rdma_ucm_event_resp *rep)
{
	int len = sizeof(*rep) + put_early_reply((uint8_t *)(rep + 1));

	if (!c->queued)
		return -EAGAIN;
	*rep = c->event[0].ev;
	if (rep->event == 12)
		ids[rep->id].reported++;
	ids[c->event[0].of].reported++;
	c->queued--;
	memmove(c->event, c->event + 1, c->queued * sizeof(c->event[0]));
	show_events(c);
	return len;
}

static int migrate(struct channel *to, uint32_t h, const uint8_t *token, uint32_t *reported)
{
	struct channel *from = ids[h].channel;
	unsigned int i;

	if (!from || memcmp(from->token, token, XR_TOKEN_LEN))
		return -EINVAL;
	*reported = ids[h].reported;
	ids[h].reported = 0;
	ids[h].channel = to;
	for (i = 0; i < from->queued; i++) {
		if (from->event[i].of == h)
			queue_event(h, from->event[i].ev.id, from->event[i].ev.uid,
				    from->event[i].ev.event);
	}
	if (from != to)
		drop_events(from, h);
	return 0;
}

static void destroy(uint32_t h)
{
	uint32_t i;

	drop_events(ids[h].channel, h);
	for (i = 1; i < IDS; i++) {
		if (ids[i].channel && ids[i].group_of == h)
			ids[i].channel = NULL;
	}
	ids[h].channel = NULL;
}

/* Returns the length of the reply or -errno. */
static int on_id(struct channel *c, const struct xr_cm_req *r, uint32_t h, void *rep)
{
	const struct rdma_ucm_set_option *opt = (const void *)r->data;
	uint32_t *number = rep;

	switch (r->cmd) {
	case RDMA_USER_CM_CMD_DESTROY_ID:
	case RDMA_USER_CM_CMD_LEAVE_MCAST:
		*number = ids[h].reported;
		destroy(h);
		return sizeof(*number);
	case RDMA_USER_CM_CMD_BIND:
	case RDMA_USER_CM_CMD_BIND_IP:
		return bind_id(&ids[h], r);
	case RDMA_USER_CM_CMD_RESOLVE_ADDR:
	case RDMA_USER_CM_CMD_RESOLVE_IP:
		return resolve(h, r);
	case RDMA_USER_CM_CMD_LISTEN:
		ids[h].listens = true;
		return 0;
	case RDMA_USER_CM_CMD_SET_OPTION:
		memcpy(&option, r->data + r->in, opt->optlen < 4 ? opt->optlen : 4);
		return 0;
	case RDMA_USER_CM_CMD_QUERY:
		query(&ids[h], rep);
		return sizeof(struct rdma_ucm_query_addr_resp);
	case RDMA_USER_CM_CMD_ACCEPT:
		ids[h].uid = ((const struct rdma_ucm_accept *)r->data)->uid;
		queue_event(h, h, ids[h].uid, 9);
		return 0;
	case RDMA_USER_CM_CMD_JOIN_MCAST:
		*number = new_id(c, ((const struct rdma_ucm_join_mcast *)r->data)->uid);
		ids[*number].group_of = h;
		queue_event(h, *number, ids[*number].uid, 12);
		return sizeof(*number);
	case RDMA_USER_CM_CMD_MIGRATE_ID:
		return migrate(c, h, r->data + r->in, number) ?: (int)sizeof(*number);
	default:
		return 0;
	}
}

static int command(struct channel *c, const struct xr_cm_req *r, void *rep)
{
	const struct rdma_ucm_create_id *create = (const void *)r->data;
	uint32_t *number = rep, h, at;

	switch (r->cmd) {
	case RDMA_USER_CM_CMD_CREATE_ID:
		if (create->ps == 0)
			return -EINVAL;
		*number = new_id(c, create->uid);
		return sizeof(*number);
	case RDMA_USER_CM_CMD_GET_EVENT:
		return get_event(c, rep);
	case RDMA_USER_CM_CMD_DESTROY_ID:
	case RDMA_USER_CM_CMD_LEAVE_MCAST:
	case RDMA_USER_CM_CMD_QUERY:
	case RDMA_USER_CM_CMD_MIGRATE_ID:
	case RDMA_USER_CM_CMD_SET_OPTION:
		at = 8;
		break;
	case RDMA_USER_CM_CMD_ACCEPT:
		at = offsetof(struct rdma_ucm_accept, id);
		break;
	case RDMA_USER_CM_CMD_JOIN_MCAST:
		at = offsetof(struct rdma_ucm_join_mcast, id);
		break;
	case RDMA_USER_CM_CMD_BIND_IP:
		at = offsetof(struct rdma_ucm_bind_ip, id);
		break;
	case RDMA_USER_CM_CMD_RESOLVE_IP:
		at = offsetof(struct rdma_ucm_resolve_ip, id);
		break;
	default:
		at = 0;
	}
	memcpy(&h, r->data + at, sizeof(h));
	if (!h || h >= IDS || !ids[h].channel)
		return -ENOENT;
	if (ids[h].channel != c && r->cmd != RDMA_USER_CM_CMD_MIGRATE_ID)
		return -EINVAL;
	return on_id(c, r, h, rep);
}

/* ---- messages ------------------------------------------------------------------ */

static void send_reply(struct channel *c, const struct request *m, int status, const void *body,
		       size_t len)
{
	struct xr_msg head = { m->head.type, status, m->head.seq, len };
	struct iovec iov[2] = { { &head, sizeof(head) }, { (void *)body, len } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };

	if (stale) {
		head.seq += 12345;
		sendmsg(c->fd, &msg, MSG_NOSIGNAL);
		head.seq -= 12345;
	}
	head.type += garbage;
	garbage = stale = false;
	usleep(slow * 1000);
	sendmsg(c->fd, &msg, MSG_NOSIGNAL);
}

static void hello(struct channel *c, const struct request *m)
{
	struct xr_hello_rep rep = { .version = XR_PROTOCOL_VERSION,
				    .guid = own_ip,
				    .netdev = "none" };
	struct xr_msg head = { m->head.type, 0, m->head.seq, sizeof(rep) };
	char control[CMSG_SPACE(XR_MSG_MAX_FDS * sizeof(int))] = { 0 };
	struct iovec iov[2] = { { &head, sizeof(head) }, { &rep, sizeof(rep) } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };

	if (refuse) {
		send_reply(c, m, -(int)refuse, NULL, 0);
		return;
	}
	snprintf(rep.device, sizeof(rep.device), "%s", own_name);
	if (m->hello.flags & XR_HELLO_CM) {
		c->events = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		memset(c->token, c - channels + 1, sizeof(c->token));
		memcpy(rep.token, c->token, sizeof(rep.token));
		attach_fds(&msg, control, &c->events, 1);
	}
	sendmsg(c->fd, &msg, MSG_NOSIGNAL);
}

static void drop_channel(struct channel *c)
{
	uint32_t h;

	for (h = 1; h < IDS; h++) {
		if (ids[h].channel == c)
			ids[h].channel = NULL;
	}
	close(c->fd);
	if (c->events >= 0)
		close(c->events);
	c->fd = c->events = -1;
	c->queued = 0;
}

static void serve(struct channel *c)
{
	static struct request m;
	static uint8_t rep[8192];
	int n;

	memset(&m, 0, sizeof(m));
	memset(rep, 0, sizeof(rep));
	if (recv(c->fd, &m, sizeof(m), 0) < (ssize_t)sizeof(m.head)) {
		drop_channel(c);
	} else if (m.head.type == XR_MSG_HELLO) {
		hello(c, &m);
	} else {
		n = m.head.type == XR_MSG_CM ? command(c, &m.cm, rep) : -EPERM;
		if (n > m.cm.out)
			n = m.cm.out;
		send_reply(c, &m, n < 0 ? n : 0, rep, n < 0 ? 0 : n);
	}
}

/* ---- questions of the test --------------------------------------------------------- */

static uint32_t incoming(uint16_t port)
{
	uint32_t h, n = 0;

	for (h = 1; h < IDS; h++) {
		if (ids[h].channel && ids[h].listens && ids[h].port == port) {
			queue_event(h, new_id(ids[h].channel, 0), ids[h].uid, 4);
			n++;
		}
	}
	return n;
}

static uint32_t count_ids(uint32_t port)
{
	uint32_t h, n = 0;

	for (h = 1; h < IDS; h++)
		n += ids[h].channel && (!port || (ids[h].listens && ids[h].port == port));
	return n;
}

static uint32_t event_for_all(uint32_t event)
{
	uint32_t h, n = 0;

	for (h = 1; h < IDS; h++) {
		if (ids[h].channel && ids[h].uid && !ids[h].listens) {
			queue_event(h, h, ids[h].uid, event);
			n++;
		}
	}
	return n;
}

static uint32_t answer(struct question q)
{
	uint32_t i, n = 0;

	switch ((enum fake_cm_op)q.op) {
	case CM_CHANNELS:
		for (i = 0; i < CHANNELS; i++)
			n += channels[i].fd >= 0;
		return n;
	case CM_IDS:
		return count_ids(0);
	case CM_LISTENERS:
		return count_ids(q.arg);
	case CM_INCOMING:
		return incoming(q.arg);
	case CM_EVENT:
		return event_for_all(q.arg);
	case CM_FOREIGN:
		return foreign = q.arg;
	case CM_BUSY_PORT:
		return busy_port = q.arg;
	case CM_NEXT_PORT:
		return next_port = q.arg;
	case CM_OPTION:
		return option;
	case CM_REFUSE:
		return refuse = q.arg;
	case CM_GARBAGE:
		return garbage = true;
	case CM_STALE:
		return stale = true;
	case CM_SLOW:
		return slow = q.arg;
	case CM_EARLY_REPLY:
		return early_port = q.arg;
	}
	return 0;
}

/* ---- the process -------------------------------------------------------------------- */

__attribute__((noreturn)) static void run(int listener, int cmd)
{
	struct pollfd p[CHANNELS + 2];
	struct question q;
	struct channel *c;
	uint32_t a;
	int i;

	for (i = 0; i < CHANNELS; i++)
		channels[i].fd = channels[i].events = -1;
	for (;;) {
		for (i = 0; i < CHANNELS; i++)
			p[i] = (struct pollfd){ channels[i].fd, POLLIN, 0 };
		p[CHANNELS] = (struct pollfd){ listener, POLLIN, 0 };
		p[CHANNELS + 1] = (struct pollfd){ cmd, POLLIN, 0 };
		poll(p, CHANNELS + 2, -1);
		for (i = 0; i < CHANNELS; i++) {
			if (p[i].revents)
				serve(&channels[i]);
		}
		if (p[CHANNELS].revents) {
			for (c = channels; c->fd >= 0; c++)
				;
			c->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		}
		/* Earlier events are served first; the poll() above may have missed them. */
		if (!p[CHANNELS + 1].revents || poll(p, CHANNELS + 1, 0) > 0)
			continue;
		if (recv(cmd, &q, sizeof(q), 0) <= 0)
			_exit(0);
		a = answer(q);
		send(cmd, &a, sizeof(a), MSG_NOSIGNAL);
	}
}

int fake_cm_start(struct fake_cm *f, const char *dir, const char *name, uint32_t ip)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int listener, pair[2];

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/%s.sock", dir, name);
	unlink(sun.sun_path);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (bind(listener, (struct sockaddr *)&sun, sizeof(sun)) || listen(listener, 8) ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	f->pid = fork();
	if (f->pid < 0)
		return -errno;
	if (!f->pid) {
		/* Descriptors of the test would keep its channels open. */
		dup2(listener, 200);
		dup2(pair[1], 201);
		close_range(3, 199, 0);
		closefrom(202);
		listen(200,
		       8); /* SO_PEERCRED of clients is the process that called listen() last */
		own_ip = ip;
		snprintf(own_name, sizeof(own_name), "%s", name);
		run(200, 201);
	}
	close(pair[1]);
	close(listener);
	f->cmd = pair[0];
	return 0;
}

void fake_cm_kill(struct fake_cm *f)
{
	kill(f->pid, SIGKILL);
	waitpid(f->pid, NULL, 0);
	close(f->cmd);
}

uint32_t fake_cm(struct fake_cm *f, enum fake_cm_op op, uint32_t arg)
{
	struct question q = { op, arg };
	uint32_t a;

	if (send(f->cmd, &q, sizeof(q), MSG_NOSIGNAL) < 0 ||
	    recv(f->cmd, &a, sizeof(a), 0) != sizeof(a)) {
		fprintf(stderr, "the fake daemon died\n");
		exit(1);
	}
	return a;
}
