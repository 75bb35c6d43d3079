// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Received datagrams as frames. The kernel passes on the UDP payload only, and what it tells about
 * the headers beside it: addresses, TOS, TTL. The headers are written again from that, because the
 * ICRC covers them, and the GRH of datagrams contains them. UDP_GRO joins packets of a flow to one
 * message; it is taken apart here.
 */
#include <errno.h>
#include <linux/if_ether.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <xroce/byteorder.h>
#include <xroce/parse.h>

#include "daemon/io/count.h"
#include "daemon/io/verdict.h"
#include "daemon/base/segmentation.h"
#include "udp.h"

#define IP_DF 0x4000
/* If the kernel does not tell it */
#define UNKNOWN_TTL 1

/* Calls in which other engines of the host may have sent, before the kernel is asked again */
#define NEAR_TURNS 8
/*
 * Calls of the kernel, each of up to XD_UDP_RX_MESSAGES, after which a message no longer waits for
 * those in the socket: a stream of other hosts may never leave it empty.
 */
#define NEAR_WAITS 64

int xd_udp_rx_init(struct xd_udp *u)
{
	struct xd_udp_rx *rx = &u->rx;

	rx->area = mmap(NULL, (size_t)XD_UDP_RX_MESSAGES * XD_UDP_RX_BUFFER, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (rx->area == MAP_FAILED) {
		rx->area = NULL;
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < XD_UDP_RX_MESSAGES; i++) {
		rx->iov[i] = (struct iovec){ rx->area + (size_t)i * XD_UDP_RX_BUFFER,
					     XD_UDP_RX_BUFFER };
		rx->msg[i].msg_hdr = (struct msghdr){
			.msg_name = &rx->from[i],
			.msg_namelen = sizeof(rx->from[i]),
			.msg_iov = &rx->iov[i],
			.msg_iovlen = 1,
			.msg_control = rx->control[i],
			.msg_controllen = sizeof(rx->control[i]),
		};
	}
	return 0;
}

void xd_udp_rx_free(struct xd_udp *u)
{
	if (u->rx.area)
		munmap(u->rx.area, (size_t)XD_UDP_RX_MESSAGES * XD_UDP_RX_BUFFER);
}

/* ---- messages ----------------------------------------------------------------------------- */

static void read_ipv4(struct xd_udp_about *a, const struct cmsghdr *c)
{
	const struct in_pktinfo *info = (const void *)CMSG_DATA(c);

	switch (c->cmsg_type) {
	case IP_PKTINFO:
		xr_gid_set_ipv4(&a->dst, info->ipi_addr.s_addr);
		break;
	case IP_TOS:
		a->traffic_class = *CMSG_DATA(c);
		break;
	case IP_TTL:
		a->ttl = (uint8_t) * (const int *)(const void *)CMSG_DATA(c);
		break;
	}
}

static void read_ipv6(struct xd_udp_about *a, const struct cmsghdr *c)
{
	const struct in6_pktinfo *info = (const void *)CMSG_DATA(c);

	switch (c->cmsg_type) {
	case IPV6_PKTINFO:
		memcpy(a->dst.raw, &info->ipi6_addr, sizeof(a->dst.raw));
		break;
	case IPV6_TCLASS:
		a->traffic_class = (uint8_t) * (const int *)(const void *)CMSG_DATA(c);
		break;
	case IPV6_HOPLIMIT:
		a->ttl = (uint8_t) * (const int *)(const void *)CMSG_DATA(c);
		break;
	}
}

static void read_control(struct xd_udp_about *a, struct msghdr *msg)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level == IPPROTO_IP)
			read_ipv4(a, c);
		else if (c->cmsg_level == IPPROTO_IPV6)
			read_ipv6(a, c);
		else if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO)
			a->size = (uint32_t) * (const int *)(const void *)CMSG_DATA(c);
	}
}

static void receive_read_about(const struct xd_udp *u, uint32_t i, struct xd_udp_about *a)
{
	const struct sockaddr_in *in = (const void *)&u->rx.from[i];

	*a = (struct xd_udp_about){ .ttl = UNKNOWN_TTL };
	read_control(a, (struct msghdr *)&u->rx.msg[i].msg_hdr);
	a->sport = ntohs(in->sin_port); /* the same place in both families */
	if (u->rx.from[i].sin6_family == AF_INET)
		xr_gid_set_ipv4(&a->src, in->sin_addr.s_addr);
	else
		memcpy(a->src.raw, &u->rx.from[i].sin6_addr, sizeof(a->src.raw));
}

static void write_ipv4(struct xr_ipv4 *ip, const struct xd_udp_about *a)
{
	*ip = (struct xr_ipv4){
		.version_ihl = 0x45,
		.tos = a->traffic_class,
		.frag = xr_be16(IP_DF),
		.ttl = a->ttl,
		.protocol = XR_IPPROTO_UDP,
	};
	memcpy(&ip->src, a->src.raw + XR_GID_IPV4_OFF, sizeof(ip->src));
	memcpy(&ip->dst, a->dst.raw + XR_GID_IPV4_OFF, sizeof(ip->dst));
}

static void write_ipv6(uint8_t *ip, const struct xd_udp_about *a)
{
	memset(ip, 0, 8);
	ip[0] = (uint8_t)(6 << 4 | a->traffic_class >> 4);
	ip[1] = (uint8_t)(a->traffic_class << 4);
	ip[6] = XR_IPPROTO_UDP;
	ip[7] = a->ttl;
	memcpy(ip + 8, a->src.raw, 16);
	memcpy(ip + 24, a->dst.raw, 16);
}

/* Writes the headers that the packets of a message share; lengths and identification differ. */
static void write_network(struct xd_udp *u, const struct xd_udp_about *a)
{
	struct xd_udp_rx *rx = &u->rx;
	uint8_t *h = rx->network.bytes;
	bool v4 = xr_gid_is_ipv4(&a->dst);
	struct xr_udp udp = { .src = xr_be16(a->sport), .dst = xr_be16(XR_UDP_PORT) };

	memcpy(h, u->mac, ETH_ALEN);
	memset(h + ETH_ALEN, 0, ETH_ALEN);
	h[12] = v4 ? ETH_P_IP >> 8 : ETH_P_IPV6 >> 8;
	h[13] = v4 ? ETH_P_IP & 0xff : ETH_P_IPV6 & 0xff;
	rx->ip_off = XR_ETH_HLEN;
	if (v4)
		write_ipv4((struct xr_ipv4 *)(h + rx->ip_off), a);
	else
		write_ipv6(h + rx->ip_off, a);
	rx->network_len = rx->ip_off + (v4 ? XR_IPV4_HLEN : XR_IPV6_HLEN);
	memcpy(h + rx->network_len, &udp, sizeof(udp));
	rx->network_len += XR_UDP_HLEN;
}

/*
 * Returns how many messages to ask for: twice those that came last. The kernel looks for each, so
 * one that follows an empty call, as in a ping-pong, is not delayed by a look for a second one. And
 * a socket that does not lag behind goes on with the same few buffers, which stay in the cache.
 */
static uint32_t wanted(uint32_t last)
{
	uint32_t n = 2 * last;

	return n < 1 ? 1 : n > XD_UDP_RX_MESSAGES ? XD_UDP_RX_MESSAGES : n;
}

static int receive_from(const struct xd_udp *u, int fd, uint32_t want)
{
	struct mmsghdr *msg = (struct mmsghdr *)u->rx.msg;

	if (__builtin_expect(!u->calls, true))
		return xd_udp_recvmmsg(fd, msg, want);
	return u->calls->receive(u->calls_arg, (uint32_t)fd, msg, want);
}

static uint32_t receive_by_kernel(struct xd_udp *u)
{
	struct xd_udp_rx *rx = &u->rx;
	uint32_t want = wanted(rx->from_kernel);
	int n = 0;

	for (uint32_t i = 0; i < rx->from_kernel; i++) {
		rx->msg[i].msg_hdr.msg_namelen = sizeof(rx->from[i]);
		rx->msg[i].msg_hdr.msg_controllen = sizeof(rx->control[i]);
	}
	for (uint32_t i = 0; i < u->rx_fds && n <= 0; i++) {
		u->rx_turn = u->rx_turn + 1 < u->rx_fds ? u->rx_turn + 1 : 0;
		n = receive_from(u, u->rx_fd[u->rx_turn], want);
	}
	rx->from_kernel = n > 0 ? (uint32_t)n : 0;
	rx->near_turns = 0;
	if (rx->near_waits)
		rx->near_waits = rx->from_kernel < want ? 0 : rx->near_waits - 1;
	return rx->from_kernel;
}

/* emptied: what the socket had is received */
static uint32_t receive_nearby(struct xd_udp *u, bool emptied)
{
	struct xd_udp_rx *rx = &u->rx;
	uint32_t n;

	rx->near_behind = false;
	n = u->nearby->receive(u->nearby, emptied, rx->near_about, rx->near_data,
			       XD_UDP_RX_MESSAGES, &rx->near_behind);
	rx->near_waits = rx->near_behind ? NEAR_WAITS : 0;
	rx->near_turns++;
	rx->nearby = n;
	return n;
}

/*
 * Those of other engines of the host come first, unless these have used the kernel before, or it
 * was left out for long, while they can go on sending.
 */
static uint32_t receive_both(struct xd_udp *u)
{
	struct xd_udp_rx *rx = &u->rx;
	uint32_t n = 0;

	if (!rx->near_waits && (rx->near_turns < NEAR_TURNS || !u->nearby->open))
		n = receive_nearby(u, rx->near_behind);
	if (n)
		return n;
	n = receive_by_kernel(u);
	return n || !u->nearby->pending(u->nearby) ? n : receive_nearby(u, true);
}

static bool udp_receive(struct xd_udp *u)
{
	struct xd_udp_rx *rx = &u->rx;

	rx->at = rx->count = 0;
	rx->nearby = false;
	rx->count = u->nearby ? receive_both(u) : receive_by_kernel(u);
	return rx->count;
}

/*
 * Begins with a large frame. Its writer may change it at any time, so the BTH is read once. Returns
 * false if its first packet is neither FIRST nor MIDDLE, or if it is shorter than its packets.
 */
static bool begin_large(struct xd_udp_rx *rx, bool split)
{
	const struct xr_opcode *info;

	if (rx->len < sizeof(rx->bth))
		return false;
	memcpy(&rx->bth, rx->data, sizeof(rx->bth));
	info = &xr_opcodes[rx->bth.opcode];
	rx->head = XR_BTH_HLEN + info->ext_len;
	if (!(info->flags & XR_OPF_FULL_MTU) ||
	    rx->len < rx->head + rx->packets * rx->payload + XR_ICRC_LEN)
		return false;
	rx->split = split;
	rx->size = rx->len;
	if (split) {
		rx->size = rx->payload;
		rx->len = rx->packets * rx->payload;
	}
	return true;
}

static uint8_t opcode_at(const struct xd_udp_rx *rx, uint32_t index)
{
	return rx->data[index * rx->size];
}

/*
 * An ACK behind requests (join_acks() in send.c) is passed on first: programs expect the completion
 * of a request before that of its answer, as a card acknowledges before its program answers.
 * Responses keep their order. The opcodes are read again when the packets are checked: an engine of
 * this host that changes them changes the order of its packets only.
 */
static void begin_with_ack(struct xd_udp_rx *rx)
{
	uint32_t last = (rx->len - 1) / rx->size;

	if ((opcode_at(rx, last) & ~XR_CLASS_MASK) != XR_OP_ACK)
		return;
	for (uint32_t i = 0; i < last; i++)
		if (!(xr_opcodes[opcode_at(rx, i)].flags & XR_OPF_REQUEST))
			return;
	rx->ack_first = true;
	rx->index = last;
	rx->off = last * rx->size;
}

/* Begins to take the next message apart. Returns false if it is dropped. */
static bool receive_begin(struct xd_udp *u)
{
	struct xd_udp_rx *rx = &u->rx;
	struct xd_udp_about a;

	if (rx->nearby) {
		a = rx->near_about[rx->at];
		rx->data = rx->near_data[rx->at].iov_base;
		rx->len = (uint32_t)rx->near_data[rx->at].iov_len;
	} else {
		receive_read_about(u, rx->at, &a);
		rx->data = rx->iov[rx->at].iov_base;
		rx->len = rx->msg[rx->at].msg_len;
	}
	write_network(u, &a);
	rx->begun = true;
	rx->sport = a.sport;
	rx->off = rx->index = 0;
	rx->unsealed = a.unsealed;
	rx->packets = a.packets;
	rx->split = rx->joined = rx->ack_first = false;
	rx->size = a.size && a.size < rx->len ? a.size : rx->len;
	if (__builtin_expect(rx->packets > 1, false)) {
		rx->payload = a.size;
		return begin_large(rx, u->splits);
	}
	rx->joined = rx->size < rx->len;
	if (rx->joined) {
		xd_count(&u->stats.rx_gso_frames, 1);
		begin_with_ack(rx);
	}
	return true;
}

/* ---- packets ------------------------------------------------------------------------------ */

/* Writes lengths and identification into the headers of a packet with n bytes behind UDP. */
static void complete_headers(const struct xd_udp_rx *rx, uint8_t *h, uint32_t n)
{
	struct xr_udp *udp = (struct xr_udp *)(h + rx->network_len - XR_UDP_HLEN);
	struct xr_ipv4 *ip = (struct xr_ipv4 *)(h + rx->ip_off);

	udp->len = xr_be16(XR_UDP_HLEN + n);
	if (ip->version_ihl >> 4 != 4) {
		((struct xr_ipv6 *)ip)->len = udp->len;
		return;
	}
	ip->len = xr_be16(XR_IPV4_HLEN + XR_UDP_HLEN + n);
	ip->id = xr_be16(rx->index);
	ip->check = (__be16)~xr_ipv4_sum(ip);
}

/*
 * Returns true for a datagram to a group that this host has sent: the kernel gives it to all
 * members on the host, also to the socket that belongs to its sender.
 */
static bool receive_is_own(struct xd_udp *u, const uint8_t *headers, const struct xr_meta *meta)
{
	const uint8_t *ip = headers + meta->ip_off;
	struct xr_addr from;
	__be32 v4;

	if (__builtin_expect(meta->qpn != XR_MULTICAST_QPN, true))
		return false;
	if (meta->ip_version == 4) {
		memcpy(&v4, ip + offsetof(struct xr_ipv4, src), sizeof(v4));
		xr_gid_set_ipv4(&from, v4);
	} else {
		memcpy(&from, ip + offsetof(struct xr_ipv6, src), sizeof(from));
	}
	return xd_verdict_is_own(u->verdict, &from);
}

/* Returns true if the engine has delivered it when it sent it. */
static bool is_delivered(const struct xd_udp *u)
{
	uint16_t port = ntohs(u->rx.from[u->rx.at].sin6_port); /* of both families */

	return u->delivered && u->delivered[port / 64] >> port % 64 & 1;
}

/* Notes which socket of the peer the QP of a packet sends to. */
static void note_peer(struct xd_udp *u, uint32_t qpn, uint16_t port)
{
	struct xd_udp_qp *qp = xd_udp_qp_of(u, qpn);

	if (qp)
		qp->peer_port = port;
}

/* Sets what does not depend on the message. Returns false if the packet is dropped. */
static bool finish_frame(struct xd_udp *u, struct xd_udp_headers *h, struct xt_frame *f)
{
	note_peer(u, f->meta.qpn, u->rx.sport);
	f->guessed_id = true;
	f->unsealed = u->rx.unsealed;
	f->queue = u->rx.queue;
	f->forwarded = false;
	f->self = receive_is_own(u, h->bytes, &f->meta);
	if (__builtin_expect(f->self, false) && is_delivered(u))
		return false;
	f->inject = f->refusal = (struct xt_inject){ XT_INJECT_NONE, 0 };
	return true;
}

/*
 * Makes the next packet of a message. Returns false if it is dropped. Of a large frame, its first
 * packet is checked: those behind it differ in their PSNs only.
 */
static bool receive_take(struct xd_udp *u, struct xd_udp_headers *h, struct xt_frame *f,
			 uint64_t now)
{
	struct xd_udp_rx *rx = &u->rx;
	uint8_t *data = rx->data + rx->off;
	uint32_t left = rx->len - rx->off, n = left < rx->size ? left : rx->size;
	uint32_t copied = sizeof(h->bytes) - rx->network_len, behind;
	uint32_t others = rx->packets > 1 ? (rx->packets - 1) * rx->payload : 0;
	struct xd_headers headers;

	copied = n - others < copied ? n - others : copied;
	memcpy(h->bytes, rx->network.bytes, rx->network_len);
	memcpy(h->bytes + rx->network_len, data, copied);
	complete_headers(rx, h->bytes, n - others);
	f->len = rx->network_len + n;
	headers = (struct xd_headers){ h->bytes, rx->network_len + copied, f->len - others };
	if (!xd_verdict(u->verdict, &headers, now, &f->meta))
		return false;
	f->packets = (uint8_t)rx->packets;
	f->meta.payload_len += (uint16_t)others;
	if (others)
		xd_verdict_pass(u->verdict, rx->packets - 1, others);
	f->seg[0] = (struct xt_seg){ h->bytes, f->meta.payload_off };
	behind = f->meta.payload_off - rx->network_len;
	f->seg[1] = (struct xt_seg){ data + behind, n - behind };
	f->nseg = 2;
	return finish_frame(u, h, f);
}

/* Returns the BTH of a packet of a large frame. */
static struct xr_bth bth_of(const struct xd_udp_rx *rx, uint32_t index)
{
	uint32_t word = be32toh(rx->bth.ack_psn);
	struct xr_bth bth = rx->bth;

	if (!index)
		return bth;
	if (xr_opcodes[bth.opcode].flags & XR_OPF_START)
		bth.opcode++; /* MIDDLE follows FIRST */
	bth.ack_psn = xr_be32((word & ~XR_PSN_MASK) | ((word + index) & XR_PSN_MASK));
	return bth;
}

/* As receive_take(), of a large frame that is split: each packet is checked. */
static bool take_of_large(struct xd_udp *u, struct xd_udp_headers *h, struct xt_frame *f,
			  uint64_t now)
{
	struct xd_udp_rx *rx = &u->rx;
	const struct xr_bth bth = bth_of(rx, rx->index);
	uint32_t own = rx->index ? XR_BTH_HLEN : rx->head, behind = rx->network_len + own;
	struct xd_headers headers = { h->bytes, behind, behind + rx->payload + XR_ICRC_LEN };

	memcpy(h->bytes, rx->network.bytes, rx->network_len);
	memcpy(h->bytes + rx->network_len, rx->data, own);
	memcpy(h->bytes + rx->network_len, &bth, sizeof(bth));
	complete_headers(rx, h->bytes, headers.len - rx->network_len);
	if (!xd_verdict(u->verdict, &headers, now, &f->meta))
		return false;
	f->len = headers.len;
	f->packets = 1;
	f->seg[0] = (struct xt_seg){ h->bytes, behind };
	f->seg[1] = (struct xt_seg){ rx->data + rx->head + rx->off, rx->payload };
	f->seg[2] = (struct xt_seg){ h->icrc, sizeof(h->icrc) };
	f->nseg = 3;
	return finish_frame(u, h, f);
}

/* Moves behind a message. */
static void next_message(struct xd_udp_rx *rx)
{
	rx->at++;
	rx->begun = false;
}

/* Moves behind a packet. */
static void receive_skip(struct xd_udp_rx *rx)
{
	if (__builtin_expect(rx->ack_first, false)) {
		rx->ack_first = false;
		rx->len = rx->off; /* the packets before the ACK are left */
		rx->off = rx->index = 0;
		return;
	}
	rx->off += rx->size;
	rx->index++;
	if (rx->off >= rx->len)
		next_message(rx);
}

unsigned int xd_udp_recv(struct xd_socket *s, struct xt_frame *frames, unsigned int max,
			 uint64_t now)
{
	struct xd_udp *u = xd_udp_of(s);
	struct xd_udp_rx *rx = &u->rx;
	unsigned int n = 0;

	if (rx->at == rx->count && !udp_receive(u))
		return 0;
	while (n < max && rx->at < rx->count) {
		if (!rx->begun && !receive_begin(u)) {
			next_message(rx);
			continue;
		}
		if (rx->split ? take_of_large(u, &rx->headers[n], &frames[n], now)
			      : receive_take(u, &rx->headers[n], &frames[n], now))
			n++;
		if (rx->joined)
			xd_count(&u->stats.rx_gso_packets, 1);
		receive_skip(rx);
	}
	return n;
}

/* The next call of xd_udp_recv() receives into the same buffers. */
void xd_udp_recv_done(struct xd_socket *s)
{
	(void)s;
}

/* What the socket has would be found by the next call: there is no cheaper way to look. */
bool xd_udp_rx_pending(struct xd_socket *s)
{
	const struct xd_udp *u = xd_udp_of(s);

	return u->rx.at < u->rx.count || (u->nearby && u->nearby->pending(u->nearby));
}
