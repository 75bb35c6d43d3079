// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "gate.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/loop.h"
#include "daemon/base/spawner.h"
#include "gate_message.h"

void xd_gate_init(struct xd_gate *gate)
{
	gate->pidfd = gate->sock = -1;
	gate->watch = NULL;
	gate->taking = false;
}

static void on_message(void *arg, uint32_t events)
{
	static struct xd_gate_message m;
	struct xd_gate *gate = arg;
	struct iovec iov = { &m, sizeof(m) };
	union xd_gate_control control;
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	int fds[XR_MSG_MAX_FDS];
	uint32_t nfds;
	ssize_t n;

	n = recvmsg(gate->sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	nfds = n < 0 ? 0 : xd_received_fds(&msg, fds);
	gate->taking = false;
	if (n <= (ssize_t)sizeof(m.length) || msg.msg_flags & MSG_CTRUNC || m.length <= 0)
		m.length = 0;
	gate->fn(gate->arg, m.data, (size_t)m.length, fds, nfds);
}

static int start(struct xd_gate *gate, int client_fd)
{
	int pair[2], fds[2], err = 0;
	pid_t pid;

	if (!gate->spawner)
		return -EOPNOTSUPP;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	fds[0] = client_fd;
	fds[1] = pair[1];
	gate->sock = pair[0];
	gate->pidfd = xd_spawner_fork(gate->spawner, XD_SPAWN_GATE, fds, 2, &pid);
	close(pair[1]);
	if (gate->pidfd < 0)
		err = gate->pidfd;
	else if (!(gate->watch = xd_watch_add(gate->loop, gate->sock, EPOLLIN, on_message, gate)))
		err = -ENOMEM;
	if (err)
		xd_gate_close(gate);
	return err;
}

int xd_gate_take(struct xd_gate *gate, int client_fd)
{
	int err = gate->watch ? 0 : start(gate, client_fd);

	if (!err && send(gate->sock, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
		err = -EPIPE;
	gate->taking = !err;
	return err;
}

void xd_gate_close(struct xd_gate *gate)
{
	xd_watch_del(gate->watch);
	if (gate->pidfd >= 0) {
		syscall(SYS_pidfd_send_signal, gate->pidfd, SIGKILL, NULL, 0);
		close(gate->pidfd);
	}
	if (gate->sock >= 0)
		close(gate->sock);
	xd_gate_init(gate);
}
