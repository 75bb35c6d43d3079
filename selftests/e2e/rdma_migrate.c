// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Moves ids to event channels of their own while requests arrive, in the way of Ceph's messenger:
 *
 *   rdma_migrate serve ADDRESS PORT COUNT            accepts COUNT connections
 *   rdma_migrate connect ADDRESS PORT COUNT THREADS  makes and ends COUNT connections
 *
 * One thread of the server accepts: it migrates the id of a request before it acknowledges the
 * event, gives the new channel to one of three threads, and refuses each seventh request, upon
 * which it stops reading until the next edge. The threads wait for edges as well, and read all
 * events. A client that is refused or times out tries again.
 */
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "verbs_util.h"

#define WORKERS 3
#define RESOLVE_MS 5000

static struct sockaddr_storage address;
static unsigned int ended, wanted; /* connections; atomic */

static void parse_address(const char *host, const char *port)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV }, *info;

	errno = 0;
	MUST(!getaddrinfo(host, port, &hints, &info), "wrong address");
	memcpy(&address, info->ai_addr, info->ai_addrlen);
	freeaddrinfo(info);
}

static int make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};

	return rdma_create_qp(id, NULL, &attr);
}

static struct rdma_event_channel *new_channel(int flags)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();

	MUST(ch && !fcntl(ch->fd, F_SETFL, flags), "rdma_create_event_channel");
	return ch;
}

static void watch(int set, int fd, void *ptr)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET, .data.ptr = ptr };

	MUST(!epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev), "epoll_ctl");
}

/* ---- server ----------------------------------------------------------------------- */

/* The channel has one id. Its first event that ends the connection is its last one. */
static void end(struct rdma_cm_id *id)
{
	struct rdma_event_channel *ch = id->channel;

	if (id->qp) {
		rdma_disconnect(id);
		rdma_destroy_qp(id);
	}
	MUST(!rdma_destroy_id(id), "rdma_destroy_id");
	rdma_destroy_event_channel(ch);
}

static void *work(void *arg)
{
	int set = *(int *)arg;
	enum rdma_cm_event_type type;
	struct rdma_cm_event *event;
	struct epoll_event ev;
	struct rdma_cm_id *id;

	for (;;) {
		if (epoll_wait(set, &ev, 1, -1) != 1)
			continue;
		id = ev.data.ptr;
		while (id && !rdma_get_cm_event(id->channel, &event)) {
			MUST(event->id == id, "event of another id");
			type = event->event;
			rdma_ack_cm_event(event);
			if (type == RDMA_CM_EVENT_ESTABLISHED)
				continue;
			end(id);
			id = NULL;
			__atomic_add_fetch(&ended, 1, __ATOMIC_RELAXED);
		}
	}
	return NULL;
}

/* Returns false if the request was refused. */
static bool take(struct rdma_cm_event *event, int worker)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct rdma_event_channel *ch = new_channel(O_NONBLOCK);
	struct rdma_cm_id *id = event->id;
	static unsigned int requests;
	bool accepts = ++requests % 7;

	MUST(event->event == RDMA_CM_EVENT_CONNECT_REQUEST, "event of the listener");
	MUST(!rdma_migrate_id(id, ch), "rdma_migrate_id");
	if (accepts && !make_qp(id)) {
		watch(worker, ch->fd, id);
		accepts = !rdma_accept(id, &param);
		rdma_ack_cm_event(event);
		return accepts;
	}
	rdma_reject(id, NULL, 0);
	rdma_ack_cm_event(event);
	end(id);
	return false;
}

static void serve(void)
{
	struct rdma_event_channel *ch = new_channel(O_NONBLOCK);
	int set = epoll_create1(0), worker[WORKERS];
	struct rdma_cm_event *event;
	struct epoll_event ev;
	struct rdma_cm_id *id;
	pthread_t thread;
	unsigned int n;

	for (n = 0; n < WORKERS; n++) {
		worker[n] = epoll_create1(0);
		MUST(!pthread_create(&thread, NULL, work, &worker[n]), "pthread_create");
	}
	MUST(!rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
	MUST(!rdma_bind_addr(id, (struct sockaddr *)&address) && !rdma_listen(id, 128), "listen");
	watch(set, ch->fd, NULL);
	for (n = 0; __atomic_load_n(&ended, __ATOMIC_RELAXED) < wanted;) {
		/* A second, as the last connections end in other threads. */
		if (epoll_wait(set, &ev, 1, 1000) != 1)
			continue;
		while (!rdma_get_cm_event(ch, &event) && take(event, worker[n++ % WORKERS]))
			;
	}
	printf("%u connections\n", ended);
}

/* ---- client ----------------------------------------------------------------------- */

/* Returns whether the next event is of this type. */
static bool next(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	enum rdma_cm_event_type got;
	struct rdma_cm_event *event;

	MUST(!rdma_get_cm_event(ch, &event), "rdma_get_cm_event");
	got = event->event;
	rdma_ack_cm_event(event);
	return got == type;
}

static bool try_once(void)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct rdma_event_channel *ch = new_channel(0);
	struct rdma_cm_id *id;
	bool connected;

	MUST(!rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
	MUST(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, RESOLVE_MS) &&
		     next(ch, RDMA_CM_EVENT_ADDR_RESOLVED),
	     "address");
	MUST(!rdma_resolve_route(id, RESOLVE_MS) && next(ch, RDMA_CM_EVENT_ROUTE_RESOLVED),
	     "route");
	MUST(!make_qp(id) && !rdma_connect(id, &param), "rdma_connect");
	connected = next(ch, RDMA_CM_EVENT_ESTABLISHED);
	if (connected)
		MUST(!rdma_disconnect(id) && next(ch, RDMA_CM_EVENT_DISCONNECTED), "disconnect");
	rdma_destroy_qp(id);
	MUST(!rdma_destroy_id(id), "rdma_destroy_id");
	rdma_destroy_event_channel(ch);
	return connected;
}

static void *connect_many(void *unused)
{
	while (__atomic_fetch_add(&ended, 1, __ATOMIC_RELAXED) < wanted) {
		while (!try_once())
			;
	}
	return NULL;
}

static void connect_all(unsigned int threads)
{
	pthread_t thread[64];
	unsigned int n;

	for (n = 0; n < threads; n++)
		MUST(!pthread_create(&thread[n], NULL, connect_many, NULL), "pthread_create");
	for (n = 0; n < threads; n++)
		pthread_join(thread[n], NULL);
}

int main(int argc, char **argv)
{
	unsigned int threads = argc > 5 ? (unsigned int)atoi(argv[5]) : 0;

	if (argc < 5 || threads > 64) {
		fprintf(stderr, "usage: see the head of rdma_migrate.c\n");
		return 2;
	}
	parse_address(argv[2], argv[3]);
	wanted = (unsigned int)atoi(argv[4]);
	if (threads)
		connect_all(threads);
	else
		serve();
	return 0;
}
