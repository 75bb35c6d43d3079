// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* MONITOR: events, and readers that are many, slow, or gone */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control.h"

#define MANY 20000 /* more events than are kept, and than a socket holds */

static struct xd_clients *clients(void)
{
	return &fake.server->objects.clients;
}

static void publish(const char *event, uint64_t number)
{
	struct json *j = xd_publish_begin(clients(), event);

	if (!j)
		return;
	json_number(j, "number", number);
	xd_publish(clients());
}

static void open_observer(struct conn *c)
{
	connect_client(c);
	MUST(!hello(c, XR_HELLO_OBSERVER));
}

/* Returns the socket of the events. */
static int monitor(struct conn *c)
{
	open_observer(c);
	MUST(!ask(c, XR_MSG_MONITOR, NULL, 0) && c->nfds == 1);
	c->nfds = 0;
	return c->fds[0];
}

static char text[4096];

/* Reads an event into text. Returns false if there is none. */
static bool next(int fd)
{
	ssize_t n = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT);

	text[n > 0 ? n : 0] = 0;
	return n > 0;
}

/* Returns the number of a member of the event in text. */
static unsigned long long member(const char *name)
{
	char pattern[64];
	const char *at;

	snprintf(pattern, sizeof(pattern), "\"%s\":", name);
	at = strstr(text, pattern);
	return at ? strtoull(at + strlen(pattern), NULL, 10) : ~0ull;
}

static bool is(const char *event)
{
	char pattern[64];

	snprintf(pattern, sizeof(pattern), "\"event\":\"%s\"", event);
	return strstr(text, pattern);
}

static void test_refusals(void)
{
	struct conn c[XR_MONITOR_MAX + 1];
	uint32_t good = 0, i;
	int fd[XR_MONITOR_MAX];

	for (i = 0; i < XR_MONITOR_MAX; i++)
		fd[i] = monitor(&c[i]);
	TAP_OK(ask(&c[0], XR_MSG_MONITOR, NULL, 0) == -EBUSY, "a connection monitors once");
	open_observer(&c[i]);
	TAP_OK(ask(&c[i], XR_MSG_MONITOR, NULL, 0) == -EBUSY, "the number of monitors is limited");
	publish("test", 7);
	for (i = 0; i < XR_MONITOR_MAX; i++)
		good += next(fd[i]) && is("test") && member("number") == 7 && !next(fd[i]);
	TAP_OK(good == XR_MONITOR_MAX, "all get an event, once");
	close(fd[0]);
	disconnect(&c[0]);
	TAP_OK(!ask(&c[XR_MONITOR_MAX], XR_MSG_MONITOR, NULL, 0),
	       "a monitor ends with its connection");
	close(c[XR_MONITOR_MAX].fds[0]);
	for (i = 1; i <= XR_MONITOR_MAX; i++) {
		disconnect(&c[i]);
		if (i < XR_MONITOR_MAX)
			close(fd[i]);
	}
	TAP_OK(nothing_left(), "nothing is left");
}

/* Reads all events of a reader that was slow. Returns their number and that of those lost. */
static uint64_t read_all(int fd, uint64_t *lost, bool *ordered)
{
	uint64_t n = 0, last = 0;

	for (*lost = 0, *ordered = true;; settle()) {
		if (!next(fd))
			break;
		for (; *text; next(fd)) {
			if (is("lost")) {
				*lost += member("count");
				continue;
			}
			n++;
			*ordered &= member("number") > last;
			last = member("number");
		}
	}
	*ordered &= last == MANY;
	return n;
}

static void test_slow(void)
{
	uint64_t n, lost, fast_read = 0;
	struct conn slow, fast;
	int fd = monitor(&slow), fast_fd = monitor(&fast);
	bool ordered;

	while (next(fd) || next(fast_fd))
		;
	for (uint64_t i = 1; i <= MANY; i++) {
		publish("test", i);
		fast_read += next(fast_fd) && member("number") == i;
	}
	TAP_OK(fast_read == MANY, "a reader that keeps up loses no event");
	n = read_all(fd, &lost, &ordered);
	TAP_OK(n >= XD_MONITOR_RECORDS && n + lost == MANY && lost,
	       "a slow reader is told how many events it has lost");
	TAP_OK(ordered, "the others are the last ones, and in order");
	publish("test", MANY + 1);
	TAP_OK(next(fd) && is("test") && member("number") == MANY + 1, "it gets the next ones");
	for (uint64_t i = 1; i <= MANY; i++)
		publish("test", i);
	close(fd);
	settle();
	publish("test", 1);
	TAP_OK(next(fast_fd), "a reader that has gone does not hinder others");
	disconnect(&slow);
	disconnect(&fast);
	close(fast_fd);
	publish("test", 1);
	TAP_OK(nothing_left(), "nothing is left");
}

static void test_queue_pairs(void)
{
	uint32_t pd, cq, qp;
	struct conn m, c;
	int fd = monitor(&m);

	open_client(&c);
	TAP_OK(next(fd) && is("client_connected") && strstr(text, "\"kind\":\"verbs\"") &&
		       member("pid") == (unsigned long long)getpid(),
	       "a client that connects");
	pd = alloc_pd(&c);
	cq = create_cq(&c, 16, 0);
	qp = create_qp(&c, pd, cq);
	TAP_OK(next(fd) && is("qp_created") && strstr(text, "\"type\":\"RC\"") &&
		       member("pid") == (unsigned long long)getpid() && !next(fd),
	       "a QP that is created");
	MUST(!ask_handle(&c, XR_MSG_DESTROY_QP, qp));
	TAP_OK(next(fd) && is("qp_destroyed") && !next(fd), "a QP that is destroyed");
	close_client(&c);
	TAP_OK(next(fd) && is("client_left") && !next(fd), "a client that leaves");
	disconnect(&m);
	TAP_OK(!next(fd), "no event follows the end of the connection");
	close(fd);
	TAP_OK(nothing_left(), "nothing is left");
}

int main(void)
{
	start_server("monitor");
	test_refusals();
	test_slow();
	test_queue_pairs();

	fake_server_stop();
	TAP_OK(!fake.server, "the server stops");
	return tap_end();
}
