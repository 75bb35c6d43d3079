// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The protocol of the helper, from a daemon that an attacker has taken over: any bytes with any
 * descriptors, on the daemon's socket and on tickets. One step of the input:
 *
 *   bits 0..1 of the first byte: 0 message to the helper, 1 message by a ticket, 2 close a ticket,
 *                                3 a program connects
 *   bits 2..3: which ticket; bits 4..6: number of descriptors; bit 7: a request of the right length
 *   second byte: length of a message; then the message
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/fd_message.h"
#include "daemon/helper/disconnect.h"
#include "daemon/helper/serve.h"
#include "daemon/helper/solicit.h"
#include "daemon/helper/steer.h"
#include "input.h"

#define TICKETS 4

static struct {
	struct xd_serving helper;
	int sock, listener, ticket[TICKETS], program[TICKETS];
	struct sockaddr_un name;
	socklen_t name_len;
} w;

/* The kernel is left alone. */
int xd_solicit_open(struct xd_solicitor *s)
{
	return 0;
}

void xd_solicit(const struct xd_solicitor *s, const struct xd_helper_request *r)
{
}

int xd_disconnect_open(const char *ifname)
{
	return -EPERM;
}

int xd_steer_start(const char *ifname, unsigned int served, struct xd_steer **steer)
{
	return -EOPNOTSUPP;
}

const char *xd_steer_means(const struct xd_steer *s)
{
	return "";
}

void xd_steer_stop(struct xd_steer *s)
{
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void run(void)
{
	for (int i = 0; i < 64 && xd_serving_step(&w.helper, 0); i++)
		;
}

/* The kernel chooses an abstract name. */
static void listen_anywhere(void)
{
	struct sockaddr_un any = { .sun_family = AF_UNIX };

	w.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	w.name_len = sizeof(w.name);
	MUST(!bind(w.listener, (struct sockaddr *)&any, sizeof(any.sun_family)) &&
	     !listen(w.listener, TICKETS) &&
	     !getsockname(w.listener, (struct sockaddr *)&w.name, &w.name_len));
}

/* Reads what the helper sent, as a daemon would. */
static void read_arrivals(void)
{
	struct xd_helper_arrival a;
	int fds[XD_ARRIVAL_FDS];
	uint32_t n = XD_ARRIVAL_FDS;

	while (!xd_message_receive(w.sock, &a, sizeof(a), fds, &n, MSG_DONTWAIT)) {
		MUST(!a.status == (n == XD_ARRIVAL_FDS));
		if (n == XD_ARRIVAL_FDS) {
			uint32_t i = 0;

			while (i < TICKETS - 1 && w.ticket[i] >= 0)
				i++;
			close_fd(&w.ticket[i]);
			w.ticket[i] = fds[XD_ARRIVAL_TICKET];
			n--;
		}
		xd_fds_close(fds, n);
		n = XD_ARRIVAL_FDS;
	}
}

static void read_replies(int ticket)
{
	struct xd_helper_reply r;
	uint32_t n = 1;
	int fd;

	while (!xd_message_receive(ticket, &r, sizeof(r), &fd, &n, MSG_DONTWAIT)) {
		MUST(!r.status == (n == 1));
		xd_fds_close(&fd, n);
		n = 1;
	}
}

static void connect_program(uint32_t i)
{
	close_fd(&w.program[i]);
	w.program[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (connect(w.program[i], (struct sockaddr *)&w.name, w.name_len))
		close_fd(&w.program[i]);
}

static void send_message(int sock, uint8_t head, const uint8_t *data, size_t len)
{
	uint8_t request[sizeof(struct xd_helper_request)] = { 0 };
	int fds[7] = { w.listener, 0, 0, 0, 0, 0, 0 };

	if (sock < 0)
		return;
	if (head & 0x80) {
		memcpy(request, data, len < sizeof(request) ? len : sizeof(request));
		data = request;
		len = sizeof(request);
	}
	xd_message_send(sock, data, len, fds, head >> 4 & 7, MSG_DONTWAIT);
}

static void step(const uint8_t **data, size_t *size)
{
	uint8_t head = (*data)[0];
	size_t len = (*data)[1];
	int *ticket = &w.ticket[head >> 2 & 3];

	*data += 2;
	*size -= 2;
	if (len > *size)
		len = *size;
	switch (head & 3) {
	case 0:
		send_message(w.sock, head, *data, len);
		break;
	case 1:
		send_message(*ticket, head, *data, len);
		break;
	case 2:
		close_fd(ticket);
		break;
	default:
		connect_program(head >> 2 & 3);
		break;
	}
	*data += len;
	*size -= len;
	run();
	read_arrivals();
	for (int i = 0; i < TICKETS; i++)
		if (w.ticket[i] >= 0)
			read_replies(w.ticket[i]);
}

/* Threads may still work on requests. */
static void end_helper(void)
{
	struct xd_serving *s = &w.helper;

	while (s->programs)
		xd_serving_step(s, 10);
	close_fd(&s->sock);
	close_fd(&s->signals);
	close_fd(&s->spare);
	close_fd(&s->epoll);
	for (int i = 0; i < XD_TAKE_FDS; i++)
		close_fd(&s->taken[i]);
	for (int i = 0; i < XD_HELPER_SLOTS; i++)
		close_fd(&s->lent[i].sock);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int pair[2];

	memset(w.ticket, 0xff, sizeof(w.ticket));
	memset(w.program, 0xff, sizeof(w.program));
	MUST(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	w.sock = pair[0];
	listen_anywhere();
	MUST(!xd_serving_open(&w.helper, pair[1], "none"));
	while (size >= 2)
		step(&data, &size);
	for (int i = 0; i < TICKETS; i++) {
		close_fd(&w.ticket[i]);
		close_fd(&w.program[i]);
	}
	close_fd(&w.sock);
	close_fd(&w.listener);
	end_helper();
	return 0;
}
