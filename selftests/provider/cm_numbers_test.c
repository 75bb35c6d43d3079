// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* rdma_cm: descriptor numbers of a channel, processes and threads that share it */
#include "cm_calls.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../lib/tap.h"
#include "../lib/wait.h"

#define HIGH 900

static char dir[64];
static struct fake_cm a;

static bool works(int fd)
{
	int id = cm_create(fd, 1);

	return id > 0 && !cm_bind(fd, id, NET_A, 0) && cm_destroy(fd, id) == 0;
}

static unsigned int channels(void)
{
	return fake_cm(&a, CM_CHANNELS, 0);
}

/* ---- duplicates ----------------------------------------------------------------- */

static void duplicates(void)
{
	int fd = cm_open(), id = cm_create(fd, 1), n[5], i;

	n[0] = dup(fd);
	n[1] = dup2(fd, HIGH);
	n[2] = dup3(fd, HIGH + 1, O_CLOEXEC);
	n[3] = fcntl(fd, F_DUPFD, HIGH + 2);
	n[4] = fcntl(fd, F_DUPFD_CLOEXEC, HIGH + 3);
	for (i = 0; i < 5; i++)
		TAP_OK(n[i] >= 0 && works(n[i]), "duplicate %d is the same channel", i);
	TAP_OK(fcntl(n[4], F_GETFD) & FD_CLOEXEC && !(fcntl(n[3], F_GETFD) & FD_CLOEXEC),
	       "F_DUPFD_CLOEXEC");
	TAP_OK(channels() == 1, "the daemon has one channel");
	close(fd);
	TAP_OK(!cm_bind(n[0], id, NET_A, 0), "the channel survives the number that was opened");
	for (i = 0; i < 4; i++)
		close(n[i]);
	TAP_OK(channels() == 1 && works(n[4]), "and lasts until its last number");
	close(n[4]);
	TAP_OK(!channels(), "close of the last number ends it");
}

static void replacement(void)
{
	int fd = cm_open(), other = cm_open(), null = open("/dev/null", O_WRONLY);

	TAP_OK(dup2(fd, fd) == fd && works(fd), "dup2 to the same number changes nothing");
	TAP_OK(dup3(fd, fd, 0) == -1 && errno == EINVAL && works(fd), "dup3 likewise");
	TAP_OK(dup2(-1, fd) == -1 && works(fd), "a failed dup2 closes nothing");
	TAP_OK(dup2(null, fd) == fd && write(fd, "x", 1) == 1 && channels() == 1,
	       "dup2 of another file ends the channel");
	TAP_OK(dup2(other, fd) == fd && works(fd) && works(other), "dup2 to that number");
	close(other);
	TAP_OK(works(fd), "which stays a channel");
	other = cm_open();
	TAP_OK(dup2(other, fd) == fd && channels() == 1 && works(fd),
	       "dup2 of another channel ends the first");
	close(fd);
	close(other);
	close(null);
	TAP_OK(!channels(), "no channel is left");
}

static void ranges(void)
{
	int fd = cm_open(), dup_fd;

	dup_fd = dup2(fd, HIGH);
	TAP_OK(!close_range(HIGH, HIGH + 10, 0) && channels() == 1 && works(fd) &&
		       write(dup_fd, "x", 1) == -1 && errno == EBADF,
	       "close_range closes one of two numbers");
	TAP_OK(!close_range(fd, fd, CLOSE_RANGE_CLOEXEC) && works(fd),
	       "close_range with CLOSE_RANGE_CLOEXEC closes nothing");
	TAP_OK(!close_range(fd, fd, 0) && !channels(), "close_range ends a channel");
	fd = cm_open();
	dup_fd = dup2(fd, HIGH);
	closefrom(HIGH);
	TAP_OK(write(dup_fd, "x", 1) == -1 && errno == EBADF && works(fd),
	       "closefrom closes a number");
	close(fd);
}

/* ---- numbers that the library does not see --------------------------------------- */

static void reuse(void)
{
	int fd = cm_open(), p[2], n, ep;
	unsigned int fds;
	char text[8];

	syscall(SYS_close, fd);
	TAP_OK(cm_create(fd, 1) == -EBADF, "a number closed by a system call: EBADF");
	TAP_OK(!channels(), "that ends the channel");
	fds = cm_open_fds();
	fd = cm_open();
	if (pipe(p))
		return;
	syscall(SYS_dup3, p[1], fd, 0);
	TAP_OK(write(fd, "hello", 5) == 5 && read(p[0], text, 8) == 5 && !memcmp(text, "hello", 5),
	       "a number reused by a system call: write() writes");
	close(fd);
	fd = cm_open();
	syscall(SYS_dup3, p[1], fd, 0);
	TAP_OK(!close(fd) && fcntl(fd, F_GETFD) == -1 && !channels(), "and close() closes");
	fd = cm_open();
	ep = epoll_create1(0);
	syscall(SYS_dup3, ep, fd, 0);
	TAP_OK(write(fd, "x", 1) == -1 && errno == EINVAL && !channels(),
	       "an epoll set of the program is no channel");
	close(ep);
	close(fd);
	fd = cm_open();
	n = syscall(SYS_dup, fd);
	TAP_OK(write(n, "x", 1) == -1 && errno == EINVAL, "a duplicate by a system call is none");
	close(n);
	TAP_OK(works(fd), "and the channel works");
	close(fd);
	close(p[0]);
	close(p[1]);
	TAP_OK(!channels() && cm_open_fds() == fds, "no descriptor is left");
}

#define MANY 60

/* The kernel permits 50 ways of this length from one file. */
static bool fit_in_nested_sets(const int *fd)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int set[3], ok = 0, i;

	for (i = 0; i < 3; i++) {
		set[i] = epoll_create1(0);
		ok += i && !epoll_ctl(set[i], EPOLL_CTL_ADD, set[i - 1], &ev);
	}
	for (i = 0; i < MANY; i++)
		ok += !epoll_ctl(set[0], EPOLL_CTL_ADD, fd[i], &ev);
	for (i = 0; i < 3; i++)
		close(set[i]);
	return ok == 2 + MANY;
}

static void many(void)
{
	unsigned int fds = cm_open_fds(), i, ok = 0;
	int fd[MANY];

	for (i = 0; i < MANY; i++)
		fd[i] = cm_open();
	for (i = 0; i < MANY; i++)
		ok += works(fd[i]);
	TAP_OK(ok == MANY && channels() == MANY, "many channels");
	TAP_OK(cm_open_fds() - fds == MANY * 2 + 2, "a channel takes two descriptors (%u for %u)",
	       cm_open_fds() - fds, MANY);
	TAP_OK(fit_in_nested_sets(fd), "epoll accepts all of them");
	for (i = 0; i < MANY; i++)
		close(fd[i]);
	TAP_OK(!channels() && cm_open_fds() == fds, "they close all descriptors");
}

/* ---- processes -------------------------------------------------------------------- */

/* Runs code in a child and returns true if it returns true. */
static bool in_child(bool (*code)(int fd), int fd)
{
	int status, pid = fork();

	if (!pid)
		_exit(code(fd) ? 0 : 1);
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status);
}

static int the_id;

static bool child_closes(int fd)
{
	close(fd);
	return cm_create(fd, 1) == -EBADF;
}

static bool child_uses(int fd)
{
	struct rdma_ucm_event_resp ev;

	return !cm_resolve(fd, the_id, NET_A) && cm_event(fd, &ev) == 0 &&
	       ev.id == (uint32_t)the_id;
}

static bool child_accepts(int fd)
{
	struct rdma_ucm_event_resp ev;

	return cm_event(fd, &ev) == CONNECT_REQUEST && ev.uid == 7 && !cm_accept(fd, ev.id, 8) &&
	       cm_event(fd, &ev) == ESTABLISHED && ev.uid == 8;
}

static bool child_opens(int fd)
{
	int own = cm_open();
	bool ok = works(own) && works(fd);

	close(fd);
	return ok && works(own);
}

static bool hammer(int fd)
{
	unsigned int i;

	for (i = 0; i < 300 && works(fd); i++)
		;
	return i == 300;
}

static void processes(void)
{
	int fd = cm_open(), status, pid, closed[2];
	char byte = 0;

	the_id = cm_create(fd, 7);
	cm_bind(fd, the_id, NET_A, 6000);
	TAP_OK(in_child(child_closes, fd) && channels() == 1 && works(fd),
	       "a child that closes the channel changes nothing");
	TAP_OK(in_child(child_uses, fd) && works(fd), "a child uses an id of its parent");
	cm_listen(fd, the_id);
	fake_cm(&a, CM_INCOMING, 6000);
	TAP_OK(in_child(child_accepts, fd), "a child accepts a connection");
	TAP_OK(in_child(child_opens, fd) && works(fd), "a child opens a channel of its own");
	pid = fork();
	if (!pid)
		_exit(hammer(fd) ? 0 : 1);
	TAP_OK(hammer(fd) && waitpid(pid, &status, 0) == pid && !status,
	       "parent and child use the channel at the same time");
	fake_cm(&a, CM_STALE, 0);
	TAP_OK(works(fd), "a reply to a process that died is skipped");
	if (pipe(closed))
		return;
	pid = fork();
	if (!pid)
		_exit(read(closed[0], &byte, 1) == 1 && works(fd) ? 0 : 1);
	close(fd);
	TAP_OK(channels() == 1 && write(closed[1], &byte, 1) == 1 &&
		       waitpid(pid, &status, 0) == pid && !status,
	       "a channel lives on in the child");
	close(closed[0]);
	close(closed[1]);
	TAP_OK(WAIT_UNTIL(!channels()), "until that ends");
}

static void vforked(void)
{
	int fd = cm_open(), pid = vfork(), status;

	if (!pid) {
		close(fd);
		close_range(3, ~0u, 0);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	TAP_OK(works(fd) && channels() == 1, "a child of vfork closes its descriptors only");
	close(fd);
}

/* ---- threads ---------------------------------------------------------------------- */

static void *hammer_thread(void *fd)
{
	return (void *)(intptr_t)hammer((intptr_t)fd);
}

static void *forker(void *unused)
{
	int i, pid;

	for (i = 0; i < 20; i++) {
		pid = fork();
		if (!pid)
			_exit(0);
		waitpid(pid, NULL, 0);
	}
	return NULL;
}

static void *migrator(void *fds)
{
	int *fd = fds, id = cm_create(fd[0], 1), i, ok = 0;

	for (i = 0; i < 100; i++) {
		ok += !cm_migrate(fd[1], fd[0], id);
		ok += !cm_migrate(fd[0], fd[1], id);
	}
	return (void *)(intptr_t)(ok == 200 && !cm_destroy(fd[0], id));
}

static void threads(void)
{
	int fd[2] = { cm_open(), cm_open() }, reverse[2] = { fd[1], fd[0] };
	pthread_t t[6];
	void *result;
	unsigned int i, ok = 0;

	for (i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, hammer_thread, (void *)(intptr_t)fd[i & 1]);
	pthread_create(&t[3], NULL, migrator, fd);
	pthread_create(&t[4], NULL, migrator, reverse);
	pthread_create(&t[5], NULL, forker, NULL);
	for (i = 0; i < 6; i++) {
		pthread_join(t[i], &result);
		ok += result != NULL;
	}
	TAP_OK(ok == 5, "threads use and migrate ids while others fork (%u)", ok);
	close(fd[0]);
	close(fd[1]);
	TAP_OK(WAIT_UNTIL(!channels()), "no channel is left");
}

/* ThreadSanitizer reports that the program closes a descriptor that it uses. */
#ifndef __SANITIZE_THREAD__
static void *waiter(void *fd)
{
	struct rdma_ucm_event_resp ev;

	return (void *)(intptr_t)cm_event((intptr_t)fd, &ev);
}

static void close_while_waiting(void)
{
	int fd = cm_open(), other;
	pthread_t t;
	void *result;

	pthread_create(&t, NULL, waiter, (void *)(intptr_t)fd);
	WAIT_UNTIL(other_thread_sleeps_in(SYS_poll));
	close(fd);
	other = cm_open();
	TAP_OK(works(other), "a channel that a thread waits for can be closed");
	pthread_cancel(t);
	TAP_OK(!pthread_join(t, &result) && result == PTHREAD_CANCELED && channels() == 1,
	       "it ends with the wait");
	close(other);
}
#endif

int main(void)
{
	cm_directory(dir);
	if (fake_cm_start(&a, dir, "a", NET_A))
		return 1;
	duplicates();
	replacement();
	ranges();
	reuse();
	many();
	processes();
	vforked();
	threads();
#ifndef __SANITIZE_THREAD__
	close_while_waiting();
#endif
	fake_cm_kill(&a);
	cm_remove_directory(dir);
	return tap_end();
}
