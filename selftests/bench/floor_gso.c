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

#include "daemon/transport/crc.h"
#include "floor.h"

/* Linux 6.2; the headers of some supported distributions are older. */
#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

#define BTH 12 /* bytes of a packet before the payload; the first 8 are its number */
#define MAX_DATAGRAM (UINT16_MAX - 28)
#define MAX_PACKETS 64 /* the kernel's limit for a GSO frame */
#define SEND_BUFFER (4 << 20)
#define WINDOW 8     /* frames on their way; they fill half of the ring */
#define GSO_RING 256 /* descriptors, of which a frame takes up to 17 */

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
	uint32_t memory_size, at;
	uint32_t payload, packets; /* of a packet; of a frame */
	/* the receiver's place in a frame and in a packet, and what it has of that packet */
	uint32_t in_frame, in_packet;
	uint32_t crc, expected;
	uint8_t bth[BTH];
	uint64_t number; /* of the next packet */
};

static uint32_t packet_size(const struct gso *s)
{
	return BTH + s->payload + CRC_SIZE;
}

/* ---- sender ---------------------------------------------------------------------------------- */

static void fill_headers(struct gso *s)
{
	uint32_t udp = (uint32_t)sizeof(struct udphdr) + s->packets * packet_size(s);

	s->headers = (struct headers){
		.vnet = {
			.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
			.gso_type = VIRTIO_NET_HDR_GSO_UDP_L4,
			.hdr_len = NETWORK,
			.gso_size = (uint16_t)packet_size(s),
			.csum_start = NETWORK - sizeof(struct udphdr),
			.csum_offset = offsetof(struct udphdr, check),
		},
		.ip = {
			.version = 4,
			.ihl = 5,
			.tot_len = htons((uint16_t)(sizeof(struct iphdr) + udp)),
			.ttl = 64,
			.protocol = IPPROTO_UDP,
		},
		.udp = { .source = htons(4791), .dest = htons(4791), .len = htons((uint16_t)udp) },
	};
	memcpy(s->headers.ethernet, raw_header, RAW_HEADER);
	s->headers.ethernet[12] = ETH_P_IP >> 8;
	s->headers.ethernet[13] = ETH_P_IP & 0xff;
}

static void build_packet(struct gso *s, uint8_t *to)
{
	uint32_t crc;

	memcpy(to, &s->number, sizeof(s->number));
	s->number++;
	memcpy(to + BTH, s->memory + s->at, s->payload);
	s->at = (s->at + s->payload) % s->memory_size;
	crc = xt_crc32(0, to, BTH + s->payload);
	memcpy(to + BTH + s->payload, &crc, CRC_SIZE);
}

static uint32_t send_frame(struct stream *stream)
{
	struct gso *s = (struct gso *)stream;
	uint32_t size = packet_size(s);
	struct iovec iov[] = {
		{ &s->headers, sizeof(s->headers) },
		{ s->staging, (size_t)size * s->packets },
	};
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };

	if (stream->sent - stream->acked >= WINDOW)
		return 0;
	for (uint32_t i = 0; i < s->packets; i++)
		build_packet(s, s->staging + (size_t)i * size);
	if (sendmsg(s->fd, &msg, MSG_DONTWAIT) < 0)
		raw_die("send a GSO frame", errno);
	stream->sent++;
	return 1;
}

/* ---- receiver -------------------------------------------------------------------------------- */

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static void end_packet(struct gso *s)
{
	uint64_t number;

	memcpy(&number, s->bth, sizeof(number));
	if (number != s->number++)
		raw_die("a packet was lost", EBADMSG);
	if (s->crc != s->expected)
		raw_die("CRC of a packet", EBADMSG);
	s->in_packet = 0;
}

/* Takes bytes of one part of a packet: its header, its payload or its CRC. Returns their number. */
static uint32_t take_part(struct gso *s, const uint8_t *data, uint32_t len)
{
	uint32_t end = BTH + s->payload, n;

	if (s->in_packet < BTH) {
		n = least(len, BTH - s->in_packet);
		memcpy(s->bth + s->in_packet, data, n);
		s->crc = xt_crc32(s->in_packet ? s->crc : 0, data, n);
	} else if (s->in_packet < end) {
		n = least(len, end - s->in_packet);
		s->crc = xt_crc32(s->crc, data, n);
		memcpy(s->memory + s->at, data, n);
		s->at = (s->at + n) % s->memory_size;
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
	if (s->in_packet || s->in_frame != NETWORK + s->packets * packet_size(s))
		raw_die("a frame is incomplete", EBADMSG);
	s->in_frame = 0;
	s->stream.sent++;
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
		.stream = { .open = open_gso, .send = send_frame, .take = take_chunk },
		.payload = (uint32_t)atoi(args[0]),
		.memory_size = (uint32_t)atoi(args[1]),
	};

	if (!s.payload || s.payload > MAX_DATAGRAM / 2 || MESSAGE % s.payload)
		raw_die(args[0], EINVAL);
	if (!s.memory_size || s.memory_size % MESSAGE)
		raw_die(args[1], EINVAL);
	s.packets = least(MAX_DATAGRAM / packet_size(&s), MAX_PACKETS);
	s.stream.frame_size = s.packets * s.payload;
	floor_stream(where, duration, &s.stream, NETWORK + s.packets * packet_size(&s));
}
