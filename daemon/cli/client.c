// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* One daemon's control socket, as an observer: <xroce/control.h>. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli.h"

#define TIMEOUT_S 10
#define TEXT_MAX                                                                                   \
	(2u << 30) /* eight million regions, the most that a device may have, take 1.5 GB */

static int dial(struct cli_client *c)
{
	struct timeval tv = { TIMEOUT_S, 0 };
	struct sockaddr_un sun = { .sun_family = AF_UNIX };

	if (strlen(c->path) >= sizeof(sun.sun_path))
		return -ENAMETOOLONG;
	strcpy(sun.sun_path, c->path);
	c->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		return -errno;
	setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	if (connect(c->fd, (struct sockaddr *)&sun, sizeof(sun)))
		return -errno;
	return 0;
}

static int send_request(struct cli_client *c, uint32_t type, const void *req, size_t len)
{
	struct xr_msg head = { .type = type, .seq = ++c->seq, .length = (uint32_t)len };
	struct iovec iov[2] = { { &head, sizeof(head) }, { (void *)req, len } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };

	return sendmsg(c->fd, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int received_fd(struct msghdr *msg)
{
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg);
	int fd;

	if (!cmsg || cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
		return -1;
	memcpy(&fd, CMSG_DATA(cmsg), sizeof(fd));
	return fd;
}

/* rep is filled as far as the daemon's answer goes; *fd is -1 where none came. */
static int call(struct cli_client *c, uint32_t type, const void *req, size_t req_len, void *rep,
		size_t rep_len, int *fd)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct xr_msg head;
	struct iovec iov[2] = { { &head, sizeof(head) }, { rep, rep_len } };
	struct msghdr msg = {
		.msg_iov = iov,
		.msg_iovlen = rep_len ? 2 : 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n;
	int err, got;

	err = send_request(c, type, req, req_len);
	if (err)
		return err;
	n = recvmsg(c->fd, &msg, MSG_CMSG_CLOEXEC);
	if (n < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	got = received_fd(&msg);
	if (n == 0)
		err = -ECONNRESET;
	else if ((size_t)n < sizeof(head) || head.type != type || head.seq != c->seq)
		err = -EPROTO;
	else
		err = head.status;
	if (!err && fd) {
		*fd = got;
		return 0;
	}
	if (got >= 0)
		close(got);
	return err;
}

int cli_client_open(struct cli_client *c, const struct cli *cli, const char *device)
{
	struct xr_hello_req req = { .version = XR_PROTOCOL_VERSION, .flags = XR_HELLO_OBSERVER };
	int n, err;

	memset(c, 0, sizeof(*c));
	c->fd = -1;
	snprintf(c->device, sizeof(c->device), "%s", device);
	n = snprintf(c->path, sizeof(c->path), "%s/%s" XR_SOCKET_SUFFIX, cli->runtime_dir, device);
	if (n < 0 || (size_t)n >= sizeof(c->path))
		return -ENAMETOOLONG;
	if (!*device || strchr(device, '/') || strlen(device) > XR_DEVICE_NAME_MAX)
		return -ENOENT;
	err = dial(c);
	if (!err)
		err = call(c, XR_MSG_HELLO, &req, sizeof(req), &c->hello, sizeof(c->hello), NULL);
	if (!err && c->hello.version != XR_PROTOCOL_VERSION)
		err = -EPROTO;
	c->hello.device[sizeof(c->hello.device) - 1] = 0;
	c->hello.netdev[sizeof(c->hello.netdev) - 1] = 0;
	return err;
}

void cli_client_close(struct cli_client *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

static int read_all(int fd, char **text)
{
	struct stat st;
	char *buf;
	size_t at = 0;
	ssize_t n;

	if (fstat(fd, &st))
		return -errno;
	if (st.st_size < 0 || st.st_size > TEXT_MAX)
		return -EFBIG;
	buf = malloc((size_t)st.st_size + 1);
	if (!buf)
		return -ENOMEM;
	while (at < (size_t)st.st_size) {
		n = pread(fd, buf + at, (size_t)st.st_size - at, (off_t)at);
		if (n <= 0) {
			free(buf);
			return n ? -errno : -EPROTO;
		}
		at += (size_t)n;
	}
	buf[at] = 0;
	*text = buf;
	return 0;
}

int cli_client_show(struct cli_client *c, uint32_t what, char **text)
{
	struct xr_show_req req = { .what = what };
	struct xr_show_rep rep = { 0 };
	int fd = -1;
	int err = call(c, XR_MSG_SHOW, &req, sizeof(req), &rep, sizeof(rep), &fd);

	if (err)
		return err;
	if (fd < 0)
		return -EPROTO;
	err = read_all(fd, text);
	close(fd);
	return err;
}

int cli_client_set_fault(struct cli_client *c, const struct xr_fault_config *config)
{
	return call(c, XR_MSG_SET_FAULT, config, sizeof(*config), NULL, 0, NULL);
}

int cli_client_explain(const struct cli_client *c, const char *doing, int err)
{
	switch (err) {
	case 0:
		return CLI_OK;
	case -ENOENT:
		return cli_error("no device '%s': there is no %s", c->device, c->path);
	case -ECONNREFUSED:
		return cli_error("%s: its daemon is gone, nobody listens on %s", c->device,
				 c->path);
	case -EACCES:
	case -ECONNRESET: /* the daemon looked at our credentials */
	case -EPIPE:
		return cli_error("%s: you may not connect to %s; are you in its group?", c->device,
				 c->path);
	case -EPERM:
		return cli_error("%s: %s is for root and the daemon's own user", c->device, doing);
	case -EPROTO:
		return cli_error("%s: %s: the daemon speaks another version of the protocol",
				 c->device, doing);
	default:
		return cli_error("%s: %s: %s", c->device, doing, strerror(-err));
	}
}
