// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The control socket: who may connect, and what concerns all clients. */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/datapath/xdp.h"
#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/memory/sigbus.h"
#include "daemon/objects/objects.h"
#include "daemon/base/options.h"
#include "daemon/clients/client.h"
#include "server.h"

#define BACKLOG 64

/* ---- who may connect ------------------------------------------------------------- */

static bool in_group(int fd, const struct ucred *cred, gid_t group)
{
	struct xd_groups groups;
	bool found;

	if (group == XD_NO_GROUP)
		return false;
	xd_peer_groups(fd, &groups);
	found = xd_in_groups(group, cred->gid, &groups);
	free(groups.gid);
	return found;
}

/* The socket's mode does this already, unless somebody changed it. */
static bool may_connect(const struct xd_server *s, int fd, struct ucred *cred)
{
	socklen_t len = sizeof(*cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, cred, &len))
		return false;
	return !cred->uid || cred->uid == geteuid() || in_group(fd, cred, s->group);
}

static void welcome(struct xd_server *s, int fd)
{
	struct ucred cred = { 0 };
	struct xd_client *c;

	if (!may_connect(s, fd, &cred)) {
		xd_log(XD_NOTICE, "uid %u (pid %d) may not connect", cred.uid, cred.pid);
		close(fd);
		return;
	}
	if (s->client_count >= s->dev->opt->max_clients) {
		xd_log(XD_WARN, "pid %d refused: %u clients are the limit", cred.pid,
		       s->client_count);
		close(fd);
		return;
	}
	c = xd_client_new(s, fd);
	if (c)
		xd_log(XD_DEBUG, "client %u: %s, pid %d, uid %u", c->id, c->comm, c->pid, c->uid);
}

/* Without a free descriptor the connection could be neither taken nor turned away. */
static void turn_away(struct xd_server *s)
{
	xd_log(XD_WARN, "a client was turned away: out of file descriptors");
	close(s->spare_fd);
	close(accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC));
	s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void on_listen(void *arg, uint32_t events)
{
	struct xd_server *s = arg;
	int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0)
		welcome(s, fd);
	else if ((errno == EMFILE || errno == ENFILE) && s->spare_fd >= 0)
		turn_away(s);
}

/* ---- the socket ------------------------------------------------------------------ */

static int listen_at(struct xd_server *s, const char *path)
{
	mode_t mode = s->group == XD_NO_GROUP ? 0600 : 0660, old;
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int err;

	memcpy(sun.sun_path, path, sizeof(sun.sun_path));
	s->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->listen_fd < 0)
		return -errno;
	old = umask(0177);
	err = bind(s->listen_fd, (struct sockaddr *)&sun, sizeof(sun)) ? -errno : 0;
	umask(old);
	if (err)
		return err;
	s->bound = path;
	if ((s->group != XD_NO_GROUP && chown(path, (uid_t)-1, s->group)) || chmod(path, mode) ||
	    listen(s->listen_fd, BACKLOG))
		return -errno;
	s->watch = xd_watch_add(s->dev->loop, s->listen_fd, EPOLLIN, on_listen, s);
	return s->watch ? 0 : -ENOMEM;
}

static int open_socket(struct xd_server *s)
{
	const char *path = s->dev->opt->socket;
	int err = xd_group_by_name(s->dev->opt->group, &s->group);

	if (err)
		return err;
	/* The name is locked: a socket that is there was left by a daemon that died. */
	if (unlink(path) && errno != ENOENT)
		err = -errno;
	if (!err)
		err = listen_at(s, path);
	if (err)
		xd_log(XD_ERR, "control socket %s: %s", path, strerror(-err));
	return err;
}

/* ---- descriptors ----------------------------------------------------------------- */

static uint32_t fd_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return 0;
	return limit.rlim_cur > UINT32_MAX ? UINT32_MAX : (uint32_t)limit.rlim_cur;
}

/* ---- start and stop -------------------------------------------------------------- */

static struct xd_server *server_new(struct xd_device *dev)
{
	struct xd_server *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->dev = dev;
	s->listen_fd = s->blocked.eventfd = -1;
	s->fault = dev->opt->fault;
	/* half of them for what objects hold, the rest for connections and the daemon itself */
	s->fds.limit = fd_limit() / 2;
	s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	/* lets programs make a userfaultfd that also the kernel's accesses wait for */
	s->uffd_dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	return s;
}

/* All but the socket: what tests need. */
int xd_server_open(struct xd_device *dev, struct xd_server **server)
{
	struct xd_server *s = *server = server_new(dev);
	int err;

	if (!s)
		return -ENOMEM;
	err = xd_sigbus_start();
	if (!err)
		err = xd_group_by_name(dev->opt->reserved_lkey_group, &s->lkey_group);
	if (!err)
		err = xd_events_start(s);
	if (err)
		return err;
	s->jobs = xd_jobs_new(dev->loop, dev->opt->max_clients + 2);
	return s->jobs ? 0 : -ENOMEM;
}

int xd_server_start(struct xd_device *dev, struct xd_server **server)
{
	int err = xd_server_open(dev, server);

	if (!err)
		err = open_socket(*server);
	if (err) {
		xd_server_stop(*server);
		*server = NULL;
	}
	return err;
}

void xd_server_stop(struct xd_server *s)
{
	struct xd_client *c;

	if (!s)
		return;
	xd_watch_del(s->watch);
	if (s->listen_fd >= 0)
		close(s->listen_fd);
	if (s->bound)
		unlink(s->bound);
	for (c = s->clients; c; c = c->next)
		xd_client_end(c);
	if (!xd_jobs_free(s->jobs)) {
		xd_log(XD_WARN, "a client's memory or files hang: left as they are");
		return;
	}
	xd_events_stop(s);
	if (s->spare_fd >= 0)
		close(s->spare_fd);
	if (s->uffd_dev >= 0)
		close(s->uffd_dev);
	xd_table_free(&s->pd_ids);
	xd_table_free(&s->xrc_domains);
	free(s);
}

/* ---- what concerns all clients --------------------------------------------------- */

void xd_server_port_event(struct xd_server *s, uint32_t type)
{
	struct xd_client *c;

	for (c = s->clients; c; c = c->next) {
		if (!c->ending)
			xd_event_raise(&c->port_events, type);
	}
}

void xd_server_net_changed(struct xd_server *s)
{
	struct xd_client *c;
	struct xd_qp *qp;
	struct xd_ah *ah;
	uint32_t h;

	for (c = s->clients; c; c = c->next) {
		for (h = 0; (qp = xd_table_next(&c->table[XD_QP], &h));)
			xd_qp_refresh_path(qp);
		for (h = 0; (ah = xd_table_next(&c->table[XD_AH], &h));)
			xd_ah_refresh_path(ah);
	}
}
