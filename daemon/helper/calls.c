// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The daemon's side of the protocol */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/fd_message.h"
#include "helper.h"
#include "process.h"
#include "protocol.h"

#define REPLACE_MS 5000

int xd_helper_take(struct xd_helper *h, int listen_fd, int lock_fd, int pins_fd)
{
	struct xd_helper_request r = { .op = XD_HELPER_TAKE };
	int fds[XD_TAKE_FDS] = {
		[XD_TAKE_LISTEN] = listen_fd,
		[XD_TAKE_LOCK] = lock_fd,
		[XD_TAKE_PINS] = pins_fd,
	};

	return xd_message_send(xd_helper_fd(h), &r, sizeof(r), fds,
			       pins_fd < 0 ? XD_TAKE_PINS : XD_TAKE_FDS, 0);
}

void xd_helper_steer(struct xd_helper *h, uint32_t served, uint32_t queues)
{
	struct xd_helper_request r = {
		.op = XD_HELPER_STEER,
		.served = served,
		.queues = queues,
	};

	xd_message_send(xd_helper_fd(h), &r, sizeof(r), NULL, 0, 0);
}

int xd_helper_accept(struct xd_helper *h, int *connection, int *ticket)
{
	struct xd_helper_arrival a;
	int fds[XD_ARRIVAL_FDS], err;
	uint32_t n = XD_ARRIVAL_FDS;

	err = xd_message_receive(xd_helper_fd(h), &a, sizeof(a), fds, &n, MSG_DONTWAIT);
	*connection = *ticket = -1;
	if (n > XD_ARRIVAL_CONNECTION)
		*connection = fds[XD_ARRIVAL_CONNECTION];
	if (n > XD_ARRIVAL_TICKET)
		*ticket = fds[XD_ARRIVAL_TICKET];
	if (err)
		return err;
	return a.status ? a.status : n == XD_ARRIVAL_FDS ? 0 : -EMFILE;
}

/* Does not wait for a helper that is busy: a neighbour is solicited several times anyway. */
void xd_helper_solicit(struct xd_helper *h, uint32_t ifindex, int family, const uint8_t *addr,
		       const uint8_t *mac)
{
	struct xd_helper_request r = {
		.op = XD_HELPER_SOLICIT,
		.ifindex = ifindex,
		.family = (uint32_t)family,
		.local = mac != NULL,
	};

	memcpy(r.addr, addr, family == AF_INET ? 4 : 16);
	if (mac)
		memcpy(r.mac, mac, sizeof(r.mac));
	xd_message_send(xd_helper_fd(h), &r, sizeof(r), NULL, 0, MSG_DONTWAIT);
}

void xd_helper_enlarge(struct xd_helper *h, int udp_socket, uint32_t bytes)
{
	struct xd_helper_request r = { .op = XD_HELPER_ENLARGE, .bytes = bytes };

	xd_message_send(xd_helper_fd(h), &r, sizeof(r), &udp_socket, 1, 0);
}

/* Returns the descriptor of the reply or -errno. */
static int calls_ask(int ticket, const struct xd_helper_request *r)
{
	struct xd_helper_reply rep;
	uint32_t n = 1;
	int fd, err;

	if (ticket < 0)
		return -EOPNOTSUPP;
	err = xd_message_send(ticket, r, sizeof(*r), NULL, 0, 0);
	if (!err)
		err = xd_message_receive(ticket, &rep, sizeof(rep), &fd, &n, 0);
	if (err)
		return err;
	if (!rep.status && n)
		return fd;
	xd_fds_close(&fd, n);
	return rep.status < 0 ? rep.status : -EPROTO;
}

int xd_helper_open_mapped(int ticket, const struct xd_mapped *m, bool write)
{
	return calls_ask(ticket, &(struct xd_helper_request){
					 .op = XD_HELPER_OPEN_MAPPED,
					 .start = m->start,
					 .end = m->end,
					 .dev = m->dev,
					 .inode = m->inode,
					 .write = write,
				 });
}

int xd_helper_ring(int ticket, uint32_t ring, uint32_t slot, const int *fds, uint32_t n,
		   enum xd_ring_step *step)
{
	const struct xd_helper_request r = { .op = XD_HELPER_RING, .ring = ring, .slot = slot };
	struct xd_helper_reply rep;
	uint32_t none = 0;
	int err;

	*step = XD_RING_PREPARE;
	if (ticket < 0)
		return -EOPNOTSUPP;
	err = xd_message_send(ticket, &r, sizeof(r), fds, n, 0);
	if (!err)
		err = xd_message_receive(ticket, &rep, sizeof(rep), NULL, &none, 0);
	if (err)
		return err;
	*step = rep.step;
	return rep.status > 0 ? -EPROTO : rep.status;
}

static int wait_for_reply(int sock)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };
	struct xd_helper_reply rep;
	uint32_t none = 0;
	int err;

	if (poll(&p, 1, REPLACE_MS) <= 0)
		return -ETIMEDOUT;
	err = xd_message_receive(sock, &rep, sizeof(rep), NULL, &none, MSG_DONTWAIT);
	return err ? err : rep.status > 0 ? -EPROTO : rep.status;
}

int xd_helper_replace(struct xd_helper *h, uint32_t slot)
{
	const struct xd_helper_request r = { .op = XD_HELPER_REPLACE, .slot = slot };
	int pair[2], err;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	err = xd_message_send(xd_helper_fd(h), &r, sizeof(r), &pair[1], 1, 0);
	close(pair[1]);
	if (!err)
		err = wait_for_reply(pair[0]);
	close(pair[0]);
	return err;
}
