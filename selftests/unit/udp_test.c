// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The system calls in which daemon/udp/ sends and receives: which packets leave in one message, in
 * which order, with a correct ICRC, and for how many messages the kernel is asked.
 */
#include <errno.h>
#include <netinet/udp.h>
#include <string.h>

#include <xroce/opcode.h>
#include <xroce/parse.h>

#include "daemon/io/verdict.h"
#include "daemon/transport/wire/icrc.h"
#include "daemon/udp/calls.h"
#include "daemon/udp/udp.h"
#include "selftests/lib/tap.h"

#define PORT 50000
#define BTH (XR_ETH_HLEN + XR_IPV4_HLEN + XR_UDP_HLEN)
#define MOST 16

/* ---- a kernel ----------------------------------------------------------------------------- */

/* A message that it was given */
static struct {
	uint32_t packets, segment;
	uint8_t opcode[MOST];
	uint32_t qpn[MOST];
	bool icrc_ok[MOST];
	uint8_t payload; /* byte behind the BTH of the last packet */
} sent[MOST];
static uint32_t n_sent;

static uint32_t segment_of(const struct msghdr *h)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR((struct msghdr *)h, c))
		if (c->cmsg_level == IPPROTO_UDP)
			return *(const uint16_t *)(const void *)CMSG_DATA(c);
	return 0;
}

/* The frame is before what the message contains of it. */
static bool has_correct_icrc(const struct iovec *v, uint32_t index)
{
	uint8_t *bth = v->iov_base;
	const struct xr_ipv4 *ip = (const void *)(bth - XR_UDP_HLEN - XR_IPV4_HLEN);
	const struct xt_frame f = {
		.seg[0] = { bth - BTH, BTH + (uint32_t)v->iov_len },
		.nseg = 1,
		.len = BTH + (uint32_t)v->iov_len,
		.meta = { .ip_version = 4,
			  .ip_off = XR_ETH_HLEN,
			  .bth_off = BTH,
			  .payload_off = BTH + XR_BTH_HLEN,
			  .payload_len = (uint16_t)(v->iov_len - XR_BTH_HLEN - XR_ICRC_LEN) },
	};

	return xr_be16(ip->id) == index && xt_icrc_ok(&f);
}

int xd_udp_sendmmsg(int fd, struct mmsghdr *msg, unsigned int n)
{
	(void)fd;
	for (uint32_t i = 0; i < n && n_sent < MOST; i++, n_sent++) {
		const struct msghdr *h = &msg[i].msg_hdr;

		sent[n_sent].segment = segment_of(h);
		sent[n_sent].packets = (uint32_t)h->msg_iovlen;
		for (uint32_t k = 0; k < h->msg_iovlen && k < MOST; k++) {
			const struct xr_bth *bth = h->msg_iov[k].iov_base;

			sent[n_sent].opcode[k] = bth->opcode;
			sent[n_sent].qpn[k] = xr_be32(bth->fecn_dqpn) & XR_QPN_MASK;
			sent[n_sent].icrc_ok[k] = has_correct_icrc(&h->msg_iov[k], k);
			sent[n_sent].payload = ((const uint8_t *)bth)[XR_BTH_HLEN];
		}
	}
	return (int)n;
}

int xd_udp_sendmsg(int fd, struct msghdr *h)
{
	(void)fd, (void)h;
	return -1;
}

/* Messages that wait, the port that they come from, and for how many the last call has asked */
static uint32_t waiting, asked;
static uint16_t from_port;

int xd_udp_recvmmsg(int fd, struct mmsghdr *msg, unsigned int n)
{
	uint32_t got = waiting < n ? waiting : n;

	(void)fd;
	asked = n;
	for (uint32_t i = 0; i < got; i++) {
		msg[i].msg_len = XR_BTH_HLEN + XR_ICRC_LEN;
		msg[i].msg_hdr.msg_controllen = 0;
		((struct sockaddr_in6 *)msg[i].msg_hdr.msg_name)->sin6_port = htons(from_port);
	}
	waiting -= got;
	return got ? (int)got : -1;
}

/* The packets that are valid have so many bytes behind the BTH; 0: none is. */
static uint32_t valid_len;
static bool all_valid;
static uint32_t valid_qpn;	  /* whose they are */
static struct xd_headers checked; /* the last ones */

bool xd_verdict(struct xd_verdict *v, const struct xd_headers *h, uint64_t now,
		struct xr_meta *meta)
{
	uint32_t len = h->len - BTH - XR_BTH_HLEN;

	(void)v, (void)now;
	checked = *h;
	if (!all_valid && (!valid_len || len != valid_len))
		return false;
	*meta = (struct xr_meta){ .ip_version = 4,
				  .ip_off = XR_ETH_HLEN,
				  .bth_off = BTH,
				  .payload_off = BTH + XR_BTH_HLEN,
				  .payload_len = (uint16_t)(len - XR_ICRC_LEN),
				  .qpn = valid_qpn };
	return true;
}

static uint32_t passed; /* without a check */

void xd_verdict_pass(struct xd_verdict *v, uint32_t packets, uint32_t bytes)
{
	(void)v, (void)bytes;
	passed += packets;
}

bool xd_verdict_is_own(struct xd_verdict *v, const struct xr_addr *addr)
{
	(void)v, (void)addr;
	return false;
}

void xd_verdict_free(struct xd_verdict *v)
{
	(void)v;
}

/* ---- packets ------------------------------------------------------------------------------ */

static struct xd_udp *udp;

static void write_headers(uint8_t *p, uint32_t len, uint8_t opcode, uint32_t qpn, uint16_t id)
{
	struct xr_ipv4 ip = {
		.version_ihl = 0x45,
		.len = xr_be16(len - XR_ETH_HLEN),
		.id = xr_be16(id),
		.frag = xr_be16(0x4000),
		.ttl = XD_UDP_TTL,
		.protocol = XR_IPPROTO_UDP,
		.src = htonl(0x0a000001),
		.dst = htonl(0x0a000002),
	};
	const struct xr_udp u = {
		.src = xr_be16(PORT),
		.dst = xr_be16(XR_UDP_PORT),
		.len = xr_be16(len - BTH + XR_UDP_HLEN),
	};
	const struct xr_bth bth = {
		.opcode = opcode,
		.pkey = xr_be16(XR_DEFAULT_PKEY),
		.fecn_dqpn = xr_be32(qpn),
	};

	ip.check = (__be16)~xr_ipv4_sum(&ip);
	memset(p, 0, len);
	memcpy(p + XR_ETH_HLEN, &ip, sizeof(ip));
	memcpy(p + XR_ETH_HLEN + XR_IPV4_HLEN, &u, sizeof(u));
	memcpy(p + BTH, &bth, sizeof(bth));
}

/* Puts a packet of QP qpn to QP dqpn, with `behind` bytes between BTH and ICRC, to wait. */
static void put_to(uint8_t opcode, uint32_t qpn, uint32_t dqpn, uint32_t behind)
{
	uint32_t len = BTH + XR_BTH_HLEN + behind + XR_ICRC_LEN;
	struct xt_frame f = {
		.meta = { .ip_version = 4,
			  .ip_off = XR_ETH_HLEN,
			  .bth_off = BTH,
			  .payload_off = BTH + XR_BTH_HLEN,
			  .qpn = qpn },
	};

	xd_udp_tx_get(&udp->socket, len, &f);
	write_headers(f.seg[0].data, len, opcode, dqpn, f.ip_id);
	xt_icrc_seal(f.seg, f.nseg, XR_ETH_HLEN, BTH);
	xd_udp_tx_put(&udp->socket, &f);
}

/* The QPN of its peer is the same. */
static void put(uint8_t opcode, uint32_t qpn, uint32_t behind)
{
	put_to(opcode, qpn, qpn, behind);
}

static void flush(void)
{
	n_sent = 0;
	xd_udp_tx_flush(&udp->socket, false);
}

#define ACK XR_OP_ACK, 1, 4
#define SEND XR_OP_SEND_ONLY, 1, 8
#define ACK_OF_2 XR_OP_ACK, 2, 4

static bool is_sent(uint32_t message, uint32_t index, uint8_t opcode, uint32_t qpn)
{
	return message < n_sent && index < sent[message].packets &&
	       sent[message].opcode[index] == opcode && sent[message].qpn[index] == qpn &&
	       sent[message].icrc_ok[index];
}

/* ---- tests -------------------------------------------------------------------------------- */

static void test_ack_and_request(void)
{
	put(ACK);
	put(SEND);
	flush();
	TAP_OK(n_sent == 1 && sent[0].packets == 2 && sent[0].segment == 24 &&
		       is_sent(0, 0, XR_OP_SEND_ONLY, 1) && is_sent(0, 1, XR_OP_ACK, 1),
	       "an ACK leaves in the message of a request of its QP, behind it");
	flush();
	TAP_OK(!n_sent && !xd_udp_queued(&udp->socket), "nothing is left");

	put(ACK);
	put(SEND);
	put(SEND);
	flush();
	TAP_OK(n_sent == 1 && sent[0].packets == 3 && is_sent(0, 1, XR_OP_SEND_ONLY, 1) &&
		       is_sent(0, 2, XR_OP_ACK, 1),
	       "an ACK follows all requests of its QP");
}

static void test_apart(void)
{
	put(ACK_OF_2);
	put(SEND);
	flush();
	TAP_OK(n_sent == 2 && is_sent(0, 0, XR_OP_ACK, 2) && is_sent(1, 0, XR_OP_SEND_ONLY, 1),
	       "an ACK of another QP is a message of its own");

	put(XR_OP_READ_RESP_ONLY, 1, 4);
	put(ACK_OF_2);
	put(XR_OP_SEND_ONLY, 2, 8);
	flush();
	TAP_OK(n_sent == 3 && is_sent(0, 0, XR_OP_READ_RESP_ONLY, 1) &&
		       is_sent(1, 0, XR_OP_ACK, 2) && is_sent(2, 0, XR_OP_SEND_ONLY, 2),
	       "beside READ responses all packets keep their order");

	put(ACK);
	put(XR_OP_SEND_ONLY, 1, 0);
	flush();
	TAP_OK(n_sent == 1 && is_sent(0, 0, XR_OP_ACK, 1) && is_sent(0, 1, XR_OP_SEND_ONLY, 1),
	       "a request that is shorter than the ACK before it ends the message");

	put(ACK);
	put(SEND);
	put(XR_OP_SEND_ONLY, 1, 4);
	flush();
	TAP_OK(n_sent == 2 && is_sent(0, 0, XR_OP_ACK, 1) && sent[1].packets == 2,
	       "an ACK is a message of its own if that of the request has ended, before it");

	udp->tx.joins = false;
	put(ACK);
	put(SEND);
	flush();
	TAP_OK(n_sent == 2 && sent[0].packets == 1 && is_sent(0, 0, XR_OP_ACK, 1),
	       "and one if the kernel does not segment");
	udp->tx.joins = true;
}

/* ---- several QPs -------------------------------------------------------------------------- */

/* QP qpn gets a packet from a port of its peer. */
static void receive_from(uint32_t qpn, uint16_t port)
{
	struct xt_frame frames[XD_BATCH];

	waiting = 1;
	from_port = port;
	valid_qpn = qpn;
	/* without a destination address, the header that is written is that of IPv6 */
	valid_len = XR_IPV6_HLEN - XR_IPV4_HLEN + XR_ICRC_LEN;
	xd_udp_recv(&udp->socket, frames, XD_BATCH, 0);
	valid_len = 0;
}

static void test_shared_message(void)
{
	static const uint16_t ports[] = { 7000, 7000, 7000, 7001 };

	for (uint32_t i = 0; i < 4; i++)
		put(XR_OP_SEND_ONLY, i + 1, 8);
	flush();
	TAP_OK(n_sent == 4, "packets of QPs whose peers are not known are apart");

	for (uint32_t i = 0; i < 4; i++)
		receive_from(i + 1, ports[i]);
	for (uint32_t i = 0; i < 4; i++)
		put(XR_OP_SEND_ONLY, i + 1, 8);
	flush();
	TAP_OK(n_sent == 2 && sent[0].segment == 24 && is_sent(0, 0, XR_OP_SEND_ONLY, 1) &&
		       is_sent(0, 1, XR_OP_SEND_ONLY, 2) && is_sent(0, 2, XR_OP_SEND_ONLY, 3) &&
		       is_sent(1, 0, XR_OP_SEND_ONLY, 4),
	       "those whose peers send from one port are one message");

	put(ACK);
	put(ACK_OF_2);
	put(SEND);
	put(XR_OP_SEND_ONLY, 2, 8);
	put(SEND);
	flush();
	TAP_OK(n_sent == 2 && sent[0].packets == 2 && is_sent(0, 0, XR_OP_ACK, 1) &&
		       is_sent(0, 1, XR_OP_ACK, 2) && sent[1].packets == 3 &&
		       is_sent(1, 2, XR_OP_SEND_ONLY, 1),
	       "ACKs are another one, before requests");

	put(SEND);
	put(XR_OP_SEND_ONLY, 2, 4);
	put(XR_OP_SEND_ONLY, 3, 8);
	put(XR_OP_SEND_ONLY, 2, 4);
	flush();
	TAP_OK(n_sent == 3 && sent[1].packets == 2 && is_sent(1, 1, XR_OP_SEND_ONLY, 2),
	       "a shorter packet joins none of another QP");

	put(ACK_OF_2);
	put(XR_OP_SEND_ONLY, 1, 0);
	put(ACK);
	put(XR_OP_READ_RESP_ONLY, 4, 4);
	flush();
	TAP_OK(n_sent == 4 && is_sent(1, 0, XR_OP_SEND_ONLY, 1) && is_sent(2, 0, XR_OP_ACK, 1),
	       "nor does one a message before its QP's last");

	put(XR_OP_SEND_ONLY, 2, 8);
	put(XR_CLASS_UC | XR_OP_SEND_ONLY, 1, 8);
	flush();
	TAP_OK(n_sent == 2, "packets without ACKs are apart");

	put_to(XR_OP_SEND_ONLY, 1, 9, 8);
	flush();
	put(SEND);
	put(XR_OP_SEND_ONLY, 2, 8);
	flush();
	TAP_OK(n_sent == 2, "the port of another peer than before is not known");
}

/* ---- engines of the same host ------------------------------------------------------------- */

#define NEAR 7 /* QPN of one */

/* What it answers to the next messages, how many it has got, and how many it has sent */
static int answers[4];
static uint32_t asked_near, got_near, waiting_near;

static int find_near(struct xd_udp_nearby *n, const struct xr_addr *dst, uint32_t qpn)
{
	(void)n, (void)dst;
	return qpn == NEAR ? 3 : -1;
}

/* The last message that it has got */
static struct {
	bool unsealed;
	uint32_t parts, packets, size, len;
	uint8_t payload; /* byte behind the BTH */
} last_near;

static int send_near(struct xd_udp_nearby *n, int peer, const struct xd_udp_about *about,
		     const struct iovec *iov, uint32_t iovs, uint32_t len)
{
	int err = answers[asked_near++ % 4];
	const uint8_t *first = iov[0].iov_base;

	(void)n;
	last_near.unsealed = about->unsealed;
	last_near.parts = iovs;
	last_near.packets = about->packets;
	last_near.size = about->size;
	last_near.len = len;
	last_near.payload = iovs > 1 ? *(const uint8_t *)iov[1].iov_base : first[XR_BTH_HLEN];
	if (!err && peer == 3 && iovs == 1 && len == 24 && about->sport == PORT && !about->size)
		got_near++;
	return err;
}

/* The next message follows others that were sent to the socket. */
static bool follows;

#define LARGE_PAYLOAD 256u
static uint32_t large_near; /* packets of the large frame that it is; 0: it is a packet */

#define JOINED 24u
static uint32_t joined_near; /* bytes of a message of several packets, each of JOINED bytes */

#define LARGE_PACKETS 3u
static uint8_t packet_near[XR_BTH_HLEN + LARGE_PACKETS * LARGE_PAYLOAD + XR_ICRC_LEN];

static uint32_t receive_near(struct xd_udp_nearby *n, bool emptied, struct xd_udp_about *about,
			     struct iovec *data, uint32_t max, bool *behind)
{
	(void)n, (void)max;
	*behind = follows && !emptied;
	if (!waiting_near || *behind)
		return 0;
	follows = false;
	waiting_near--;
	about[0] = (struct xd_udp_about){ .sport = PORT, .packets = large_near };
	about[0].src.raw[10] = about[0].src.raw[11] = 0xff; /* IPv4 */
	about[0].dst = about[0].src;
	about[0].unsealed = large_near;
	about[0].size = large_near ? LARGE_PAYLOAD : 0;
	data[0] = (struct iovec){ packet_near, large_near ? sizeof(packet_near) : 24 };
	if (joined_near) {
		about[0].size = JOINED;
		data[0].iov_len = joined_near;
	}
	return 1;
}

/* Whether it has room, or a large frame would be sent by the sockets */
static bool room_near, closed_near;

static bool has_room_near(struct xd_udp_nearby *n, int peer, uint32_t len, bool *closed)
{
	(void)n;
	*closed = closed_near;
	return peer == 3 && len > LARGE_PAYLOAD && room_near;
}

static bool pending_near(const struct xd_udp_nearby *n)
{
	(void)n;
	return waiting_near;
}

static struct xd_udp_nearby nearby = {
	.peer = find_near,
	.send = send_near,
	.receive = receive_near,
	.pending = pending_near,
	.has_room = has_room_near,
};

/* Flushes with these answers of the engine to its first messages. */
static void flush_near(int first, int second)
{
	answers[0] = first;
	answers[1] = second;
	asked_near = got_near = 0;
	flush();
}

/* Messages that do not join, as each is longer than the one before */
static void put_two(void)
{
	put(XR_OP_SEND_ONLY, NEAR, 8);
	put(XR_OP_SEND_ONLY, NEAR, 12);
}

static void test_send_near(void)
{
	udp->nearby = &nearby;
	nearby.peers = true;
	put(SEND);
	put(XR_OP_SEND_ONLY, NEAR, 8);
	flush_near(0, 0);
	TAP_OK(got_near == 1 && n_sent == 1 && is_sent(0, 0, XR_OP_SEND_ONLY, 1),
	       "a message to an engine of this host does not reach the kernel");
	put_two();
	flush_near(-EPIPE, 0);
	TAP_OK(asked_near == 1 && n_sent == 2 && !xd_udp_queued(&udp->socket),
	       "one that it leaves to the kernel takes the later ones of the flush with it");
	put_two();
	flush_near(-EAGAIN, 0);
	TAP_OK(asked_near == 1 && !n_sent && xd_socket_tx_pending(&udp->socket),
	       "if it has no room, neither way gets a later one");
	flush_near(0, 0);
	TAP_OK(asked_near == 2 && !n_sent && !xd_socket_tx_pending(&udp->socket),
	       "they are sent when it has");
	udp->nearby = NULL;
}

/* ---- payload that is copied once ---- */

#define LONG 512u

static uint8_t memory[LONG];
/* Of a packet without extended headers */
static const struct xr_meta near_meta = { .ip_version = 4,
					  .ip_off = XR_ETH_HLEN,
					  .bth_off = BTH,
					  .payload_off = BTH + XR_BTH_HLEN,
					  .qpn = NEAR };
static bool put_unsealed; /* whether the last packet was without its payload */

/* Puts a SEND to wait, whose payload may stay in `memory`. */
static void put_long(void)
{
	const struct xt_seg payload[2] = { { memory, 100 }, { memory + 100, LONG - 100 } };
	uint32_t len = BTH + XR_BTH_HLEN + LONG + XR_ICRC_LEN;
	struct xt_frame f = {
		.meta = near_meta,
		.payload = payload,
		.n_payload = 2,
	};

	xd_udp_tx_get(&udp->socket, len, &f);
	write_headers(f.seg[0].data, len, XR_OP_SEND_ONLY, NEAR, f.ip_id);
	put_unsealed = f.unsealed;
	if (!f.unsealed)
		xt_frame_complete(&f);
	xd_udp_tx_put(&udp->socket, &f);
}

static bool sent_with(uint8_t byte)
{
	return n_sent == 1 && is_sent(0, 0, XR_OP_SEND_ONLY, NEAR) && sent[0].payload == byte;
}

static void test_payload_near(void)
{
	udp->nearby = &nearby;
	nearby.peers = true;
	memset(memory, 1, LONG);
	put(XR_OP_SEND_ONLY, NEAR, 8);
	flush_near(-EPIPE, 0);
	put_long();
	TAP_OK(!put_unsealed, "the first packets of a QP have their payload");
	flush_near(0, 0);
	put_long();
	TAP_OK(put_unsealed, "those that follow others to an engine of this host leave it");
	memset(memory, 2, LONG);
	flush_near(0, 0);
	TAP_OK(last_near.unsealed && last_near.parts == 4 && last_near.payload == 2 && !n_sent,
	       "so it is copied once, to that engine");
	put_long();
	memset(memory, 3, LONG);
	flush_near(-EPIPE, 0);
	TAP_OK(put_unsealed && sent_with(3), "the kernel gets it with the payload, and an ICRC");
	put_long();
	TAP_OK(!put_unsealed, "and the next one is made so");
	flush_near(0, 0);
	put_long();
	flush_near(-EAGAIN, 0);
	memset(memory, 4, LONG);
	xd_udp_complete(udp);
	memset(memory, 5, LONG);
	flush_near(0, 0);
	TAP_OK(!last_near.unsealed && last_near.parts == 1 && last_near.payload == 4,
	       "what waits is copied before the memory may change");
	put_long();
	nearby.peers = false;
	flush_near(0, 0);
	TAP_OK(put_unsealed && sent_with(5), "without engines of this host the kernel gets all");
	udp->nearby = NULL;
}

/* ---- large frames ---- */

static bool send_large(void)
{
	uint8_t headers[BTH + XR_BTH_HLEN + LONG + XR_ICRC_LEN];
	const struct xt_seg payload[2] = { { memory, 100 }, { memory + 100, 412 } };
	const struct xt_frame f = {
		.seg[0] = { headers, BTH + XR_BTH_HLEN },
		.nseg = 1,
		.len = sizeof(headers),
		.packets = 2,
		.unsealed = true,
		.meta = near_meta,
		.payload = payload,
		.n_payload = 2,
	};

	write_headers(headers, f.len, XR_OP_SEND_FIRST, NEAR, 0);
	asked_near = 0;
	return xd_udp_send_large(&udp->socket, &f);
}

static uint32_t large_packets(uint32_t qpn)
{
	const struct xt_path path = { .ip_version = 4 };

	return xd_udp_large_packets(&udp->socket, &path, qpn, 5);
}

static void test_send_large(void)
{
	udp->nearby = &nearby;
	nearby.peers = room_near = true;
	closed_near = false;
	TAP_OK(large_packets(NEAR) == 5 && large_packets(NEAR + 1) == 1,
	       "large frames may be sent to engines of this host");
	room_near = false;
	TAP_OK(!large_packets(NEAR), "not while one has no room");
	closed_near = true;
	TAP_OK(large_packets(NEAR) == 1, "and packets are if it takes no messages");
	nearby.peers = false;
	TAP_OK(large_packets(NEAR) == 1, "or if there is none");
	nearby.peers = true;
	memset(memory, 6, LONG);
	put(XR_OP_SEND_ONLY, NEAR, 8);
	answers[0] = answers[1] = 0;
	TAP_OK(send_large() && asked_near == 2 && last_near.packets == 2 &&
		       last_near.size == LONG / 2 && last_near.unsealed && last_near.payload == 6 &&
		       last_near.len == XR_BTH_HLEN + LONG + XR_ICRC_LEN,
	       "one is sent behind the packets that wait");
	put(XR_OP_SEND_ONLY, NEAR, 8);
	answers[0] = -EAGAIN;
	TAP_OK(!send_large() && asked_near == 1, "it is not if these have to wait");
	flush_near(0, 0);
	answers[0] = -EPIPE;
	TAP_OK(!send_large() && asked_near == 1 && !xd_udp_queued(&udp->socket),
	       "or if the engine takes no messages any more");
	udp->nearby = NULL;
}

/* Whether a frame is such a packet of the large frame */
static bool is_piece(const struct xt_frame *f, uint8_t opcode, uint32_t psn)
{
	const struct xr_bth *bth = (const void *)(f->seg[0].data + BTH);

	return f->packets == 1 && f->nseg == 3 && f->seg[0].len == BTH + XR_BTH_HLEN &&
	       f->seg[1].len == LARGE_PAYLOAD && f->len == BTH + XR_BTH_HLEN + valid_len &&
	       bth->opcode == opcode && bth->ack_psn == xr_be32(psn);
}

static void test_split_large(void)
{
	struct xt_frame f[XD_BATCH];
	uint32_t n;

	udp->splits = true;
	waiting_near = 1;
	large_near = LARGE_PACKETS;
	passed = 0;
	((struct xr_bth *)(void *)packet_near)->ack_psn = xr_be32(0xffffff);
	n = xd_udp_recv(&udp->socket, f, XD_BATCH, 0);
	TAP_OK(n == 3 && !passed && is_piece(&f[0], XR_OP_SEND_FIRST, 0xffffff) &&
		       is_piece(&f[1], XR_OP_SEND_MIDDLE, 0) &&
		       f[1].seg[1].data == f[0].seg[1].data + LARGE_PAYLOAD,
	       "for rules and captures, it is received as the packets that it stands for");
	TAP_OK(f[0].unsealed && f[1].unsealed && f[0].seg[2].data != f[1].seg[2].data,
	       "which have room for an ICRC each");
	waiting_near = 1;
	packet_near[0] = XR_OP_READ_REQUEST;
	TAP_OK(!xd_udp_recv(&udp->socket, f, XD_BATCH, 0) && !xd_socket_pending(&udp->socket),
	       "one that begins with another packet is dropped");
	memset(packet_near, 0, sizeof(packet_near));
	udp->splits = false;
}

static bool ip_id_ok;

static uint32_t id_of(const struct xt_frame *f)
{
	const struct xr_ipv4 *ip = (const void *)(f->seg[0].data + XR_ETH_HLEN);

	return xr_be16(ip->id);
}

/* Receives a message of three packets, `shorter` or not. Returns their opcodes' order. */
static const char *receive_joined(uint8_t first, uint8_t second, uint8_t third, bool shorter)
{
	static char order[4];
	struct xt_frame f[XD_BATCH];
	uint32_t n;

	memset(packet_near, 0, sizeof(packet_near));
	packet_near[0] = first;
	packet_near[JOINED] = second;
	packet_near[2 * JOINED] = third;
	waiting_near = 1;
	joined_near = 3 * JOINED - (shorter ? 4 : 0);
	n = xd_udp_recv(&udp->socket, f, XD_BATCH, 0);
	for (uint32_t i = 0; i < n && i < 3; i++)
		order[i] = f[i].seg[0].data[BTH] == XR_OP_ACK ? 'a' : 's';
	order[n < 3 ? n : 3] = 0;
	if (n == 3 && shorter && order[0] == 'a')
		ip_id_ok = id_of(&f[0]) == 2 && id_of(&f[1]) == 0 && id_of(&f[2]) == 1;
	return order;
}

static void test_receive_ack(void)
{
	udp->nearby = &nearby;
	nearby.open = false;
	all_valid = true;
	TAP_OK(!strcmp(receive_joined(XR_OP_SEND_ONLY, XR_OP_SEND_ONLY, XR_OP_ACK, true), "ass") &&
		       ip_id_ok,
	       "an ACK behind requests is received before them, with its identification");
	TAP_OK(!strcmp(receive_joined(XR_OP_SEND_ONLY, XR_OP_ACK, XR_OP_SEND_ONLY, true), "sas"),
	       "other packets in their order");
	TAP_OK(!strcmp(receive_joined(XR_OP_ACK, XR_OP_ACK, XR_OP_ACK, false), "aaa") &&
		       !xd_socket_pending(&udp->socket),
	       "and ACKs alone as well");
	TAP_OK(!strcmp(receive_joined(XR_OP_READ_RESP_ONLY, XR_OP_SEND_ONLY, XR_OP_ACK, true),
		       "ssa") &&
		       !strcmp(receive_joined(XR_OP_SEND_ONLY, XR_OP_READ_RESP_ONLY, XR_OP_ACK,
					      true),
			       "ssa"),
	       "an ACK behind another response stays there");
	joined_near = 0;
	all_valid = false;
	memset(packet_near, 0, sizeof(packet_near));
	udp->nearby = NULL;
}

static void test_receive_large(void)
{
	struct xt_frame frames[XD_BATCH];
	uint32_t n;

	udp->nearby = &nearby;
	nearby.open = false;
	waiting_near = 1;
	large_near = LARGE_PACKETS;
	valid_len = LARGE_PAYLOAD + XR_ICRC_LEN; /* of its first packet */
	n = xd_udp_recv(&udp->socket, frames, XD_BATCH, 0);
	TAP_OK(n == 1 && passed == 2 && frames[0].packets == 3 && frames[0].unsealed &&
		       frames[0].len == BTH + sizeof(packet_near) &&
		       frames[0].meta.payload_len == LARGE_PACKETS * LARGE_PAYLOAD,
	       "a large frame is received as one, and its first packet is checked");
	waiting_near = 1;
	large_near = LARGE_PACKETS + 1;
	TAP_OK(!xd_udp_recv(&udp->socket, frames, XD_BATCH, 0),
	       "one that is shorter than its packets is dropped");
	test_split_large();
	large_near = 0;
	valid_len = 0;
	udp->nearby = NULL;
}

/* Receives once. Returns 'k' if it was from the kernel, 'n' if from the engine, '-' if nothing. */
static char receive_one(void)
{
	struct xt_frame frames[XD_BATCH];
	uint32_t kernel = waiting, near = waiting_near;

	xd_udp_recv(&udp->socket, frames, XD_BATCH, 0);
	return waiting < kernel ? 'k' : waiting_near < near ? 'n' : '-';
}

static void test_receive_near(void)
{
	char got[12] = "";

	udp->nearby = &nearby;
	while (receive_one() != '-')
		;
	nearby.open = true;
	waiting = 1;
	waiting_near = 10;
	for (uint32_t i = 0; i < 11; i++)
		got[i] = receive_one();
	TAP_OK(!strcmp(got, "nnnnnnnnknn"), "the kernel is asked after 8 calls: %s", got);
	waiting_near = 10;
	nearby.open = false;
	waiting = 1;
	for (uint32_t i = 0; i < 11; i++)
		got[i] = receive_one();
	TAP_OK(!strcmp(got, "nnnnnnnnnnk"), "not before the end if they send no more: %s", got);
	nearby.open = true;
	waiting_near = 10;
	for (uint32_t i = 0; i < 10; i++)
		got[i] = receive_one();
	TAP_OK(!strncmp(got, "nnnnnnnnnn", 10), "no call returns nothing before: %.10s", got);
	waiting = 1;
	waiting_near = 2;
	follows = true;
	for (uint32_t i = 0; i < 3; i++)
		got[i] = receive_one();
	TAP_OK(!strncmp(got, "knn", 3) && !follows,
	       "what an engine sent through the kernel comes before what it sends now: %.3s", got);
	while (receive_one() != '-')
		;
	waiting = 2000;
	waiting_near = 1;
	follows = true;
	for (uint32_t i = 0; i < 100 && waiting_near; i++)
		receive_one();
	TAP_OK(!waiting_near && waiting, "a socket that is never empty does not delay it for ever");
	waiting = 0;
	waiting_near = 1;
	follows = true;
	TAP_OK(xd_socket_pending(&udp->socket) && receive_one() == 'n' &&
		       !xd_socket_pending(&udp->socket),
	       "a call that finds the socket empty looks further");
	udp->nearby = NULL;
}

/* Receives `n` messages, all of them dropped. Returns for how many the kernel is asked. */
static uint32_t asks_for(uint32_t n)
{
	struct xt_frame frames[XD_BATCH];

	waiting = n;
	xd_udp_recv(&udp->socket, frames, XD_BATCH, 0);
	return asked;
}

static void test_receive(void)
{
	static const uint32_t come[] = { 0, 1, 2, 4, 8, 16, 16, 3, 0, 1 };
	static const uint32_t ask[] = { 1, 1, 2, 4, 8, 16, 16, 16, 6, 1 };
	bool ok = true;

	for (uint32_t i = 0; i < sizeof(come) / sizeof(come[0]); i++)
		ok &= asks_for(come[i]) == ask[i];
	TAP_OK(ok, "the kernel is asked for twice the messages that came last, 1 to 16");
}

int main(void)
{
	static const uint8_t mac[6] = { 2 };

	udp = xd_udp_new(false, mac, true);
	udp->rx_fds = 1;
	for (uint32_t i = 0; i < XD_UDP_PORTS; i++)
		udp->tx.port[i] = (uint16_t)(PORT + i);
	if (!TAP_OK(!xd_udp_rx_init(udp) && !xd_udp_tx_init(udp), "buffers"))
		return tap_end();
	test_ack_and_request();
	test_apart();
	test_receive();
	test_send_near();
	test_payload_near();
	test_send_large();
	test_receive_near();
	test_receive_large();
	test_receive_ack();
	test_shared_message();
	udp->rx_fds = 0;
	xd_socket_close(&udp->socket);
	return tap_end();
}
