// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <xroce/control.h>

#include "daemon/base/loop.h"
#include "daemon/base/options.h"
#include "client.h"

/* A reader */
struct xd_monitor {
	struct xd_monitor *next;
	struct xd_client *client;
	int fd;			/* -1: the reader has closed its end */
	struct xd_watch *watch; /* for room; NULL: all was sent */
	uint64_t at;		/* number of the next text to be sent */
	uint64_t lost;		/* texts lost and not reported yet */
};

/* ---- sending --------------------------------------------------------------------- */

static struct json *monitor_begin(struct xd_clients *cs, const char *event)
{
	struct xd_monitors *ms = &cs->monitors;
	struct json *j = &ms->json;
	struct timespec now;

	j->f = open_memstream(&ms->writing.text, &ms->writing.length);
	if (!j->f)
		return NULL;
	j->comma = false;
	clock_gettime(CLOCK_REALTIME, &now);
	json_begin(j, NULL, '{');
	json_number(j, "time_ns", (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec);
	json_text(j, "device", cs->dev->opt->name);
	json_text(j, "event", event);
	return j;
}

/* Returns false without memory. */
static bool monitor_end(struct xd_monitors *ms)
{
	struct json *j = &ms->json;
	bool ok;

	json_end(j, '}');
	ok = !fclose(j->f) && ms->writing.text;
	j->f = NULL;
	if (!ok) {
		free(ms->writing.text);
		ms->writing.text = NULL;
	}
	return ok;
}

static void monitor_close_socket(struct xd_monitor *m)
{
	xd_watch_del(m->watch);
	m->watch = NULL;
	if (m->fd >= 0)
		close(m->fd);
	m->fd = -1;
}

/* Returns false if there is no room now, or the reader has gone. */
static bool send_text(struct xd_monitor *m, const struct xd_monitor_record *r)
{
	if (send(m->fd, r->text, r->length, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return true;
	if (errno != EAGAIN && errno != EINTR)
		monitor_close_socket(m);
	return false;
}

/* Reports how many texts the reader has lost. Returns false if that is to be repeated later. */
static bool send_lost(struct xd_monitor *m)
{
	struct xd_clients *cs = m->client->clients;
	struct json *j = monitor_begin(cs, "lost");
	bool sent;

	if (!j)
		return false;
	json_number(j, "count", m->lost);
	if (!monitor_end(&cs->monitors))
		return false;
	sent = send_text(m, &cs->monitors.writing);
	free(cs->monitors.writing.text);
	cs->monitors.writing.text = NULL;
	if (sent)
		m->lost = 0;
	return sent;
}

/* Sends texts while there is room. Returns true if all were sent. */
static bool send_texts(struct xd_monitor *m)
{
	const struct xd_monitors *ms = &m->client->clients->monitors;

	if (ms->next - m->at > XD_MONITOR_RECORDS) {
		m->lost += ms->next - m->at - XD_MONITOR_RECORDS;
		m->at = ms->next - XD_MONITOR_RECORDS;
	}
	if (m->lost && !send_lost(m))
		return false;
	for (; m->at != ms->next; m->at++)
		if (!send_text(m, &ms->record[m->at % XD_MONITOR_RECORDS]))
			return false;
	return true;
}

static void monitor_on_room(void *arg, uint32_t events)
{
	struct xd_monitor *m = arg;

	if (!send_texts(m) && m->fd >= 0)
		return;
	xd_watch_del(m->watch);
	m->watch = NULL;
}

/* If the socket cannot be watched, the next event is the next attempt. */
static void send_now(struct xd_monitor *m)
{
	if (m->fd < 0 || m->watch || send_texts(m) || m->fd < 0)
		return;
	m->watch = xd_watch_add(m->client->dev->loop, m->fd, EPOLLOUT, monitor_on_room, m);
}

/* ---- events ---------------------------------------------------------------------- */

bool xd_monitored(const struct xd_clients *cs)
{
	return cs->monitors.first;
}

struct json *xd_publish_begin(struct xd_clients *cs, const char *event)
{
	return cs->monitors.first ? monitor_begin(cs, event) : NULL;
}

void xd_publish(struct xd_clients *cs)
{
	struct xd_monitors *ms = &cs->monitors;
	struct xd_monitor_record *r;

	if (!monitor_end(ms))
		return;
	r = &ms->record[ms->next++ % XD_MONITOR_RECORDS];
	free(r->text);
	*r = ms->writing;
	ms->writing.text = NULL;
	for (struct xd_monitor *m = ms->first; m; m = m->next)
		send_now(m);
}

void xd_publish_client(struct json *j, const struct xd_client *c)
{
	json_number(j, "client", c->id);
	json_number(j, "pid", (uint64_t)c->identity.pid);
	json_number(j, "uid", c->identity.uid);
	json_text(j, "comm", c->identity.comm);
}

/* ---- readers --------------------------------------------------------------------- */

static struct xd_monitor **monitor_find(struct xd_client *c)
{
	struct xd_monitor **at = &c->clients->monitors.first;

	while (*at && (*at)->client != c)
		at = &(*at)->next;
	return at;
}

static int monitor_check_number(struct xd_client *c)
{
	const struct xd_monitor *m;
	uint32_t n = 0;

	if (*monitor_find(c))
		return xd_refuse(c, -EBUSY, "this connection monitors already");
	for (m = c->clients->monitors.first; m; m = m->next)
		n++;
	return n < XR_MONITOR_MAX ? 0 : xd_refuse(c, -EBUSY, "there are %u monitors already", n);
}

/* The reader's end is for reading only, and the daemon's for writing. */
static int monitor_open_socket(struct xd_monitor *m, int *client_end)
{
	int fds[2], err;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return -errno;
	if (shutdown(fds[1], SHUT_RD)) {
		err = -errno; /* close() may change it */
		close(fds[0]);
		close(fds[1]);
		return err;
	}
	*client_end = fds[0];
	m->fd = fds[1];
	return 0;
}

int xd_monitor_open(struct xd_client *c, int *client_end)
{
	struct xd_monitors *ms = &c->clients->monitors;
	struct xd_monitor *m;
	int err = monitor_check_number(c);

	if (!err)
		err = xd_user_take_fds(c, 1);
	if (err)
		return err;
	m = calloc(1, sizeof(*m));
	err = m ? monitor_open_socket(m, client_end) : -ENOMEM;
	if (err) {
		xd_user_put_fds(c, 1);
		free(m);
		return err;
	}
	if (!ms->first)
		ms->since = xd_now();
	m->client = c;
	m->at = ms->next;
	m->next = ms->first;
	ms->first = m;
	return 0;
}

void xd_monitor_close(struct xd_client *c)
{
	struct xd_monitor **at = monitor_find(c), *m = *at;

	if (!m)
		return;
	*at = m->next;
	monitor_close_socket(m);
	xd_user_put_fds(c, 1);
	free(m);
	if (!c->clients->monitors.first)
		xd_monitors_free(&c->clients->monitors);
}

void xd_monitors_free(struct xd_monitors *ms)
{
	for (uint32_t i = 0; i < XD_MONITOR_RECORDS; i++) {
		free(ms->record[i].text);
		ms->record[i].text = NULL;
	}
}
