// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "scrape.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/loop.h"
#include "daemon/base/rate.h"
#include "http.h"

#define TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* A response, shared by the connections that send it */
struct scrape_text {
	char *data;
	size_t length, content; /* content: where it begins */
	uint32_t users;
};

union scrape_address {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* Who has connected: a host, or the user of a unix socket */
struct scrape_source {
	uint16_t family;
	uid_t uid;
	uint8_t addr[16];
};

struct peer {
	struct xd_scrape *scrape;
	int fd; /* -1: unused */
	struct scrape_source source;
	uint64_t at; /* when bytes were received or sent last */
	struct xd_watch *watch;
	struct xd_timer *timer;
	size_t length; /* of head */
	char head[XD_HTTP_HEAD_MAX];
	struct scrape_text *text; /* NULL: the request is not complete */
	size_t sent, end;	  /* end: of the part that the peer gets */
};

struct listener {
	struct xd_scrape *scrape;
	int fd;
	struct xd_watch *watch;
};

struct xd_scrape {
	struct xd_loop *loop;
	xd_scrape_collect *collect;
	void *arg;
	struct listener listener[XD_SCRAPE_SOCKETS];
	uint32_t listeners;
	struct xd_timer *again;	  /* accepts again after the limit of the rate */
	uint64_t bucket;	  /* of connections */
	struct scrape_text *page; /* the last one, or NULL */
	uint64_t page_at;	  /* when it was complete */
	struct peer peer[XD_SCRAPE_PEERS];
};

static const struct xd_rate accept_rate = { 1000000000 / XD_SCRAPE_RATE, XD_SCRAPE_RATE };

/* ---- texts ----------------------------------------------------------------------- */

static void put_text(struct scrape_text *t)
{
	if (!t || --t->users)
		return;
	free(t->data);
	free(t);
}

static struct scrape_text *scrape_take_text(char *data, size_t length, size_t content)
{
	struct scrape_text *t = data ? malloc(sizeof(*t)) : NULL;

	if (t)
		*t = (struct scrape_text){ data, length, content, 1 };
	else
		free(data);
	return t;
}

static struct scrape_text *response(int status, const char *body, size_t length)
{
	size_t total = 0, content;
	char *data = NULL;
	FILE *f = open_memstream(&data, &total);

	if (!f)
		return NULL;
	fprintf(f, "HTTP/1.1 %s\r\nContent-Type: %s\r\n", xd_http_reason(status),
		status == 200 ? TYPE : "text/plain");
	fprintf(f, "%sContent-Length: %zu\r\nConnection: close\r\n\r\n",
		status == 405 ? "Allow: GET, HEAD\r\n" : "", length);
	content = (size_t)ftell(f);
	fwrite(body, 1, length, f);
	if (fclose(f)) {
		free(data);
		return NULL;
	}
	return scrape_take_text(data, total, content);
}

static struct scrape_text *error_page(int status)
{
	char body[64];
	int n = snprintf(body, sizeof(body), "%s\n", xd_http_reason(status));

	return response(status, body, (size_t)n);
}

static struct scrape_text *new_page(const struct xd_scrape *s)
{
	char *data = NULL;
	bool found = s->collect(s->arg, &data);
	struct scrape_text *t = data ? response(found ? 200 : 503, data, strlen(data)) : NULL;

	free(data);
	return t ? t : error_page(503);
}

static struct scrape_text *get_page(struct xd_scrape *s)
{
	if (!s->page || xd_now() - s->page_at >= 1000000000 / XD_SCRAPE_HZ) {
		put_text(s->page);
		s->page = new_page(s);
		s->page_at = xd_now();
	}
	if (s->page)
		s->page->users++;
	return s->page;
}

/* ---- connections ----------------------------------------------------------------- */

static void set_accepting(struct xd_scrape *s)
{
	uint64_t wait = xd_rate_wait(&accept_rate, s->bucket, xd_now());

	for (uint32_t i = 0; i < s->listeners; i++)
		xd_watch_set(s->listener[i].watch, wait ? 0 : EPOLLIN);
	if (wait)
		xd_timer_arm(s->again, wait);
}

static void on_again(void *arg)
{
	set_accepting(arg);
}

static void end_peer(struct peer *p)
{
	xd_watch_del(p->watch);
	xd_timer_cancel(p->timer);
	if (p->fd >= 0)
		close(p->fd);
	put_text(p->text);
	p->watch = NULL;
	p->text = NULL;
	p->fd = -1;
}

static void scrape_on_timeout(void *arg)
{
	end_peer(arg);
}

/* Returns false if the connection is to be closed. */
static bool send_some(struct peer *p)
{
	ssize_t n = send(p->fd, p->text->data + p->sent, p->end - p->sent,
			 MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	p->at = xd_now();
	p->sent += (size_t)n;
	return p->sent < p->end;
}

/*
 * Discards what the peer has sent beyond its request: closing a socket with unread bytes resets the
 * connection, and the peer may lose the end of the response.
 */
static void scrape_discard(int fd)
{
	char rest[4096];

	for (int i = 0; i < 16; i++)
		if (recv(fd, rest, sizeof(rest), MSG_DONTWAIT) <= 0)
			break;
}

static bool scrape_answer(struct peer *p, int status)
{
	p->text = status == 200 ? get_page(p->scrape) : error_page(status);
	if (!p->text)
		return false;
	p->end = xd_http_is_head(p->head, p->length) ? p->text->content : p->text->length;
	scrape_discard(p->fd);
	xd_watch_set(p->watch, EPOLLOUT);
	return send_some(p);
}

static bool scrape_receive(struct peer *p)
{
	ssize_t n = recv(p->fd, p->head + p->length, sizeof(p->head) - p->length, MSG_DONTWAIT);
	int status;

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	p->at = xd_now();
	p->length += (size_t)n;
	status = xd_http_status(p->head, p->length, XD_SCRAPE_PAGE);
	if (status)
		return scrape_answer(p, status);
	return n > 0;
}

static void on_peer(void *arg, uint32_t events)
{
	struct peer *p = arg;

	if (!(p->text ? send_some(p) : scrape_receive(p)))
		end_peer(p);
}

static uint32_t count_peers(const struct xd_scrape *s, const struct scrape_source *source)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < XD_SCRAPE_PEERS; i++)
		n += !memcmp(&s->peer[i].source, source, sizeof(*source));
	return n;
}

/*
 * Returns an unused peer. If there is none, ends the connection of the source that has most of
 * them, and among these the one that was silent for the longest time.
 */
static struct peer *scrape_make_room(struct xd_scrape *s)
{
	struct peer *victim = NULL;
	uint32_t n, most = 0;

	for (struct peer *p = s->peer; p < s->peer + XD_SCRAPE_PEERS; p++) {
		if (p->fd < 0)
			return p;
		n = count_peers(s, &p->source);
		if (n > most || (n == most && p->at < victim->at))
			victim = p;
		most = n > most ? n : most;
	}
	end_peer(victim);
	return victim;
}

static void scrape_add_peer(struct xd_scrape *s, int fd, const struct scrape_source *source)
{
	struct peer *p = scrape_make_room(s);

	p->watch = xd_watch_add(s->loop, fd, EPOLLIN, on_peer, p);
	if (!p->watch) {
		close(fd);
		return;
	}
	p->fd = fd;
	p->source = *source;
	p->at = xd_now();
	p->length = p->sent = 0;
	xd_timer_arm(p->timer, XD_SCRAPE_PEER_NS);
}

/* source: is compared as bytes */
static void find_source(int fd, const union scrape_address *a, struct scrape_source *source)
{
	struct ucred cred;
	socklen_t length = sizeof(cred);

	memset(source, 0, sizeof(*source));
	source->family = a->sa.sa_family;
	if (a->sa.sa_family == AF_INET)
		memcpy(source->addr, &a->in.sin_addr, sizeof(a->in.sin_addr));
	else if (a->sa.sa_family == AF_INET6)
		memcpy(source->addr, &a->in6.sin6_addr, sizeof(a->in6.sin6_addr));
	else if (!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &length))
		source->uid = cred.uid;
}

/* A failed accept() counts, too: without descriptors, the socket stays readable. */
static void scrape_on_listen(void *arg, uint32_t events)
{
	const struct listener *l = arg;
	struct xd_scrape *s = l->scrape;
	union scrape_address a = { 0 };
	socklen_t length = sizeof(a);
	int fd = accept4(l->fd, &a.sa, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct scrape_source source;

	xd_rate_take(&accept_rate, &s->bucket, xd_now());
	if (fd >= 0) {
		find_source(fd, &a, &source);
		scrape_add_peer(s, fd, &source);
	}
	set_accepting(s);
}

/* ---- start and stop -------------------------------------------------------------- */

static bool scrape_open_all(struct xd_scrape *s)
{
	bool ok;

	s->again = xd_timer_new(s->loop, on_again, s);
	ok = s->again;
	for (uint32_t i = 0; i < XD_SCRAPE_PEERS; i++) {
		s->peer[i].scrape = s;
		s->peer[i].fd = -1;
		s->peer[i].timer = xd_timer_new(s->loop, scrape_on_timeout, &s->peer[i]);
		ok &= s->peer[i].timer != NULL;
	}
	return ok;
}

struct xd_scrape *xd_scrape_new(struct xd_loop *loop, xd_scrape_collect *collect, void *arg)
{
	struct xd_scrape *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->loop = loop;
	s->collect = collect;
	s->arg = arg;
	if (scrape_open_all(s))
		return s;
	xd_scrape_free(s);
	return NULL;
}

int xd_scrape_add(struct xd_scrape *s, int fd)
{
	struct listener *l = &s->listener[s->listeners];
	int err = s->listeners == XD_SCRAPE_SOCKETS ? -E2BIG : -ENOMEM;

	if (err == -ENOMEM) {
		*l = (struct listener){ .scrape = s, .fd = fd };
		l->watch = xd_watch_add(s->loop, fd, EPOLLIN, scrape_on_listen, l);
		err = l->watch ? 0 : err;
	}
	if (err)
		close(fd);
	else
		s->listeners++;
	return err;
}

void xd_scrape_free(struct xd_scrape *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < XD_SCRAPE_PEERS; i++) {
		end_peer(&s->peer[i]);
		xd_timer_free(s->peer[i].timer);
	}
	for (uint32_t i = 0; i < s->listeners; i++) {
		xd_watch_del(s->listener[i].watch);
		close(s->listener[i].fd);
	}
	xd_timer_free(s->again);
	put_text(s->page);
	free(s);
}
