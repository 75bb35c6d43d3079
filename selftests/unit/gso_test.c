// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * GSO frames: runs of frames that are sent as one, and the division of received ones, also of
 * malformed ones. The whole way: packets become a message, the message a frame in buffers of
 * several sizes, and the frame the same packets again.
 */
#include <linux/if_ether.h>
#include <linux/version.h>
#include <linux/virtio_net.h>
#include <stdlib.h>
#include <string.h>

#include <xroce/opcode.h>
#include <xroce/parse.h>

#include "daemon/base/options.h"
#include "daemon/xdp/gso_queue.h"
#include "daemon/xdp/gso_split.h"
#include "daemon/xdp/gso.h"
#include "daemon/xdp/gso_send.h"
#include "daemon/xdp/xsk.h"
#include "daemon/helper/steer.h"
#include "selftests/lib/tap.h"

#define QPN 0x123456u
#define PORT 50000
#define FIRST_ID 0xfffe /* wraps soon */
#define ROOM 4400
#define FRAMES 256
#define VNET_LEN sizeof(struct virtio_net_hdr)

static void put16(uint8_t *p, uint32_t value)
{
	p[0] = (uint8_t)(value >> 8);
	p[1] = (uint8_t)value;
}

static uint32_t get16(const uint8_t *p)
{
	return (uint32_t)p[0] << 8 | p[1];
}

/* ---- frames to be sent -------------------------------------------------------------------- */

struct spec {
	bool v6;
	uint8_t opcode;
	uint32_t payload; /* bytes */
	uint32_t qpn;
	uint32_t port;
	uint32_t id;
	uint8_t class;
	uint32_t tags;
	uint8_t mac; /* last byte of the destination's */
};

static uint8_t bytes[FRAMES][ROOM];
static struct xt_frame frame[FRAMES];

static uint32_t put_ip(uint8_t *p, const struct spec *s, uint32_t len)
{
	if (s->v6) {
		p[0] = 0x60;
		p[1] = (uint8_t)(s->class << 4);
		put16(p + 4, len - XR_IPV6_HLEN);
		p[6] = XR_IPPROTO_UDP;
		p[7] = 64;
		p[8] = p[24] = 0xfd;
		p[23] = 1;
		p[39] = 2;
		return XR_IPV6_HLEN;
	}
	p[0] = 0x45;
	p[1] = s->class;
	put16(p + 2, len);
	put16(p + 4, s->id);
	p[6] = 0x40;
	p[8] = 64;
	p[9] = XR_IPPROTO_UDP;
	memcpy(p + 12, "\x0a\x09\x00\x01\x0a\x09\x00\x02", 8);
	((struct xr_ipv4 *)p)->check = (__be16)~xr_ipv4_sum((struct xr_ipv4 *)p);
	return XR_IPV4_HLEN;
}

static void put_bth(uint8_t *p, const struct spec *s)
{
	const struct xr_bth bth = {
		.opcode = s->opcode,
		.flags = XR_BTH_MIGREQ,
		.pkey = xr_be16(XR_DEFAULT_PKEY),
		.fecn_dqpn = xr_be32(s->qpn),
	};

	memcpy(p, &bth, sizeof(bth));
}

/* Builds frame[i], in two segments if it is long. */
static void build(uint32_t i, const struct spec *s)
{
	uint32_t ip = XR_ETH_HLEN + 4 * s->tags, ext = s->opcode == XR_OP_WRITE_FIRST ? 16 : 0;
	uint32_t ip_hlen = s->v6 ? XR_IPV6_HLEN : XR_IPV4_HLEN, bth = ip + ip_hlen + XR_UDP_HLEN;
	uint32_t len = bth + XR_BTH_HLEN + ext + s->payload + XR_ICRC_LEN;
	uint8_t *p = bytes[i];

	memset(p, 0, bth);
	for (uint32_t at = bth; at < len; at++)
		p[at] = (uint8_t)(at * 7 + i * 31);
	memcpy(p, "\2\0\0\0\0\2\2\0\0\0\0\1", 12);
	p[5] = s->mac;
	put16(p + ip - 2, s->v6 ? ETH_P_IPV6 : ETH_P_IP);
	put_ip(p + ip, s, len - ip);
	put16(p + bth - 8, s->port);
	put16(p + bth - 6, XR_UDP_PORT);
	put16(p + bth - 4, len - bth + XR_UDP_HLEN);
	put_bth(p + bth, s);
	frame[i] = (struct xt_frame){
		.seg = { { p, len < 4096 ? len : 4096 },
			 { p + 4096, len < 4096 ? 0 : len - 4096 } },
		.nseg = len > 4096 ? 2 : 1,
		.len = len,
		.meta = { .ip_version = s->v6 ? 6 : 4,
			  .ip_off = (uint16_t)ip,
			  .bth_off = (uint16_t)bth,
			  .qpn = 1 },
	};
}

static const struct spec usual = {
	.opcode = XR_OP_WRITE_MIDDLE,
	.payload = 1024,
	.qpn = QPN,
	.port = PORT,
	.id = FIRST_ID,
};

/* ---- runs --------------------------------------------------------------------------------- */

static struct xd_gso_run run;

/* Builds `count` frames and adds them to a new run. Returns the length of the run. */
static uint32_t run_of(const struct spec *s, uint32_t count)
{
	struct spec next = *s;
	uint32_t n = 0;

	run.count = 0;
	for (uint32_t i = 0; i < count; i++, next.id = (next.id + 1) & 0xffff) {
		build(i, &next);
		if (n == i)
			n += xd_gso_run_add(&run, &frame[i]);
	}
	return n;
}

/* Returns true if a second frame that differs so from the usual one continues the run. */
static bool joins(const struct spec *first, const struct spec *second)
{
	run.count = 0;
	build(0, first);
	build(1, second);
	return xd_gso_run_add(&run, &frame[0]) && xd_gso_run_add(&run, &frame[1]);
}

#define USUAL .opcode = XR_OP_WRITE_MIDDLE, .payload = 1024, .qpn = QPN, .port = PORT
#define NEXT USUAL, .id = FIRST_ID + 1

/* the last initializer of a field wins: rows override defaults */
#pragma GCC diagnostic ignored "-Woverride-init"
static const struct {
	const char *name;
	bool joins;
	struct spec first, second;
} pairs[] = {
	{ "the next packet", true, { USUAL, .id = FIRST_ID }, { NEXT } },
	{ "a shorter one", true, { USUAL, .id = FIRST_ID }, { NEXT, .payload = 8 } },
	{ "a longer one", false, { USUAL, .id = FIRST_ID }, { NEXT, .payload = 1028 } },
	{ "another opcode", true, { USUAL, .id = FIRST_ID }, { NEXT, .opcode = XR_OP_SEND_ONLY } },
	{ "another QP", false, { USUAL, .id = FIRST_ID }, { NEXT, .qpn = QPN + 1 } },
	{ "another source port", false, { USUAL, .id = FIRST_ID }, { NEXT, .port = PORT + 1 } },
	{ "the same identification", false, { USUAL, .id = FIRST_ID }, { USUAL, .id = FIRST_ID } },
	{ "another traffic class", false, { USUAL, .id = FIRST_ID }, { NEXT, .class = 4 } },
	{ "another MAC address", false, { USUAL, .id = FIRST_ID }, { NEXT, .mac = 9 } },
	{ "another IP version", false, { USUAL, .id = FIRST_ID }, { NEXT, .v6 = true } },
	{ "a VLAN tag", false, { USUAL, .id = FIRST_ID }, { NEXT, .tags = 1 } },
	{ "VLAN tags of both", false, { USUAL, .id = FIRST_ID, .tags = 1 }, { NEXT, .tags = 1 } },
	{ "IPv6", true, { USUAL, .v6 = true }, { USUAL, .v6 = true } },
	{ "IPv6, another class", false, { USUAL, .v6 = true }, { USUAL, .v6 = true, .class = 4 } },
};

static void test_pairs(void)
{
	for (uint32_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		TAP_OK(joins(&pairs[i].first, &pairs[i].second) == pairs[i].joins, "a run %s %s",
		       pairs[i].joins ? "is continued by" : "ends before", pairs[i].name);
}

static void test_limits(void)
{
	struct spec s = usual;

	s.payload = 8;
	TAP_OK(run_of(&s, XD_GSO_RUN + 1) == XD_GSO_RUN, "a run has at most %d frames", XD_GSO_RUN);
	s.payload = 4096;
	TAP_OK(run_of(&s, XD_GSO_RUN) == 15, "a run has at most 64 KiB: 15 packets of 4 KiB");
	s.payload = 1024;
	TAP_OK(run_of(&s, XD_GSO_RUN) == 62, "a run has at most 64 KiB: 62 packets of 1 KiB");
	s.payload = 8;
	build(0, &usual);
	build(1, &s);
	put16(bytes[1] + 18, FIRST_ID + 1);
	s.id += 2;
	build(2, &s);
	run.count = 0;
	TAP_OK(xd_gso_run_add(&run, &frame[0]) && xd_gso_run_add(&run, &frame[1]) &&
		       !xd_gso_run_add(&run, &frame[2]),
	       "nothing follows a shorter frame");
}

/* ---- the queue ---------------------------------------------------------------------------- */

/* What has left the queue */
static struct {
	uint32_t accepts; /* messages that the next calls accept together */
	uint32_t calls, messages, alone, freed;
	uint32_t next; /* index of the frame that must leave next */
	bool in_order;
} out;
static struct xd_gso_queue queue;

static void leaves(const uint8_t *data)
{
	out.in_order &= (size_t)(data - bytes[0]) / ROOM == out.next++;
}

static uint32_t fake_send(void *ctx, const struct xd_gso_run *runs, uint32_t n)
{
	uint32_t sent = n < out.accepts ? n : out.accepts;

	(void)ctx;
	for (uint32_t i = 0; i < sent; i++)
		for (uint32_t j = 0; j < runs[i].count; j++)
			leaves(runs[i].frame[j].seg[0].data);
	out.calls++;
	out.messages += sent;
	out.accepts -= sent;
	return sent;
}

static void fake_sent(void *ctx, const struct xt_frame *f)
{
	(void)ctx;
	(void)f;
	out.freed++;
}

static void fake_send_alone(void *ctx, const struct xt_frame *f)
{
	(void)ctx;
	leaves(f->seg[0].data);
	out.alone++;
}

static struct xd_gso_ways ways = { fake_send, fake_sent, fake_send_alone, false };

static void begin_queue(uint32_t accepts)
{
	memset(&queue, 0, sizeof(queue));
	memset(&out, 0, sizeof(out));
	out.accepts = accepts;
	out.in_order = true;
}

/* Puts frames with `payload` bytes each, from the one with index `from` on. */
static void put(uint32_t from, uint32_t count, uint32_t payload)
{
	struct spec s = usual;

	s.payload = payload;
	for (uint32_t i = from; i < from + count; i++) {
		s.id = (FIRST_ID + i) & 0xffff;
		build(i, &s);
		xd_gso_queue_put(&queue, &frame[i], &ways, NULL);
	}
}

static bool has_left(uint32_t calls, uint32_t messages, uint32_t alone, uint32_t frames)
{
	return out.in_order && out.calls == calls && out.messages == messages &&
	       out.alone == alone && out.next == frames && out.freed == frames - alone;
}

static void flush(bool more)
{
	xd_gso_queue_flush(&queue, more, &ways, NULL);
}

static void test_queue(void)
{
	begin_queue(FRAMES);
	put(0, 1, 1040);
	put(1, 63, 1024);
	TAP_OK(has_left(0, 0, 0, 0), "a run of 2 frames waits for those behind it");
	put(64, 1, 1040);
	TAP_OK(has_left(1, 2, 0, 64), "... and leaves with the next run, of 62, in one call");
	put(65, 1, 1024);
	flush(false);
	TAP_OK(has_left(2, 3, 0, 66), "a flush sends the last run");
	put(66, 1, 1024);
	flush(false);
	TAP_OK(has_left(2, 3, 1, 67), "a single frame leaves alone");
	put(67, 64, 8);
	put(131, 1, 8);
	TAP_OK(has_left(3, 4, 1, 131), "a long run of short frames does not wait");

	begin_queue(FRAMES);
	for (uint32_t i = 0; i <= XD_GSO_RUNS; i++)
		put(2 * i, 2, 100 + 100 * i);
	TAP_OK(has_left(1, XD_GSO_RUNS, 0, 2 * XD_GSO_RUNS), "at most %d runs wait", XD_GSO_RUNS);

	begin_queue(FRAMES);
	put(0, 2, 100);
	put(2, 1, 200);
	put(3, 2, 300);
	flush(false);
	TAP_OK(has_left(2, 2, 1, 5), "a single frame between two runs keeps its place");
}

/* Runs of 2 frames, of which the socket takes some. */
/* With several TX queues all packets leave by the same socket, unless it has no room. */
static void test_sends_all(void)
{
	ways.sends_all = true;
	begin_queue(FRAMES);
	put(0, 1, 16);
	put(1, 2, 1024);
	put(3, 1, 1040);
	flush(false);
	TAP_OK(has_left(1, 3, 0, 4), "single packets can leave as GSO frames do, in order");
	begin_queue(1);
	put(0, 1, 16);
	put(1, 1, 1040);
	flush(false);
	TAP_OK(has_left(2, 1, 1, 2), "those for which the socket has no room leave alone");
	ways.sends_all = false;
}

static void test_full_socket(void)
{
	for (uint32_t accepts = 0; accepts <= XD_GSO_RUNS; accepts++) {
		begin_queue(accepts);
		for (uint32_t i = 0; i < XD_GSO_RUNS; i++)
			put(2 * i, 2, 100 + 100 * i);
		flush(false);
		TAP_OK(out.in_order && out.next == 2 * XD_GSO_RUNS && out.messages == accepts &&
			       out.alone == 2 * (XD_GSO_RUNS - accepts) && !queue.buffers,
		       "the socket takes %u of %d runs: the other frames leave alone", accepts,
		       XD_GSO_RUNS);
	}
}

static void test_flush_more(void)
{
	begin_queue(FRAMES);
	put(0, 2, 1024);
	flush(true);
	put(2, 1, 1024);
	flush(true);
	TAP_OK(has_left(0, 0, 0, 0), "a run that grows waits for the next round");
	flush(true);
	TAP_OK(has_left(1, 1, 0, 3), "one that has not grown leaves");
	put(3, 1, 1024);
	flush(true);
	TAP_OK(has_left(1, 1, 1, 4), "a single frame does not wait");
	put(4, 1, 1024);
	put(5, 1, 8);
	flush(true);
	TAP_OK(has_left(2, 2, 1, 6), "a run that has ended does not wait");
	put(6, 2, 1024);
	flush(true);
	put(8, 2, 1040);
	flush(true);
	TAP_OK(has_left(2, 2, 1, 6), "a run that has begun since the last flush waits");
}

static void test_random_queue(void)
{
	uint32_t wrong = 0, n;

	for (int i = 0; i < 2000; i++) {
		begin_queue((uint32_t)rand() % 8);
		for (n = 0; n < 200;) {
			uint32_t count = 1 + (uint32_t)rand() % 40;

			put(n, count, 8 * (1 + (uint32_t)rand() % 3));
			n += count;
			if (rand() % 4 == 0)
				flush(rand() % 2);
		}
		flush(false);
		wrong += !out.in_order || out.next != n || out.freed + out.alone != n;
	}
	TAP_OK(!wrong, "2000 random sequences of frames leave in order");
}

/* ---- the whole way ------------------------------------------------------------------------ */

static struct xd_gso_message message;
static struct xd_gso_frame received;
static struct xd_gso_headers headers[XD_GSO_PACKETS];
static struct xt_frame packet[XD_GSO_PACKETS];
static uint8_t wire[65536 + 256], back[ROOM];

/* Copies the message, behind its virtio_net_hdr, to wire[]. */
static uint32_t transmit(void)
{
	uint32_t len = 0;

	for (uint32_t i = 0; i < message.iovs; i++) {
		uint32_t skip = i ? 0 : VNET_LEN;

		memcpy(wire + len, (uint8_t *)message.iov[i].iov_base + skip,
		       message.iov[i].iov_len - skip);
		len += (uint32_t)message.iov[i].iov_len - skip;
	}
	return len;
}

/* Makes wire[] a received frame, in buffers of `size` bytes. */
static void receive(uint32_t len, uint32_t size, bool v6, uint32_t gso_size)
{
	received = (struct xd_gso_frame){
		.len = len,
		.meta = { .magic = XR_META_MAGIC,
			  .reason = XR_OK,
			  .ip_version = v6 ? 6 : 4,
			  .ip_off = XR_ETH_HLEN,
			  .bth_off = (uint16_t)(XR_ETH_HLEN + XR_UDP_HLEN +
						(v6 ? XR_IPV6_HLEN : XR_IPV4_HLEN)),
			  .qpn = QPN,
			  .gso_size = (uint16_t)gso_size },
	};
	for (uint32_t at = 0; at < len && received.nseg < XD_GSO_SEGS; at += size)
		received.seg[received.nseg++] =
			(struct xt_seg){ wire + at, len - at < size ? len - at : size };
}

static bool same_packet(const struct xt_frame *got, const struct xt_frame *sent)
{
	uint32_t len = 0, udp = sent->meta.bth_off - XR_UDP_HLEN;

	for (uint32_t i = 0; i < got->nseg; len += got->seg[i++].len)
		memcpy(back + len, got->seg[i].data, got->seg[i].len);
	return len == sent->len && got->len == len && !get16(back + udp + 6) &&
	       !memcmp(back, sent->seg[0].data, len) &&
	       (uint32_t)got->meta.payload_off + got->meta.payload_len + XR_ICRC_LEN == len;
}

/* The kernel gets what it needs to segment the frame, and to finish the UDP checksum. */
static bool vnet_right(const struct spec *s, uint32_t size)
{
	struct virtio_net_hdr vnet;

	memcpy(&vnet, message.iov[0].iov_base, sizeof(vnet));
	return vnet.gso_type == 5 && vnet.gso_size == size && vnet.csum_offset == 6 &&
	       vnet.csum_start == (s->v6 ? 54 : 34) && vnet.hdr_len == vnet.csum_start + 8 &&
	       vnet.flags == VIRTIO_NET_HDR_F_NEEDS_CSUM;
}

static void test_whole_way(const struct spec *s, uint32_t count, uint32_t last, uint32_t size)
{
	uint32_t n = run_of(s, count), len, made = 0;
	struct spec shorter = *s;

	if (last) {
		shorter.payload = last;
		if (s->opcode == XR_OP_WRITE_MIDDLE)
			shorter.opcode = XR_OP_WRITE_LAST;
		shorter.id = (s->id + count - 1) & 0xffff;
		build(count - 1, &shorter);
		run.count = 0;
		for (n = 0; n < count && xd_gso_run_add(&run, &frame[n]);)
			n++;
	}
	xd_gso_run_message(&run, &message);
	len = transmit();
	receive(len, size, s->v6, run.size);
	if (n == count && xd_gso_count(&received) == count)
		made = xd_gso_split(&received, count, headers, packet);
	for (uint32_t i = 0; i < made; i++)
		if (!same_packet(&packet[i], &frame[i]))
			made = 0;
	TAP_OK(made == count && vnet_right(s, run.size),
	       "%u packets of %u bytes, the last of %u, over IPv%d in buffers of %u bytes", count,
	       s->payload, last ? last : s->payload, s->v6 ? 6 : 4, size);
}

static void test_ways(void)
{
	static const uint32_t sizes[] = { 3584, 3840, 4096 };
	struct spec s = usual;

	for (uint32_t v6 = 0; v6 < 2; v6++) {
		s.v6 = v6;
		for (uint32_t i = 0; i < 3; i++) {
			s.payload = 4096;
			s.opcode = XR_OP_WRITE_MIDDLE;
			test_whole_way(&s, 15, 0, sizes[i]);
			test_whole_way(&s, 15, 100, sizes[i]);
			s.payload = 1024;
			test_whole_way(&s, 62, 4, sizes[i]);
			s.payload = 8;
			s.opcode = XR_OP_SEND_ONLY;
			test_whole_way(&s, 64, 0, sizes[i]);
			test_whole_way(&s, 2, 4, sizes[i]);
		}
	}
}

/* The pseudo-header's sum: a receiver that sees it, and not a checksum, accepts it as well. */
static void test_checksum(void)
{
	uint32_t sum;

	run_of(&usual, 3);
	xd_gso_run_message(&run, &message);
	transmit();
	sum = 0x0a09 + 0x0001 + 0x0a09 + 0x0002 + 17 + get16(wire + 38);
	TAP_OK(get16(wire + 40) == sum % 0xffff, "the UDP checksum is the pseudo-header's sum");
	TAP_OK(xr_ipv4_sum((struct xr_ipv4 *)(wire + 14)) == 0xffff, "the IPv4 checksum is right");
}

/* ---- malformed frames --------------------------------------------------------------------- */

/* A frame of four packets of 1 KiB; size: of each datagram */
static uint32_t four(void)
{
	uint32_t len;

	run_of(&usual, 4);
	xd_gso_run_message(&run, &message);
	len = transmit();
	receive(len, 3840, false, run.size);
	return run.size;
}

static void test_refused_frames(void)
{
	four();
	received.meta.gso_size = 0;
	TAP_OK(!xd_gso_count(&received), "a GSO size of 0");
	received.meta.gso_size = 10;
	TAP_OK(!xd_gso_count(&received), "more than %d packets", XD_GSO_PACKETS);
	four();
	put16(wire + 38, get16(wire + 38) + 1);
	TAP_OK(!xd_gso_count(&received), "a UDP length beyond the end of the frame");
	put16(wire + 38, 7);
	TAP_OK(!xd_gso_count(&received), "a UDP length shorter than the UDP header");
	four();
	received.meta.bth_off = 46;
	TAP_OK(!xd_gso_count(&received), "a BTH that is not behind the IP and UDP headers");
	four();
	received.meta.ip_off = 60;
	received.meta.bth_off = 88;
	TAP_OK(!xd_gso_count(&received), "an offset beyond the longest headers");
	four();
	received.seg[0].len = 41;
	TAP_OK(!xd_gso_count(&received), "headers that end behind the first buffer");
}

/* Returns the number of packets that are left of four. */
static uint32_t left(void)
{
	return xd_gso_split(&received, 4, headers, packet);
}

static void test_refused_packets(void)
{
	uint32_t size = four();
	uint8_t *third = wire + 42 + 2 * size;

	TAP_OK(left() == 4, "four packets");
	third[7]++;
	TAP_OK(left() == 4 && packet[2].meta.qpn == packet[1].meta.qpn + 1,
	       "one of them to another QP");
	memset(third + 5, 0xff, 3);
	TAP_OK(left() == 3 && packet[2].seg[0].data[42] == XR_OP_WRITE_MIDDLE,
	       "a packet to a multicast group is left out");
	third[5] = third[6] = 0;
	third[7] = XR_GSI_QPN;
	TAP_OK(left() == 3, "a packet to QP 1 is left out");
	four();
	third[0] = 0xff;
	TAP_OK(left() == 3, "a packet with an unknown opcode is left out");
	four();
	put16(wire + 38, 8 + 3 * size + 5);
	TAP_OK(xd_gso_count(&received) == 4 && left() == 3, "a packet of 5 bytes is left out");
	four();
	for (uint32_t i = 0; i < XD_GSO_SEGS; i++)
		received.seg[i] = (struct xt_seg){ wire + i * 100, 100 };
	received.seg[XD_GSO_SEGS - 1].len = received.len - 100 * (XD_GSO_SEGS - 1);
	received.nseg = XD_GSO_SEGS;
	TAP_OK(left() == 2, "a packet in too many buffers is left out");
	four();
	received.meta.reason = XR_KEY_RANGE;
	TAP_OK(left() == 4 && packet[0].meta.reason == XR_KEY_RANGE &&
		       packet[1].meta.reason == XR_OK,
	       "the reason of the XDP program is that of the first packet");
}

/* ---- random bytes ------------------------------------------------------------------------- */

/* Headers and metadata that another XDP program may have written: nothing outside is accessed. */
static void test_random(void)
{
	uint32_t accepted = 0, count;

	srand(1);
	for (int i = 0; i < 100000; i++) {
		four();
		for (int k = 0; k < 3; k++)
			wire[(uint32_t)rand() % 200] = (uint8_t)rand();
		if (i % 2)
			((uint8_t *)&received.meta)[(uint32_t)rand() % sizeof(received.meta)] =
				(uint8_t)rand();
		received.seg[0].len = 1 + (uint32_t)rand() % 200;
		received.seg[1] = (struct xt_seg){ wire + received.seg[0].len,
						   received.len - received.seg[0].len };
		received.nseg = 2;
		count = xd_gso_count(&received);
		if (count)
			accepted += xd_gso_split(&received, count, headers, packet);
	}
	TAP_OK(accepted > 1000, "damaged frames: %u packets left", accepted);
}

/* ---- the choice --------------------------------------------------------------------------- */

int xd_ethtool(const char *ifname, void *cmd)
{
	return -1;
}

void xd_count_queues(const char *ifname, uint32_t *rx, uint32_t *tx)
{
}

bool xd_xsk_multi_buffer_possible(void)
{
	return true;
}

#define VETH                                                                                       \
	.driver = "veth", .rx_queues = 1, .tx_queues = 1, .served = 1, .workers = 1,               \
	.noqueue = true, .multi_buffer = true, .kernel = KERNEL_VERSION(6, 9, 0)

static const struct {
	const char *name;
	struct xd_options opt;
	struct xd_gso_facts facts;
	bool send, generic;
} choices[] = {
	{ "veth", { .gso = XD_GSO_AUTO }, { VETH }, true, true },
	{ "--gso off", { .gso = XD_GSO_OFF }, { VETH }, false, false },
	{ "--attach native", { .attach = XD_ATTACH_NATIVE }, { VETH }, true, false },
	{ "--attach generic", { .attach = XD_ATTACH_GENERIC }, { VETH }, true, false },
	{ "--attach zerocopy", { .attach = XD_ATTACH_ZEROCOPY }, { VETH }, false, false },
	{ "another driver", { .gso = XD_GSO_AUTO }, { VETH, .driver = "tun" }, true, false },
	{ "Linux 6.1",
	  { .gso = XD_GSO_AUTO },
	  { VETH, .kernel = KERNEL_VERSION(6, 1, 0) },
	  false,
	  false },
	{ "Linux 6.8",
	  { .gso = XD_GSO_AUTO },
	  { VETH, .kernel = KERNEL_VERSION(6, 8, 0) },
	  true,
	  false },
	{ "one buffer", { .gso = XD_GSO_AUTO }, { VETH, .multi_buffer = false }, true, false },
	{ "two RX queues, one worker",
	  { .gso = XD_GSO_AUTO },
	  { VETH, .rx_queues = 2, .served = 2 },
	  true,
	  true },
	{ "two RX queues, one of them served",
	  { .gso = XD_GSO_AUTO },
	  { VETH, .rx_queues = 2 },
	  false,
	  false },
	{ "two workers",
	  { .gso = XD_GSO_AUTO },
	  { VETH, .rx_queues = 2, .served = 2, .workers = 2 },
	  false,
	  false },
	{ "two TX queues", { .gso = XD_GSO_AUTO }, { VETH, .tx_queues = 2 }, true, true },
	{ "a queueing discipline",
	  { .gso = XD_GSO_AUTO },
	  { VETH, .noqueue = false },
	  false,
	  true },
	{ "--dispatcher", { .dispatcher = 50 }, { VETH }, true, false },
};

static void test_choice(void)
{
	for (uint32_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
		struct xd_gso gso = xd_gso_choose(&choices[i].opt, &choices[i].facts);

		TAP_OK(gso.send == choices[i].send && gso.prefer_generic == choices[i].generic &&
			       !gso.why_not == gso.send &&
			       gso.send_all == (gso.send && choices[i].facts.tx_queues > 1),
		       "%s: GSO frames are %ssent, generic XDP is %schosen", choices[i].name,
		       choices[i].send ? "" : "not ", choices[i].generic ? "" : "not ");
	}
}

int main(void)
{
	test_pairs();
	test_limits();
	test_queue();
	test_sends_all();
	test_full_socket();
	test_flush_more();
	test_random_queue();
	test_ways();
	test_checksum();
	test_refused_frames();
	test_refused_packets();
	test_random();
	test_choice();
	return tap_end();
}
