// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Hosts whose packets pass through UDP sockets: the code of daemon/udp/ above a simulated kernel,
 * which makes headers and segments of sent messages, joins received packets of a flow, and selects
 * the socket of a joined message by its first packet. So packets of a QP can arrive at the other
 * worker, and with another IPv4 identification than the one that the receiver assumes.
 */
#include <errno.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include "daemon/base/log.h"
#include "daemon/io/verdict.h"
#include "daemon/transport/wire/checksum.h"
#include "daemon/udp/calls.h"
#include "daemon/base/segmentation.h"
#include "daemon/udp/udp.h"
#include "selftests/lib/parse.h"
#include "sim.h"

#define IP_DF 0x4000
#define FIRST_FD 1000
#define FDS (1 + XD_UDP_PORTS) /* of an engine: one receives */
#define FIRST_PORT 0xc000      /* of the range that verify_packet() expects */
/* UDP payload of a message: the kernel's limit */
#define MOST_BYTES (UINT16_MAX - XR_IPV4_HLEN - XR_UDP_HLEN)

/* Received packets of a flow, joined */
struct datagram {
	struct datagram *next;
	uint64_t seq;
	struct xr_addr src, dst;
	uint16_t sport;
	uint8_t traffic_class, ttl;
	bool ended;	      /* the last packet is shorter */
	uint32_t size, count; /* bytes of each packet but the last, packets */
	uint32_t len;
	uint8_t data[MOST_BYTES];
};

struct sim_udp {
	struct xd_udp u; /* first */
	struct sim_engine *e;
	bool segments; /* the kernel can segment */
	struct datagram *queue;
	uint32_t packets; /* in the queue */
};

static struct sim_udp *sockets[MAX_HOSTS * MAX_ENGINES];

/* ---- what the code of daemon/udp/ calls ------------------------------------------------------ */

/* net_arrive() has applied the checks of the tables. */
bool xd_verdict(struct xd_verdict *v, const struct xd_headers *h, uint64_t now,
		struct xr_meta *meta)
{
	struct xt_frame f = {
		.seg[0] = { (uint8_t *)h->bytes, h->copied },
		.nseg = 1,
		.len = h->len,
	};

	if (parse_frame(&f) != XR_OK)
		return false;
	*meta = f.meta;
	return true;
}

/* The simulated kernel gives datagrams of groups to no socket of the host that sends them. */
void xd_verdict_pass(struct xd_verdict *v, uint32_t packets, uint32_t bytes)
{
	(void)v, (void)packets, (void)bytes;
}

bool xd_verdict_is_own(struct xd_verdict *v, const struct xr_addr *addr)
{
	return false;
}

void xd_log_at(struct xd_log_site *site, enum xd_log_level level, const char *fmt, ...)
{
}

static struct sim_udp *socket_of(int fd)
{
	return sockets[(fd - FIRST_FD) / FDS];
}

/* ---- sending --------------------------------------------------------------------------------- */

struct sending {
	struct xr_addr src, dst;
	uint8_t traffic_class, ttl;
	uint16_t sport;
	uint32_t size; /* of segments; 0: there is one */
	uint8_t data[MOST_BYTES];
	uint32_t len;
};

static int int_of(const struct cmsghdr *c)
{
	int value;

	memcpy(&value, CMSG_DATA(c), sizeof(value));
	return value;
}

static void read_option(struct sending *s, const struct cmsghdr *c)
{
	const void *data = CMSG_DATA(c);

	if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_SEGMENT)
		s->size = *(const uint16_t *)data;
	else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO)
		xr_gid_set_ipv4(&s->src, ((const struct in_pktinfo *)data)->ipi_spec_dst.s_addr);
	else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO)
		memcpy(&s->src, &((const struct in6_pktinfo *)data)->ipi6_addr, sizeof(s->src));
	else if (c->cmsg_type == (c->cmsg_level == IPPROTO_IP ? IP_TOS : IPV6_TCLASS))
		s->traffic_class = (uint8_t)int_of(c);
	else if (c->cmsg_type == (c->cmsg_level == IPPROTO_IP ? IP_TTL : IPV6_HOPLIMIT))
		s->ttl = (uint8_t)int_of(c);
}

static void read_message(struct world *w, struct sending *s, struct msghdr *h)
{
	const struct sockaddr_in6 *to = h->msg_name;
	struct cmsghdr *c;
	size_t i;

	s->len = s->size = s->traffic_class = 0;
	s->ttl = XD_UDP_TTL;
	CHECK(w, to->sin6_family == AF_INET6 && to->sin6_port == htobe16(XR_UDP_PORT),
	      "a message to another port");
	memcpy(&s->dst, &to->sin6_addr, sizeof(s->dst));
	for (c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c))
		read_option(s, c);
	for (i = 0; i < h->msg_iovlen; i++) {
		CHECK(w, s->len + h->msg_iov[i].iov_len <= sizeof(s->data),
		      "a message is too long for the kernel");
		memcpy(s->data + s->len, h->msg_iov[i].iov_base, h->msg_iov[i].iov_len);
		s->len += (uint32_t)h->msg_iov[i].iov_len;
	}
}

static uint32_t write_ip(const struct sending *s, uint8_t *ip, uint32_t n, uint32_t index)
{
	uint16_t udp_len = (uint16_t)(XR_UDP_HLEN + n);
	struct xr_ipv4 *v4 = (struct xr_ipv4 *)ip;
	struct xr_ipv6 *v6 = (struct xr_ipv6 *)ip;

	if (xr_gid_is_ipv4(&s->dst)) {
		*v4 = (struct xr_ipv4){
			.version_ihl = 0x45,
			.tos = s->traffic_class,
			.len = xr_be16(XR_IPV4_HLEN + udp_len),
			.id = xr_be16((uint16_t)index),
			.frag = xr_be16(IP_DF),
			.ttl = s->ttl,
			.protocol = XR_IPPROTO_UDP,
		};
		memcpy(&v4->src, s->src.raw + XR_GID_IPV4_OFF, 4);
		memcpy(&v4->dst, s->dst.raw + XR_GID_IPV4_OFF, 4);
		v4->check = (__be16)~xr_ipv4_sum(v4);
		return XR_IPV4_HLEN;
	}
	*v6 = (struct xr_ipv6){
		.version_class = (__u8)(6 << 4 | s->traffic_class >> 4),
		.class_flow = { (__u8)(s->traffic_class << 4) },
		.len = xr_be16(udp_len),
		.next_header = XR_IPPROTO_UDP,
		.hop_limit = s->ttl,
	};
	memcpy(v6->src, s->src.raw, 16);
	memcpy(v6->dst, s->dst.raw, 16);
	return XR_IPV6_HLEN;
}

/* Ones' complement sum of a datagram whose checksum is 0; the result is never 0. */
static uint16_t checksum(const uint8_t *ip, const uint8_t *udp, uint32_t len)
{
	uint64_t sum = xt_pseudo_header_sum(ip, len);
	uint16_t half;
	uint32_t i;

	for (i = 0; i < len; i += 2) {
		half = 0;
		memcpy(&half, udp + i, len - i < 2 ? 1 : 2);
		sum += half;
	}
	while (sum >> 16)
		sum = (sum >> 16) + (sum & 0xffff);
	return sum == 0xffff ? 0xffff : (uint16_t)~sum;
}

/* Sends a segment, as the kernel does. */
static void send_segment(struct sim_engine *e, const struct sending *s, uint32_t off, uint32_t n,
			 uint32_t index)
{
	struct world *w = e->w;
	struct frame *f = malloc(sizeof(*f) + XD_UDP_NETWORK + n);
	struct xr_udp udp = {
		.src = xr_be16(s->sport),
		.dst = xr_be16(XR_UDP_PORT),
		.len = xr_be16((uint16_t)(XR_UDP_HLEN + n)),
	};
	uint8_t *ip = f->data + XR_ETH_HLEN, *at;
	struct xt_frame whole;

	memset(f->data, 0, XR_ETH_HLEN);
	f->data[12] = xr_gid_is_ipv4(&s->dst) ? 0x08 : 0x86;
	f->data[13] = xr_gid_is_ipv4(&s->dst) ? 0x00 : 0xdd;
	at = ip + write_ip(s, ip, n, index);
	memcpy(at + XR_UDP_HLEN, s->data + off, n);
	memcpy(at, &udp, sizeof(udp));
	udp.check = checksum(ip, at, XR_UDP_HLEN + n);
	memcpy(at, &udp, sizeof(udp));
	f->len = f->first = (uint32_t)(at - f->data) + XR_UDP_HLEN + n;
	f->packets = 1;
	f->from = e->host->index;
	f->invalid = f->damaged = false;
	whole = (struct xt_frame){ .seg[0] = { f->data, f->len }, .nseg = 1, .len = f->len };
	CHECK(w, parse_frame(&whole) == XR_OK, "a socket sent a malformed packet");
	CHECK(w, xt_icrc_ok(&whole), "the kernel wrote other headers than the ICRC covers");
	f->meta = whole.meta;
	f->flight.seq = w->frame_seq++;
	net_send(e, f);
}

/* Returns 0 or a negative error. */
static int send_message(int fd, struct msghdr *h)
{
	struct sim_udp *s = socket_of(fd);
	struct world *w = s->e->w;
	struct sending m;
	uint32_t off, n, index = 0;

	read_message(w, &m, h);
	m.sport = s->u.tx.port[(fd - FIRST_FD) % FDS - 1];
	if (w->tight_tx && rng_chance(&w->sched, 20))
		return -EAGAIN;
	if (m.size && !s->segments)
		return -EIO;
	if (!m.size)
		m.size = m.len;
	CHECK(w, m.len <= m.size * XD_UDP_SEGMENTS, "more segments than the kernel makes");
	for (off = 0; off < m.len; off += n) {
		n = m.len - off < m.size ? m.len - off : m.size;
		send_segment(s->e, &m, off, n, index++);
	}
	return 0;
}

int xd_udp_sendmmsg(int fd, struct mmsghdr *msg, unsigned int n)
{
	unsigned int i;
	int err = 0;

	for (i = 0; i < n; i++) {
		err = send_message(fd, &msg[i].msg_hdr);
		if (err)
			break;
	}
	if (i)
		return (int)i;
	errno = -err;
	return -1;
}

int xd_udp_sendmsg(int fd, struct msghdr *h)
{
	int err = send_message(fd, h);

	errno = -err;
	return err ? -1 : 0;
}

bool udp_tx_get(struct sim_engine *e, uint32_t len, struct xt_frame *frame)
{
	return xd_udp_tx_get(&e->udp->u.socket, len, frame);
}

void udp_tx_put(struct sim_engine *e, const struct xt_frame *frame)
{
	xd_udp_tx_put(&e->udp->u.socket, frame);
}

bool udp_flush(struct sim_engine *e, bool more)
{
	xd_udp_tx_flush(&e->udp->u.socket, more);
	return e->udp->u.tx.messages;
}

/* ---- receiving ------------------------------------------------------------------------------- */

/* The addresses and ports of a packet, and what the kernel tells beside them */
static void describe(const struct frame *f, struct datagram *d)
{
	const uint8_t *ip = f->data + f->meta.ip_off,
		      *udp = f->data + f->meta.bth_off - XR_UDP_HLEN;

	memset(d, 0, offsetof(struct datagram, data));
	d->sport = (uint16_t)(udp[0] << 8 | udp[1]);
	d->size = f->len - f->meta.bth_off;
	if (f->meta.ip_version == 4) {
		xr_gid_set_ipv4(&d->src, ((const struct xr_ipv4 *)ip)->src);
		xr_gid_set_ipv4(&d->dst, ((const struct xr_ipv4 *)ip)->dst);
		d->traffic_class = ip[1];
		d->ttl = ip[8];
		return;
	}
	memcpy(&d->src, ip + 8, 16);
	memcpy(&d->dst, ip + 24, 16);
	d->traffic_class = (uint8_t)(ip[0] << 4 | ip[1] >> 4);
	d->ttl = ip[7];
}

static bool same_flow(const struct datagram *a, const struct datagram *b)
{
	return a->sport == b->sport && a->traffic_class == b->traffic_class && a->ttl == b->ttl &&
	       !memcmp(&a->src, &b->src, sizeof(a->src)) &&
	       !memcmp(&a->dst, &b->dst, sizeof(a->dst));
}

static uint32_t qpn_at(const uint8_t *bth)
{
	return (uint32_t)bth[5] << 16 | bth[6] << 8 | bth[7];
}

/*
 * Returns the message that a packet continues, NULL if there is none; *at: its socket. If packets
 * of several QPs are joined, those of one QP can overtake each other, which is as if one was lost.
 */
static struct datagram *to_continue(struct host *h, const struct frame *f,
				    const struct datagram *packet, struct sim_udp **at)
{
	struct datagram *last = NULL, *d;
	struct world *w = h->w;
	unsigned i;

	for (i = 0; i < h->engines; i++)
		for (d = h->engine[i].udp->queue; d; d = d->next)
			if (same_flow(d, packet) && (!last || d->seq > last->seq)) {
				last = d;
				*at = h->engine[i].udp;
			}
	if (!last || last->ended || packet->size > last->size || last->count >= XD_UDP_SEGMENTS ||
	    last->len + packet->size > sizeof(last->data))
		return NULL;
	if (qpn_at(last->data) != f->meta.qpn && !xd_faults_on(w->faults, XD_FAULT_TX))
		return NULL;
	return rng_chance(&w->sched, 85) ? last : NULL;
}

static void append(struct sim_udp *s, struct datagram *d, const struct frame *f)
{
	const struct xr_ipv4 *ip = (const struct xr_ipv4 *)(f->data + f->meta.ip_off);
	uint32_t n = f->len - f->meta.bth_off;

	memcpy(d->data + d->len, f->data + f->meta.bth_off, n);
	d->len += n;
	d->ended = n < d->size;
	if (f->meta.ip_version == 4)
		s->e->w->other_ids += ip->id != xr_be16((uint16_t)d->count);
	d->count++;
	s->packets++;
}

/* The program of xd_udp_steer(); multicast arrives at the first socket. */
static struct sim_engine *steer(struct host *h, const struct frame *f)
{
	struct sim_engine *e = &h->engine[f->meta.qpn % h->engines];
	struct xt_qp *qp = xt_qp_by_num(h->shared.qps, f->meta.qpn);

	if (f->meta.qpn == XR_MULTICAST_QPN || f->meta.qpn == XR_GSI_QPN)
		return &h->engine[0];
	CHECK(h->w, !qp || xt_qp_info(qp)->engine == e->engine,
	      "QP %06x belongs to a worker to which its packets are not steered", f->meta.qpn);
	return e;
}

/* The checks of the kernel. A checksum of Ethernet detects damage if there is none of UDP. */
static bool kernel_accepts(const struct frame *f)
{
	const uint8_t *check = f->data + f->meta.bth_off - 2;
	const struct xt_frame whole = {
		.seg[0] = { (uint8_t *)f->data, f->len },
		.nseg = 1,
		.len = f->len,
		.meta = f->meta,
	};

	return xt_udp_checksum_ok(&whole) && !(f->damaged && !check[0] && !check[1]);
}

const char *udp_arrive(struct host *h, struct frame *f)
{
	struct datagram *d = malloc(sizeof(*d)), *last, **tail;
	struct sim_udp *s = NULL;
	uint64_t late;

	describe(f, d);
	if (!kernel_accepts(f)) {
		free(d);
		return "SUM";
	}
	last = to_continue(h, f, d, &s);
	if (!last)
		s = steer(h, f)->udp;
	if (s->packets >= h->w->inbox_max) {
		free(d);
		return "FULL";
	}
	if (last) {
		append(s, last, f);
		free(d);
	} else {
		append(s, d, f);
		d->seq = h->datagrams++;
		for (tail = &s->queue; *tail; tail = &(*tail)->next)
			;
		*tail = d;
	}
	/* Packets are joined while a worker has no processor. */
	late = rng_chance(&h->w->sched, 30) ? 100 * USEC : 3 * USEC;
	engine_wake(s->e, h->w->now + rng_below(&h->w->sched, late));
	return NULL;
}

static void add_control(struct msghdr *h, int level, int type, const void *data, size_t len)
{
	struct cmsghdr *c = (void *)((uint8_t *)h->msg_control + h->msg_controllen);

	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(len);
	memcpy(CMSG_DATA(c), data, len);
	h->msg_controllen += CMSG_SPACE(len);
}

/* Fills what recvmmsg() returns of a message to a socket of family AF_INET6. */
static void describe_to_daemon(const struct datagram *d, struct msghdr *h)
{
	struct sockaddr_in6 *from = h->msg_name;
	struct in6_pktinfo v6 = { 0 };
	struct in_pktinfo v4 = { 0 };
	int class = d->traffic_class, ttl = d->ttl, size = (int)d->size;

	*from = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htobe16(d->sport) };
	memcpy(&from->sin6_addr, &d->src, sizeof(d->src));
	h->msg_controllen = 0;
	if (xr_gid_is_ipv4(&d->dst)) {
		memcpy(&v4.ipi_addr, d->dst.raw + XR_GID_IPV4_OFF, 4);
		add_control(h, IPPROTO_IP, IP_PKTINFO, &v4, sizeof(v4));
		add_control(h, IPPROTO_IP, IP_TOS, &d->traffic_class, 1);
		add_control(h, IPPROTO_IP, IP_TTL, &ttl, sizeof(ttl));
	} else {
		memcpy(&v6.ipi6_addr, &d->dst, sizeof(d->dst));
		add_control(h, IPPROTO_IPV6, IPV6_PKTINFO, &v6, sizeof(v6));
		add_control(h, IPPROTO_IPV6, IPV6_TCLASS, &class, sizeof(class));
		add_control(h, IPPROTO_IPV6, IPV6_HOPLIMIT, &ttl, sizeof(ttl));
	}
	if (d->count > 1)
		add_control(h, IPPROTO_UDP, UDP_GRO, &size, sizeof(size));
}

int xd_udp_recvmmsg(int fd, struct mmsghdr *msg, unsigned int most)
{
	struct sim_udp *s = socket_of(fd);
	unsigned n = 0, want = rng_between(&s->e->w->sched, 1, most);
	struct datagram *d;

	for (; n < want && (d = s->queue); n++) {
		s->queue = d->next;
		s->packets -= d->count;
		CHECK(s->e->w, d->len <= msg[n].msg_hdr.msg_iov->iov_len, "a message is cut off");
		memcpy(msg[n].msg_hdr.msg_iov->iov_base, d->data, d->len);
		msg[n].msg_len = d->len;
		describe_to_daemon(d, &msg[n].msg_hdr);
		free(d);
	}
	errno = EAGAIN;
	return n ? (int)n : -1;
}

void udp_receive(struct sim_engine *e, unsigned most)
{
	struct xd_socket *s = &e->udp->u.socket;
	struct xt_frame batch[XD_BATCH];
	unsigned n = xd_udp_recv(s, batch, most, e->w->now);

	if (!n)
		return;
	xt_engine_rx(e->engine, batch, n, e->w->now);
	xd_udp_recv_done(s);
}

bool udp_has_received(struct sim_engine *e)
{
	return e->udp->queue || xd_udp_rx_pending(&e->udp->u.socket);
}

/* ---- hosts ----------------------------------------------------------------------------------- */

void udp_open(struct sim_engine *e)
{
	unsigned index = e->host->index * MAX_ENGINES + (unsigned)(e - e->host->engine);
	struct sim_udp *s = calloc(1, sizeof(*s));

	e->udp = sockets[index] = s;
	s->e = e;
	s->segments = rng_chance(&e->w->rng, 85);
	s->u.ipv6 = true;
	s->u.socket.fd = s->u.rx_fd[0] = FIRST_FD + (int)index * FDS;
	s->u.rx_fds = 1;
	host_mac(e->host, s->u.mac);
	s->u.tx.joins = rng_chance(&e->w->rng, 90);
	for (int i = 0; i < XD_UDP_PORTS; i++) {
		s->u.tx.fd[i] = s->u.socket.fd + 1 + i;
		s->u.tx.port[i] = (uint16_t)(FIRST_PORT + index * XD_UDP_PORTS + i);
	}
	CHECK(e->w, !xd_udp_rx_init(&s->u) && !xd_udp_tx_init(&s->u), "no memory");
}

void udp_tune(const struct sim_engine *e, struct xt_tuning *t)
{
	struct rng *r = &e->w->rng;

	t->ports = e->udp->u.tx.port;
	t->n_ports = rng_chance(r, 30) ? XD_UDP_PORTS : 1; /* one flow: many packets are joined */
	if (e->host->engines > 1) {
		t->qpn_modulus = e->host->engines;
		t->qpn_rest = (uint32_t)(e - e->host->engine);
	}
}

void udp_close(struct sim_engine *e)
{
	struct sim_udp *s = e->udp;
	struct datagram *d;

	while ((d = s->queue)) {
		s->queue = d->next;
		free(d);
	}
	xd_udp_rx_free(&s->u);
	xd_udp_tx_free(&s->u);
	free(s);
}
