// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The spawner: what its processes hold, and when they end. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/process.h"
#include "daemon/base/spawner.h"
#include "selftests/lib/tap.h"

#define WAIT_MS 20000 /* for what happens at once unless the machine is busy */

static uint32_t open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	uint32_t n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n - 3; /* ., .. and the descriptor of the directory itself */
}

/* Sends the number of its open descriptors to each socket that it got, then never ends. */
static void report(const int *fds, uint32_t n)
{
	uint32_t count = open_fds();

	for (uint32_t i = 0; i < n; i++)
		(void)!write(fds[i], &count, sizeof(count));
	for (;;)
		pause();
}

static const struct xd_spawned_kind kinds[XD_SPAWN_KINDS] = {
	[XD_SPAWN_MOVER] = { "test-child", report },
};

static bool ends(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return poll(&p, 1, WAIT_MS) == 1;
}

static bool runs(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return pidfd >= 0 && !poll(&p, 1, 0);
}

static int fork_reporting(struct xd_spawner *s, uint32_t *count)
{
	int pair[2], pidfd;
	pid_t pid;

	socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair);
	pidfd = xd_spawner_fork(s, XD_SPAWN_MOVER, &pair[1], 1, &pid);
	close(pair[1]);
	if (pidfd >= 0 && read(pair[0], count, sizeof(*count)) != sizeof(*count))
		*count = 0;
	close(pair[0]);
	return pidfd;
}

static void test_descriptors(void)
{
	int kept = open("/dev/null", 0), pidfd, fds[XD_SPAWN_FDS + 1];
	struct xd_spawner *s;
	uint32_t count = 0;
	pid_t pid = 0;

	TAP_OK(!xd_spawner_start(kinds, &s), "the spawner starts");
	pidfd = fork_reporting(s, &count);
	TAP_OK(runs(pidfd) && count == 4,
	       "a process has the standard descriptors and those that it was given (%u)", count);
	syscall(SYS_pidfd_send_signal, pidfd, SIGTERM, NULL, 0);
	syscall(SYS_pidfd_send_signal, pidfd, SIGINT, NULL, 0);
	TAP_OK(runs(pidfd), "SIGTERM and SIGINT are ignored");
	syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
	TAP_OK(ends(pidfd), "SIGKILL ends it");
	close(pidfd);
	for (uint32_t i = 0; i <= XD_SPAWN_FDS; i++)
		fds[i] = kept;
	TAP_OK(xd_spawner_fork(s, XD_SPAWN_MOVER, fds, XD_SPAWN_FDS + 1, &pid) == -EINVAL,
	       "too many descriptors");
	pidfd = xd_spawner_fork(s, XD_SPAWN_MOVER, fds, XD_SPAWN_FDS, &pid);
	TAP_OK(runs(pidfd) && !kill(pid, 0), "%u descriptors", XD_SPAWN_FDS);
	xd_spawner_stop(s);
	TAP_OK(ends(pidfd), "the end of the spawner ends its processes");
	close(pidfd);
	close(kept);
}

/* The daemon of this test: its process starts a spawner and sends the pidfd of what it forks. */
static int daemon_main(int sock)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { "x", 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
	struct xd_spawner *s;
	uint32_t count;
	int pidfd;

	if (xd_spawner_start(kinds, &s))
		return 1;
	pidfd = fork_reporting(s, &count);
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &pidfd, sizeof(int));
	sendmsg(sock, &msg, 0);
	for (;;)
		pause();
}

static int receive_fd(int sock)
{
	char control[CMSG_SPACE(sizeof(int))], x;
	struct iovec iov = { &x, 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	int fd = -1;

	if (recvmsg(sock, &msg, 0) == 1 && CMSG_FIRSTHDR(&msg))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

static void test_killed_daemon(void)
{
	struct xd_process p;
	int pidfd;

	TAP_OK(!xd_process_start(&p, "test-daemon", daemon_main), "a process starts");
	pidfd = receive_fd(p.sock);
	TAP_OK(runs(pidfd), "its spawner has forked a process");
	kill(p.pid, SIGKILL);
	TAP_OK(ends(pidfd), "a daemon that is killed takes the processes of its spawner with it");
	waitpid(p.pid, NULL, 0);
	xd_process_close(&p);
	close(pidfd);
}

int main(void)
{
	test_descriptors();
	test_killed_daemon();
	return tap_end();
}
