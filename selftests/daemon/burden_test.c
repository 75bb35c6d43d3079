// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What one client may burden the daemon with: descriptors */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control.h"

/* ---- descriptors whose close() hangs ----------------------------------------------- */

/* A TCP connection within this program; -1: there is no loopback. */
static int connect_loopback(int *peer)
{
	struct sockaddr_in lo = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(lo);

	*peer = -1;
	if (!bind(listener, (struct sockaddr *)&lo, sizeof(lo)) && !listen(listener, 1) &&
	    !getsockname(listener, (struct sockaddr *)&lo, &len) &&
	    !connect(fd, (struct sockaddr *)&lo, sizeof(lo)))
		*peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	close(listener);
	if (*peer >= 0)
		return fd;
	close(fd);
	return -1;
}

/* Who closes it last waits until the peer has taken the data, or for ten minutes. */
static int lingering_socket(int *peer)
{
	struct linger linger = { .l_onoff = 1, .l_linger = 600 };
	static char data[1 << 16];
	int fd = connect_loopback(peer);

	if (fd < 0)
		return -1;
	MUST(!setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)));
	while (send(fd, data, sizeof(data), MSG_DONTWAIT) > 0)
		;
	return fd;
}

/* Descriptors that nobody wants, with each message; false: the daemon takes no more of them. */
static bool flood(struct conn *c)
{
	struct xr_msg head = { .type = XR_MSG_ALLOC_PD, .seq = ++c->seq };
	int fds[XR_MSG_MAX_FDS];
	uint32_t i;

	for (i = 0; i < XR_MSG_MAX_FDS; i++)
		fds[i] = c->fd;
	send_raw(c, &head, sizeof(head), fds, XR_MSG_MAX_FDS);
	settle();
	return answer(c) == -EINVAL;
}

static void test_close_that_hangs(void)
{
	struct xr_msg head = { .type = XR_MSG_ALLOC_PD };
	int before = open_fds(), fd, peer, i;
	struct conn hostile, other;

	fd = lingering_socket(&peer);
	if (fd < 0) {
		tap_skip("a descriptor whose close() hangs", "no loopback interface");
		return;
	}
	open_client(&other);
	connect_client(&hostile);
	MUST(!hello(&hostile, XR_HELLO_OBSERVER));
	job_hangs = true;
	head.seq = ++hostile.seq;
	send_raw(&hostile, &head, sizeof(head), &fd, 1);
	close(fd);
	settle();
	MUST(answer(&hostile) == -EINVAL);
	for (i = 0; i < 20 && flood(&hostile); i++)
		;
	TAP_OK(i < 20, "who makes a close() hang sends no more descriptors");
	TAP_OK(!ask(&other, XR_MSG_ALLOC_PD, NULL, 0), "others are served");
	close(peer);
	job_hangs = false;
	settle();
	disconnect(&hostile);
	close_client(&other);
	TAP_OK(nothing_left() && open_fds() == before, "nothing is left");
}

int main(void)
{
	start_server("burden");
	test_close_that_hangs();
	xd_server_stop(&fake.dev);
	return tap_end();
}
