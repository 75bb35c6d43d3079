// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The socket of a slot after a borrower has had it: it receives as a new one does, packets that
 * left in one message joined. In a network namespace of its own.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <xroce/wire.h>

#include "daemon/base/log.h"
#include "daemon/base/privileges.h"
#include "daemon/base/segmentation.h"
#include "daemon/udp/udp.h"
#include "selftests/lib/loopback.h"
#include "selftests/lib/tap.h"

#define SEGMENT 100
#define SEGMENTS 4

static bool ipv6;
static int rx, tx;

void xd_log_at(struct xd_log_site *site, enum xd_log_level level, const char *fmt, ...)
{
	(void)site;
	(void)level;
	(void)fmt;
}

static int set(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value));
}

static bool start(void)
{
	const struct xd_udp_place any = { 0 };
	struct sockaddr_in6 to6 = { .sin6_family = AF_INET6,
				    .sin6_port = htons(XR_UDP_PORT),
				    .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr_in to4 = { .sin_family = AF_INET,
				   .sin_port = htons(XR_UDP_PORT),
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const void *to = ipv6 ? (void *)&to6 : (void *)&to4;

	rx = xd_udp_open_rx(ipv6, &any, true, false);
	tx = socket(ipv6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return rx >= 0 && tx >= 0 && !connect(tx, to, ipv6 ? sizeof(to6) : sizeof(to4)) &&
	       !set(tx, IPPROTO_UDP, UDP_SEGMENT, SEGMENT);
}

static void end(void)
{
	close(rx);
	close(tx);
}

/* Sends SEGMENTS packets as one message, and returns the bytes of the first one that arrives. */
static ssize_t receive(void)
{
	static uint8_t packets[SEGMENT * SEGMENTS], received[sizeof(packets)];
	ssize_t n;

	if (send(tx, packets, sizeof(packets), 0) != (ssize_t)sizeof(packets))
		return -errno;
	n = recv(rx, received, sizeof(received), MSG_DONTWAIT);
	while (recv(rx, received, sizeof(received), MSG_DONTWAIT) >= 0)
		;
	return n;
}

/* A timestamp takes the room of what the daemon asks for. */
static bool has_timestamp(void)
{
	uint8_t packet[SEGMENT] = { 0 }, control[512];
	struct iovec iov = { packet, sizeof(packet) };
	struct msghdr m = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *c;

	if (send(tx, packet, sizeof(packet), 0) != SEGMENT || recvmsg(rx, &m, 0) != SEGMENT)
		return true;
	for (c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
		if (c->cmsg_level == SOL_SOCKET)
			return true;
	return false;
}

static void check(const char *what)
{
	ssize_t n;

	TAP_OK(!xd_udp_reset_rx(rx, ipv6, xd_udp_receive_buffer(rx)), "IPv%d: reset after %s",
	       ipv6 ? 6 : 4, what);
	n = receive();
	TAP_OK(n == SEGMENT * SEGMENTS, "IPv%d: packets of a message arrive as one (%zd bytes)",
	       ipv6 ? 6 : 4, n);
}

static void test_version(void)
{
	if (!TAP_OK(start(), "IPv%d: sockets: %s", ipv6 ? 6 : 4, strerror(errno)))
		return;
	TAP_OK(receive() == SEGMENT * SEGMENTS, "IPv%d: packets of a message arrive as one",
	       ipv6 ? 6 : 4);
	check("a borrower that changed nothing");
	check("another one");
	TAP_OK(!set(rx, IPPROTO_UDP, UDP_GRO, 0) && receive() == SEGMENT,
	       "a borrower may receive them one by one");
	check("that");
	TAP_OK(!set(rx, SOL_SOCKET, SO_PEEK_OFF, 0) && !set(rx, SOL_SOCKET, SO_TIMESTAMP, 1),
	       "a borrower changes other options");
	check("that");
	TAP_OK(!has_timestamp(), "a message has no timestamp");
	end();
}

int main(void)
{
	if (!own_loopback()) {
		printf("1..0 # SKIP no network namespace: %s\n", strerror(errno));
		return 77;
	}
	test_version();
	ipv6 = xd_udp_has_ipv6();
	if (ipv6)
		test_version();
	return tap_end();
}
