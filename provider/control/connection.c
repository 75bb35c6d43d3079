// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Requests and replies on the control socket. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "provider/base/clock.h"
#include "provider/control/connection.h"
#include "provider/control/sockets.h"

/* Interval at which the daemon's process is checked while a reply is outstanding */
#define CHECK_MS 100
/* Limit for a reply if the daemon's process is stopped */
#define STOPPED_MS 300

#define ERRNO_MAX 4095

static void set_socket_timeout(int fd, int option, unsigned int ms)
{
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };

	setsockopt(fd, SOL_SOCKET, option, &tv, sizeof(tv));
}

void xp_conn_set_timeout(struct xp_conn *conn, unsigned int timeout_ms)
{
	conn->started_ns = xp_clock();
	conn->deadline_ns = timeout_ms ? conn->started_ns + timeout_ms * XP_NS_PER_MS : 0;
	set_socket_timeout(conn->fd, SO_SNDTIMEO, timeout_ms);
	set_socket_timeout(conn->fd, SO_RCVTIMEO, timeout_ms ? CHECK_MS : 0);
}

int xp_conn_open(struct xp_conn *conn, const char *path, struct xp_timeouts timeouts)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	size_t len = strlen(path);
	int err;

	*conn = (struct xp_conn){ .fd = -1 };
	if (len >= sizeof(sun.sun_path))
		return -ENAMETOOLONG;
	memcpy(sun.sun_path, path, len);
	conn->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (conn->fd < 0)
		return -errno;
	xp_conn_set_timeout(conn, timeouts.reply_ms);
	/* SO_SNDTIMEO bounds connect(). */
	set_socket_timeout(conn->fd, SO_SNDTIMEO, timeouts.connect_ms);
	do {
		err = connect(conn->fd, (struct sockaddr *)&sun, sizeof(sun)) ? -errno : 0;
	} while (err == -EINTR && xp_clock() < conn->deadline_ns);
	if (err)
		xp_conn_close(conn);
	return err;
}

void xp_conn_close(struct xp_conn *conn)
{
	if (conn->fd >= 0)
		close(conn->fd);
	conn->fd = -1;
}

bool xp_conn_hung_up(const struct xp_conn *conn)
{
	struct pollfd p = { .fd = conn->fd };

	return poll(&p, 1, 0) > 0 && p.revents & (POLLHUP | POLLERR);
}

void xp_close_fds(const int *fds, unsigned int n)
{
	while (n)
		close(fds[--n]);
}

/* ---- request ------------------------------------------------------------------- */

static int send_request(struct xp_conn *conn, const struct xp_call *call)
{
	char control[CMSG_SPACE(XR_MSG_MAX_FDS * sizeof(int))] = { 0 };
	struct xr_msg head = {
		.type = call->type,
		.status = call->no_reply ? XR_MSG_NO_REPLY : 0,
		.seq = ++conn->seq,
		.length = call->req_len,
	};
	struct iovec iov[2] = {
		{ &head, sizeof(head) },
		{ (void *)call->req, call->req_len },
	};
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	struct cmsghdr *cmsg;
	ssize_t n;

	if (sizeof(head) + call->req_len > XR_MSG_MAX || call->nfds > XR_MSG_MAX_FDS)
		return -EMSGSIZE;
	if (call->nfds) {
		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(call->nfds * sizeof(int));
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(call->nfds * sizeof(int));
		memcpy(CMSG_DATA(cmsg), call->fds, call->nfds * sizeof(int));
	}
	do {
		n = sendmsg(conn->fd, &msg, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

/* Returns true if sendmsg() failed with err before anything was sent. */
static bool nothing_sent(int err, const struct xp_call *call)
{
	switch (err) {
	case -EMSGSIZE:
	case -ETOOMANYREFS:
	case -ENOBUFS:
	case -ENOMEM:
		return true;
	case -EBADF: /* a descriptor to send, which came from the program */
		return call->nfds;
	default:
		return false;
	}
}

/* ---- reply --------------------------------------------------------------------- */

/* Stores the descriptors that the caller has room for and closes the rest. */
static void receive_fds(struct msghdr *msg, struct xp_call *call)
{
	struct cmsghdr *cmsg;
	unsigned int i, n;
	int fd;

	for (cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		n = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < n; i++) {
			memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(int));
			if (call->rep_nfds < call->rep_room)
				call->rep_fds[call->rep_nfds++] = fd;
			else
				close(fd);
		}
	}
}

/*
 * Returns true if the peer's process is stopped (by SIGSTOP or a debugger), a zombie or dead.
 * Returns false if /proc does not show the process.
 */
static bool is_stopped(int fd)
{
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred);
	char path[32], stat[128], *state;
	FILE *f;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/stat", cred.pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	len = fread(stat, 1, sizeof(stat) - 1, f);
	fclose(f);
	stat[len] = '\0';
	state = strrchr(stat, ')'); /* the name in parentheses may contain anything */
	return state && state[1] && strchr("TtZX", state[2]);
}

/* No reply yet. A running daemon may only be slow, as on a busy machine. */
static bool may_still_reply(const struct xp_conn *conn)
{
	uint64_t now = xp_clock();

	if (!conn->deadline_ns)
		return true;
	if (now >= conn->deadline_ns)
		return false;
	return now - conn->started_ns < STOPPED_MS * XP_NS_PER_MS || !is_stopped(conn->fd);
}

/*
 * Stores the text of an error, which was received in place of the body. The part that did not fit
 * into the body is in `rest`.
 */
static void store_why(struct xp_conn *conn, struct xp_call *call, const char *rest, size_t len)
{
	size_t first = len < call->rep_len ? len : call->rep_len;

	if (len >= sizeof(conn->why))
		return;
	if (first)
		memcpy(conn->why, call->rep, first);
	memcpy(conn->why + first, rest, len - first);
	conn->why[len] = '\0';
}

/* Returns the number of bytes, or a negative errno. */
static ssize_t connection_receive_message(struct xp_conn *conn, struct msghdr *msg)
{
	ssize_t n;
	int err;

	do {
		n = recvmsg(conn->fd, msg, MSG_CMSG_CLOEXEC);
		err = n < 0 ? -errno : 0;
		/* A timer signal of the program may interrupt each wait before it times out. */
	} while ((err == -EINTR || err == -EAGAIN) && may_still_reply(conn));
	if (n < 0)
		return err == -EINTR || err == -EAGAIN ? -ETIMEDOUT : err;
	return n ? n : -ECONNRESET;
}

/*
 * Returns 0 and the status in the reply, or an error of the connection; if the daemon refuses the
 * connection, its error.
 */
static int receive_reply(struct xp_conn *conn, struct xp_call *call, int *status)
{
	char control[CMSG_SPACE(XR_HELLO_MAX_FDS * sizeof(int))], rest[XR_WHY_MAX];
	struct xr_msg head;
	struct iovec iov[3] = {
		{ &head, sizeof(head) },
		{ call->rep, call->rep_len },
		{ rest, sizeof(rest) },
	};
	struct msghdr msg = {
		.msg_iov = iov,
		.msg_iovlen = 3,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n;

	if (call->rep_len)
		memset(call->rep, 0, call->rep_len);
	n = connection_receive_message(conn, &msg);
	if (n < 0)
		return (int)n;
	receive_fds(&msg, call);
	if ((size_t)n < sizeof(head) || head.status > 0 || head.status < -ERRNO_MAX)
		return -EPROTO;
	n -= sizeof(head);
	if (head.status)
		store_why(conn, call, rest, n);
	conn->refused = head.type == XR_MSG_NONE && head.status;
	if (conn->refused)
		return head.status;
	if (head.seq != conn->seq && conn->shared) {
		/* The process that sent this request died before it read the reply. */
		xp_close_fds(call->rep_fds, call->rep_nfds);
		call->rep_nfds = 0;
		return receive_reply(conn, call, status);
	}
	if (head.type != call->type || head.seq != conn->seq)
		return -EPROTO;
	call->rep_got = (size_t)n < call->rep_len ? (size_t)n : call->rep_len;
	*status = head.status;
	return 0;
}

/* Returns the error of a refused connection, else err. */
static int refusal(struct xp_conn *conn, struct xp_call *call, int err)
{
	int status = 0, refused = receive_reply(conn, call, &status);

	return refused == -EPIPE || refused == -ECONNRESET || !refused ? err : refused;
}

/* A record lock belongs to a process and ends with it. */
static void exclude_processes(const struct xp_conn *conn, bool on)
{
	struct flock l = { .l_type = on ? F_WRLCK : F_UNLCK, .l_whence = SEEK_SET };

	if (!conn->shared)
		return;
	while (fcntl(conn->fd, F_SETLKW, &l) && errno == EINTR)
		;
}

/* Returns true if something was sent, and *err of the connection or *status of the reply. */
static bool exchange(struct xp_conn *conn, struct xp_call *call, int *err, int *status)
{
	bool sent;

	exclude_processes(conn, true);
	*err = send_request(conn, call);
	sent = !nothing_sent(*err, call);
	if (!*err && !call->no_reply)
		*err = receive_reply(conn, call, status);
	exclude_processes(conn, false);
	return sent;
}

int xp_conn_call(struct xp_conn *conn, struct xp_call *call)
{
	int err, status = 0;

	call->rep_nfds = 0;
	call->rep_got = 0;
	conn->why[0] = '\0';
	if (conn->broken)
		return -EIO;
	if (!exchange(conn, call, &err, &status))
		return err;
	/* The daemon may have refused the connection before it could read the request. */
	if (err == -EPIPE || err == -ECONNRESET)
		err = refusal(conn, call, err);
	if (!err && !status)
		return 0;
	xp_close_fds(call->rep_fds, call->rep_nfds);
	call->rep_nfds = 0;
	if (!err)
		return status;
	/*
	 * Replies arrive in order. After a lost or foreign one, none can be matched any more. Other
	 * processes find that out in the same way.
	 */
	conn->broken = true;
	shutdown(conn->fd, SHUT_RDWR);
	return err;
}

int xp_conn_tell(struct xp_conn *conn, struct xp_call *call)
{
	call->no_reply = conn->no_reply;
	return xp_conn_call(conn, call);
}

/* ---- errors -------------------------------------------------------------------- */

void xp_conn_describe(const struct xp_conn *conn, const char *path, int err, char *text,
		      size_t size)
{
	char access[128] = "";

	if (err == -EACCES && !conn->why[0])
		xp_socket_access(path, access, sizeof(access));
	snprintf(text, size, "%s%s%s%s", strerror(-err), conn->why[0] || access[0] ? ": " : "",
		 conn->why, access);
}

/* ---- hello --------------------------------------------------------------------- */

int xp_conn_hello(struct xp_conn *conn, uint32_t flags, const uint8_t *token, struct xp_call *call)
{
	struct xr_hello_req req = { .version = XR_PROTOCOL_VERSION, .flags = flags };
	int err;

	if (token) {
		req.flags |= XR_HELLO_IMPORT;
		memcpy(req.token, token, sizeof(req.token));
	}
	call->type = XR_MSG_HELLO;
	call->req = &req;
	call->req_len = sizeof(req);
	err = xp_conn_call(conn, call);
	call->req = NULL;
	conn->no_reply = !err && ((const struct xr_hello_rep *)call->rep)->no_reply;
	if (!err && ((const struct xr_hello_rep *)call->rep)->version != XR_PROTOCOL_VERSION) {
		xp_close_fds(call->rep_fds, call->rep_nfds);
		call->rep_nfds = 0;
		err = -EPROTO;
	}
	return err;
}

int xp_conn_observe(struct xp_conn *conn, const char *path, struct xp_timeouts timeouts,
		    struct xr_hello_rep *rep)
{
	struct xp_call call = { .rep = rep, .rep_len = sizeof(*rep) };
	int err = xp_conn_open(conn, path, timeouts);

	if (err)
		return err;
	err = xp_conn_hello(conn, XR_HELLO_OBSERVER, NULL, &call);
	if (!err && (!rep->device[0] || !memchr(rep->device, 0, sizeof(rep->device)) ||
		     !memchr(rep->netdev, 0, sizeof(rep->netdev))))
		err = -EPROTO;
	if (err)
		xp_conn_close(conn);
	return err;
}
