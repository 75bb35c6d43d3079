// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The control socket, and the check of clients that connect. */
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/log_program.h"
#include "daemon/base/loop.h"
#include "daemon/base/options.h"
#include "daemon/gsi/gsi.h"
#include "daemon/helper/helper.h"
#include "daemon/memory/mapping.h"
#include "daemon/memory/sigbus.h"
#include "daemon/umad/umad.h"
#include "view.h"

#define BACKLOG 64

/* ---- check of clients ------------------------------------------------------------ */

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

/* The mode of the socket enforces the same, unless it was changed. */
static bool server_may_connect(const struct xd_server *s, int fd, struct ucred *cred)
{
	socklen_t len = sizeof(*cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, cred, &len))
		return false;
	return !cred->uid || cred->uid == geteuid() || in_group(fd, cred, s->group);
}

static void add_client(struct xd_server *s, int fd, int ticket)
{
	struct xd_clients *clients = &s->objects.clients;
	struct xd_log_program program = { 0 };
	struct ucred cred = { 0 };

	if (server_may_connect(s, fd, &cred)) {
		xd_client_new(clients, fd, ticket);
		return;
	}
	program.pid = cred.pid;
	program.uid = cred.uid;
	xd_log_about(&program);
	xd_log(XD_NOTICE, "uid %u (pid %d) may not connect", cred.uid, cred.pid);
	xd_log_about(NULL);
	xd_connection_refuse(fd, -EACCES, "");
	close(ticket);
}

/* Descriptors in reserve, with which a connection can be refused when no other is free */
static bool open_spares(struct xd_server *s)
{
	bool all = true;

	for (uint32_t i = 0; i < XD_SPARES; i++) {
		if (s->spare[i] < 0)
			s->spare[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		all &= s->spare[i] >= 0;
	}
	return all;
}

static void close_spares(struct xd_server *s)
{
	for (uint32_t i = 0; i < XD_SPARES; i++) {
		if (s->spare[i] >= 0)
			close(s->spare[i]);
		s->spare[i] = -1;
	}
}

static void refuse_client(struct xd_server *s, int fd, int ticket)
{
	xd_log(XD_WARN, "a client was refused: out of file descriptors");
	if (fd >= 0)
		xd_connection_refuse(fd, -EMFILE, "no descriptor of LimitNOFILE is free");
	if (ticket >= 0)
		close(ticket);
	open_spares(s);
}

static void on_arrival(void *arg, uint32_t events)
{
	struct xd_server *s = arg;
	int fd = -1, ticket = -1, err;

	close_spares(s);
	err = xd_helper_accept(s->helper, &fd, &ticket);
	if (!open_spares(s) || err == -EMFILE) {
		refuse_client(s, fd, ticket);
	} else if (!err) {
		add_client(s, fd, ticket);
	} else if (err == -EPIPE || err == -ECONNRESET) {
		xd_log(XD_ERR, "the helper process has ended");
		s->helper_ended = true;
		xd_loop_stop(s->dev->loop);
	}
}

/* ---- the socket ------------------------------------------------------------------ */

static int server_listen_at(struct xd_listener *l, const char *path)
{
	mode_t mode = l->group == XD_NO_GROUP ? 0600 : 0660, old;
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int err;

	memcpy(sun.sun_path, path, sizeof(sun.sun_path));
	l->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (l->fd < 0)
		return -errno;
	old = umask(0177);
	err = bind(l->fd, (struct sockaddr *)&sun, sizeof(sun)) ? -errno : 0;
	umask(old);
	if (err)
		return err;
	l->bound = path;
	if (l->group != XD_NO_GROUP && chown(path, (uid_t)-1, l->group)) {
		err = -errno;
		xd_log(XD_ERR, "group %u: not a group of the user that started xroced", l->group);
		return err;
	}
	return chmod(path, mode) || listen(l->fd, BACKLOG) ? -errno : 0;
}

int xd_listener_open(const struct xd_options *opt, struct xd_listener *l)
{
	int err = xd_group_by_name(opt->group, &l->group);

	if (err)
		return err;
	/* Programs need this device for userfaultfds that also handle faults in kernel mode. */
	l->uffd_dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	/* The device name is locked, so an existing socket was left by a daemon that crashed. */
	if (unlink(opt->socket) && errno != ENOENT)
		err = -errno;
	if (!err)
		err = server_listen_at(l, opt->socket);
	if (err)
		xd_log(XD_ERR, "control socket %s: %s", opt->socket, strerror(-err));
	return err;
}

void xd_listener_close(struct xd_listener *l)
{
	if (l->fd >= 0)
		close(l->fd);
	if (l->bound)
		unlink(l->bound);
	if (l->uffd_dev >= 0)
		close(l->uffd_dev);
	*l = XD_NO_LISTENER;
}

/* ---- start and stop -------------------------------------------------------------- */

static void close_client(struct xd_client *c)
{
	xd_lend_close(c);
	xd_cm_channel_close(c);
	xd_objects_close_client(c);
}

static void end_client(struct xd_client *c)
{
	xd_capture_end(c);
	xd_lend_end(c);
	xd_faults_end(c);
	xd_umad_end(c);
	xd_client_memory_end(c);
}

static const struct xd_client_ops client_ops = {
	.request = xd_dispatch,
	.open = xd_objects_open_client,
	.end = end_client,
	.close = close_client,
};

static struct xd_server *server_new(struct xd_device *dev)
{
	struct xd_server *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->dev = dev;
	s->group = XD_NO_GROUP;
	s->uffd_dev = -1;
	memset(s->spare, 0xff, sizeof(s->spare));
	open_spares(s);
	return s;
}

static void start_mappings(void)
{
	int err = xd_mapping_start();

	if (err)
		xd_log(XD_WARN,
		       "userfaultfd: %s; shared memory of programs is accessed like private "
		       "memory, which is slower",
		       strerror(-err));
}

/* The counters of the port are those of direct contexts, too. */
static void server_add_counters(void *ctx, struct xt_counters *sum)
{
	struct xd_sums sums = { 0 };

	xd_views_sum(ctx, &sums);
	xt_counters_add(sum, &sums.transport);
}

int xd_server_open(struct xd_device *dev, struct xd_server **server)
{
	struct xd_server *s = *server = server_new(dev);
	int err;

	if (!s)
		return -ENOMEM;
	err = xd_objects_start(&s->objects, dev, &client_ops, &xd_cm_id_ops);
	if (!err)
		err = xd_rdma_cm_new(&s->objects);
	if (!err)
		err = xd_fault_times_start(s);
	if (!err)
		err = xd_faults_load(s);
	if (!err)
		err = xd_sigbus_start();
	if (!err) {
		if (dev->gsi)
			xd_gsi_set_counters(dev->gsi, server_add_counters, s);
		xd_umad_start(&s->objects);
		start_mappings();
	}
	return err;
}

static int watch_helper(struct xd_server *s, struct xd_helper *helper)
{
	s->helper = helper;
	s->watch = xd_watch_add(s->dev->loop, xd_helper_fd(helper), EPOLLIN, on_arrival, s);
	return s->watch ? 0 : -ENOMEM;
}

int xd_server_start(struct xd_device *dev, struct xd_helper *helper, struct xd_listener *l,
		    struct xd_server **server)
{
	int err = xd_server_open(dev, server);

	if (!err)
		err = watch_helper(*server, helper);
	if (err) {
		xd_server_stop(*server);
		*server = NULL;
		return err;
	}
	(*server)->group = l->group;
	(*server)->uffd_dev = l->uffd_dev;
	l->uffd_dev = -1;
	return 0;
}

void xd_server_refuse(struct xd_server *s)
{
	xd_watch_del(s->watch);
	s->watch = NULL;
}

bool xd_server_stop(struct xd_server *s)
{
	if (!s)
		return true;
	xd_server_refuse(s);
	if (!xd_objects_stop(&s->objects))
		return false;
	xd_umad_stop(&s->objects);
	if (s->dev->gsi)
		xd_gsi_set_counters(s->dev->gsi, NULL, NULL);
	xd_rdma_cm_free(s->objects.rdma_cm);
	xd_limits_free(&s->objects.clients.limits); /* connections that end were charged to users */
	xd_timer_free(s->capture_timer);
	xd_monitor_stop(s);
	xd_fault_times_stop(s);
	if (s->uffd_dev >= 0)
		close(s->uffd_dev);
	xd_mapping_stop();
	close_spares(s);
	free(s);
	return true;
}
