// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A kernel with rdma_cm, for programs that preload this library after libxroce.so. The device file
 * opens while the variable FAKE_KERNEL names the control socket of a fake daemon, which executes
 * the commands.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <rdma/rdma_user_cm.h>
#include <xroce/control.h>

#include "../lib/fds.h"

#define EXPORT __attribute__((visibility("default")))
#define FILES 16
#define DEVICE "/dev/infiniband/rdma_cm"

static struct file {
	int fd; /* that the program has: readable while there are events; 0: unused */
	int socket;
	uint8_t token[XR_TOKEN_LEN];
} files[FILES];

static struct file *find(int fd)
{
	struct file *f;

	for (f = files; f < files + FILES; f++) {
		if (fd > 0 && f->fd == fd)
			return f;
	}
	return NULL;
}

static int open_device(const char *path)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	char control[CMSG_SPACE(XR_MSG_MAX_FDS * sizeof(int))];
	struct {
		struct xr_msg head;
		struct xr_hello_req req;
	} hello = { { XR_MSG_HELLO, 0, 1, sizeof(hello.req) },
		    { XR_PROTOCOL_VERSION, XR_HELLO_CM, { 0 } } };
	struct {
		struct xr_msg head;
		struct xr_hello_rep rep;
	} reply;
	struct iovec iov = { &reply, sizeof(reply) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	struct file *f;

	for (f = files; f->fd; f++)
		;
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", path);
	f->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (connect(f->socket, (struct sockaddr *)&sun, sizeof(sun)) ||
	    send(f->socket, &hello, sizeof(hello), 0) < 0 || recvmsg(f->socket, &msg, 0) < 0 ||
	    received_fds(&msg, &f->fd) != 1)
		abort();
	memcpy(f->token, reply.rep.token, sizeof(f->token));
	return f->fd;
}

static int open_any(const char *name, const char *path, int flags, mode_t mode)
{
	int (*next)(const char *, int, ...) = dlsym(RTLD_NEXT, name);
	const char *kernel = getenv("FAKE_KERNEL");

	return kernel && !strcmp(path, DEVICE) ? open_device(kernel) : next(path, flags, mode);
}

#define OPEN(name)                                                                                 \
	EXPORT int name(const char *path, int flags, ...)                                          \
	{                                                                                          \
		mode_t mode = 0;                                                                   \
		va_list ap;                                                                        \
                                                                                                   \
		if (flags & O_CREAT) {                                                             \
			va_start(ap, flags);                                                       \
			mode = va_arg(ap, mode_t);                                                 \
			va_end(ap);                                                                \
		}                                                                                  \
		return open_any(#name, path, flags, mode);                                         \
	}
OPEN(open)
OPEN(open64)

/* Commands that have no response are 0. */
static int response_at(uint32_t cmd)
{
	switch (cmd) {
	case RDMA_USER_CM_CMD_CREATE_ID:
		return offsetof(struct rdma_ucm_create_id, response);
	case RDMA_USER_CM_CMD_DESTROY_ID:
	case RDMA_USER_CM_CMD_GET_EVENT:
	case RDMA_USER_CM_CMD_JOIN_MCAST:
	case RDMA_USER_CM_CMD_LEAVE_MCAST:
	case RDMA_USER_CM_CMD_MIGRATE_ID:
	case RDMA_USER_CM_CMD_QUERY:
		return 0;
	default:
		return -1;
	}
}

static ssize_t command(struct file *f, const struct rdma_ucm_cmd_hdr *head, size_t len)
{
	const struct rdma_ucm_migrate_id *migrate = (const void *)(head + 1);
	const struct rdma_ucm_set_option *option = (const void *)(head + 1);
	struct {
		struct xr_msg head;
		struct xr_cm_req req;
		uint8_t data[2048];
	} m = { .head = { XR_MSG_CM, 0, 2, 0 }, .req = { head->cmd, head->in, head->out } };
	struct {
		struct xr_msg head;
		uint8_t data[8192];
	} rep;
	int at = response_at(head->cmd);
	size_t extra = 0;
	uint64_t response;
	ssize_t n;

	memcpy(m.data, head + 1, head->in);
	if (head->cmd == RDMA_USER_CM_CMD_SET_OPTION) {
		extra = option->optlen;
		memcpy(m.data + head->in, (void *)(uintptr_t)option->optval, extra);
	}
	if (head->cmd == RDMA_USER_CM_CMD_MIGRATE_ID) {
		extra = XR_TOKEN_LEN;
		memcpy(m.data + head->in, find(migrate->fd)->token, extra);
	}
	m.head.length = sizeof(m.req) + head->in + extra;
	if (send(f->socket, &m, sizeof(m.head) + m.head.length, MSG_NOSIGNAL) < 0)
		return -1;
	n = recv(f->socket, &rep, sizeof(rep), 0);
	if (n < (ssize_t)sizeof(rep.head) || rep.head.status) {
		errno = n > 0 ? -rep.head.status : EIO;
		return -1;
	}
	if (at >= 0) {
		memcpy(&response, m.data + at, sizeof(response));
		memcpy((void *)(uintptr_t)response, rep.data, n - sizeof(rep.head));
	}
	return len;
}

EXPORT ssize_t write(int fd, const void *data, size_t len)
{
	ssize_t (*next)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
	struct file *f = find(fd);

	return f ? command(f, data, len) : next(fd, data, len);
}

EXPORT int close(int fd)
{
	int (*next)(int) = dlsym(RTLD_NEXT, "close");
	struct file *f = find(fd);

	if (f) {
		f->fd = 0;
		next(f->socket);
	}
	return next(fd);
}
