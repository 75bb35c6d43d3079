// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Words that two programs exchange through sockets, which they poll, see floor.c */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../lib/clock.h"
#include "daemon/transport/base/crc.h"
#include "floor.h"
#include "times.h"

#define PORT 4791
#define BTH 12
#define WRITE_HEADERS (BTH + 16) /* and RETH */
#define WRITE_SIZE (WRITE_HEADERS + sizeof(uint64_t) + CRC_SIZE)
#define ACK_PACKET (BTH + 4 + CRC_SIZE)
#define BATCH 4 /* datagrams of a call: more than arrive */

struct end {
	int in, out; /* the same socket with TCP */
	struct sockaddr_in peer;
	uint64_t acked, received;
	uint64_t *memory; /* the word that the peer writes */
	uint8_t buffer[BATCH][64];
};

/* ---- UDP ------------------------------------------------------------------------------------- */

static int udp_socket(uint16_t port)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&any, sizeof(any)))
		raw_die("UDP socket", errno);
	return fd;
}

/* As a transport does: the source port is not that to which packets go. */
static void open_udp(struct end *e, unsigned me)
{
	e->in = udp_socket(PORT);
	e->out = udp_socket(0);
	e->memory = (uint64_t *)(void *)new_memory(4096);
}

static struct iovec packet(uint8_t *to, uint64_t number, size_t size)
{
	uint32_t crc;

	memcpy(to, &number, sizeof(number));
	crc = xt_crc32(0, to, (uint32_t)(size - CRC_SIZE));
	memcpy(to + size - CRC_SIZE, &crc, CRC_SIZE);
	return (struct iovec){ to, size };
}

/* The ACK of the last word precedes the word, which the peer may answer then. */
static void send_udp(struct end *e, uint64_t word)
{
	static uint8_t ack[ACK_PACKET], write_packet[WRITE_SIZE];
	struct iovec iov[2];
	struct mmsghdr msg[2];
	unsigned n = 0;

	if (e->received)
		iov[n++] = packet(ack, e->received, sizeof(ack));
	memcpy(write_packet + WRITE_HEADERS, &word, sizeof(word));
	iov[n++] = packet(write_packet, word, sizeof(write_packet));
	for (unsigned i = 0; i < n; i++)
		msg[i].msg_hdr = (struct msghdr){ .msg_name = &e->peer,
						  .msg_namelen = sizeof(e->peer),
						  .msg_iov = &iov[i],
						  .msg_iovlen = 1 };
	if (sendmmsg(e->out, msg, n, 0) != (int)n)
		raw_die("send", errno);
}

static void take(struct end *e, const uint8_t *p, size_t len)
{
	uint32_t crc;
	uint64_t number;

	if (len != WRITE_SIZE && len != ACK_PACKET)
		raw_die("length of a packet", EBADMSG);
	memcpy(&crc, p + len - CRC_SIZE, CRC_SIZE);
	if (xt_crc32(0, p, (uint32_t)(len - CRC_SIZE)) != crc)
		raw_die("CRC of a packet", EBADMSG);
	memcpy(&number, p, sizeof(number));
	if (len == ACK_PACKET) {
		e->acked = number;
		return;
	}
	memcpy(e->memory, p + WRITE_HEADERS, sizeof(*e->memory));
	e->received = number;
}

static void poll_udp(struct end *e)
{
	struct iovec iov[BATCH];
	struct mmsghdr msg[BATCH];
	int n;

	for (int i = 0; i < BATCH; i++) {
		iov[i] = (struct iovec){ e->buffer[i], sizeof(e->buffer[i]) };
		msg[i].msg_hdr = (struct msghdr){ .msg_iov = &iov[i], .msg_iovlen = 1 };
	}
	n = recvmmsg(e->in, msg, BATCH, MSG_DONTWAIT, NULL);
	for (int i = 0; i < n; i++)
		take(e, e->buffer[i], msg[i].msg_len);
}

/* Returns whether the peer has written that word, and has acknowledged the one before it. */
static bool receive_udp(struct end *e, uint64_t word, uint64_t sent)
{
	poll_udp(e);
	return load(e->memory) == word && e->acked == sent;
}

/* ---- TCP ------------------------------------------------------------------------------------- */

static void open_tcp(struct end *e, unsigned me)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int on = 1;

	e->in = e->out = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (e->in < 0 || setsockopt(e->in, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) ||
	    setsockopt(e->in, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)))
		raw_die("TCP socket", errno);
	if (me && (bind(e->in, (struct sockaddr *)&any, sizeof(any)) || listen(e->in, 1)))
		raw_die("listen", errno);
}

static void connect_tcp(struct end *e, unsigned me)
{
	int listener = e->in;

	if (!me) {
		if (connect(e->in, (struct sockaddr *)&e->peer, sizeof(e->peer)))
			raw_die("connect", errno);
		return;
	}
	/* it inherits TCP_NODELAY */
	e->in = e->out = accept(listener, NULL, NULL);
	if (e->in < 0)
		raw_die("accept", errno);
	close(listener);
}

static void send_tcp(struct end *e, uint64_t word)
{
	if (send(e->out, &word, sizeof(word), MSG_NOSIGNAL) != sizeof(word) && running())
		raw_die("send", errno);
}

static bool receive_tcp(struct end *e, uint64_t word, uint64_t sent)
{
	uint64_t got;

	return recv(e->in, &got, sizeof(got), MSG_DONTWAIT) == sizeof(got) && got == word;
}

/* ---- both ------------------------------------------------------------------------------------ */

static const struct kind {
	void (*open)(struct end *e, unsigned me);
	void (*connect)(struct end *e, unsigned me); /* after both are open; NULL: nothing to do */
	void (*send)(struct end *e, uint64_t word);
	bool (*receive)(struct end *e, uint64_t word, uint64_t sent);
} udp = { open_udp, NULL, send_udp, receive_udp },
  tcp = { open_tcp, connect_tcp, send_tcp, receive_tcp };

/* Returns false at the end. */
static bool wait_for(const struct kind *kind, struct end *e, uint64_t word, uint64_t sent)
{
	while (!kind->receive(e, word, sent))
		if (!running())
			return false;
	return true;
}

static void answer(const struct kind *kind, struct end *e)
{
	for (uint64_t n = 1; wait_for(kind, e, n, n - 1); n++)
		kind->send(e, n);
}

static void ask(const struct kind *kind, struct end *e, uint64_t duration)
{
	struct times times;
	uint64_t until = now_ns() + duration, begin;

	if (!times_new(&times))
		raw_die("memory", ENOMEM);
	for (uint64_t n = 1; (begin = now_ns()) < until; n++) {
		kind->send(e, n);
		wait_for(kind, e, n, n);
		times_add(&times, now_ns() - begin);
	}
	raw_stop(&shared->control);
	times_print(&times);
}

void floor_pingpong(char **where, uint64_t duration, bool by_tcp)
{
	const struct kind *kind = by_tcp ? &tcp : &udp;
	pid_t other = new_process();
	unsigned me = !other;
	struct end e = { 0 };

	floor_enter(where[2 * me]);
	kind->open(&e, me);
	shared->address[me] = floor_address(e.in, where[2 * me + 1]);
	raw_take_cpu(me);
	raw_wait_for_peers(&shared->control, 2, other);
	e.peer = (struct sockaddr_in){ .sin_family = AF_INET,
				       .sin_port = htons(PORT),
				       .sin_addr.s_addr = shared->address[!me] };
	if (kind->connect)
		kind->connect(&e, me);
	if (me) {
		answer(kind, &e);
		_exit(0);
	}
	ask(kind, &e, duration);
	wait_for_all(1);
}
