// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "events.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <xroce/control.h>

#include "daemon/base/loop.h"
#include "client.h"

int xd_event_socket_open(struct xd_clients *cs, struct xd_event_socket *es, enum xd_record record,
			 int *client_end)
{
	int fds[2], err;

	/* The daemon's end never blocks; programs expect that their end does. */
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return -errno;
	if (fcntl(fds[1], F_SETFL, O_NONBLOCK) || shutdown(fds[1], SHUT_RD)) {
		err = -errno;
		close(fds[0]);
		close(fds[1]);
		return err;
	}
	*es = (struct xd_event_socket){ .clients = cs, .record = record, .fd = fds[1] };
	es->backlog_tail = &es->backlog;
	xt_list_init(&es->blocked);
	pthread_mutex_init(&es->lock, NULL);
	*client_end = fds[0];
	return 0;
}

static void unlist(struct xd_event_socket *es)
{
	struct xd_blocked *b = &es->clients->blocked;

	pthread_mutex_lock(&b->lock);
	xt_list_del(&es->blocked);
	pthread_mutex_unlock(&b->lock);
}

void xd_event_socket_close(struct xd_event_socket *es)
{
	if (!es->clients)
		return;
	unlist(es);
	xd_watch_del(es->watch);
	close(es->fd);
	pthread_mutex_destroy(&es->lock);
	es->clients = NULL;
}

static void events_wake_loop(struct xd_blocked *b)
{
	uint64_t one = 1;

	(void)!write(b->eventfd, &one, sizeof(one)); /* full: a wake-up is pending */
}

/* Makes the loop watch for room. Called with es->lock held. */
static void watch_for_room(struct xd_event_socket *es)
{
	struct xd_blocked *b = &es->clients->blocked;

	pthread_mutex_lock(&b->lock);
	if (xt_list_empty(&es->blocked)) {
		xt_list_add_tail(&b->sockets, &es->blocked);
		events_wake_loop(b);
	}
	pthread_mutex_unlock(&b->lock);
}

/*
 * Writes one record. A direct program has the socket as well, and could make it block. Returns
 * false if there is no room. If the client has closed its end, the event is dropped and counts as
 * written.
 */
static bool events_write_record(struct xd_event_socket *es, struct xd_event_source *src,
				uint32_t type)
{
	struct xr_async_event ev = { .element = src->cookie, .type = type };
	size_t len = es->record == XD_RECORD_ASYNC ? sizeof(ev) : sizeof(ev.element);

	if (send(es->fd, &ev, len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno == EAGAIN)
		return false;
	src->written++;
	return true;
}

/*
 * Writes a source's pending events while there is room. Returns true if all were written. Called
 * with es->lock held.
 */
static bool events_write_pending(struct xd_event_socket *es, struct xd_event_source *src)
{
	uint32_t type;

	while (src->pending) {
		type = (uint32_t)__builtin_ctz(src->pending);
		if (!events_write_record(es, src, type))
			return false;
		src->pending &= ~(1u << type);
	}
	return true;
}

void xd_event_raise(struct xd_event_source *src, uint32_t type)
{
	struct xd_event_socket *es = src->socket;
	bool queued;

	if (!es || type > 31)
		return;
	pthread_mutex_lock(&es->lock);
	queued = src->pending;
	src->pending |= 1u << type;
	/* While there is a backlog, all events queue behind it. */
	if (!queued && (es->backlog || !events_write_pending(es, src))) {
		src->next = NULL;
		src->pprev = es->backlog_tail;
		*es->backlog_tail = src;
		es->backlog_tail = &src->next;
		watch_for_room(es);
	}
	pthread_mutex_unlock(&es->lock);
}

static void backlog_remove(struct xd_event_socket *es, struct xd_event_source *src)
{
	*src->pprev = src->next;
	if (src->next)
		src->next->pprev = src->pprev;
	else
		es->backlog_tail = src->pprev;
}

uint32_t xd_event_end(struct xd_event_source *src)
{
	struct xd_event_socket *es = src->socket;
	uint32_t written;

	if (!es)
		return src->written;
	pthread_mutex_lock(&es->lock);
	if (src->pending)
		backlog_remove(es, src);
	src->pending = 0;
	written = src->written;
	src->socket = NULL;
	pthread_mutex_unlock(&es->lock);
	return written;
}

/* ---- in the loop ----------------------------------------------------------------- */

static void events_on_room(void *arg, uint32_t events)
{
	struct xd_event_socket *es = arg;
	bool done;

	pthread_mutex_lock(&es->lock);
	while (es->backlog && events_write_pending(es, es->backlog))
		backlog_remove(es, es->backlog);
	done = !es->backlog;
	pthread_mutex_unlock(&es->lock);
	if (done) {
		xd_watch_del(es->watch);
		es->watch = NULL;
	}
}

static struct xd_event_socket *next_blocked(struct xd_blocked *b)
{
	struct xd_event_socket *es = NULL;

	pthread_mutex_lock(&b->lock);
	if (!xt_list_empty(&b->sockets)) {
		es = container_of(b->sockets.next, struct xd_event_socket, blocked);
		xt_list_del(&es->blocked);
	}
	pthread_mutex_unlock(&b->lock);
	return es;
}

static void on_blocked(void *arg, uint32_t events)
{
	struct xd_clients *cs = arg;
	struct xd_event_socket *es;
	uint64_t n;

	if (read(cs->blocked.eventfd, &n, sizeof(n)) < 0)
		return;
	while ((es = next_blocked(&cs->blocked))) {
		if (!es->watch)
			es->watch = xd_watch_add(cs->dev->loop, es->fd, EPOLLOUT, events_on_room,
						 es);
		if (xd_loop_must_yield(cs->dev->loop)) {
			events_wake_loop(&cs->blocked);
			return;
		}
	}
}

int xd_events_start(struct xd_clients *cs)
{
	struct xd_blocked *b = &cs->blocked;

	pthread_mutex_init(&b->lock, NULL);
	xt_list_init(&b->sockets);
	b->eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (b->eventfd < 0)
		return -errno;
	b->watch = xd_watch_add(cs->dev->loop, b->eventfd, EPOLLIN, on_blocked, cs);
	return b->watch ? 0 : -ENOMEM;
}

void xd_events_stop(struct xd_clients *cs)
{
	xd_watch_del(cs->blocked.watch);
	if (cs->blocked.eventfd >= 0)
		close(cs->blocked.eventfd);
}

/* ---- asynchronous events of one client --------------------------------------------- */

int xd_client_events_open(struct xd_client *c, int *client_end)
{
	struct xd_client_events *e = &c->events;
	int err = xd_event_socket_open(c->clients, &e->async, XD_RECORD_ASYNC, client_end);

	if (err)
		return err;
	e->port = (struct xd_event_source){ .socket = &e->async, .cookie = 1 };
	return 0;
}

void xd_client_events_close(struct xd_client *c)
{
	xd_event_socket_close(&c->events.async);
}

void xd_clients_port_event(struct xd_clients *cs, uint32_t type)
{
	struct xd_client *c;

	for (c = cs->first; c; c = c->next) {
		if (!c->ending)
			xd_event_raise(&c->events.port, type);
	}
}
