// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A stream of GSO frames, see floor.c and docs/gso.md */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "../lib/clock.h"
#include "daemon/transport/base/crc.h"
#include "floor.h"
#include "floor_repeat.h"

/* Linux 6.2; the headers of some supported distributions are older. */
#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

#define BTH 12 /* bytes of a packet before the payload; the first 8 are its number */
#define MAX_DATAGRAM (UINT16_MAX - 28)
#define MAX_PACKETS 64 /* the kernel's limit for a GSO frame */
#define SEND_BUFFER (4 << 20)
/* Descriptors: a packet of 4 KiB takes two, if it has a frame of its own. */
#define GSO_RING (2 * WINDOW)

/* What precedes the packets of a frame in a packet socket */
struct headers {
	struct virtio_net_hdr vnet;
	uint8_t ethernet[RAW_HEADER];
	struct iphdr ip;
	struct udphdr udp;
} __attribute__((packed));

#define NETWORK (sizeof(struct headers) - offsetof(struct headers, ethernet))

struct gso {
	struct stream stream;
	int fd; /* packet socket */
	struct headers headers;
	uint8_t *staging; /* the packets of a frame */
	uint8_t *memory;
	uint32_t memory_size;
	uint32_t packets; /* of a frame, at most */
	uint32_t first;	  /* packets of a message that have a frame of their own; 0: none */
	struct repeat_sender sender;
	struct repeat_receiver receiver;
	struct faults faults;
	/* the receiver's place in a frame and in a packet, and what it has of that packet */
	uint32_t in_frame, in_packet;
	uint32_t crc, expected;
	uint8_t bth[BTH];
	uint64_t number;
	enum fate fate;
	uint8_t *to; /* in memory; NULL: the packet has come before, or is lost */
};

static uint32_t packet_size(const struct gso *s)
{
	return BTH + s->stream.payload + CRC_SIZE;
}

/* ---- sender ---------------------------------------------------------------------------------- */

static void fill_headers(struct gso *s)
{
	s->headers = (struct headers){
		.vnet = {
			.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
			.hdr_len = NETWORK,
			.gso_size = (uint16_t)packet_size(s),
			.csum_start = NETWORK - sizeof(struct udphdr),
			.csum_offset = offsetof(struct udphdr, check),
		},
		.ip = { .version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_UDP },
		.udp = { .source = htons(4791), .dest = htons(4791) },
	};
	memcpy(s->headers.ethernet, raw_header, RAW_HEADER);
	s->headers.ethernet[12] = ETH_P_IP >> 8;
	s->headers.ethernet[13] = ETH_P_IP & 0xff;
}

static void set_packets(struct gso *s, uint32_t n)
{
	uint32_t udp = (uint32_t)sizeof(struct udphdr) + n * packet_size(s);

	s->headers.vnet.gso_type = n > 1 ? VIRTIO_NET_HDR_GSO_UDP_L4 : VIRTIO_NET_HDR_GSO_NONE;
	s->headers.ip.tot_len = htons((uint16_t)(sizeof(struct iphdr) + udp));
	s->headers.udp.len = htons((uint16_t)udp);
}

/* payload divides MESSAGE, so a packet never crosses the end of the area. */
static uint8_t *place(const struct gso *s, uint64_t number)
{
	return s->memory + number * s->stream.payload % s->memory_size;
}

static void build_packet(const struct gso *s, uint64_t number, uint8_t *to)
{
	uint32_t crc;

	memcpy(to, &number, sizeof(number));
	memcpy(to + BTH, place(s, number), s->stream.payload);
	crc = xt_crc32(0, to, BTH + s->stream.payload);
	memcpy(to + BTH + s->stream.payload, &crc, CRC_SIZE);
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/*
 * Returns the most packets of the next frame. A frame with the first packets of a message ends
 * behind them, and one with the others behind the last: as the first packet of a WRITE is longer.
 */
static uint32_t most_packets(const struct gso *s)
{
	uint32_t message = MESSAGE / s->stream.payload, at = s->sender.next % message;

	if (!s->first)
		return s->packets;
	return least(s->packets, (at < s->first ? s->first : message) - at);
}

/* After a NAK, the packet that is missing leaves first, and new ones share its frame. */
static uint32_t send_frame(struct stream *stream)
{
	struct gso *s = (struct gso *)stream;
	uint64_t in_flight = s->sender.next - stream->acked, numbers[MAX_PACKETS];
	uint32_t size = packet_size(s);
	uint32_t n = repeat_choose(&s->sender, stream->acked, stream->asked, most_packets(s),
				   numbers);
	struct iovec iov[] = {
		{ &s->headers, sizeof(s->headers) },
		{ s->staging, (size_t)size * n },
	};
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };

	if (!n)
		return 0;
	for (uint32_t i = 0; i < n; i++)
		build_packet(s, numbers[i], s->staging + (size_t)i * size);
	set_packets(s, n);
	if (sendmsg(s->fd, &msg, MSG_DONTWAIT) < 0)
		raw_die("send a GSO frame", errno);
	shared->repeat.frames++;
	if (stream->asked && numbers[0] == stream->acked) {
		shared->repeat.asked++;
		shared->repeat.in_flight += in_flight;
	}
	return n;
}

/* ---- receiver -------------------------------------------------------------------------------- */

static void arrived(struct gso *s, uint64_t number)
{
	bool asks = repeat_arrived(&s->receiver, number);

	s->stream.sent = s->receiver.expected;
	if (asks)
		floor_acknowledge(&s->stream, true);
}

static void begin_packet(struct gso *s)
{
	memcpy(&s->number, s->bth, sizeof(s->number));
	s->fate = faults_decide(&s->faults, s->number);
	s->to = s->fate == LOST || repeat_has(&s->receiver, s->number) ? NULL : place(s, s->number);
}

static void end_packet(struct gso *s)
{
	s->in_packet = 0;
	if (!s->to)
		return;
	if (s->crc != s->expected)
		raw_die("CRC of a packet", EBADMSG);
	if (s->fate == ARRIVES)
		arrived(s, s->number);
}

static uint32_t take_header(struct gso *s, const uint8_t *data, uint32_t len)
{
	uint32_t n = least(len, BTH - s->in_packet);

	memcpy(s->bth + s->in_packet, data, n);
	if (s->in_packet + n == BTH) {
		begin_packet(s);
		s->crc = xt_crc32(0, s->bth, BTH);
	}
	return n;
}

static uint32_t take_payload(struct gso *s, const uint8_t *data, uint32_t len)
{
	uint32_t at = s->in_packet - BTH, n = least(len, s->stream.payload - at);

	if (!s->to)
		return n;
	s->crc = xt_crc32(s->crc, data, n);
	memcpy(s->to + at, data, n);
	return n;
}

/* Takes bytes of one part of a packet: its header, its payload or its CRC. Returns their number. */
static uint32_t take_part(struct gso *s, const uint8_t *data, uint32_t len)
{
	uint32_t end = BTH + s->stream.payload, n;

	if (s->in_packet < BTH) {
		n = take_header(s, data, len);
	} else if (s->in_packet < end) {
		n = take_payload(s, data, len);
	} else {
		n = least(len, end + CRC_SIZE - s->in_packet);
		memcpy((uint8_t *)&s->expected + (s->in_packet - end), data, n);
	}
	s->in_packet += n;
	if (s->in_packet == packet_size(s))
		end_packet(s);
	return n;
}

static void take_chunk(void *arg, const uint8_t *data, uint32_t len, bool last)
{
	struct gso *s = arg;
	uint32_t skip = s->in_frame < NETWORK ? least(len, NETWORK - s->in_frame) : 0, n;

	s->in_frame += len;
	for (data += skip, len -= skip; len; data += n, len -= n)
		n = take_part(s, data, len);
	if (!last)
		return;
	if (s->in_packet)
		raw_die("a frame is incomplete", EBADMSG);
	s->in_frame = 0;
}

static uint32_t release(struct stream *stream)
{
	struct gso *s = (struct gso *)stream;
	uint64_t number;
	uint32_t n = 0;

	for (; faults_release(&s->faults, &number); n++)
		arrived(s, number);
	return n;
}

/* In place of an ACK, the last packet is held back: there is an ACK when that is released. */
static bool may_acknowledge(struct stream *stream)
{
	struct gso *s = (struct gso *)stream;

	return faults_decide(&s->faults, stream->sent - 1) == ARRIVES;
}

/* ---- both ------------------------------------------------------------------------------------ */

static int packet_socket(const char *ifname)
{
	struct sockaddr_ll ll = { .sll_family = AF_PACKET };
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0), on = 1, size = SEND_BUFFER;

	ll.sll_ifindex = (int)if_nametoindex(ifname);
	if (fd < 0 || setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)) ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) ||
	    bind(fd, (struct sockaddr *)&ll, sizeof(ll)))
		raw_die("packet socket", errno);
	return fd;
}

static void open_gso(struct stream *stream, const char *netns, const char *ifname)
{
	struct gso *s = (struct gso *)stream;

	s->memory = new_memory(s->memory_size);
	s->staging = new_memory((size_t)s->packets * packet_size(s));
	fill_headers(s);
	raw_open_generic(&stream->side, netns, ifname, GSO_RING);
	s->fd = packet_socket(ifname);
}

void floor_gso(char **where, uint64_t duration, char **args)
{
	struct gso s = {
		.stream = { .open = open_gso,
			    .send = send_frame,
			    .take = take_chunk,
			    .release = release,
			    .may_acknowledge = may_acknowledge,
			    .payload = (uint32_t)atoi(args[0]) },
		.memory_size = (uint32_t)atoi(args[1]),
		.faults = { .drop = (uint32_t)atoi(args[2]),
			    .reorder = (uint32_t)atoi(args[3]),
			    .random = now_ns() },
		.first = (uint32_t)atoi(args[4]),
	};

	if (!s.stream.payload || s.stream.payload > MAX_DATAGRAM / 2 || MESSAGE % s.stream.payload)
		raw_die(args[0], EINVAL);
	if (!s.memory_size || s.memory_size % MESSAGE)
		raw_die(args[1], EINVAL);
	s.packets = least(MAX_DATAGRAM / packet_size(&s), MAX_PACKETS);
	floor_stream(where, duration, &s.stream, NETWORK + s.packets * packet_size(&s));
}
