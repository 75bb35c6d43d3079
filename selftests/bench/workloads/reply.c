// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A server that answers requests, and its client, as a key-value store: one thread each, which
 * serves all connections. Requests and replies have 64 bytes. The client sends DEPTH requests at
 * once in each connection, and the next ones when all have been answered.
 *
 *   reply [OPTION...]        serves one client; ends when it has closed its connections
 *   reply [OPTION...] HOST   see side.h; -n and -d as the server
 *
 * The time of a request begins when its batch is sent.
 */
#include "reply.h"

#include <sys/epoll.h>
#include <unistd.h>

void set_watch(struct set *s, int fd, uint64_t data)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = data };

	MUST(!epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &event), "epoll");
}

int set_events(struct set *s, struct epoll_event *events)
{
	int n = epoll_wait(s->epoll, events, MAX_EVENTS, WAIT_SECONDS * 1000);

	MUST(n, "nothing has happened");
	MUST(n > 0 || errno == EINTR, "epoll");
	return n;
}

static void open_set(struct set *s, const struct way *way, const char *host)
{
	int listener = s->serves ? side_listen(s->options->port) : -1;

	s->connection = calloc(s->n, sizeof(*s->connection));
	s->ready = calloc(s->n, sizeof(*s->ready));
	MUST(s->connection && s->ready, "memory");
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	way->open(s);
	for (uint32_t i = 0; i < s->n; i++) {
		s->connection[i].sock = s->serves ? side_accept(listener)
						  : side_connect(host, s->options->port);
		way->connect(s, i);
	}
	if (s->serves)
		close(listener);
}

/* ---- messages -------------------------------------------------------------------------------- */

static uint64_t seed_of(const struct message *m)
{
	return m->number * 256 + m->connection * 2 + m->kind;
}

static void write_message(struct set *s, uint32_t i, struct message *m, enum message_kind kind)
{
	m->number = s->connection[i].sent++;
	m->connection = i;
	m->kind = kind;
	if (s->options->check)
		stamp(m->data, sizeof(m->data), seed_of(m), true);
}

static void check_message(struct set *s, uint32_t i, const struct message *m,
			  enum message_kind kind)
{
	MUST(m->number == s->connection[i].received++, "a message is missing");
	MUST(m->connection == i && m->kind == kind, "a message of another connection");
	if (s->options->check)
		MUST(has_stamp(m->data, sizeof(m->data), seed_of(m), true), "content");
}

/* ---- server ---------------------------------------------------------------------------------- */

/* A request whose reply finds no room stays where it is. More room arrives with a request. */
static void answer(struct set *s, const struct way *way, uint32_t i)
{
	const struct message *request;
	struct message *reply;

	while ((request = way->next(s, i)) && (reply = way->room(s, i))) {
		check_message(s, i, request, REQUEST);
		memcpy(reply->data, request->data, sizeof(reply->data));
		write_message(s, i, reply, REPLY);
		way->take(s, i);
	}
	way->flush(s, i);
}

static void serve(struct set *s, const struct way *way)
{
	while (!s->ended) {
		way->wait(s);
		for (uint32_t k = 0; k < s->ready_count; k++) {
			s->connection[s->ready[k]].ready = false;
			answer(s, way, s->ready[k]);
		}
		s->ready_count = 0;
	}
}

/* ---- client ---------------------------------------------------------------------------------- */

static void ask(struct set *s, const struct way *way, uint32_t i, uint64_t now)
{
	struct message *request;

	for (uint32_t k = 0; k < s->options->depth; k++) {
		request = way->room(s, i);
		MUST(request, "no room for requests, although all others were answered");
		write_message(s, i, request, REQUEST);
	}
	s->connection[i].began = now;
	way->flush(s, i);
}

/* Returns true if all requests of the connection have been answered. */
static bool take_replies(struct set *s, const struct way *way, uint32_t i, struct meter *meter,
			 uint64_t now)
{
	struct connection *c = &s->connection[i];
	const struct message *reply;

	while ((reply = way->next(s, i))) {
		check_message(s, i, reply, REPLY);
		way->take(s, i);
		meter_add(meter, c->began, now);
	}
	return c->received == c->sent;
}

static void request(struct set *s, const struct way *way)
{
	struct meter meter;
	uint32_t busy = s->n;
	uint64_t now;

	meter_start(&meter, s->options->seconds);
	for (uint32_t i = 0; i < s->n; i++)
		ask(s, way, i, now_ns());
	while (busy) {
		way->wait(s);
		MUST(!s->ended, "the server has ended");
		for (uint32_t k = 0; k < s->ready_count; k++) {
			uint32_t i = s->ready[k];

			s->connection[i].ready = false;
			now = now_ns();
			if (!take_replies(s, way, i, &meter, now))
				continue;
			if (meter_runs(&meter, now))
				ask(s, way, i, now);
			else
				busy--;
		}
		s->ready_count = 0;
	}
	meter_print(&meter);
}

int main(int argc, char **argv)
{
	struct options options;
	const struct way *way;
	struct set s = { .options = &options };

	parse_options(argc, argv, &options, "[HOST]");
	MUST(options.connections && options.depth, "number of connections or depth");
	s.n = options.connections;
	s.serves = !options.arguments[0];
	way = options.tcp ? &by_tcp : options.floor ? &by_floor : &by_verbs;
	open_set(&s, way, options.arguments[0]);
	if (s.serves)
		serve(&s, way);
	else
		request(&s, way);
	return 0;
}
