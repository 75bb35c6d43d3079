// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Requests and replies on the control socket, see <xroce/control.h>. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "provider/provider.h"

void xp_close_fds(int *fds, unsigned int n)
{
	while (n)
		close(fds[--n]);
}

/* A connection that the daemon's backlog has no room for */
#define CONNECT_MS 1000
/* How often a daemon that does not answer is looked at, and how long one that is stopped has */
#define LOOK_MS 100
#define STOPPED_MS 300
#define NS_PER_MS 1000000ull

static void set_timeout(int fd, int option, unsigned int ms)
{
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };

	setsockopt(fd, SOL_SOCKET, option, &tv, sizeof(tv));
}

int xp_conn_open(struct xp_conn *conn, const char *path, unsigned int timeout_ms)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	size_t len = strlen(path);
	int err;

	if (len >= sizeof(sun.sun_path))
		return -ENAMETOOLONG;
	memcpy(sun.sun_path, path, len);
	conn->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (conn->fd < 0)
		return -errno;
	/* the send timeout bounds connect() */
	set_timeout(conn->fd, SO_SNDTIMEO, timeout_ms < CONNECT_MS ? timeout_ms : CONNECT_MS);
	set_timeout(conn->fd, SO_RCVTIMEO, LOOK_MS);
	conn->opened_ns = xp_clock();
	conn->deadline_ns = conn->opened_ns + timeout_ms * NS_PER_MS;
	do {
		err = connect(conn->fd, (struct sockaddr *)&sun, sizeof(sun)) ? -errno : 0;
	} while (err == -EINTR && xp_clock() < conn->deadline_ns);
	if (err) {
		close(conn->fd);
		conn->fd = -1;
		return err;
	}
	pthread_mutex_init(&conn->lock, NULL);
	conn->seq = 0;
	conn->broken = false;
	return 0;
}

/* From now on requests take the time they take. */
void xp_conn_no_timeout(struct xp_conn *conn)
{
	set_timeout(conn->fd, SO_SNDTIMEO, 0);
	set_timeout(conn->fd, SO_RCVTIMEO, 0);
	conn->deadline_ns = 0;
}

void xp_conn_close(struct xp_conn *conn)
{
	if (conn->fd < 0)
		return;
	close(conn->fd);
	conn->fd = -1;
	pthread_mutex_destroy(&conn->lock);
}

bool xp_conn_hung_up(const struct xp_conn *conn)
{
	struct pollfd p = { .fd = conn->fd };

	return poll(&p, 1, 0) > 0 && p.revents & (POLLHUP | POLLERR);
}

static int send_request(struct xp_conn *conn, const struct xp_call *call)
{
	char control[CMSG_SPACE(XR_MSG_MAX_FDS * sizeof(int))] = { 0 };
	struct xr_msg head = { .type = call->type, .seq = ++conn->seq, .length = call->req_len };
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
	if (n >= 0)
		return 0;
	return -errno;
}

/* Keeps what the caller has room for, closes the rest. */
static void take_fds(struct msghdr *msg, struct xp_call *call)
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

/* By SIGSTOP, a debugger, or for ever; false also where /proc does not show the process. */
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
	state = strrchr(stat, ')'); /* behind the name, which may hold anything */
	return state && state[1] && strchr("TtZX", state[2]);
}

/* No answer yet. A process that runs may only be late, as on a busy machine. */
static bool worth_waiting(const struct xp_conn *conn)
{
	uint64_t now = xp_clock();

	if (!conn->deadline_ns)
		return true;
	if (now >= conn->deadline_ns)
		return false;
	return now - conn->opened_ns < STOPPED_MS * NS_PER_MS || !is_stopped(conn->fd);
}

/* 0 and the daemon's answer in *status, or what went wrong on the way. */
static int receive_reply(struct xp_conn *conn, struct xp_call *call, int *status)
{
	char control[CMSG_SPACE(XR_MSG_MAX_FDS * sizeof(int))];
	struct xr_msg head;
	struct iovec iov[2] = {
		{ &head, sizeof(head) },
		{ call->rep, call->rep_len },
	};
	struct msghdr msg = {
		.msg_iov = iov,
		.msg_iovlen = 2,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n;
	int err;

	if (call->rep_len)
		memset(call->rep, 0, call->rep_len);
	do {
		n = recvmsg(conn->fd, &msg, MSG_CMSG_CLOEXEC);
		err = n < 0 ? -errno : 0;
		/* a program with a timer may be interrupted before each timeout */
	} while ((err == -EINTR || err == -EAGAIN) && worth_waiting(conn));
	if (n <= 0)
		return n ? err : -ECONNRESET;
	take_fds(&msg, call);
	if ((size_t)n < sizeof(head) || head.type != call->type || head.seq != conn->seq ||
	    head.status > 0 || head.status < -4095)
		return -EPROTO;
	call->rep_got = n - sizeof(head);
	*status = head.status;
	return 0;
}

int xp_conn_call(struct xp_conn *conn, struct xp_call *call)
{
	int err, status = 0;

	call->rep_nfds = 0;
	call->rep_got = 0;
	if (conn->broken)
		return -EIO;
	err = send_request(conn, call);
	if (err == -EMSGSIZE || err == -ETOOMANYREFS || err == -ENOBUFS || err == -ENOMEM)
		return err; /* nothing was sent */
	if (err == -EBADF && call->nfds)
		return err; /* nor here: a descriptor that the program gave us */
	if (!err)
		err = receive_reply(conn, call, &status);
	if (!err && !status)
		return 0;
	xp_close_fds(call->rep_fds, call->rep_nfds);
	call->rep_nfds = 0;
	if (!err)
		return status;
	/* Replies are matched by their order: after a lost or foreign one nothing fits any more. */
	conn->broken = true;
	shutdown(conn->fd, SHUT_RDWR);
	return -EIO;
}
