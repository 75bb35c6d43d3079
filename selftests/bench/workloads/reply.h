/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Requests, replies and the connections that carry them, see reply.c */
#ifndef BENCH_REPLY_H
#define BENCH_REPLY_H

#include "side.h"

#define MESSAGE 64u

enum message_kind { REQUEST = 1, REPLY };

struct message {
	uint64_t number; /* 0, 1, ... in a connection */
	uint32_t connection, kind;
	uint8_t data[48];
};

struct connection {
	int sock;
	bool ready; /* is in the list of the set */
	uint64_t sent, received;
	uint64_t began; /* when the last batch of requests was sent */
};

/* All connections of a program */
struct set {
	const struct options *options;
	bool serves;
	uint32_t n;
	struct connection *connection;
	int epoll;
	bool ended; /* the peer has closed its connections */
	/* connections from which something was received */
	uint32_t *ready, ready_count;
	void *own; /* state of the way */
};

/* How messages pass: by verbs, by TCP, or as little as possible by UDP */
struct way {
	void (*open)(struct set *s);
	/* The socket of connection i is connected. */
	void (*connect)(struct set *s, uint32_t i);
	/* Receives messages. If they are polled, there may be none. */
	void (*wait)(struct set *s);
	/* Returns the next message that was received, or NULL; it is valid until take(). */
	const struct message *(*next)(struct set *s, uint32_t i);
	void (*take)(struct set *s, uint32_t i);
	/* Returns where to write the next message to send, or NULL if the peer has no room. */
	struct message *(*room)(struct set *s, uint32_t i);
	/* Sends what was written. */
	void (*flush)(struct set *s, uint32_t i);
};

extern const struct way by_verbs, by_tcp, by_floor;

static inline void set_ready(struct set *s, uint32_t i)
{
	if (s->connection[i].ready)
		return;
	s->connection[i].ready = true;
	s->ready[s->ready_count++] = i;
}

/* For ways: adds a descriptor, and waits for events. Data of an event: whatever was given. */
#define MAX_EVENTS 128
struct epoll_event;
void set_watch(struct set *s, int fd, uint64_t data);
int set_events(struct set *s, struct epoll_event *events);

#endif /* BENCH_REPLY_H */
