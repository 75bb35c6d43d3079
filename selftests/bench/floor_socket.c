// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A stream of datagrams through UDP sockets, which the kernel segments and joins, see floor.c */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../lib/clock.h"
#include "daemon/transport/base/crc.h"
#include "daemon/base/segmentation.h"
#include "floor.h"

#define PORT 4791
#define BTH 12 /* bytes of a packet before the payload; the first 8 are its number */
#define MAX_DATAGRAM (UINT16_MAX - 28)
#define MAX_PACKETS 64
#define WINDOW_MESSAGES 4 /* of 64 KiB without acknowledgement */
#define BUFFER (8 << 20)  /* as of the daemon */

struct side {
	int fd;
	uint32_t payload, memory_size;
	uint32_t packets; /* of a message, at most */
	uint64_t count;	  /* packets that were sent, or received */
	uint64_t acked;
	uint8_t *memory, *buffer;
	struct sockaddr_in peer;
};

static uint32_t packet_size(const struct side *s)
{
	return BTH + s->payload + CRC_SIZE;
}

static uint8_t *place(const struct side *s, uint64_t number)
{
	return s->memory + number * s->payload % s->memory_size;
}

/* ---- sockets --------------------------------------------------------------------------------- */

void floor_enter(const char *netns)
{
	int fd = open(netns, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || setns(fd, 0))
		raw_die(netns, errno);
	close(fd);
}

uint32_t floor_address(int fd, const char *ifname)
{
	struct ifreq ifr = { 0 };

	strncpy(ifr.ifr_name, ifname, sizeof(ifr.ifr_name) - 1);
	if (ioctl(fd, SIOCGIFADDR, &ifr))
		raw_die(ifname, errno);
	return ((struct sockaddr_in *)(void *)&ifr.ifr_addr)->sin_addr.s_addr;
}

static void open_side(struct side *s, char **where, int index)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int on = 1, size = BUFFER;

	floor_enter(where[0]);
	s->memory = new_memory(s->memory_size);
	s->buffer = new_memory(1 << 16);
	s->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (s->fd < 0 || setsockopt(s->fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on)) ||
	    setsockopt(s->fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) ||
	    setsockopt(s->fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) ||
	    bind(s->fd, (struct sockaddr *)&any, sizeof(any)))
		raw_die("UDP socket", errno);
	shared->address[index] = floor_address(s->fd, where[1]);
}

/* After both sides are open. */
static void know_peer(struct side *s, int index)
{
	s->peer = (struct sockaddr_in){ .sin_family = AF_INET,
					.sin_port = htons(PORT),
					.sin_addr.s_addr = shared->address[!index] };
}

/* ---- sender ---------------------------------------------------------------------------------- */

static void build_packet(const struct side *s, uint64_t number, uint8_t *to)
{
	uint32_t crc;

	memcpy(to, &number, sizeof(number));
	memcpy(to + BTH, place(s, number), s->payload);
	crc = xt_crc32(0, to, BTH + s->payload);
	memcpy(to + BTH + s->payload, &crc, CRC_SIZE);
}

static void send_message(struct side *s)
{
	uint16_t size = (uint16_t)packet_size(s);
	struct iovec iov = { s->buffer, (size_t)size * s->packets };
	uint8_t control[CMSG_SPACE(sizeof(size))] __attribute__((aligned(8))) = { 0 };
	struct msghdr msg = {
		.msg_name = &s->peer,
		.msg_namelen = sizeof(s->peer),
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = IPPROTO_UDP;
	c->cmsg_type = UDP_SEGMENT;
	c->cmsg_len = CMSG_LEN(sizeof(size));
	memcpy(CMSG_DATA(c), &size, sizeof(size));
	for (uint32_t i = 0; i < s->packets; i++)
		build_packet(s, s->count + i, s->buffer + (size_t)i * size);
	if (sendmsg(s->fd, &msg, 0) < 0)
		raw_die("send a message", errno);
	s->count += s->packets;
	shared->repeat.frames++;
}

static void send_all(struct side *s)
{
	uint32_t window = WINDOW_MESSAGES * (MESSAGE / s->payload);
	uint64_t acked;

	while (running()) {
		while (recv(s->fd, &acked, sizeof(acked), MSG_DONTWAIT) == sizeof(acked))
			s->acked = acked;
		store(&shared->completed.word, s->acked * s->payload / MESSAGE);
		if (s->count - s->acked + s->packets <= window)
			send_message(s);
		else
			sched_yield();
	}
}

/* ---- receiver -------------------------------------------------------------------------------- */

/* Nothing is lost: the window is smaller than the buffer of the socket. */
static void take(struct side *s, uint32_t len)
{
	uint32_t size = packet_size(s), crc;
	const uint8_t *p = s->buffer;

	for (; len >= size; len -= size, p += size) {
		memcpy(&crc, p + BTH + s->payload, CRC_SIZE);
		if (memcmp(p, &s->count, sizeof(s->count)))
			raw_die("a packet is missing", EBADMSG);
		if (xt_crc32(0, p, BTH + s->payload) != crc)
			raw_die("CRC of a packet", EBADMSG);
		memcpy(place(s, s->count), p + BTH, s->payload);
		s->count++;
	}
}

static void receive_for(struct side *s, uint64_t duration)
{
	uint64_t until = now_ns() + duration;
	ssize_t n;

	while (now_ns() < until) {
		n = recv(s->fd, s->buffer, 1 << 16, MSG_DONTWAIT);
		if (n <= 0) {
			sched_yield();
			continue;
		}
		take(s, (uint32_t)n);
		sendto(s->fd, &s->count, sizeof(s->count), 0, (struct sockaddr *)&s->peer,
		       sizeof(s->peer));
	}
}

/* ---- both ------------------------------------------------------------------------------------ */

void floor_socket(char **where, uint64_t duration, char **args)
{
	struct side s = {
		.payload = (uint32_t)atoi(args[0]),
		.memory_size = (uint32_t)atoi(args[1]),
	};
	uint64_t begin;
	pid_t sender;
	int index;

	if (!s.payload || s.payload > MAX_DATAGRAM / 2 || MESSAGE % s.payload)
		raw_die(args[0], EINVAL);
	if (!s.memory_size || s.memory_size % MESSAGE)
		raw_die(args[1], EINVAL);
	s.packets = MAX_DATAGRAM / packet_size(&s);
	s.packets = s.packets < MAX_PACKETS ? s.packets : MAX_PACKETS;
	sender = new_process();
	index = !sender;
	open_side(&s, where + 2 * index, index);
	raw_take_cpu(sender ? 1 : 0);
	raw_wait_for_peers(&shared->control, 2, sender);
	know_peer(&s, index);
	if (!sender) {
		send_all(&s);
		floor_end(SENDER);
	}
	floor_program();
	begin = now_ns();
	receive_for(&s, duration);
	floor_report(s.count, packet_size(&s), now_ns() - begin);
}
