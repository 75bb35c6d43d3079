// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* rdma_cm with one daemon: the device file, commands, events, errors */
#include "cm_calls.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/wait.h>

#include "../lib/tap.h"
#include "../lib/wait.h"

static char dir[64];
static struct fake_cm a;

static void device_file(void)
{
	struct stat64 st64;
	struct stat st;
	int fd;

	TAP_OK(!access(CM_DEVICE, R_OK | W_OK) && !stat(CM_DEVICE, &st) && S_ISCHR(st.st_mode),
	       "the device file exists while a daemon runs");
	fd = cm_open();
	TAP_OK(fd >= 0 && fcntl(fd, F_GETFD) & FD_CLOEXEC, "open with O_CLOEXEC");
	TAP_OK(!fstat(fd, &st) && S_ISCHR(st.st_mode) && !fstat64(fd, &st64) &&
		       S_ISCHR(st64.st_mode),
	       "fstat and fstat64 show a character device");
	close(fd);
	fd = open64(CM_DEVICE, O_RDWR | O_NONBLOCK);
	TAP_OK(fd >= 0 && !(fcntl(fd, F_GETFD) & FD_CLOEXEC) && fcntl(fd, F_GETFL) & O_NONBLOCK,
	       "open64 with O_NONBLOCK and without O_CLOEXEC");
	TAP_OK(fake_cm(&a, CM_CHANNELS, 0) == 1, "the daemon has one channel");
	close(fd);
	TAP_OK(!fake_cm(&a, CM_CHANNELS, 0), "close ends the channel");
	TAP_OK(open(CM_DEVICE, O_RDONLY) == -1 && errno == ENOENT, "cannot be opened for reading");
}

static void ids(void)
{
	struct rdma_ucm_event_resp ev;
	int fd = cm_open(), id = cm_create(fd, 0x1234), other;

	TAP_OK(id > 0, "CREATE_ID returns a number");
	TAP_OK(cm_bind(fd, id, NET_A + 7, 5000) == -ENODEV, "BIND to a foreign address: ENODEV");
	TAP_OK(!cm_bind(fd, id, NET_A, 5000) && cm_port(fd, id) == 5000, "BIND and QUERY");
	TAP_OK(!cm_set_option(fd, id, 77) && fake_cm(&a, CM_OPTION, 0) == 77,
	       "SET_OPTION passes its value");
	TAP_OK(!cm_resolve(fd, id, NET_A + 9) && cm_event(fd, &ev) == 0 && ev.uid == 0x1234 &&
		       ev.id == (uint32_t)id,
	       "RESOLVE_ADDR: event with uid and id");
	TAP_OK(cm_disconnect(fd, id + 100) == -ENOENT, "an unknown id: ENOENT");
	TAP_OK(cm_destroy(fd, id) == 1, "DESTROY_ID returns the number of events read");
	TAP_OK(cm_disconnect(fd, id) == -ENOENT, "a destroyed id: ENOENT");
	other = cm_create(fd, 1);
	TAP_OK(!cm_bind_ip(fd, other, 0, 0) && cm_port(fd, other) >= 40000,
	       "BIND_IP chooses a port");
	close(fd);
	TAP_OK(!fake_cm(&a, CM_IDS, 0), "close destroys all ids");
}

static void connections(void)
{
	struct rdma_ucm_event_resp ev;
	int fd = cm_open(), listener = cm_create(fd, 0x11), conn;

	TAP_OK(!cm_bind(fd, listener, 0, 6000) && !cm_listen(fd, listener) &&
		       fake_cm(&a, CM_INCOMING, 6000) == 1,
	       "a wildcard listener gets a request");
	TAP_OK(cm_event(fd, &ev) == CONNECT_REQUEST && ev.uid == 0x11 &&
		       ev.id != (uint32_t)listener,
	       "CONNECT_REQUEST has the listener's uid and a new id");
	conn = ev.id;
	TAP_OK(!cm_accept(fd, conn, 0x22) && cm_event(fd, &ev) == ESTABLISHED && ev.uid == 0x22 &&
		       ev.id == (uint32_t)conn,
	       "ACCEPT sets the uid of later events");
	TAP_OK(!cm_disconnect(fd, conn) && cm_destroy(fd, conn) == 1 &&
		       cm_destroy(fd, listener) == 1,
	       "DISCONNECT and DESTROY_ID");
	close(fd);
}

static uint32_t resolved(int fd)
{
	struct rdma_ucm_event_resp ev;
	uint32_t id = cm_create(fd, 5);

	cm_bind(fd, id, NET_A, 5000);
	cm_resolve(fd, id, NET_A + 9);
	cm_event(fd, &ev);
	return id;
}

/* Replies that come with events. The daemon's own reply to QUERY has port 5000. */
static void early_replies(void)
{
	struct rdma_ucm_event_resp ev;
	int fd = cm_open(), status, pid;
	uint32_t id;

	fake_cm(&a, CM_EARLY_REPLY, 4242);
	id = resolved(fd);
	TAP_OK(cm_port(fd, id) == 4242 && cm_port(fd, id) == 4242,
	       "QUERY returns the reply that came with an event");
	cm_set_option(fd, id, 1);
	TAP_OK(cm_port(fd, id) == 5000, "but not after another command on the id");
	cm_destroy(fd, id);
	id = resolved(fd);
	fake_cm(&a, CM_EARLY_REPLY, 0);
	fake_cm(&a, CM_EVENT, 14);
	TAP_OK(cm_event(fd, &ev) == 14 && cm_port(fd, id) == 5000, "nor after the next event");
	fake_cm(&a, CM_EARLY_REPLY, 4242);
	cm_resolve(fd, id, NET_A + 9);
	cm_event(fd, &ev);
	pid = fork();
	if (!pid)
		_exit(cm_set_option(fd, id, 1) || cm_port(fd, id) != 5000);
	TAP_OK(waitpid(pid, &status, 0) == pid && !status && cm_port(fd, id) == 5000,
	       "nor when another process has the channel, too");
	fake_cm(&a, CM_EARLY_REPLY, 0);
	cm_destroy(fd, id);
	close(fd);
}

static void groups(void)
{
	struct rdma_ucm_event_resp ev;
	int fd = cm_open(), id = cm_create(fd, 1), group;

	cm_bind(fd, id, NET_A, 0);
	group = cm_join(fd, id, 0x77);
	TAP_OK(group > 0 && cm_event(fd, &ev) == MULTICAST_JOIN && ev.uid == 0x77 &&
		       ev.id == (uint32_t)group,
	       "JOIN_MCAST: the event has the number and uid of the group");
	TAP_OK(cm_disconnect(fd, group) == -ENOENT, "the number of a group is no id");
	TAP_OK(cm_leave(fd, id) == -ENOENT && cm_leave(fd, group) == 1, "LEAVE_MCAST");
	TAP_OK(cm_join(fd, id, 1) > 0 && cm_destroy(fd, id) >= 0 && !fake_cm(&a, CM_IDS, 0),
	       "DESTROY_ID leaves the groups");
	close(fd);
}

static void migration(void)
{
	struct rdma_ucm_event_resp ev;
	int from = cm_open(), to = cm_open(), id = cm_create(from, 5);

	cm_bind(from, id, NET_A, 0);
	cm_resolve(from, id, NET_A);
	cm_event(from, &ev);
	cm_resolve(from, id, NET_A);
	TAP_OK(cm_migrate(to, from, id) == 1, "MIGRATE_ID returns the number of events read");
	TAP_OK(!cm_readable(from, 0) && cm_readable(to, 1000) && cm_event(to, &ev) == 0 &&
		       ev.id == (uint32_t)id,
	       "MIGRATE_ID takes unread events along and keeps the id");
	TAP_OK(cm_disconnect(from, id) == -ENOENT && !cm_disconnect(to, id),
	       "only the new channel has the id");
	TAP_OK(cm_migrate(to, 0, id) == -EINVAL, "MIGRATE_ID from another file: EINVAL");
	close(from);
	TAP_OK(cm_destroy(to, id) == 1, "the id survives the old channel");
	close(to);
}

static void formats(void)
{
	struct {
		struct rdma_ucm_cmd_hdr head;
		uint8_t body[2000];
	} c = { .head = { RDMA_USER_CM_CMD_LISTEN, 8, 0 } };
	int fd = cm_open();

	TAP_OK(write(fd, &c, 7) == -1 && errno == EINVAL, "shorter than a header: EINVAL");
	TAP_OK(write(fd, &c, 15) == -1 && errno == EINVAL, "shorter than the header says: EINVAL");
	c.head.in = 2;
	TAP_OK(write(fd, &c, 16) == -1 && errno == EINVAL, "too short for the id: EINVAL");
	c.head.in = 2000;
	TAP_OK(write(fd, &c, sizeof(c)) == -1 && errno == ENOENT, "longer than known: accepted");
	c.head.cmd = 25;
	TAP_OK(write(fd, &c, sizeof(c)) == -1 && errno == EINVAL, "unknown command: EINVAL");
	c.head.cmd = 13;
	TAP_OK(write(fd, &c, sizeof(c)) == -1 && errno == ENOSYS, "GET_OPTION: ENOSYS");
	c.head = (struct rdma_ucm_cmd_hdr){ RDMA_USER_CM_CMD_CREATE_ID, 24, 0 };
	c.body[8] = 1;
	TAP_OK(write(fd, &c, sizeof(c)) == -1 && errno == ENOSPC, "no room for the reply: ENOSPC");
	close(fd);
}

/* ---- waiting -------------------------------------------------------------------- */

static void *reader(void *fd)
{
	static struct rdma_ucm_event_resp ev;

	return (void *)(intptr_t)cm_event((intptr_t)fd, &ev);
}

static volatile sig_atomic_t signals;

static void count_signal(int sig)
{
	signals++;
}

/*
 * A program may close a channel while a thread waits for events, and end then, as rping does.
 * ThreadSanitizer reports that the program closes a descriptor that it uses.
 */
#ifndef __SANITIZE_THREAD__
static void closed_while_waiting(void)
{
	struct sigaction sa = { .sa_handler = count_signal, .sa_flags = SA_RESTART };
	int fd = cm_open();
	pthread_t thread;
	void *result;

	sigaction(SIGUSR1, &sa, NULL);
	pthread_create(&thread, NULL, reader, (void *)(intptr_t)fd);
	WAIT_UNTIL(other_thread_sleeps_in(SYS_poll));
	close(fd);
	signals = 0;
	pthread_kill(thread, SIGUSR1);
	WAIT_UNTIL(signals);
	TAP_OK(WAIT_UNTIL(other_thread_sleeps_in(SYS_poll)),
	       "GET_EVENT goes on waiting when another thread has closed the channel");
	pthread_cancel(thread);
	TAP_OK(!pthread_join(thread, &result) && result == PTHREAD_CANCELED,
	       "the thread can still be cancelled");
}
#endif

static void waiting(void)
{
	struct sigaction sa = { .sa_handler = count_signal }, segv;
	struct epoll_event e = { .events = EPOLLIN };
	struct rdma_ucm_event_resp ev;
	struct timeval tv = { 20, 0 };
	int fd = cm_open(), id = cm_create(fd, 1), ep = epoll_create1(0);
	pthread_t thread;
	void *result;
	fd_set set;

	cm_bind(fd, id, NET_A, 0);
	epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
	cm_nonblock(fd, true);
	TAP_OK(cm_event(fd, &ev) == -EAGAIN && !cm_readable(fd, 0) && !epoll_wait(ep, &e, 1, 0),
	       "without an event: EAGAIN, not readable");
	cm_resolve(fd, id, NET_A);
	FD_ZERO(&set);
	FD_SET(fd, &set);
	TAP_OK(cm_readable(fd, 20000) && select(fd + 1, &set, NULL, NULL, &tv) == 1 &&
		       epoll_wait(ep, &e, 1, 20000) == 1,
	       "with an event: poll, select and epoll report it");
	TAP_OK(cm_event(fd, &ev) == 0 && !cm_readable(fd, 0), "not readable after the last event");
	cm_nonblock(fd, false);
	pthread_create(&thread, NULL, reader, (void *)(intptr_t)fd);
	WAIT_UNTIL(other_thread_sleeps_in(SYS_poll));
	TAP_OK(cm_port(fd, id) > 0, "other threads use the channel while one waits");
	cm_resolve(fd, id, NET_A);
	TAP_OK(!pthread_join(thread, &result) && !result, "GET_EVENT waits for an event");
	pthread_create(&thread, NULL, reader, (void *)(intptr_t)fd);
	WAIT_UNTIL(other_thread_sleeps_in(SYS_poll));
	pthread_cancel(thread);
	TAP_OK(!pthread_join(thread, &result) && result == PTHREAD_CANCELED && cm_port(fd, id) > 0,
	       "a thread that waits can be cancelled");
	sigaction(SIGUSR1, &sa, NULL);
	pthread_create(&thread, NULL, reader, (void *)(intptr_t)fd);
	WAIT_UNTIL(other_thread_sleeps_in(SYS_poll));
	pthread_kill(thread, SIGUSR1);
	TAP_OK(!pthread_join(thread, &result) && (intptr_t)result == -EINTR,
	       "a signal handler without SA_RESTART interrupts it");
	sigaction(SIGSEGV, &sa, &segv);
	sa.sa_flags = SA_RESTART;
	sigaction(SIGUSR1, &sa, NULL);
	pthread_create(&thread, NULL, reader, (void *)(intptr_t)fd);
	WAIT_UNTIL(other_thread_sleeps_in(SYS_poll));
	pthread_kill(thread, SIGUSR1);
	usleep(50000);
	cm_resolve(fd, id, NET_A);
	TAP_OK(!pthread_join(thread, &result) && !result,
	       "one with SA_RESTART does not, although SIGSEGV has a handler without");
	sigaction(SIGSEGV, &segv, NULL);
	close(fd);
	close(ep);
	TAP_OK(!fake_cm(&a, CM_CHANNELS, 0), "no channel is left");
#ifndef __SANITIZE_THREAD__
	closed_while_waiting();
#endif
}

/* A command other than GET_EVENT completes, and then the thread is cancelled. */
static void *canceller(void *fd)
{
	pthread_cancel(pthread_self());
	cm_create((intptr_t)fd, 1);
	pthread_testcancel();
	return NULL;
}

static void cancellation(void)
{
	int fd = cm_open();
	pthread_t thread;
	void *result;

	pthread_create(&thread, NULL, canceller, (void *)(intptr_t)fd);
	TAP_OK(!pthread_join(thread, &result) && result == PTHREAD_CANCELED &&
		       fake_cm(&a, CM_IDS, 0) == 1 && cm_create(fd, 2) > 0,
	       "no other command is a cancellation point");
	close(fd);
}

/* ---- errors ---------------------------------------------------------------------- */

static void limits(void)
{
	struct rlimit before, low;
	unsigned int fds = cm_open_fds(), i;
	int fd, lowest = dup(0); /* the lowest number that is free */

	close(lowest);
	getrlimit(RLIMIT_NOFILE, &before);
	for (i = 0; i < 6; i++) {
		low = before;
		low.rlim_cur = (rlim_t)lowest + i;
		setrlimit(RLIMIT_NOFILE, &low);
		fd = cm_open();
		setrlimit(RLIMIT_NOFILE, &before);
		if (fd >= 0)
			break;
		if (fd != -EMFILE)
			printf("# %u descriptors: %s\n", i, strerror(-fd));
	}
	TAP_OK(fd >= 0 && i > 0, "a few free descriptors suffice (%u)", i);
	close(fd);
	TAP_OK(cm_open_fds() == fds && !fake_cm(&a, CM_CHANNELS, 0),
	       "EMFILE leaves nothing open, and neither does close");
}

static void refusal(void)
{
	int fd;

	fake_cm(&a, CM_REFUSE, EACCES);
	fd = cm_open();
	TAP_OK(fd == -EACCES, "a daemon that refuses the channel: its error");
	fake_cm(&a, CM_REFUSE, 0);
	setenv("XROCE_DEVICES", "other", 1);
	TAP_OK(cm_open() == -ENOENT && access(CM_DEVICE, F_OK) == -1,
	       "a device hidden by XROCE_DEVICES has no rdma_cm");
	unsetenv("XROCE_DEVICES");
}

static void bad_daemon(void)
{
	int fd = cm_open(), id = cm_create(fd, 1), other;

	cm_bind(fd, id, NET_A, 0);
	fake_cm(&a, CM_GARBAGE, 0);
	TAP_OK(cm_port(fd, id) == -EIO && cm_port(fd, id) == -EIO,
	       "a reply that is none: the connection is given up, EIO");
	other = cm_create(fd, 2);
	TAP_OK(other > 0 && !cm_bind(fd, other, NET_A, 0), "new ids use a new connection");
	close(fd);
}

int main(void)
{
	cm_directory(dir);
	TAP_OK(cm_open() == -ENOENT, "without a daemon the device file does not exist");
	if (fake_cm_start(&a, dir, "a", NET_A))
		return 1;
	device_file();
	ids();
	connections();
	early_replies();
	groups();
	migration();
	formats();
	waiting();
	cancellation();
	limits();
	refusal();
	bad_daemon();
	fake_cm_kill(&a);
	cm_remove_directory(dir);
	return tap_end();
}
