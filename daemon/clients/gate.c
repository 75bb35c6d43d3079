// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "gate.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/fd_message.h"
#include "daemon/base/loop.h"
#include "daemon/base/reaper.h"
#include "daemon/base/spawner.h"
#include "gate_message.h"

void xd_gate_init(struct xd_gate *gate)
{
	gate->pidfd = gate->sock = -1;
	gate->watch = NULL;
	gate->process = NULL;
	gate->taking = false;
}

/* The length of a request may exceed its limit; the gate sends only what is within it. */
static bool gate_complete(const struct xd_gate_message *m, size_t len)
{
	size_t data = m->length < XR_MSG_MAX ? (size_t)m->length : XR_MSG_MAX;

	return len > sizeof(m->length) && m->length > 0 && len == sizeof(m->length) + data;
}

static void on_message(void *arg, uint32_t events)
{
	static struct xd_gate_message m;
	struct xd_gate *gate = arg;
	int fds[XR_MSG_MAX_FDS], err;
	struct xd_message_room room = {
		.data = &m,
		.len = sizeof(m),
		.fds = fds,
		.n = XR_MSG_MAX_FDS,
	};

	err = xd_message_receive_any(gate->sock, &room, MSG_DONTWAIT);
	if (err == -EAGAIN)
		return;
	gate->taking = false;
	if (err || !gate_complete(&m, room.len))
		m.length = 0;
	gate->fn(gate->arg, m.data, (size_t)m.length, fds, room.n);
}

static int gate_start(struct xd_gate *gate, int client_fd)
{
	int pair[2], fds[2], err = 0;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		err = -errno;
		xd_gate_close(gate);
		return err;
	}
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
	int err = gate->watch ? 0 : gate_start(gate, client_fd);

	if (!err)
		err = xd_message_send(gate->sock, "", 1, NULL, 0, MSG_DONTWAIT);
	gate->taking = !err;
	return err;
}

void xd_gate_close(struct xd_gate *gate)
{
	xd_watch_del(gate->watch);
	if (gate->pidfd >= 0)
		syscall(SYS_pidfd_send_signal, gate->pidfd, SIGKILL, NULL, 0);
	if (gate->process)
		xd_reaper_add(gate->process, gate->pidfd);
	if (gate->sock >= 0)
		close(gate->sock);
	xd_gate_init(gate);
}
