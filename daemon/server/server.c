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
#include "daemon/base/loop.h"
#include "daemon/base/options.h"
#include "daemon/memory/mapping.h"
#include "daemon/memory/sigbus.h"

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
static bool may_connect(const struct xd_server *s, int fd, struct ucred *cred)
{
	socklen_t len = sizeof(*cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, cred, &len))
		return false;
	return !cred->uid || cred->uid == geteuid() || in_group(fd, cred, s->group);
}

static void add_client(struct xd_server *s, int fd)
{
	struct xd_clients *clients = &s->objects.clients;
	struct ucred cred = { 0 };
	struct xd_client *c;

	if (!may_connect(s, fd, &cred)) {
		xd_log(XD_NOTICE, "uid %u (pid %d) may not connect", cred.uid, cred.pid);
		xd_connection_refuse(fd, -EACCES, "");
		return;
	}
	c = xd_client_new(clients, fd);
	if (c)
		xd_log(XD_DEBUG, "client %u: %s, pid %d, uid %u", c->id, c->identity.comm,
		       c->identity.pid, c->identity.uid);
}

/* Refusing a connection needs a descriptor, too: frees the spare one for that. */
static void refuse_client(struct xd_server *s)
{
	int fd;

	xd_log(XD_WARN, "a client was refused: out of file descriptors");
	close(s->spare_fd);
	fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		xd_connection_refuse(fd, -EMFILE, "no descriptor of LimitNOFILE is free");
	s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void on_listen(void *arg, uint32_t events)
{
	struct xd_server *s = arg;
	int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0)
		add_client(s, fd);
	else if ((errno == EMFILE || errno == ENFILE) && s->spare_fd >= 0)
		refuse_client(s);
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
	/* The device name is locked, so an existing socket was left by a daemon that crashed. */
	if (unlink(path) && errno != ENOENT)
		err = -errno;
	if (!err)
		err = listen_at(s, path);
	if (err)
		xd_log(XD_ERR, "control socket %s: %s", path, strerror(-err));
	return err;
}

/* ---- start and stop -------------------------------------------------------------- */

static const struct xd_client_ops client_ops = {
	.request = xd_dispatch,
	.open = xd_objects_open_client,
	.end = xd_client_memory_end,
	.close = xd_objects_close_client,
};

static struct xd_server *server_new(struct xd_device *dev)
{
	struct xd_server *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->dev = dev;
	s->listen_fd = -1;
	s->fault = dev->opt->fault;
	s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	/* Programs need this device for userfaultfds that also handle faults in kernel mode. */
	s->uffd_dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
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

int xd_server_open(struct xd_device *dev, struct xd_server **server)
{
	struct xd_server *s = *server = server_new(dev);
	int err;

	if (!s)
		return -ENOMEM;
	err = xd_objects_start(&s->objects, dev, &client_ops);
	if (!err)
		err = xd_sigbus_start();
	if (!err)
		start_mappings();
	return err;
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

void xd_server_refuse(struct xd_server *s)
{
	xd_watch_del(s->watch);
	s->watch = NULL;
	if (s->listen_fd >= 0)
		close(s->listen_fd);
	s->listen_fd = -1;
	if (s->bound)
		unlink(s->bound);
	s->bound = NULL;
}

bool xd_server_stop(struct xd_server *s)
{
	if (!s)
		return true;
	xd_server_refuse(s);
	if (!xd_objects_stop(&s->objects))
		return false;
	if (s->spare_fd >= 0)
		close(s->spare_fd);
	if (s->uffd_dev >= 0)
		close(s->uffd_dev);
	xd_mapping_stop();
	free(s);
	return true;
}
