// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "connection.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/log_program.h"
#include "daemon/base/loop.h"
#include "client.h"
#include "load.h"
#include "processes.h"
#include "request.h"

/* ---- when requests are read ------------------------------------------------------- */

/*
 * No request is read while descriptors are being closed. Otherwise a client whose descriptors block
 * could send more and more, until the daemon runs out of descriptors.
 */
static int watch_socket(struct xd_client *c)
{
	struct xd_connection *con = &c->connection;

	if (c->ending)
		return 0;
	return xd_watch_set(
		con->watch,
		con->busy || con->closing || con->pprev_delayed || con->gate.taking ? 0 : EPOLLIN);
}

/* ---- clients that used more than their share ---------------------------------------- */

#define DELAY_NS 1000000ull

static void delay(struct xd_client *c)
{
	struct xd_delayed *list = &c->clients->delayed;
	struct xd_connection *con = &c->connection;

	if (!list->first)
		xd_timer_arm(list->timer, DELAY_NS);
	con->next_delayed = list->first;
	con->pprev_delayed = &list->first;
	if (con->next_delayed)
		con->next_delayed->connection.pprev_delayed = &con->next_delayed;
	list->first = c;
	con->delays++;
	watch_socket(c);
}

static void end_delay(struct xd_client *c)
{
	struct xd_connection *con = &c->connection;

	if (!con->pprev_delayed)
		return;
	*con->pprev_delayed = con->next_delayed;
	if (con->next_delayed)
		con->next_delayed->connection.pprev_delayed = con->pprev_delayed;
	con->pprev_delayed = NULL;
}

/* Lets each delayed client try again. */
static void on_delay(void *arg)
{
	struct xd_clients *cs = arg;
	struct xd_client *c;

	while ((c = cs->delayed.first)) {
		end_delay(c);
		watch_socket(c);
	}
}

int xd_delayed_start(struct xd_clients *cs)
{
	cs->delayed.timer = xd_timer_new(cs->dev->loop, on_delay, cs);
	return cs->delayed.timer ? 0 : -ENOMEM;
}

void xd_delayed_stop(struct xd_clients *cs)
{
	xd_timer_free(cs->delayed.timer);
}

/* ---- replies ----------------------------------------------------------------------- */

static const char *const request_names[] = {
#define X(NAME, name, body, flags) [XR_MSG_##NAME] = #NAME,
	XR_MESSAGES(X)
#undef X
};

/* Explains errors that have the same meaning in all requests. */
static void connection_explain(struct xd_client *c, int err)
{
	if (err == -ENOENT)
		xd_refuse(c, err, "the client has no such object");
	else if (err == -ENOMEM)
		xd_refuse(c, err,
			  "the daemon has no more memory, or a table of the device is full");
}

static void log_refused(const struct xd_client *c, int err)
{
	const struct xd_connection *con = &c->connection;
	const char *name = con->type < XR_MSG_COUNT ? request_names[con->type] : NULL;
	const struct xd_log_program program = { c->identity.pid, c->identity.uid, c->identity.comm,
						0 };

	/* CM: errors of these commands are part of the usual protocol of rdma_cm. */
	if (con->type == XR_MSG_CM)
		return;
	xd_log_about(&program);
	xd_log(XD_DEBUG, "client %u (%s, pid %d): %s: %s%s%s", c->id, c->identity.comm,
	       (int)c->identity.pid, name ? name : "unknown request", strerror(-err),
	       *con->why ? ": " : "", con->why);
	xd_log_about(NULL);
}

void xd_reply_send(struct xd_client *c, int err, struct xd_reply *rep)
{
	struct xd_connection *con = &c->connection;
	int failed = 0;

	if (c->ending || !con->busy)
		return;
	con->busy = false;
	if (err && !*con->why)
		connection_explain(c, err);
	if (err)
		log_refused(c, err);
	if (con->no_reply)
		xd_reply_drop(rep);
	else
		failed = xd_reply_write(
			con->fd,
			(struct xr_msg){ .type = con->type, .status = err, .seq = con->seq }, rep,
			con->why);
	/* The client is gone, or does not read its replies: end it. */
	if (failed || watch_socket(c))
		c->connection.end(c);
}

void xd_request_wait(struct xd_client *c, void (*cancel)(struct xd_client *c), void *waiting)
{
	c->connection.cancel = cancel;
	c->connection.waiting = waiting;
}

void xd_request_wake(struct xd_client *c)
{
	xd_request_wait(c, NULL, NULL);
}

/* ---- closing descriptors of clients ----------------------------------------------- */

struct close_job {
	struct xd_client_job job;
	uint32_t n;
	int fd[];
};

static void connection_close_run(struct xd_client_job *job)
{
	struct close_job *j = container_of(job, struct close_job, job);
	uint32_t i;

	for (i = 0; i < j->n; i++)
		close(j->fd[i]);
}

static void connection_close_done(struct xd_client_job *job)
{
	struct xd_client *c = job->client;

	c->connection.closing--;
	watch_socket(c);
	free(container_of(job, struct close_job, job));
}

void xd_client_close_fds(struct xd_client *c, const int *fds, uint32_t n)
{
	struct close_job *j;
	uint32_t i, left = 0;

	for (i = 0; i < n; i++)
		left += fds[i] >= 0;
	if (!left)
		return;
	j = malloc(sizeof(*j) + left * sizeof(*fds));
	if (!j) {
		for (i = 0; i < n; i++)
			close(fds[i]);
		return;
	}
	j->job = (struct xd_client_job){ .run = connection_close_run,
					 .done = connection_close_done };
	for (i = 0, j->n = 0; i < n; i++) {
		if (fds[i] >= 0)
			j->fd[j->n++] = fds[i];
	}
	c->connection.closing++;
	xd_client_add_next_job(c, &j->job);
}

/* ---- requests -------------------------------------------------------------------- */

/*
 * Returns -EINVAL unless the length of the datagram matches its header. Sets type, seq and no_reply
 * always.
 */
static int connection_parse(const void *data, size_t len, struct xd_request *req)
{
	struct xr_msg head = { 0 };

	memcpy(&head, data, len < sizeof(head) ? len : sizeof(head));
	req->type = head.type;
	req->seq = head.seq;
	req->no_reply = head.status == XR_MSG_NO_REPLY;
	if (len < sizeof(head) || len > XR_MSG_MAX || head.length != len - sizeof(head))
		return -EINVAL;
	req->length = head.length;
	return 0;
}

static void note_request(struct xd_connection *con, const struct xd_request *req)
{
	con->busy = true;
	con->no_reply = req->no_reply;
	con->type = req->type;
	con->seq = req->seq;
}

/* Closes the descriptors first: the reply may end the client. */
static void connection_finish(struct xd_client *c, const struct xd_request *req, int err,
			      struct xd_reply *rep)
{
	xd_client_close_fds(c, req->fds, req->nfds);
	if (err != XD_LATER)
		xd_reply_send(c, err, rep);
	else if (c->connection.busy)
		watch_socket(c);
}

void xd_request_execute(struct xd_client *c, struct xd_request *req, xd_handler handler)
{
	struct xd_reply *rep = xd_reply_start();

	connection_finish(c, req, handler(c, req, rep), rep);
}

void xd_client_feed(struct xd_client *c, const void *data, size_t len, const int *fds,
		    uint32_t nfds)
{
	static uint8_t body[XR_MSG_MAX] __attribute__((aligned(8)));
	struct xd_request req = { .body = body, .nfds = nfds };
	struct xd_connection *con = &c->connection;
	int own[XR_MSG_MAX_FDS], err;
	struct xd_reply *rep;

	if (nfds)
		memcpy(own, fds, nfds * sizeof(*fds));
	req.fds = own;
	if (c->ending || con->busy) {
		xd_client_close_fds(c, own, nfds);
		return;
	}
	rep = xd_reply_start();
	err = connection_parse(data, len, &req);
	con->why[0] = '\0';
	note_request(con, &req);
	if (!err) {
		memcpy(body, (const uint8_t *)data + sizeof(struct xr_msg), req.length);
		err = c->clients->ops->request(c, &req, rep);
	}
	connection_finish(c, &req, err, rep);
}

/* Replies to a request whose descriptors could not be received. */
static void connection_refuse(struct xd_client *c, const void *data, size_t len, int err)
{
	struct xd_request req;

	connection_parse(data, len, &req);
	note_request(&c->connection, &req);
	if (!*c->connection.why)
		xd_refuse(c, err, "the descriptors of the request could not be received");
	xd_reply_send(c, err, NULL);
}

/* Has the gate, which is started if need be, receive the next request. */
static int take_by_gate(struct xd_client *c)
{
	struct xd_connection *con = &c->connection;
	int err = 0;

	con->why[0] = '\0';
	if (!con->gate.spawner)
		return -EOPNOTSUPP;
	if (!con->gate.watch)
		err = xd_process_charge(c, 0, &con->gate.process);
	return err ? err : xd_gate_take(&con->gate, con->fd);
}

/*
 * Looks at the next request first: if it carries descriptors, the gate receives it (gate.h). As
 * there is no room for them here, the kernel drops them and sets MSG_CTRUNC.
 */
static void connection_receive(struct xd_client *c)
{
	static uint8_t data[XR_MSG_MAX];
	struct iovec iov = { data, sizeof(data) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	const int flags = MSG_DONTWAIT | MSG_TRUNC;
	ssize_t n = recvmsg(c->connection.fd, &msg, flags | MSG_PEEK);
	int err = 0;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n >= 0 && msg.msg_flags & MSG_CTRUNC) {
		if (c->connection.channel) { /* which sends no descriptors: it has no gate */
			c->connection.end(c);
			return;
		}
		err = take_by_gate(c);
		if (!err) {
			watch_socket(c);
			return;
		}
	}
	if (n > 0)
		n = recv(c->connection.fd, data, sizeof(data), flags);
	if (n <= 0)
		c->connection.end(c);
	else if (err)
		connection_refuse(c, data, (size_t)n, err);
	else /* connection_parse() refuses lengths beyond XR_MSG_MAX before the data is read. */
		xd_client_feed(c, data, (size_t)n, NULL, 0);
}

static void on_gate(void *arg, const void *data, size_t len, const int *fds, uint32_t nfds)
{
	struct xd_client *c = arg;

	if (len) {
		xd_client_feed(c, data, len, fds, nfds);
		xd_load_charge_lap(c);
		return;
	}
	xd_client_close_fds(c, fds, nfds);
	c->connection.end(c);
}

/* ---- start and end --------------------------------------------------------------- */

static void on_socket(void *arg, uint32_t events)
{
	struct xd_client *c = arg;
	struct xd_connection *con = &c->connection;

	if (events & EPOLLIN && !con->busy && !con->pprev_delayed && !con->gate.taking) {
		if (xd_load_exceeded(c, xd_now())) {
			delay(c);
			return;
		}
		connection_receive(c);
		xd_load_charge_lap(c);
	} else if (events & (EPOLLHUP | EPOLLERR))
		c->connection.end(c);
}

static void on_process_end(void *arg, uint32_t events)
{
	struct xd_client *c = arg;

	c->connection.end(c);
}

void xd_connection_refuse(int fd, int err, const char *why)
{
	xd_reply_write(fd, (struct xr_msg){ .type = XR_MSG_NONE, .status = err }, NULL, why);
	close(fd);
}

int xd_connection_open(struct xd_client *c, int fd, void (*end)(struct xd_client *c))
{
	struct xd_connection *con = &c->connection;
	struct xd_loop *loop = c->dev->loop;
	int pidfd = c->identity.pidfd;

	con->fd = fd;
	con->end = end;
	con->gate.loop = loop;
	con->gate.spawner = c->dev->spawner;
	con->gate.fn = on_gate;
	con->gate.arg = c;
	xd_gate_init(&con->gate);
	con->watch = xd_watch_add(loop, fd, EPOLLIN, on_socket, c);
	if (con->watch && pidfd >= 0)
		con->process = xd_watch_add(loop, pidfd, EPOLLIN, on_process_end, c);
	if (con->watch && (pidfd < 0 || con->process))
		return 0;
	xd_watch_del(con->watch);
	close(fd);
	return -ENOMEM;
}

bool xd_connection_hung_up(const struct xd_client *c)
{
	struct pollfd p = { .fd = c->connection.fd };

	return poll(&p, 1, 0) > 0 && p.revents & POLLHUP;
}

void xd_connection_greet(struct xd_client *c, bool observer)
{
	struct json *j = observer ? NULL : xd_publish_begin(c->clients, "client_connected");

	c->connection.hello = true;
	c->connection.observer = observer;
	if (!j)
		return;
	json_text(j, "kind", c->umad ? "umad" : c->connection.channel ? "rdma_cm" : "verbs");
	xd_publish_client(j, c);
	xd_publish(c->clients);
}

int xd_connection_may_greet_channel(struct xd_client *c)
{
	return c->connection.gate.watch ? -EINVAL : xd_user_may_open_channel(c);
}

void xd_connection_greet_channel(struct xd_client *c)
{
	xd_watch_del(c->connection.process);
	c->connection.process = NULL;
	xd_user_opened_channel(c);
	xd_connection_greet(c, false);
}

void xd_connection_shutdown(struct xd_client *c)
{
	struct xd_connection *con = &c->connection;

	end_delay(c);
	xd_watch_del(con->watch);
	xd_watch_del(con->process);
	xd_gate_close(&con->gate);
	if (con->cancel)
		con->cancel(c);
	shutdown(con->fd, SHUT_RDWR);
}

void xd_connection_close(struct xd_client *c)
{
	close(c->connection.fd);
}
