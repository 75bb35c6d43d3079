// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Messages by TCP, see reply.c */
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "reply.h"

#define BUFFER 16384u

struct tcp_connection {
	uint32_t in_begin, in_end, out_end;
	uint8_t in[BUFFER] __attribute__((aligned(8)));
	uint8_t out[BUFFER] __attribute__((aligned(8)));
};

static struct tcp_connection *tcp_of(struct set *s, uint32_t i)
{
	return (struct tcp_connection *)s->own + i;
}

static void tcp_open(struct set *s)
{
	MUST(s->options->depth <= BUFFER / MESSAGE, "depth");
	s->own = aligned_alloc(64, s->n * sizeof(struct tcp_connection));
	MUST(s->own, "memory");
	memset(s->own, 0, s->n * sizeof(struct tcp_connection));
}

static void tcp_connect_one(struct set *s, uint32_t i)
{
	if (s->options->events)
		set_watch(s, s->connection[i].sock, i);
}

static void receive(struct set *s, uint32_t i)
{
	struct tcp_connection *c = tcp_of(s, i);
	uint32_t rest = c->in_end - c->in_begin;
	ssize_t n;

	if (c->in_begin) {
		memmove(c->in, c->in + c->in_begin, rest);
		c->in_begin = 0;
		c->in_end = rest;
	}
	n = recv(s->connection[i].sock, c->in + rest, BUFFER - rest, MSG_DONTWAIT);
	if (n > 0) {
		c->in_end += (uint32_t)n;
		set_ready(s, i);
	} else if (!n) {
		s->ended = true;
	} else {
		MUST(errno == EAGAIN, "receive");
	}
}

static void tcp_wait(struct set *s)
{
	struct epoll_event events[MAX_EVENTS];
	int n;

	if (!s->options->events) {
		for (uint32_t i = 0; i < s->n; i++)
			receive(s, i);
		return;
	}
	n = set_events(s, events);
	for (int k = 0; k < n; k++)
		receive(s, (uint32_t)events[k].data.u64);
}

static const struct message *tcp_next(struct set *s, uint32_t i)
{
	struct tcp_connection *c = tcp_of(s, i);

	return c->in_end - c->in_begin < MESSAGE ? NULL : (const void *)(c->in + c->in_begin);
}

static void tcp_take(struct set *s, uint32_t i)
{
	tcp_of(s, i)->in_begin += MESSAGE;
}

static struct message *tcp_room(struct set *s, uint32_t i)
{
	struct tcp_connection *c = tcp_of(s, i);
	uint8_t *at = c->out + c->out_end;

	if (c->out_end + MESSAGE > BUFFER)
		return NULL;
	c->out_end += MESSAGE;
	return (void *)at;
}

/* The peer reads: what is under way at once fits into the buffers of the sockets. */
static void tcp_flush(struct set *s, uint32_t i)
{
	struct tcp_connection *c = tcp_of(s, i);
	struct pollfd pfd = { .fd = s->connection[i].sock, .events = POLLOUT };
	uint32_t sent = 0;
	ssize_t n;

	while (sent < c->out_end) {
		n = send(pfd.fd, c->out + sent, c->out_end - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
		MUST(n > 0 || errno == EAGAIN, "send");
		if (n > 0)
			sent += (uint32_t)n;
		else
			poll(&pfd, 1, -1);
	}
	c->out_end = 0;
}

const struct way by_tcp = {
	.open = tcp_open,
	.connect = tcp_connect_one,
	.wait = tcp_wait,
	.next = tcp_next,
	.take = tcp_take,
	.room = tcp_room,
	.flush = tcp_flush,
};
