// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Servers of connections. */
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "rdma_connect.h"

#define SLOTS 8192
#define BACKLOG 1024

struct connection {
	struct rdma_cm_id *id; /* NULL: free */
	struct rdma_event_channel *own;
	uint32_t generation;
};

static struct connection connections[SLOTS];
static struct shared shared;
static int events = -1; /* epoll descriptor */

static void watch(int fd, void *ptr)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = ptr };

	MUST(!epoll_ctl(events, EPOLL_CTL_ADD, fd, &ev), "epoll_ctl");
}

static uint32_t slot_of(const struct connection *c)
{
	return (uint32_t)(c - connections);
}

/* Completions of an earlier connection in the slot have another number. */
static uint64_t wr_id(const struct connection *c)
{
	return (uint64_t)(c->generation & INT32_MAX) << 32 | slot_of(c);
}

static void close_connection(struct connection *c)
{
	struct rdma_cm_id *id = c->id;

	c->id = NULL;
	c->generation++;
	rdma_disconnect(id);
	if (id->qp)
		rdma_destroy_qp(id);
	rdma_destroy_id(id);
	if (c->own)
		rdma_destroy_event_channel(c->own);
	c->own = NULL;
}

static struct connection *free_connection(void)
{
	static uint32_t next;
	uint32_t i;

	for (i = 0; i < SLOTS; i++) {
		struct connection *c = &connections[next++ % SLOTS];

		if (!c->id)
			return c;
	}
	return NULL;
}

static void request(struct rdma_cm_id *id, uint32_t number, bool own)
{
	struct connection *c = free_connection();
	struct rdma_conn_param param;

	MUST(c, "too many connections");
	if (!shared.ctx) {
		share(&shared, id, SLOTS);
		watch(shared.comp->fd, NULL);
	}
	c->id = id;
	id->context = c;
	number = ~number;
	param = conn_param(&number);
	if (own) {
		c->own = new_channel();
		watch(c->own->fd, c->own);
		MUST_OR_GONE(!rdma_migrate_id(id, c->own), "rdma_migrate_id");
	}
	if (make_qp(&shared, id, slot_of(c), wr_id(c)) || rdma_accept(id, &param))
		close_connection(c);
}

static void handle(struct rdma_event_channel *ch, bool own)
{
	struct rdma_cm_event *ev, copy;
	uint32_t number = 0;

	if (rdma_get_cm_event(ch, &ev))
		return;
	copy = *ev;
	if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		memcpy(&number, ev->param.conn.private_data, sizeof(number));
	rdma_ack_cm_event(ev);
	switch (copy.event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		request(copy.id, number, own);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		exit(DEVICE_GONE);
	default:
		if (copy.id->context)
			close_connection(copy.id->context);
	}
}

static void answer(const struct ibv_wc *wc)
{
	struct connection *c = &connections[(uint32_t)wc->wr_id % SLOTS];
	uint32_t i, slot = slot_of(c);

	if (wc->status || wc->wr_id & SENT || !c->id || wc->wr_id != wr_id(c))
		return;
	for (i = 0; i < WORDS; i++)
		to_send(&shared, slot)[i] = ~received(&shared, slot)[i];
	send_message(&shared, c->id, slot, wr_id(c));
}

static struct rdma_cm_id *listener(struct rdma_event_channel *ch)
{
	struct rdma_cm_id *id;

	if (rdma_create_id(ch, &id, NULL, RDMA_PS_TCP))
		exit(DEVICE_GONE);
	return id;
}

static int listen_at(struct rdma_cm_id *id, struct address at)
{
	return rdma_bind_addr(id, (struct sockaddr *)&at.addr) || rdma_listen(id, BACKLOG) ? errno
											   : 0;
}

void listen_later(struct address at, int go, int result)
{
	struct rdma_cm_id *id = listener(new_channel());
	int err;
	char c;

	MUST(read(go, &c, 1) == 1, "read");
	err = listen_at(id, at);
	MUST(write(result, &err, sizeof(err)) == sizeof(err), "write");
	pause();
}

void serve(struct address at, bool own)
{
	struct rdma_event_channel *ch = new_channel();
	struct rdma_cm_id *id = listener(ch);
	struct epoll_event ev;
	struct ibv_wc wc;

	errno = listen_at(id, at);
	MUST_OR_GONE(!errno, "listen");
	events = epoll_create1(EPOLL_CLOEXEC);
	watch(ch->fd, ch);
	while (epoll_wait(events, &ev, 1, -1) >= 0 || errno == EINTR) {
		if (ev.data.ptr)
			handle(ev.data.ptr, own);
		while (completion(&shared, &wc))
			answer(&wc);
	}
}
