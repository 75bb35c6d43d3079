// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Prints the events of rdma_cm:
 *
 *   rdma_cm_events [-m | -p] listen ADDRESS PORT
 *       accepts one connection, and disconnects when the peer has
 *   rdma_cm_events [-m | -i] connect ADDRESS PORT [MS]
 *       connects and disconnects; MS: to resolve the address
 *   -m  moves its ids to another event channel: the listener at once, the id of the connection
 *       while it is being established
 *   -i  stays connected, without sending anything, until the peer disconnects
 *   -p  waits for events in poll(), as rping of rdma-core 65 does
 *
 * Ends after TIMEWAIT_EXIT of the connection, or after DEVICE_REMOVAL.
 */
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include "verbs_util.h"

#define RESOLVE_MS 5000

static bool moves, polls, idle; /* options */

static struct sockaddr_storage parse_address(const char *host, const char *port)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV }, *info;
	struct sockaddr_storage a = { 0 };

	errno = 0;
	MUST(!getaddrinfo(host, port, &hints, &info), "wrong address");
	memcpy(&a, info->ai_addr, info->ai_addrlen);
	freeaddrinfo(info);
	return a;
}

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};

	MUST(!rdma_create_qp(id, NULL, &attr), "rdma_create_qp");
}

/* Moves ids to a new event channel, and destroys the one that they had. b: may be NULL */
static struct rdma_event_channel *move(struct rdma_cm_id *a, struct rdma_cm_id *b)
{
	struct rdma_event_channel *old = a->channel, *ch = rdma_create_event_channel();

	MUST(ch && !rdma_migrate_id(a, ch) && (!b || !rdma_migrate_id(b, ch)), "rdma_migrate_id");
	rdma_destroy_event_channel(old);
	return ch;
}

/* Takes the next step of a connection. Returns false if there is none. */
static bool advance(const struct rdma_cm_event *ev)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct rdma_cm_id *id = ev->id;

	switch (ev->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		MUST(!rdma_resolve_route(id, RESOLVE_MS), "rdma_resolve_route");
		return true;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		make_qp(id);
		MUST(!rdma_connect(id, &param), "rdma_connect");
		return true;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		make_qp(id);
		MUST(!rdma_accept(id, &param), "rdma_accept");
		return true;
	case RDMA_CM_EVENT_ESTABLISHED:
		if (id->context && !idle)
			MUST(!rdma_disconnect(id), "rdma_disconnect");
		return true;
	case RDMA_CM_EVENT_DISCONNECTED:
		if (!id->context || idle)
			MUST(!rdma_disconnect(id), "rdma_disconnect");
		return true;
	case RDMA_CM_EVENT_ADDR_CHANGE:
		return true;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return false;
	default:
		MUST(false, "unexpected event");
		return false;
	}
}

static void wait_for_event(const struct rdma_event_channel *ch)
{
	struct pollfd p = { ch->fd, POLLIN, 0 };

	MUST(poll(&p, 1, -1) == 1 && p.revents == POLLIN, "poll");
}

/* Prints events until the connection has ended. listener: NULL if the program connects */
static void run(struct rdma_event_channel *ch, struct rdma_cm_id *listener)
{
	enum rdma_cm_event_type type;
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;
	bool more = true;

	while (more) {
		if (polls)
			wait_for_event(ch);
		MUST(!rdma_get_cm_event(ch, &ev), "rdma_get_cm_event");
		printf("%s %d\n", rdma_event_str(ev->event), ev->status);
		more = advance(ev);
		type = ev->event;
		id = ev->id;
		rdma_ack_cm_event(ev);
		if (moves &&
		    (type == RDMA_CM_EVENT_CONNECT_REQUEST || type == RDMA_CM_EVENT_ROUTE_RESOLVED))
			ch = move(id, listener);
	}
}

int main(int argc, char **argv)
{
	const char *option = argc > 1 && argv[1][0] == '-' ? argv[1] : "";
	struct rdma_event_channel *ch;
	struct sockaddr_storage at;
	struct rdma_cm_id *id;
	bool connects;
	int resolve_ms;

	moves = !strcmp(option, "-m");
	polls = !strcmp(option, "-p");
	idle = !strcmp(option, "-i");
	argc -= moves || polls || idle;
	argv += moves || polls || idle;
	connects = argc >= 4 && !strcmp(argv[1], "connect");
	resolve_ms = connects && argc == 5 ? atoi(argv[4]) : RESOLVE_MS;
	if (argc < 4 || argc > 4 + connects || (!connects && strcmp(argv[1], "listen"))) {
		fprintf(stderr, "usage: see the head of rdma_cm_events.c\n");
		return 2;
	}
	at = parse_address(argv[2], argv[3]);
	setvbuf(stdout, NULL, _IOLBF, 0);
	ch = rdma_create_event_channel();
	/* the context tells the active side from the passive one */
	MUST(ch && !rdma_create_id(ch, &id, connects ? ch : NULL, RDMA_PS_TCP), "rdma_create_id");
	if (connects)
		MUST(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&at, resolve_ms), "resolve");
	else
		MUST(!rdma_bind_addr(id, (struct sockaddr *)&at) && !rdma_listen(id, 1), "listen");
	if (moves && !connects)
		ch = move(id, NULL);
	run(ch, connects ? NULL : id);
	return 0;
}
