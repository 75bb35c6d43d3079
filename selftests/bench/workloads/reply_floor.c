// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What no transport over UDP sockets can leave out for the messages of reply.c: a datagram for all
 * messages of a connection that are ready, with the headers of a WRITE with immediate data and a
 * CRC, which the receiver computes again. All connections have one socket; equally long datagrams
 * leave as one message of the kernel, and arrive as one. There are no ACKs, keys, queues or losses.
 *
 * Events: each connection has a descriptor that is readable while it has messages, as a completion
 * channel. The program reads it when it takes them; the first one after a packet is taken by the
 * thread that the packet has woken.
 */
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/transport/base/crc.h"
#include "reply.h"

#define BUFFER 16384u
#define HEADERS 32u /* BTH, RETH, immediate data; the number of the connection is in them */
#define CRC 4u
#define MOST 1200u  /* bytes of a datagram: segments of one message fit into a frame */
#define AT_ONCE 48u /* datagrams of one message */
#define MESSAGES 8u /* of one call that receives */
#define ROOM (64u << 10)
#define SOCKET_BYTES (4 << 20)
#define PACKETS (1ull << 32) /* data of epoll: the UDP socket */
#define LOOKS 4096	     /* polls between looks whether the peer has ended */

struct floor_connection {
	int event;
	bool raised;
	uint32_t in_begin, in_end, out_end;
	uint8_t in[BUFFER] __attribute__((aligned(8)));
	uint8_t out[BUFFER] __attribute__((aligned(8)));
};

struct floor {
	int udp;
	uint32_t looks;
	/* datagrams that are to leave, of this length; the last one may be shorter */
	uint32_t length, count, bytes;
	uint8_t out[ROOM];
	uint8_t in[MESSAGES][ROOM];
	struct floor_connection connection[];
};

static struct floor_connection *floor_of(struct set *s, uint32_t i)
{
	struct floor *f = s->own;

	return &f->connection[i];
}

static void floor_open(struct set *s)
{
	size_t size = sizeof(struct floor) + s->n * sizeof(struct floor_connection);
	struct sockaddr_in any = { .sin_family = AF_INET };
	int on = 1, bytes = SOCKET_BYTES;
	struct floor *f = aligned_alloc(64, (size + 63) / 64 * 64);

	MUST(f && s->options->depth <= BUFFER / MESSAGE, "memory, or depth");
	memset(f, 0, size);
	s->own = f;
	f->udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	MUST(f->udp >= 0 && !bind(f->udp, (struct sockaddr *)&any, sizeof(any)), "UDP socket");
	MUST(!setsockopt(f->udp, IPPROTO_UDP, UDP_GRO, &on, sizeof(on)), "UDP_GRO");
	MUST(!setsockopt(f->udp, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)),
	     "receive buffer");
}

/* The ends tell their ports over the first connection. */
static void connect_udp(struct set *s)
{
	struct floor *f = s->own;
	int sock = s->connection[0].sock;
	struct sockaddr_in own, to = { .sin_family = AF_INET };
	struct sockaddr_in6 peer;
	socklen_t own_len = sizeof(own), peer_len = sizeof(peer);

	MUST(!getsockname(f->udp, (struct sockaddr *)&own, &own_len), "port");
	MUST(!getpeername(sock, (struct sockaddr *)&peer, &peer_len), "peer");
	side_tell(sock, &own.sin_port, sizeof(own.sin_port));
	side_hear(sock, &to.sin_port, sizeof(to.sin_port));
	if (peer.sin6_family == AF_INET)
		to.sin_addr = ((struct sockaddr_in *)&peer)->sin_addr;
	else /* mapped into IPv6 */
		memcpy(&to.sin_addr, &peer.sin6_addr.s6_addr[12], sizeof(to.sin_addr));
	MUST(!connect(f->udp, (struct sockaddr *)&to, sizeof(to)), "connect");
	if (!s->options->events)
		return;
	set_watch(s, f->udp, PACKETS);
}

static void floor_connect(struct set *s, uint32_t i)
{
	struct floor_connection *c = floor_of(s, i);

	if (!i)
		connect_udp(s);
	if (!s->options->events)
		return;
	c->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	MUST(c->event >= 0, "eventfd");
	set_watch(s, c->event, i);
	set_watch(s, s->connection[i].sock, PACKETS + 1 + i);
}

/* ---- send ------------------------------------------------------------------------------------ */

static void push(struct floor *f)
{
	char control[CMSG_SPACE(sizeof(uint16_t))] __attribute__((aligned(8))) = { 0 };
	struct iovec iov = { f->out, f->bytes };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c = (void *)control;
	uint16_t length = (uint16_t)f->length;

	if (!f->count)
		return;
	if (f->count > 1) {
		msg.msg_control = control;
		msg.msg_controllen = sizeof(control);
		c->cmsg_level = IPPROTO_UDP;
		c->cmsg_type = UDP_SEGMENT;
		c->cmsg_len = CMSG_LEN(sizeof(length));
		memcpy(CMSG_DATA(c), &length, sizeof(length));
	}
	MUST(sendmsg(f->udp, &msg, 0) == (ssize_t)f->bytes, "send");
	f->count = f->bytes = 0;
}

static void send_datagram(struct floor *f, uint32_t i, const uint8_t *data, uint32_t len)
{
	uint32_t size = HEADERS + len + CRC, crc;
	uint8_t *at;

	if (f->count && (size > f->length || f->count == AT_ONCE))
		push(f);
	if (!f->count)
		f->length = size;
	at = f->out + f->bytes;
	memcpy(at, &i, sizeof(i));
	memcpy(at + HEADERS, data, len);
	crc = xt_crc32(0, at, size - CRC);
	memcpy(at + size - CRC, &crc, CRC);
	f->bytes += size;
	f->count++;
	if (size < f->length)
		push(f);
}

static void floor_flush(struct set *s, uint32_t i)
{
	struct floor_connection *c = floor_of(s, i);
	uint32_t most = (MOST - HEADERS - CRC) / MESSAGE * MESSAGE, len;

	for (uint32_t at = 0; at < c->out_end; at += len) {
		len = c->out_end - at < most ? c->out_end - at : most;
		send_datagram(s->own, i, c->out + at, len);
	}
	c->out_end = 0;
}

static struct message *floor_room(struct set *s, uint32_t i)
{
	struct floor_connection *c = floor_of(s, i);
	uint8_t *at = c->out + c->out_end;

	if (c->out_end + MESSAGE > BUFFER)
		return NULL;
	c->out_end += MESSAGE;
	return (void *)at;
}

/* ---- receive --------------------------------------------------------------------------------- */

static void raise_event(struct set *s, uint32_t i, bool first)
{
	struct floor_connection *c = floor_of(s, i);
	uint64_t one = 1;

	if (!s->options->events || first) {
		set_ready(s, i);
	} else if (!c->raised) {
		c->raised = true;
		MUST(write(c->event, &one, sizeof(one)) == sizeof(one), "event");
	}
}

static uint32_t take_datagram(struct set *s, const uint8_t *at, uint32_t size)
{
	uint32_t i, crc, len = size - HEADERS - CRC, rest;
	struct floor_connection *c;

	MUST(size > HEADERS + CRC, "length of a datagram");
	memcpy(&crc, at + size - CRC, CRC);
	MUST(xt_crc32(0, at, size - CRC) == crc, "CRC");
	memcpy(&i, at, sizeof(i));
	MUST(i < s->n, "connection");
	c = floor_of(s, i);
	rest = c->in_end - c->in_begin;
	if (c->in_begin) {
		memmove(c->in, c->in + c->in_begin, rest);
		c->in_begin = 0;
	}
	MUST(rest + len <= BUFFER, "room");
	memcpy(c->in + rest, at + HEADERS, len);
	c->in_end = rest + len;
	return i;
}

static uint32_t segment_size(struct msghdr *msg, uint32_t len)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	int size;

	if (!c || c->cmsg_type != UDP_GRO)
		return len;
	memcpy(&size, CMSG_DATA(c), sizeof(size));
	return (uint32_t)size;
}

static void receive(struct set *s)
{
	char control[MESSAGES][CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
	struct mmsghdr msg[MESSAGES] = { 0 };
	struct iovec iov[MESSAGES];
	struct floor *f = s->own;
	uint32_t size, part, i;
	bool first = true;
	int n;

	for (i = 0; i < MESSAGES; i++) {
		iov[i] = (struct iovec){ f->in[i], ROOM };
		msg[i].msg_hdr = (struct msghdr){ .msg_iov = &iov[i],
						  .msg_iovlen = 1,
						  .msg_control = control[i],
						  .msg_controllen = sizeof(control[i]) };
	}
	n = recvmmsg(f->udp, msg, MESSAGES, MSG_DONTWAIT, NULL);
	MUST(n > 0 || errno == EAGAIN, "receive");
	for (int k = 0; k < n; k++) {
		size = segment_size(&msg[k].msg_hdr, msg[k].msg_len);
		for (uint32_t at = 0; at < msg[k].msg_len; at += part) {
			part = msg[k].msg_len - at < size ? msg[k].msg_len - at : size;
			raise_event(s, take_datagram(s, f->in[k] + at, part), first);
			first = false;
		}
	}
}

static void take_event(struct set *s, uint32_t i)
{
	struct floor_connection *c = floor_of(s, i);
	uint64_t count;

	MUST(read(c->event, &count, sizeof(count)) == sizeof(count), "event");
	c->raised = false;
	set_ready(s, i);
}

static void floor_wait(struct set *s)
{
	struct epoll_event events[MAX_EVENTS];
	struct floor *f = s->own;
	int n;

	push(f);
	if (!s->options->events) {
		receive(s);
		if (!(++f->looks % LOOKS))
			s->ended = side_closed(s->connection[0].sock);
		return;
	}
	n = set_events(s, events);
	for (int k = 0; k < n; k++)
		if (events[k].data.u64 == PACKETS)
			receive(s);
		else if (events[k].data.u64 > PACKETS)
			s->ended = true;
		else
			take_event(s, (uint32_t)events[k].data.u64);
}

static const struct message *floor_next(struct set *s, uint32_t i)
{
	struct floor_connection *c = floor_of(s, i);

	return c->in_end - c->in_begin < MESSAGE ? NULL : (const void *)(c->in + c->in_begin);
}

static void floor_take(struct set *s, uint32_t i)
{
	floor_of(s, i)->in_begin += MESSAGE;
}

const struct way by_floor = {
	.open = floor_open,
	.connect = floor_connect,
	.wait = floor_wait,
	.next = floor_next,
	.take = floor_take,
	.room = floor_room,
	.flush = floor_flush,
};
