// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

void xd_thread_name(const char *name)
{
	prctl(PR_SET_NAME, name);
}

void xd_process_begin(const char *name, pid_t parent)
{
	sigset_t none;

	xd_thread_name(name);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) /* it ended before prctl() */
		_exit(1);
	/* systemd and terminals send these to all processes of the daemon. */
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Leaves the standard descriptors and the socket. */
static int keep_socket_only(int sock)
{
	const int kept = STDERR_FILENO + 1;

	if (sock != kept && dup3(sock, kept, O_CLOEXEC) < 0)
		_exit(1);
	close_range(kept + 1, ~0u, 0);
	return kept;
}

int xd_process_start(struct xd_process *p, const char *name, int (*fn)(int sock))
{
	pid_t parent = getpid();
	int pair[2], err;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	p->pid = fork();
	if (!p->pid) {
		xd_process_begin(name, parent);
		_exit(fn(keep_socket_only(pair[1])));
	}
	err = p->pid < 0 ? -errno : 0;
	close(pair[1]);
	if (err)
		close(pair[0]);
	p->sock = err ? -1 : pair[0];
	return err;
}

void xd_process_close(struct xd_process *p)
{
	if (p->sock >= 0)
		close(p->sock);
	p->sock = -1;
}

void xd_process_end(struct xd_process *p, int ms)
{
	struct pollfd end = { .events = POLLIN };

	xd_process_close(p);
	end.fd = (int)syscall(SYS_pidfd_open, p->pid, 0);
	if (end.fd >= 0) {
		poll(&end, 1, ms);
		close(end.fd);
	}
	waitpid(p->pid, NULL, WNOHANG);
}
