// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* monitor: prints what happens at devices, one event a line. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli.h"

/* More than an event of the daemon can have */
#define EVENT_MAX 4096

/* A device */
struct monitor_source {
	struct cli_client client;
	int fd; /* that events are read from; -1: the daemon has ended */
};

struct monitor {
	struct cli *cli;
	struct monitor_source *source;
	struct pollfd *poll; /* of each source, and of the standard output */
	size_t sources;
};

/* ---- events ---------------------------------------------------------------------- */

static void print_line(const char *time, const json_t *event)
{
	const char *name;
	json_t *v;

	printf("[%s]", time);
	json_object_foreach((json_t *)event, name, v)
	{
		if (!strcmp(name, "time_ns"))
			continue;
		putchar(' ');
		if (strcmp(name, "device") && strcmp(name, "event")) {
			cli_print_field(name);
			putchar(' ');
		}
		cli_print_value(name, v);
	}
	putchar('\n');
}

static void monitor_print_json(const struct cli *cli, const char *time, json_t *event)
{
	json_t *all = json_pack("{s:s}", "timestamp", time);

	if (!all || json_object_update(all, event))
		abort(); /* out of memory for a few bytes */
	json_dumpf(all, stdout, cli->pretty ? JSON_INDENT(2) : JSON_COMPACT);
	putchar('\n');
	json_decref(all);
}

/* Lost events may have been those that a filter keeps. */
static bool is_loss(const json_t *event)
{
	const char *name = json_string_value(json_object_get(event, "event"));

	return name && !strcmp(name, "lost");
}

static void print_event(const struct cli *cli, json_t *event)
{
	json_int_t ns = json_integer_value(json_object_get(event, "time_ns"));
	char time[64];

	if (!cli_matches(cli, event) && !is_loss(event))
		return;
	cli_clock(ns > 0 ? (uint64_t)ns : 0, time, sizeof(time));
	if (cli->json)
		monitor_print_json(cli, time, event);
	else
		print_line(time, event);
}

/* ---- the loop -------------------------------------------------------------------- */

/* Reads one event. Prints an error if the daemon has ended, or sends something else than events. */
static int read_event(const struct monitor *m, const struct monitor_source *s)
{
	static char text[EVENT_MAX];
	ssize_t n = recv(s->fd, text, sizeof(text), MSG_DONTWAIT | MSG_TRUNC);
	json_t *event;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return CLI_OK;
	if (n <= 0)
		return cli_client_ended(&s->client);
	event = n <= EVENT_MAX ? json_loadb(text, (size_t)n, 0, NULL) : NULL;
	if (!json_is_object(event)) {
		json_decref(event);
		return cli_error("%s: the daemon sent %zd bytes that are no event",
				 s->client.device, n);
	}
	print_event(m->cli, event);
	json_decref(event);
	return CLI_OK;
}

static void end_source(struct monitor_source *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

/* Waits for events. Returns false if the reader of the standard output has gone. */
static bool wait_for_events(const struct monitor *m)
{
	for (size_t i = 0; i < m->sources; i++)
		m->poll[i] = (struct pollfd){ .fd = m->source[i].fd, .events = POLLIN };
	m->poll[m->sources] = (struct pollfd){ .fd = STDOUT_FILENO };
	while (poll(m->poll, m->sources + 1, -1) < 0)
		if (errno != EINTR)
			return false;
	return !(m->poll[m->sources].revents & (POLLERR | POLLHUP | POLLNVAL));
}

/* Ends when all daemons have ended, or nobody reads the output. Returns the exit status. */
static int monitor(const struct monitor *m)
{
	size_t left = m->sources;
	int status = CLI_OK;

	while (left && !ferror(stdout) && wait_for_events(m)) {
		for (size_t i = 0; i < m->sources; i++) {
			struct monitor_source *s = &m->source[i];

			if (!m->poll[i].revents || read_event(m, s) == CLI_OK)
				continue;
			status = CLI_FAILED;
			end_source(s);
			left--;
		}
	}
	return status;
}

/* ---- start ----------------------------------------------------------------------- */

static int subscribe(struct monitor_source *s)
{
	struct xp_call call = { .type = XR_MSG_MONITOR, .rep_fds = &s->fd, .rep_room = 1 };
	int err = cli_client_call(&s->client, &call);

	if (!err && !call.rep_nfds)
		err = -EPROTO;
	if (err)
		s->fd = -1;
	return err;
}

static int add_source(struct monitor *m, const char *device)
{
	struct monitor_source *s = &m->source[m->sources++];
	int err = cli_client_open(&s->client, m->cli, device);

	s->fd = -1;
	if (!err)
		err = subscribe(s);
	return cli_client_explain(&s->client, "monitor", err);
}

static int add_sources(struct monitor *m, const char *device)
{
	char **names = device ? NULL : cli_devices(m->cli);
	int status = CLI_OK;
	size_t n = 0;

	if (!device && !names)
		return CLI_FAILED;
	while (names && names[n])
		n++;
	if (!device && !n)
		status = cli_error("no device: there is no socket in %s", m->cli->runtime_dir);
	n += device ? 1 : 0;
	m->source = calloc(n + 1, sizeof(*m->source));
	m->poll = calloc(n + 1, sizeof(*m->poll));
	if (!m->source || !m->poll)
		status = cli_error("out of memory");
	for (size_t i = 0; status == CLI_OK && i < n; i++)
		status = add_source(m, device ? device : names[i]);
	xp_sockets_free(names);
	return status;
}

int cli_monitor(struct cli *cli, int argc, char **argv)
{
	int first = cli_options(cli, argc, argv), status;
	struct monitor m = { .cli = cli };
	char *device;

	if (first < 0)
		return -first - 1;
	status = cli_take_filters(cli, argc - first, argv + first, &device);
	if (status == CLI_OK)
		status = cli_complete_filters(cli);
	if (status != CLI_OK)
		return status;
	setvbuf(stdout, NULL, _IOLBF, 0);
	status = add_sources(&m, device);
	if (status == CLI_OK)
		status = monitor(&m);
	for (size_t i = 0; i < m.sources; i++) {
		end_source(&m.source[i]);
		cli_client_close(&m.source[i].client);
	}
	free(m.source);
	free(m.poll);
	return status;
}
