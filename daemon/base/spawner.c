// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "spawner.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fd_message.h"
#include "privileges.h"
#include "process.h"
#include "seccomp.h"

struct xd_spawner {
	pthread_mutex_t lock; /* from a request to its reply */
	struct xd_process process;
};

/*
 * One message: a number with descriptors. In a request: enum xd_spawned; in a reply: the process
 * or a negative errno.
 */
struct spawner_message {
	int32_t value;
	int fd[XD_SPAWN_FDS];
	uint32_t n;
};

static int send_message(int sock, const struct spawner_message *m)
{
	return xd_message_send(sock, &m->value, sizeof(m->value), m->fd, m->n, 0);
}

static int spawner_receive_message(int sock, struct spawner_message *m)
{
	m->n = XD_SPAWN_FDS;
	return xd_message_receive(sock, &m->value, sizeof(m->value), m->fd, &m->n, 0);
}

/* ---- the spawner ----------------------------------------------------------------- */

/* Kinds of processes that the spawner forks. There is one spawner, whose copy never changes. */
static const struct xd_spawned_kind *spawned;

/*
 * Returns the number of the process or -errno. The process is reaped later, so that its number is
 * its own until then.
 */
static int fork_one(int sock, int signals, const struct spawner_message *m, int *pidfd)
{
	const struct xd_spawned_kind *kind = &spawned[m->value];
	pid_t parent = getpid(), pid = fork();
	int err;

	if (!pid) {
		close(sock);
		close(signals);
		xd_process_begin(kind->name, parent);
		kind->fn(m->fd, m->n);
		_exit(0);
	}
	if (pid < 0)
		return -errno;
	*pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (*pidfd >= 0)
		return pid;
	err = -errno;
	kill(pid, SIGKILL);
	return err;
}

/* Returns false if the daemon has closed its end. */
static bool spawner_serve(int sock, int signals)
{
	struct spawner_message request, reply = { 0 };
	int err = spawner_receive_message(sock, &request);

	if (err && err != -EMFILE)
		return false;
	reply.value = err ? err : fork_one(sock, signals, &request, &reply.fd[0]);
	reply.n = reply.value > 0;
	xd_fds_close(request.fd, request.n);
	err = send_message(sock, &reply);
	xd_fds_close(reply.fd, reply.n);
	return !err;
}

static void spawner_reap(int signals)
{
	struct signalfd_siginfo si;

	while (read(signals, &si, sizeof(si)) > 0)
		;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

/* Its end kills the forked processes (xd_process_begin()). */
static int spawner_main(int sock)
{
	struct pollfd p[2] = { { .fd = sock, .events = POLLIN }, { .events = POLLIN } };
	sigset_t child;

	if (xd_privileges_drop(XD_ROLE_SPAWNER))
		return 1;
	xd_seccomp_enter(XD_ROLE_SPAWNER); /* the daemon logs a failure of its own call */
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	p[1].fd = signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC);
	if (p[1].fd < 0)
		return 1;
	while (poll(p, 2, -1) > 0 || errno == EINTR) {
		if (p[1].revents)
			spawner_reap(p[1].fd);
		if (p[0].revents && !spawner_serve(sock, p[1].fd))
			return 0;
	}
	return 1;
}

/* ---- the daemon's side ----------------------------------------------------------- */

int xd_spawner_start(const struct xd_spawned_kind kind[XD_SPAWN_KINDS], struct xd_spawner **out)
{
	struct xd_spawner *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	spawned = kind;
	err = xd_process_start(&s->process, "xroced-spawner", spawner_main);
	if (err) {
		free(s);
		return err;
	}
	pthread_mutex_init(&s->lock, NULL);
	*out = s;
	return 0;
}

int xd_spawner_fork(struct xd_spawner *s, enum xd_spawned kind, const int *fds, uint32_t n,
		    pid_t *pid)
{
	struct spawner_message request = { .value = kind, .n = n }, reply;
	int err;

	if (n > XD_SPAWN_FDS)
		return -EINVAL;
	memcpy(request.fd, fds, n * sizeof(*fds));
	pthread_mutex_lock(&s->lock);
	err = send_message(s->process.sock, &request);
	if (!err)
		err = spawner_receive_message(s->process.sock, &reply);
	pthread_mutex_unlock(&s->lock);
	if (err)
		return err;
	if (reply.value < 0)
		return reply.value;
	*pid = reply.value;
	return reply.fd[0];
}

void xd_spawner_stop(struct xd_spawner *s)
{
	if (!s)
		return;
	xd_process_close(&s->process);
	pthread_mutex_destroy(&s->lock);
	free(s);
}
