// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <xroce/control.h>

#include "daemon/base/loop.h"
#include "client.h"

int xd_pipe_open(struct xd_server *s, struct xd_pipe *p, enum xd_record record, int *read_end)
{
	int fds[2];

	/* Ours never blocks; programs expect theirs to. */
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return -errno;
	if (fcntl(fds[1], F_SETFL, O_NONBLOCK) || shutdown(fds[1], SHUT_RD)) {
		close(fds[0]);
		close(fds[1]);
		return -errno;
	}
	*p = (struct xd_pipe){ .server = s, .record = record, .fd = fds[1] };
	p->backlog_tail = &p->backlog;
	pthread_mutex_init(&p->lock, NULL);
	*read_end = fds[0];
	return 0;
}

/* Takes the pipe off the list of those that the loop has to look at. */
static void unlist(struct xd_pipe *p)
{
	struct xd_blocked *b = &p->server->blocked;
	struct xd_pipe **pp;

	pthread_mutex_lock(&b->lock);
	for (pp = &b->head; *pp; pp = &(*pp)->next_blocked) {
		if (*pp == p) {
			*pp = p->next_blocked;
			break;
		}
	}
	p->listed = false;
	pthread_mutex_unlock(&b->lock);
}

void xd_pipe_close(struct xd_pipe *p)
{
	if (!p->server)
		return;
	unlist(p);
	xd_watch_del(p->watch);
	close(p->fd);
	pthread_mutex_destroy(&p->lock);
	p->server = NULL;
}

/* Asks the loop to watch for room. Under p->lock. */
static void ask_loop(struct xd_pipe *p)
{
	struct xd_blocked *b = &p->server->blocked;
	uint64_t one = 1;

	pthread_mutex_lock(&b->lock);
	if (!p->listed) {
		p->listed = true;
		p->next_blocked = b->head;
		b->head = p;
		(void)!write(b->eventfd, &one, sizeof(one)); /* full: the loop is awake */
	}
	pthread_mutex_unlock(&b->lock);
}

/*
 * One record; false: no room. A client that closed its end wants no events: they count as
 * written.
 */
static bool write_record(struct xd_pipe *p, struct xd_source *src, uint32_t type)
{
	struct xr_async_event ev = { .element = src->cookie, .type = type };
	size_t len = p->record == XD_RECORD_ASYNC ? sizeof(ev) : sizeof(ev.element);

	if (send(p->fd, &ev, len, MSG_NOSIGNAL) < 0 && errno == EAGAIN)
		return false;
	src->written++;
	return true;
}

/* What a source has pending, as far as there is room. Under p->lock. */
static bool write_pending(struct xd_pipe *p, struct xd_source *src)
{
	uint32_t type;

	while (src->pending) {
		type = (uint32_t)__builtin_ctz(src->pending);
		if (!write_record(p, src, type))
			return false;
		src->pending &= ~(1u << type);
	}
	return true;
}

void xd_event_raise(struct xd_source *src, uint32_t type)
{
	struct xd_pipe *p = src->pipe;
	bool queued;

	if (!p || type > 31)
		return;
	pthread_mutex_lock(&p->lock);
	queued = src->pending;
	src->pending |= 1u << type;
	/* behind a backlog everyone waits their turn */
	if (!queued && (p->backlog || !write_pending(p, src))) {
		src->next = NULL;
		src->pprev = p->backlog_tail;
		*p->backlog_tail = src;
		p->backlog_tail = &src->next;
		ask_loop(p);
	}
	pthread_mutex_unlock(&p->lock);
}

static void backlog_remove(struct xd_pipe *p, struct xd_source *src)
{
	*src->pprev = src->next;
	if (src->next)
		src->next->pprev = src->pprev;
	else
		p->backlog_tail = src->pprev;
}

uint32_t xd_event_end(struct xd_source *src)
{
	struct xd_pipe *p = src->pipe;
	uint32_t written;

	if (!p)
		return src->written;
	pthread_mutex_lock(&p->lock);
	if (src->pending)
		backlog_remove(p, src);
	src->pending = 0;
	written = src->written;
	src->pipe = NULL;
	pthread_mutex_unlock(&p->lock);
	return written;
}

/* ---- in the loop ----------------------------------------------------------------- */

static void on_room(void *arg, uint32_t events)
{
	struct xd_pipe *p = arg;
	bool done;

	pthread_mutex_lock(&p->lock);
	while (p->backlog && write_pending(p, p->backlog))
		backlog_remove(p, p->backlog);
	done = !p->backlog;
	pthread_mutex_unlock(&p->lock);
	if (done) {
		xd_watch_del(p->watch);
		p->watch = NULL;
	}
}

static struct xd_pipe *next_blocked(struct xd_blocked *b)
{
	struct xd_pipe *p;

	pthread_mutex_lock(&b->lock);
	p = b->head;
	if (p) {
		b->head = p->next_blocked;
		p->listed = false;
	}
	pthread_mutex_unlock(&b->lock);
	return p;
}

static void on_blocked(void *arg, uint32_t events)
{
	struct xd_server *s = arg;
	struct xd_pipe *p;
	uint64_t n;

	if (read(s->blocked.eventfd, &n, sizeof(n)) < 0)
		return;
	while ((p = next_blocked(&s->blocked))) {
		if (!p->watch)
			p->watch = xd_watch_add(s->dev->loop, p->fd, EPOLLOUT, on_room, p);
	}
}

int xd_events_start(struct xd_server *s)
{
	struct xd_blocked *b = &s->blocked;

	pthread_mutex_init(&b->lock, NULL);
	b->eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (b->eventfd < 0)
		return -errno;
	b->watch = xd_watch_add(s->dev->loop, b->eventfd, EPOLLIN, on_blocked, s);
	return b->watch ? 0 : -ENOMEM;
}

void xd_events_stop(struct xd_server *s)
{
	xd_watch_del(s->blocked.watch);
	if (s->blocked.eventfd >= 0)
		close(s->blocked.eventfd);
}
