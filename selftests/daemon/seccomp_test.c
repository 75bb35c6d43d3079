// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The limits of system calls and of files, each tried in a process of its own */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/landlock.h"
#include "daemon/base/seccomp.h"
#include "selftests/lib/tap.h"

#define UNKNOWN_CALL 100000

static int as_errno(long ret)
{
	return ret < 0 ? errno : 0;
}

static void *nothing(void *arg)
{
	return NULL;
}

static int threads(void)
{
	pthread_t thread;

	return pthread_create(&thread, NULL, nothing, NULL) || pthread_join(thread, NULL);
}

static int forks(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	return as_errno(pid);
}

static int executable_memory(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? errno : 0;
}

static int data_memory(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? errno : 0;
}

static int packet_socket(void)
{
	return as_errno(socket(AF_PACKET, SOCK_RAW, 0));
}

static int unix_socket(void)
{
	return as_errno(socket(AF_UNIX, SOCK_DGRAM, 0));
}

static int loads_program(void)
{
	return as_errno(syscall(SYS_bpf, 5 /* BPF_PROG_LOAD */, NULL, 0));
}

static int connects(void)
{
	struct sockaddr sa = { .sa_family = AF_UNIX };

	return as_errno(connect(0, &sa, sizeof(sa)));
}

static int accepts(void)
{
	return as_errno(accept4(-1, NULL, NULL, 0));
}

static int unknown(void)
{
	return as_errno(syscall(UNKNOWN_CALL));
}

static int executes(void)
{
	char *argv[] = { "true", NULL };

	return as_errno(execv("/bin/true", argv));
}

static int traces(void)
{
	return as_errno(syscall(SYS_ptrace, 0, 0, 0, 0));
}

/* Returns the result of fn() in a process with the filter, -1 if the filter killed the process. */
static int try(enum xd_role role, int (*fn)(void))
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		_exit(xd_seccomp_enter(role) ? 255 : fn());
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status) == SIGSYS ? -1 : 254;
}

/* Returns the error of open() in a process whose files are limited, -1 if they cannot be. */
static int try_open(const char *path, int flags)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		_exit(xd_landlock_enter() ? 255 : as_errno(open(path, flags, 0600)));
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) < 255 ? WEXITSTATUS(status) : -1;
}

static void test_files(void)
{
	if (try_open("/proc/self/status", O_RDONLY) < 0) {
		tap_skip("files are limited", "no Landlock in this kernel");
		return;
	}
	TAP_OK(!try_open("/proc/self/status", O_RDONLY), "files below /proc can be read");
	TAP_OK(!try_open("/dev/null", O_RDONLY), "/dev/null can be opened");
	TAP_OK(try_open("/etc/passwd", O_RDONLY) == EACCES, "other files cannot be read");
	TAP_OK(try_open("/tmp/xroce-landlock", O_WRONLY | O_CREAT) == EACCES,
	       "no file can be created");
}

int main(void)
{
	enum xd_role role = XD_ROLE_DAEMON;

	test_files();
	if (try(role, threads) == 255) {
		tap_skip("system calls are filtered", "no filter in this kernel or build");
		return tap_end();
	}
	TAP_OK(!try(role, threads), "threads can be created");
	TAP_OK(try(role, forks) == EPERM, "the daemon cannot fork");
	TAP_OK(!try(XD_ROLE_SPAWNER, forks), "the spawner can fork");
	TAP_OK(!try(role, data_memory), "memory can be mapped");
	TAP_OK(try(role, executable_memory) == EPERM, "memory cannot be made executable");
	TAP_OK(!try(role, unix_socket), "the daemon can create UNIX sockets");
	TAP_OK(try(role, packet_socket) == EPERM, "other sockets are refused");
	TAP_OK(try(role, connects) == EPERM, "connecting is refused");
	TAP_OK(try(role, accepts) == EPERM, "accepting connections is refused");
	TAP_OK(try(XD_ROLE_HELPER, accepts) == EBADF, "... but to the helper");
	TAP_OK(try(role, loads_program) == EPERM, "loading a BPF program is refused");
	TAP_OK(try(role, unknown) == ENOSYS, "unknown system calls are missing");
	TAP_OK(try(role, executes) == -1, "executing a program ends the process");
	TAP_OK(try(XD_ROLE_SPAWNER, executes) == -1, "... and the spawner");
	TAP_OK(try(role, traces) == -1, "tracing another process ends the process");
	return tap_end();
}
