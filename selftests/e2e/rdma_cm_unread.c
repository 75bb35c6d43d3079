// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Events that come with the replies to commands, and that the program does not read at once:
 *
 *   rdma_cm_unread ADDRESS
 *
 * The descriptor of a channel is readable while there is one, which moves with its id, and ends
 * with it.
 */
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include "verbs_util.h"

#define RESOLVE_MS 5000

static struct addrinfo *peer;

static bool readable(const struct rdma_event_channel *ch)
{
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static struct rdma_event_channel *open_channel(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();

	MUST(ch && !fcntl(ch->fd, F_SETFL, O_RDWR | O_NONBLOCK) && !readable(ch), "channel");
	return ch;
}

static struct rdma_cm_id *resolve(struct rdma_event_channel *ch)
{
	struct rdma_cm_id *id;

	MUST(!rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
	MUST(!rdma_resolve_addr(id, NULL, peer->ai_addr, RESOLVE_MS), "rdma_resolve_addr");
	return id;
}

/* Waits for the next event, which is of the id. */
static void expect(struct rdma_event_channel *ch, struct rdma_cm_id *id, int type)
{
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };
	struct rdma_cm_event *ev;

	MUST(poll(&p, 1, RESOLVE_MS) == 1, "the descriptor is not readable");
	MUST(!rdma_get_cm_event(ch, &ev), "rdma_get_cm_event");
	MUST((int)ev->event == type && ev->id == id, "another event");
	rdma_ack_cm_event(ev);
	MUST(!readable(ch), "readable without an event");
}

int main(int argc, char **argv)
{
	struct rdma_event_channel *ch, *other;
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id, *second;

	MUST(argc == 2 && !getaddrinfo(argv[1], "7471", NULL, &peer), "usage: see the source");
	ch = open_channel();
	other = open_channel();
	id = resolve(ch); /* the peer's next hop may not be known yet */
	expect(ch, id, RDMA_CM_EVENT_ADDR_RESOLVED);
	MUST(rdma_get_cm_event(ch, &ev) && errno == EAGAIN, "an event twice");

	MUST(!rdma_resolve_route(id, RESOLVE_MS) && readable(ch), "unread: not readable");
	MUST(!rdma_migrate_id(id, other) && !readable(ch) && readable(other), "not moved");
	expect(other, id, RDMA_CM_EVENT_ROUTE_RESOLVED);

	second = resolve(ch);
	MUST(!rdma_migrate_id(id, ch) && readable(ch), "the event of another id has gone");
	MUST(!rdma_destroy_id(second) && !readable(ch), "the event of an id that has ended");
	MUST(!rdma_destroy_id(id), "rdma_destroy_id");
	rdma_destroy_event_channel(ch);
	rdma_destroy_event_channel(other);
	freeaddrinfo(peer);
	return 0;
}
