// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* rdma_cm with several daemons and with the kernel's rdma_cm: which of them serves an id */
#include "cm_calls.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/wait.h>

#include "../lib/tap.h"
#include "../lib/wait.h"

static char dir[64], kernel_dir[64];
static struct fake_cm a, b;

static bool alone(const struct fake_cm *one, const struct fake_cm *other)
{
	return fake_cm((void *)one, CM_IDS, 0) == 1 && !fake_cm((void *)other, CM_IDS, 0);
}

static void addresses(void)
{
	struct rdma_ucm_event_resp ev;
	int fd = cm_open(), id = cm_create(fd, 1);

	TAP_OK(fake_cm(&a, CM_CHANNELS, 0) == 1 && fake_cm(&b, CM_CHANNELS, 0) == 1,
	       "a channel is connected to every daemon");
	TAP_OK(!cm_bind(fd, id, NET_B, 5000) && alone(&b, &a),
	       "an address decides which daemon serves the id");
	cm_destroy(fd, id);
	id = cm_create(fd, 2);
	TAP_OK(!cm_resolve(fd, id, NET_B + 5) && alone(&b, &a) && cm_event(fd, &ev) == 0 &&
		       ev.id == (uint32_t)id && ev.uid == 2,
	       "a route decides as well");
	cm_destroy(fd, id);
	id = cm_create(fd, 3);
	TAP_OK(cm_bind(fd, id, IP(0x0909), 1) == -ENODEV, "an address of no daemon: ENODEV");
	TAP_OK(!cm_resolve(fd, id, IP(0x909)) && cm_event(fd, &ev) == 1 && ev.uid == 3 &&
		       !cm_readable(fd, 0),
	       "a route of no daemon: one event ADDR_ERROR");
	TAP_OK(!cm_bind(fd, id, LOOPBACK, 1) && alone(&a, &b),
	       "the first daemon serves loopback addresses");
	cm_destroy(fd, id);
	id = cm_create(fd, 4);
	TAP_OK(!cm_bind(fd, id, 0, 7000) && !cm_resolve(fd, id, NET_B + 1) && alone(&b, &a),
	       "an id with a wildcard address is resolved by one daemon");
	TAP_OK(!cm_set_option(fd, id, 9) && fake_cm(&b, CM_OPTION, 0) == 9 &&
		       fake_cm(&a, CM_OPTION, 0) != 9,
	       "later commands go to that daemon");
	close(fd);
	TAP_OK(!fake_cm(&a, CM_CHANNELS, 0) && !fake_cm(&b, CM_CHANNELS, 0),
	       "close ends the channels of all daemons");
}

static void wildcard(void)
{
	struct rdma_ucm_event_resp ev;
	int fd = cm_open(), id = cm_create(fd, 0x99), conn;

	TAP_OK(!cm_set_option(fd, id, 5) && fake_cm(&a, CM_OPTION, 0) == 5 &&
		       fake_cm(&b, CM_OPTION, 0) == 5,
	       "options of an open id are set at all daemons");
	TAP_OK(!cm_bind(fd, id, 0, 6000) && !cm_listen(fd, id) &&
		       fake_cm(&a, CM_LISTENERS, 6000) == 1 && fake_cm(&b, CM_LISTENERS, 6000) == 1,
	       "a wildcard listener listens at all daemons");
	fake_cm(&b, CM_INCOMING, 6000);
	TAP_OK(cm_event(fd, &ev) == CONNECT_REQUEST && ev.uid == 0x99, "request at the second");
	conn = ev.id;
	fake_cm(&a, CM_INCOMING, 6000);
	TAP_OK(cm_event(fd, &ev) == CONNECT_REQUEST && ev.uid == 0x99 && ev.id != (uint32_t)conn,
	       "request at the first has another id");
	TAP_OK(!cm_accept(fd, conn, 0x100) && !cm_accept(fd, ev.id, 0x200), "accept both");
	TAP_OK(cm_event(fd, &ev) == ESTABLISHED && cm_event(fd, &ev) == ESTABLISHED,
	       "events of both");
	TAP_OK(cm_destroy(fd, id) == 2, "events of the listener are added");
	close(fd);
}

static void ports(void)
{
	int fd = cm_open(), id = cm_create(fd, 1), port;

	fake_cm(&b, CM_BUSY_PORT, 6000);
	TAP_OK(cm_bind(fd, id, 0, 6000) == -EADDRINUSE && !cm_bind(fd, id, 0, 6001),
	       "a wildcard bind succeeds at all daemons or at none");
	cm_destroy(fd, id);
	id = cm_create(fd, 1);
	fake_cm(&a, CM_FOREIGN, 1);
	TAP_OK(cm_bind(fd, id, NET_B, 6000) == -EADDRINUSE,
	       "of several errors, that of the daemon with the address is returned");
	fake_cm(&a, CM_FOREIGN, 0);
	cm_destroy(fd, id);
	id = cm_create(fd, 1);
	fake_cm(&a, CM_NEXT_PORT, 50000);
	fake_cm(&b, CM_BUSY_PORT, 50000);
	TAP_OK(!cm_bind(fd, id, 0, 0) && (port = cm_port(fd, id)) == 50001 && !cm_listen(fd, id) &&
		       fake_cm(&a, CM_LISTENERS, port) == 1 && fake_cm(&b, CM_LISTENERS, port) == 1,
	       "a chosen port is the same at all daemons");
	cm_destroy(fd, id);
	id = cm_create(fd, 1);
	fake_cm(&b, CM_BUSY_PORT, 0);
	TAP_OK(!cm_listen(fd, id) && (port = cm_port(fd, id)) > 0 &&
		       fake_cm(&b, CM_LISTENERS, port) == 1,
	       "LISTEN without BIND chooses one");
	TAP_OK(fake_cm(&a, CM_IDS, 0) == 1 && fake_cm(&b, CM_IDS, 0) == 1, "no id is left over");
	close(fd);
}

static void migration(void)
{
	struct rdma_ucm_event_resp ev;
	int from = cm_open(), to = cm_open(), id = cm_create(from, 5), open_id = cm_create(from, 6);

	cm_bind(from, id, NET_B, 0);
	cm_resolve(from, id, NET_B);
	TAP_OK(!cm_migrate(to, from, id) && cm_event(to, &ev) == 0 && ev.id == (uint32_t)id,
	       "MIGRATE_ID of an id at the second daemon");
	TAP_OK(!cm_migrate(to, from, open_id) && !cm_bind(to, open_id, NET_A, 0) &&
		       fake_cm(&a, CM_IDS, 0) == 1,
	       "MIGRATE_ID of an id at all daemons");
	close(from);
	close(to);
}

/* ---- daemons that end and start ---------------------------------------------------- */

static void death(void)
{
	struct rdma_ucm_event_resp ev;
	int fd = cm_open(), listener = cm_create(fd, 1), id_a = cm_create(fd, 2),
	    id_b = cm_create(fd, 3);

	cm_bind(fd, listener, 0, 6000);
	cm_listen(fd, listener);
	cm_bind(fd, id_a, NET_A, 0);
	cm_bind(fd, id_b, NET_B, 0);
	cm_nonblock(fd, true);
	fake_cm_kill(&b);
	TAP_OK(cm_readable(fd, 2000) && cm_event(fd, &ev) == DEVICE_REMOVAL && ev.uid == 3 &&
		       ev.id == (uint32_t)id_b,
	       "ids of a daemon that ends get DEVICE_REMOVAL");
	TAP_OK(cm_event(fd, &ev) == -EAGAIN, "others do not");
	TAP_OK(cm_port(fd, id_b) == -EIO && cm_disconnect(fd, id_b) == -EIO, "commands fail: EIO");
	TAP_OK(cm_destroy(fd, id_b) == 1, "DESTROY_ID counts the event");
	TAP_OK(!cm_readable(fd, 0) && cm_port(fd, id_a) > 0, "other ids work");
	TAP_OK(fake_cm(&a, CM_INCOMING, 6000) == 1 && cm_event(fd, &ev) == CONNECT_REQUEST &&
		       ev.uid == 1,
	       "the wildcard listener goes on at the other daemon");
	fake_cm_start(&b, dir, "b", NET_B);
	TAP_OK(WAIT_UNTIL(fake_cm(&b, CM_LISTENERS, 6000)) && !cm_readable(fd, 0) &&
		       cm_event(fd, &ev) == -EAGAIN,
	       "the restarted daemon gets the listener, which wakes nobody");
	TAP_OK(fake_cm(&b, CM_INCOMING, 6000) == 1 && cm_event(fd, &ev) == CONNECT_REQUEST &&
		       ev.uid == 1,
	       "and requests arrive there");
	id_b = cm_create(fd, 4);
	TAP_OK(!cm_bind(fd, id_b, NET_B, 0), "new ids use it");
	close(fd);
}

static void *reader(void *fd)
{
	static struct rdma_ucm_event_resp ev;

	return (void *)(intptr_t)cm_event((intptr_t)fd, &ev);
}

/* All daemons end while a thread waits. */
static void blocked(void)
{
	int fd = cm_open(), listener = cm_create(fd, 1), id;
	struct rdma_ucm_event_resp ev;
	pthread_t thread;
	void *result;

	cm_bind(fd, listener, 0, 6000);
	cm_listen(fd, listener);
	pthread_create(&thread, NULL, reader, (void *)(intptr_t)fd);
	WAIT_UNTIL(other_thread_sleeps_in(SYS_poll));
	fake_cm_kill(&a);
	fake_cm_kill(&b);
	usleep(20000);
	TAP_OK(!cm_readable(fd, 0), "without bound ids the end of the daemons is no event");
	TAP_OK(cm_create(fd, 2) == -ENODEV, "CREATE_ID without a daemon: ENODEV");
	fake_cm_start(&a, dir, "a", NET_A);
	TAP_OK(WAIT_UNTIL(fake_cm(&a, CM_LISTENERS, 6000)) && fake_cm(&a, CM_INCOMING, 6000) == 1 &&
		       !pthread_join(thread, &result) && (intptr_t)result == CONNECT_REQUEST,
	       "GET_EVENT waits for the daemon, which gets the listener");
	fake_cm_start(&b, dir, "b", NET_B);
	id = cm_create(fd, 2);
	TAP_OK(!cm_bind(fd, id, NET_B, 0) && fake_cm(&b, CM_LISTENERS, 6000) == 1,
	       "a command finds a daemon that has started");
	fake_cm(&b, CM_EVENT, ESTABLISHED);
	TAP_OK(cm_readable(fd, 20000), "an event before the end");
	fake_cm_kill(&b);
	TAP_OK(cm_event(fd, &ev) == DEVICE_REMOVAL && ev.uid == 2,
	       "events of a daemon end with it");
	close(fd);
	fake_cm_start(&b, dir, "b", NET_B);
}

/* A thread waits before there is a listener. */
static void blocked_early(void)
{
	int fd = cm_open(), listener;
	pthread_t thread;
	void *result;

	fake_cm_kill(&b);
	pthread_create(&thread, NULL, reader, (void *)(intptr_t)fd);
	WAIT_UNTIL(other_thread_sleeps_in(SYS_poll));
	listener = cm_create(fd, 1);
	cm_bind(fd, listener, 0, 6000);
	cm_listen(fd, listener);
	fake_cm_start(&b, dir, "b", NET_B);
	TAP_OK(WAIT_UNTIL(fake_cm(&b, CM_LISTENERS, 6000)) && fake_cm(&b, CM_INCOMING, 6000) == 1 &&
		       !pthread_join(thread, &result) && (intptr_t)result == CONNECT_REQUEST,
	       "GET_EVENT that waited before LISTEN extends the listener");
	close(fd);
}

/* ---- ways to wait ------------------------------------------------------------------- */

struct waiter {
	int fd, epoll;
	int (*wait)(const struct waiter *w); /* returns 1 if the channel is readable */
	long call;			     /* system call in which it waits */
	const char *name;
	struct rdma_ucm_event_resp ev;
};

static int wait_poll(const struct waiter *w)
{
	struct pollfd p[2] = { { w->epoll, POLLIN, 0 }, { w->fd, POLLIN, 0 } };

	return poll(p, 2, -1) == 1 && p[1].revents == POLLIN;
}

static int wait_select(const struct waiter *w)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(w->fd, &set);
	return select(w->fd + 1, &set, NULL, NULL, NULL);
}

static int wait_epoll(const struct waiter *w)
{
	struct epoll_event ev;

	return epoll_wait(w->epoll, &ev, 1, -1);
}

static int wait_get_event(const struct waiter *w)
{
	return 1;
}

static void *event_loop(void *arg)
{
	struct waiter *w = arg;

	return (void *)(intptr_t)(w->wait(w) == 1 ? cm_event(w->fd, &w->ev) : -1);
}

/*
 * A daemon ends and starts again while a thread waits, in a channel that blocks. The only thing
 * that wakes it is a request, as a program that is woken calls GET_EVENT, which blocks then.
 */
static void waits(struct waiter *w, uint32_t epoll_flags)
{
	struct epoll_event ev = { .events = EPOLLIN | epoll_flags };
	int listener, woken = 0;
	pthread_t thread;
	void *result;

	w->fd = cm_open();
	w->epoll = epoll_create1(0);
	listener = cm_create(w->fd, 1);
	cm_bind(w->fd, listener, 0, 6000);
	cm_listen(w->fd, listener);
	if (w->wait == wait_epoll)
		epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->fd, &ev);
	pthread_create(&thread, NULL, event_loop, w);
	WAIT_UNTIL(other_thread_sleeps_in(w->call));
	fake_cm_kill(&b);
	fake_cm_start(&b, dir, "b", NET_B);
	TAP_OK(WAIT_UNTIL(fake_cm(&b, CM_LISTENERS, 6000)),
	       "%s: the restarted daemon gets the listener", w->name);
	woken = cm_readable(w->fd, 0) || !other_thread_sleeps_in(w->call);
	TAP_OK(!woken && fake_cm(&b, CM_INCOMING, 6000) == 1 && !pthread_join(thread, &result) &&
		       (intptr_t)result == CONNECT_REQUEST && w->ev.uid == 1,
	       "%s: a request wakes it, and nothing before", w->name);
	close(w->epoll);
	close(w->fd);
}

static void ways_to_wait(void)
{
	struct waiter polls = { .wait = wait_poll, .call = SYS_poll, .name = "poll" };
	struct waiter selects = { .wait = wait_select, .call = SYS_pselect6, .name = "select" };
	struct waiter level = { .wait = wait_epoll, .call = SYS_epoll_wait, .name = "epoll" };
	struct waiter edge = { .wait = wait_epoll, .call = SYS_epoll_wait, .name = "epoll, edge" };
	struct waiter blocks = { .wait = wait_get_event, .call = SYS_poll, .name = "GET_EVENT" };

	waits(&polls, 0);
	waits(&selects, 0);
	waits(&level, 0);
	waits(&edge, EPOLLET);
	waits(&blocks, 0);
}

/* A program that never waits; its child, as of daemon() */
static void without_waiting(void)
{
	int fd = cm_open(), listener = cm_create(fd, 1), status = -1;
	struct rdma_ucm_event_resp ev;
	pid_t child;

	cm_bind(fd, listener, 0, 6000);
	cm_listen(fd, listener);
	fake_cm_kill(&b);
	fake_cm_start(&b, dir, "b", NET_B);
	TAP_OK(WAIT_UNTIL(fake_cm(&b, CM_LISTENERS, 6000)),
	       "a program that does not wait: the restarted daemon gets the listener");
	cm_nonblock(fd, true);
	child = fork();
	if (!child) {
		cm_event(fd, &ev);
		_exit(!WAIT_UNTIL(other_thread_sleeps_in(SYS_ppoll)));
	}
	waitpid(child, &status, 0);
	TAP_OK(!status, "a forked child has a thread of its own after its first GET_EVENT");
	close(fd);
}

/* ---- the kernel --------------------------------------------------------------------- */

/* Makes the directory so old that daemons are not expected to start. */
static void age(const char *path)
{
	const struct timespec old[2] = { { .tv_sec = 1000000000 }, { .tv_sec = 1000000000 } };

	utimensat(AT_FDCWD, path, old, 0);
}

static void stop(int signal)
{
	kill(a.pid, signal);
	kill(b.pid, signal);
}

static void silent(struct fake_cm *k)
{
	int fd, id;

	age(dir);
	stop(SIGSTOP);
	fd = cm_open();
	stop(SIGCONT);
	id = cm_create(fd, 1);
	TAP_OK(id > 0 && !cm_resolve(fd, id, NET_A + 5) && alone(&a, &b) && !fake_cm(k, CM_IDS, 0),
	       "daemons that did not answer when the channel was opened are tried again");
	close(fd);
	stop(SIGSTOP);
	fd = cm_open();
	id = cm_create(fd, 1);
	stop(SIGCONT);
	TAP_OK(id > 0 && fake_cm(k, CM_IDS, 0) == 1 && !cm_resolve(fd, id, NET_B + 5) &&
		       alone(&b, &a),
	       "an id that was created at the kernel alone gets the daemons as well");
	close(fd);
}

static void kernel(void)
{
	struct rdma_ucm_event_resp ev;
	char path[128];
	struct fake_cm k;
	int fd, id, other, port = 0, fds;

	fake_cm_start(&k, kernel_dir, "k", IP(0x0501));
	snprintf(path, sizeof(path), "%s/k.sock", kernel_dir);
	fds = cm_open_fds();
	setenv("FAKE_KERNEL", path, 1);
	fd = cm_open();
	id = cm_create(fd, 0x55);
	TAP_OK(fake_cm(&k, CM_IDS, 0) == 1 && fake_cm(&a, CM_IDS, 0) == 1,
	       "an id exists in the kernel and at the daemons");
	TAP_OK(!cm_bind(fd, id, 0, 0) && (port = cm_port(fd, id)) > 0 && !cm_listen(fd, id) &&
		       fake_cm(&k, CM_LISTENERS, port) == 1 && fake_cm(&b, CM_LISTENERS, port) == 1,
	       "a wildcard listener listens in the kernel as well");
	TAP_OK(fake_cm(&k, CM_INCOMING, port) == 1 && cm_readable(fd, 20000) &&
		       cm_event(fd, &ev) == CONNECT_REQUEST && ev.uid == 0x55,
	       "a request of the kernel");
	TAP_OK(!cm_accept(fd, ev.id, 0x66) && cm_event(fd, &ev) == ESTABLISHED && ev.uid == 0x66,
	       "and an event of the connection");
	cm_nonblock(fd, true);
	TAP_OK(cm_event(fd, &ev) == -EAGAIN, "no event: EAGAIN");
	other = cm_create(fd, 1);
	TAP_OK(!cm_set_option(fd, other, 0x33) && fake_cm(&k, CM_OPTION, 0) == 0x33 &&
		       !cm_resolve(fd, other, IP(0x0507)) && fake_cm(&a, CM_IDS, 0) == 1,
	       "a route of the kernel");
	TAP_OK(cm_destroy(fd, other) == 0 && cm_destroy(fd, id) == 1, "DESTROY_ID");
	close(fd);
	TAP_OK(!fake_cm(&k, CM_CHANNELS, 0) && cm_open_fds() == (unsigned int)fds,
	       "close closes the file of the kernel");
	silent(&k);
	setenv("XROCE_DEVICES", "none", 1);
	fd = cm_open();
	id = cm_create(fd, 1);
	TAP_OK(id > 0 && fake_cm(&k, CM_IDS, 0) == 1, "without daemons the kernel serves alone");
	close(fd);
	unsetenv("XROCE_DEVICES");
	unsetenv("FAKE_KERNEL");
	fake_cm_kill(&k);
}

int main(void)
{
	cm_directory(kernel_dir);
	cm_directory(dir);
	if (fake_cm_start(&a, dir, "a", NET_A) || fake_cm_start(&b, dir, "b", NET_B))
		return 1;
	addresses();
	wildcard();
	ports();
	migration();
	death();
	blocked();
	blocked_early();
	ways_to_wait();
	without_waiting();
	kernel();
	fake_cm_kill(&a);
	fake_cm_kill(&b);
	cm_remove_directory(dir);
	cm_remove_directory(kernel_dir);
	return tap_end();
}
