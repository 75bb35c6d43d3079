// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Frames as datagrams. Only what is behind the UDP header is passed to the kernel; the IP header
 * that the engine has built says where it goes. Packets of a QP that wait at the same time form one
 * message, which the kernel segments (UDP_SEGMENT). So do packets of one length of several QPs, if
 * one socket of the peer receives for all of them: the first packet says which. All messages from
 * one port leave in one call.
 */
#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <xroce/opcode.h>
#include <xroce/parse.h>

#include "daemon/base/log.h"
#include "daemon/io/count.h"
#include "daemon/io/gso_run.h"
#include "daemon/transport/wire/icrc.h"
#include "daemon/base/segmentation.h"
#include "udp.h"

#define CACHE_LINE 64u
/* Room for the longest frame, the start of its payload aligned, in whole cache lines */
#define BUFFER (((uint32_t)XT_MAX_FRAME + 2 * CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE)
/* The kernel's limit for the UDP payload of a message, which is that of IPv4 */
#define MAX_MESSAGE (UINT16_MAX - XR_IPV4_HLEN - XR_UDP_HLEN)
#define NONE UINT32_MAX
/* Bytes with ICRC: to remember where a shorter payload is takes as long as to copy it. */
#define LONG_PAYLOAD 256u

int xd_udp_tx_init(struct xd_udp *u)
{
	size_t size = (size_t)XD_UDP_TX_FRAMES * BUFFER;

	u->tx.area = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (u->tx.area == MAP_FAILED) {
		u->tx.area = NULL;
		return -ENOMEM;
	}
	madvise(u->tx.area, size, MADV_HUGEPAGE);
	return 0;
}

void xd_udp_tx_free(struct xd_udp *u)
{
	if (u->tx.area)
		munmap(u->tx.area, (size_t)XD_UDP_TX_FRAMES * BUFFER);
}

/* ---- messages ----------------------------------------------------------------------------- */

static uint32_t dest_qpn(const struct xd_udp_frame *f)
{
	const struct xr_bth *bth = (const void *)(f->data + f->meta.bth_off);

	return xr_be32(bth->fecn_dqpn) & XR_QPN_MASK;
}

/* Returns the last bytes of the destination address, which precede the UDP header. */
static uint32_t address_part(const struct xd_udp_frame *f)
{
	uint32_t part;

	memcpy(&part, f->data + f->meta.bth_off - XR_UDP_HLEN - sizeof(part), sizeof(part));
	return part;
}

static uint8_t opcode(const struct xd_udp_frame *f)
{
	return f->data[f->meta.bth_off];
}

static bool is_ack(const struct xd_udp_frame *f)
{
	return (opcode(f) & ~XR_CLASS_MASK) == XR_OP_ACK;
}

static bool is_other_response(const struct xd_udp_frame *f)
{
	return xr_opcodes[opcode(f)].flags & XR_OPF_RESPONSE && !is_ack(f);
}

/* Returns what is known of the QP that sends a frame. */
static struct xd_udp_qp *sender(struct xd_udp *u, const struct xd_udp_frame *f)
{
	struct xd_udp_qp *qp = xd_udp_qp_place(u, f->meta.qpn);
	uint32_t dqpn = dest_qpn(f), address = address_part(f);

	if (qp->qpn != f->meta.qpn)
		*qp = (struct xd_udp_qp){ .qpn = f->meta.qpn };
	if (qp->dqpn != dqpn || qp->address != address) {
		qp->dqpn = dqpn;
		qp->address = address;
		qp->peer_port = 0;
	}
	return qp;
}

/* Returns the last message of a QP, NULL if there is none. */
static struct xd_udp_message *message_of(struct xd_udp_tx *tx, const struct xd_udp_qp *qp)
{
	return qp->last && qp->flush == tx->flush ? &tx->message[qp->last - 1] : NULL;
}

/* Returns true if a message has room for a packet with `size` bytes behind UDP. */
static bool send_has_room(const struct xd_udp_tx *tx, const struct xd_udp_message *m, uint32_t size)
{
	return tx->joins && !m->is_sent && !m->ended && size <= m->size &&
	       m->count < XD_UDP_SEGMENTS && m->total + size <= MAX_MESSAGE;
}

/* Returns the index of the port that a frame is sent from: any for one that is not of here. */
static uint32_t send_port_of(const struct xd_udp_tx *tx, const struct xd_udp_frame *f)
{
	const struct xr_udp *udp = (const void *)(f->data + f->meta.bth_off - XR_UDP_HLEN);
	uint32_t i = 0;

	while (i < XD_UDP_PORTS - 1 && tx->port[i] != xr_be16(udp->src))
		i++;
	return i;
}

/*
 * Returns the message for several QPs that a packet could join, unless it precedes a message that
 * the QP has already. Only packets of the same length join it, as a shorter one would be the last.
 */
static struct xd_udp_message *shared_message(struct xd_udp_tx *tx, const struct xd_udp_qp *qp,
					     uint32_t size, bool ack)
{
	uint8_t at = tx->shared[ack];
	struct xd_udp_message *m = at ? &tx->message[at - 1] : NULL;

	if (!m || !qp->peer_port || m->peer_port != qp->peer_port || m->size != size ||
	    !send_has_room(tx, m, size))
		return NULL;
	return qp->flush == tx->flush && qp->last > at ? NULL : m;
}

static struct xd_udp_message *send_begin_message(struct xd_udp_tx *tx, const struct xd_udp_qp *qp,
						 uint32_t index, uint32_t size)
{
	struct xd_udp_message *m = &tx->message[tx->messages++];
	const struct xd_udp_frame *f = &tx->frame[index];
	bool reliable = (opcode(f) & XR_CLASS_MASK) == XR_CLASS_RC;

	*m = (struct xd_udp_message){
		.first = index,
		.last = index,
		.count = 1,
		.size = size,
		.total = size,
		.port = send_port_of(tx, f),
		.peer_port = reliable ? qp->peer_port : 0,
		.acks = is_ack(f),
	};
	if (m->peer_port)
		tx->shared[m->acks] = (uint8_t)tx->messages;
	return m;
}

static void send_join(struct xd_udp_tx *tx, struct xd_udp_message *m, uint32_t index, uint32_t size)
{
	tx->frame[m->last].next = index;
	m->last = index;
	m->count++;
	m->total += size;
	m->ended = size < m->size;
	m->acks &= is_ack(&tx->frame[index]);
}

/* ---- frames ------------------------------------------------------------------------------- */

static bool is_full(const struct xd_udp_tx *tx)
{
	return tx->frames == XD_UDP_TX_FRAMES || tx->messages == XD_UDP_TX_MESSAGES;
}

/*
 * Returns true for a payload that is copied once, when the frame goes to an engine of this host,
 * as the last one of its QP did.
 */
static bool leaves_payload(const struct xd_udp_qp *qp, const struct xt_frame *f)
{
	return qp->nearby && f->n_payload && f->n_payload <= XD_UDP_PIECES &&
	       f->len - f->meta.payload_off >= LONG_PAYLOAD;
}

/* Returns the identification of a packet that is going to be put. It is set again then. */
static uint16_t expected_id(struct xd_udp_tx *tx, const struct xd_udp_qp *qp, uint32_t size)
{
	const struct xd_udp_message *m = message_of(tx, qp);

	if (!m || !send_has_room(tx, m, size))
		m = shared_message(tx, qp, size, false);
	return m ? (uint16_t)m->count : 0;
}

bool xd_udp_tx_get(struct xd_socket *s, uint32_t len, struct xt_frame *f)
{
	struct xd_udp *u = xd_udp_of(s);
	const struct xd_udp_qp *qp = xd_udp_qp_of(u, f->meta.qpn);
	struct xd_udp_tx *tx = &u->tx;
	uint8_t *data;

	if (is_full(tx))
		xd_udp_tx_flush(s, false);
	if (is_full(tx)) {
		xd_count(&u->stats.tx_full, 1);
		return false;
	}
	data = tx->area + (size_t)tx->frames * BUFFER;
	f->ip_id = qp ? expected_id(tx, qp, len - f->meta.bth_off) : 0;
	f->len = len;
	f->nseg = 1;
	f->seg[0] = (struct xt_seg){ data + -f->meta.payload_off % CACHE_LINE, len };
	f->unsealed = qp && leaves_payload(qp, f);
	return true;
}

static void keep_payload(struct xd_udp_tx *tx, struct xd_udp_frame *slot, const struct xt_frame *f)
{
	slot->pieces = f->unsealed ? f->n_payload : 0;
	for (uint32_t i = 0; i < slot->pieces; i++)
		slot->piece[i] = f->payload[i];
	tx->incomplete |= f->unsealed;
}

static bool send_continues(const struct xd_udp_tx *tx, const struct xd_udp_message *m,
			   const struct xd_udp_frame *f)
{
	const struct xd_udp_frame *first = &tx->frame[m->first];

	return xd_gso_continues(first->data, &first->meta, f->data, &f->meta, m->count);
}

/*
 * The same for a packet of another QP. ACKs stay among themselves: behind requests, the receiver
 * would take only the last one first.
 */
static bool continues_for_peer(const struct xd_udp_tx *tx, const struct xd_udp_message *m,
			       const struct xd_udp_frame *f)
{
	const struct xd_udp_frame *first = &tx->frame[m->first];

	return (opcode(f) & XR_CLASS_MASK) == XR_CLASS_RC && is_ack(f) == m->acks &&
	       xd_gso_continues_flow(first->data, &first->meta, f->data, &f->meta, m->count);
}

/* Returns the message that a frame continues, with its identification set to that; NULL: none */
static struct xd_udp_message *find_message(struct xd_udp_tx *tx, const struct xd_udp_qp *qp,
					   const struct xd_udp_frame *slot,
					   const struct xt_frame *f, uint32_t size)
{
	struct xd_udp_message *m = message_of(tx, qp);

	if (m && send_has_room(tx, m, size)) {
		xt_icrc_set_id(f, (uint16_t)m->count);
		if (send_continues(tx, m, slot))
			return m;
	}
	m = shared_message(tx, qp, size, is_ack(slot));
	if (m) {
		xt_icrc_set_id(f, (uint16_t)m->count);
		if (continues_for_peer(tx, m, slot))
			return m;
	}
	xt_icrc_set_id(f, 0);
	return NULL;
}

void xd_udp_tx_put(struct xd_socket *s, const struct xt_frame *f)
{
	struct xd_udp *u = xd_udp_of(s);
	struct xd_udp_tx *tx = &u->tx;
	uint32_t index = tx->frames++, size = f->len - f->meta.bth_off;
	struct xd_udp_frame *slot = &tx->frame[index];
	struct xd_udp_message *m;
	struct xd_udp_qp *qp;

	slot->data = f->seg[0].data;
	slot->len = f->len;
	slot->next = NONE;
	slot->meta = f->meta;
	keep_payload(tx, slot, f);
	tx->responses |= is_other_response(slot);
	qp = sender(u, slot);
	m = find_message(tx, qp, slot, f, size);
	if (m)
		send_join(tx, m, index, size);
	else
		m = send_begin_message(tx, qp, index, size);
	qp->last = (uint8_t)(m - tx->message + 1);
	qp->flush = tx->flush;
}

/* The buffer is that of the next frame. */
void xd_udp_tx_cancel(struct xd_socket *s, const struct xt_frame *f)
{
	(void)s;
	(void)f;
}

/* ---- system calls ------------------------------------------------------------------------- */

static void add_control(struct msghdr *h, int level, int type, const void *data, size_t len)
{
	struct cmsghdr *c = (void *)((uint8_t *)h->msg_control + h->msg_controllen);

	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(len);
	memcpy(CMSG_DATA(c), data, len);
	h->msg_controllen += CMSG_SPACE(len);
}

static void address_ipv4(const struct xd_udp *u, const struct xr_ipv4 *ip, struct xd_udp_parts *p,
			 struct msghdr *h)
{
	struct in_pktinfo info = { .ipi_spec_dst.s_addr = ip->src };
	int tos = ip->tos, ttl = ip->ttl;
	struct sockaddr_in *in = (void *)&p->to;

	if (u->ipv6) {
		p->to = (struct sockaddr_in6){ .sin6_family = AF_INET6,
					       .sin6_port = htons(XR_UDP_PORT) };
		p->to.sin6_addr.s6_addr16[5] = 0xffff;
		memcpy(&p->to.sin6_addr.s6_addr32[3], &ip->dst, 4);
		h->msg_namelen = sizeof(p->to);
	} else {
		*in = (struct sockaddr_in){ .sin_family = AF_INET,
					    .sin_port = htons(XR_UDP_PORT),
					    .sin_addr.s_addr = ip->dst };
		h->msg_namelen = sizeof(*in);
	}
	add_control(h, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
	if (tos)
		add_control(h, IPPROTO_IP, IP_TOS, &tos, sizeof(tos));
	if (ttl != XD_UDP_TTL)
		add_control(h, IPPROTO_IP, IP_TTL, &ttl, sizeof(ttl));
}

static void address_ipv6(const uint8_t *ip, struct xd_udp_parts *p, struct msghdr *h)
{
	struct in6_pktinfo info = { 0 };
	int class = (ip[0] & 15) << 4 | ip[1] >> 4, limit = ip[7];

	p->to = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons(XR_UDP_PORT) };
	memcpy(&p->to.sin6_addr, ip + 24, 16);
	memcpy(&info.ipi6_addr, ip + 8, 16);
	h->msg_namelen = sizeof(p->to);
	add_control(h, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof(info));
	if (class)
		add_control(h, IPPROTO_IPV6, IPV6_TCLASS, &class, sizeof(class));
	if (limit != XD_UDP_TTL)
		add_control(h, IPPROTO_IPV6, IPV6_HOPLIMIT, &limit, sizeof(limit));
}

static void add_to_batch(const struct xd_udp *u, struct xd_udp_batch *b, uint32_t index)
{
	const struct xd_udp_message *m = &u->tx.message[index];
	const struct xd_udp_frame *first = &u->tx.frame[m->first];
	const uint8_t *ip = first->data + first->meta.ip_off;
	struct xd_udp_parts *p = &b->parts[b->count];
	struct msghdr *h = &b->msg[b->count].msg_hdr;
	uint16_t size = (uint16_t)m->size;

	*h = (struct msghdr){
		.msg_name = &p->to,
		.msg_iov = &b->iov[b->iovs],
		.msg_iovlen = m->count,
		.msg_control = p->control,
	};
	for (uint32_t i = m->first; i != NONE; i = u->tx.frame[i].next) {
		const struct xd_udp_frame *f = &u->tx.frame[i];

		b->iov[b->iovs++] = (struct iovec){ f->data + f->meta.bth_off,
						    f->len - f->meta.bth_off };
	}
	if (first->meta.ip_version == 4)
		address_ipv4(u, (const struct xr_ipv4 *)ip, p, h);
	else
		address_ipv6(ip, p, h);
	if (m->count > 1)
		add_control(h, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof(size));
	b->msg[b->count].msg_len = 0;
	b->index[b->count++] = index;
}

static void note_sent(struct xd_udp *u, uint32_t index)
{
	struct xd_udp_message *m = &u->tx.message[index];

	m->is_sent = true;
	u->tx.unsent--;
	if (m->count < 2)
		return;
	xd_count(&u->stats.tx_gso_frames, 1);
	xd_count(&u->stats.tx_gso_packets, m->count);
}

static void set_id(const struct xd_udp_frame *f, uint16_t id)
{
	const struct xt_frame frame = {
		.seg[0] = { f->data, f->len },
		.nseg = 1,
		.len = f->len,
		.meta = f->meta,
	};

	xt_icrc_set_id(&frame, id);
}

static bool has_no_room(int err)
{
	return err == -EAGAIN || err == -ENOBUFS || err == -ENOMEM;
}

static int send_to(const struct xd_udp *u, int fd, struct mmsghdr *msg, uint32_t n)
{
	if (__builtin_expect(u->calls != NULL, false))
		return u->calls->send(u->calls_arg, (uint32_t)fd, msg, n);
	return xd_udp_sendmmsg(fd, msg, n);
}

static int send_single(const struct xd_udp *u, int fd, struct mmsghdr *msg)
{
	if (__builtin_expect(u->calls != NULL, false))
		return u->calls->send(u->calls_arg, (uint32_t)fd, msg, 1);
	return xd_udp_sendmsg(fd, &msg->msg_hdr);
}

/* Sends the first packet of a message, with the identification 0. Returns 0 or a negative error. */
static int send_first(struct xd_udp *u, int fd, uint32_t index)
{
	struct xd_udp_message *m = &u->tx.message[index], whole = *m;
	struct xd_udp_frame *f = &u->tx.frame[m->first];
	struct xd_udp_batch *b = &u->tx.single;
	uint32_t next = f->next;
	ssize_t n;

	set_id(f, 0);
	f->next = NONE;
	m->count = 1;
	b->count = b->iovs = 0;
	add_to_batch(u, b, index);
	n = send_single(u, fd, &b->msg[0]);
	f->next = next;
	*m = whole;
	return n < 0 ? -errno : 0;
}

/* Numbers the packets of a message that lacks the first ones. It gets no more of them. */
static void renumber(struct xd_udp *u, struct xd_udp_message *m)
{
	uint16_t id = 0;

	for (uint32_t i = m->first; i != NONE; i = u->tx.frame[i].next)
		set_id(&u->tx.frame[i], id++);
	m->ended = true;
}

/* Sends the packets of a message one by one. Returns false if the kernel has no room for all. */
static bool udp_send_singly(struct xd_udp *u, int fd, uint32_t index)
{
	struct xd_udp_message *m = &u->tx.message[index];
	int err;

	for (; m->first != NONE; m->first = u->tx.frame[m->first].next, m->count--) {
		err = send_first(u, fd, index);
		if (has_no_room(err)) {
			renumber(u, m);
			return false;
		}
		if (err)
			xd_count(&u->stats.tx_refused, 1);
	}
	m->is_sent = true;
	u->tx.unsent--;
	return true;
}

/*
 * EIO: the kernel cannot segment, because the interface, or IPsec on the way, cannot compute
 * checksums later. It would refuse the next message, too.
 */
static void stop_joining(struct xd_udp *u, int err)
{
	if (!__atomic_load_n(&u->tx.joins, __ATOMIC_RELAXED))
		return;
	xd_log(XD_NOTICE, "packets are sent one by one: UDP segmentation: %s", strerror(-err));
	__atomic_store_n(&u->tx.joins, false, __ATOMIC_RELAXED);
}

/*
 * Handles the error of the first message that was not sent. Returns false if the kernel has no
 * room. A message that the kernel refuses is lost, as a packet that a router refuses: there may be
 * no route at the moment, or a packet filter.
 */
static bool send_refused(struct xd_udp *u, int fd, uint32_t index, int err)
{
	if (has_no_room(err))
		return false;
	if ((err == -EIO || err == -EINVAL) && u->tx.message[index].count > 1) {
		if (err == -EIO)
			stop_joining(u, err);
		return udp_send_singly(u, fd, index);
	}
	xd_count(&u->stats.tx_refused, u->tx.message[index].count);
	u->tx.message[index].is_sent = true;
	u->tx.unsent--;
	return true;
}

/* Notes the messages from `next` on that were sent although one before was not. */
static void note_others(struct xd_udp *u, const struct xd_udp_batch *b, uint32_t next)
{
	for (; next < b->count; next++)
		if (b->msg[next].msg_len)
			note_sent(u, b->index[next]);
}

/* Sends the messages of a batch, which have the same port, until the kernel has no room. */
static void send_batch(struct xd_udp *u, int fd, struct xd_udp_batch *b)
{
	uint32_t done = 0;
	int n;

	while (done < b->count) {
		if (__builtin_expect(b->msg[done].msg_len != 0, false)) {
			note_sent(u, b->index[done++]);
			continue;
		}
		xd_count(&u->stats.tx_kicks, 1);
		n = send_to(u, fd, b->msg + done, b->count - done);
		if (n < 0) {
			if (!send_refused(u, fd, b->index[done], -errno)) {
				note_others(u, b, done + 1);
				return;
			}
			done++;
			continue;
		}
		for (int i = 0; i < n; i++)
			note_sent(u, b->index[done++]);
		u->tx.stalled = false;
	}
}

/* Makes an ACK the last packet of a message, if that has room for it. */
static void join_ack(struct xd_udp_tx *tx, struct xd_udp_message *m, struct xd_udp_message *ack)
{
	struct xd_udp_frame *f = &tx->frame[ack->first];

	if (!send_has_room(tx, m, ack->size))
		return;
	set_id(f, (uint16_t)m->count);
	if (send_continues(tx, m, f)) {
		send_join(tx, m, ack->first, ack->size);
		ack->is_sent = true;
		tx->unsent--;
	} else {
		set_id(f, 0);
	}
}

/*
 * An ACK that waited for a request of its QP leaves in the message of the request: both cost the
 * kernel what one of them costs, here and at the peer. As the shorter packet it comes last.
 */
static void join_acks(struct xd_udp *u)
{
	struct xd_udp_tx *tx = &u->tx;

	for (uint32_t i = 0; i < tx->messages; i++) {
		struct xd_udp_message *ack = &tx->message[i], *last;
		const struct xd_udp_qp *qp;

		if (ack->is_sent || !ack->acks || ack->count > 1)
			continue;
		qp = xd_udp_qp_of(u, tx->frame[ack->first].meta.qpn);
		last = qp ? message_of(tx, qp) : NULL;
		if (last && !last->acks)
			join_ack(tx, last, ack);
	}
}

/* ---- payload that was left where it is ---------------------------------------------------- */

static void send_complete(struct xd_udp_frame *f)
{
	struct xt_frame frame = {
		.seg[0] = { f->data, f->len },
		.nseg = 1,
		.len = f->len,
		.meta = f->meta,
		.payload = f->piece,
		.n_payload = f->pieces,
	};

	xt_frame_complete(&frame);
	f->pieces = 0;
}

static void complete_message(struct xd_udp *u, const struct xd_udp_message *m)
{
	for (uint32_t i = m->first; i != NONE; i = u->tx.frame[i].next)
		if (u->tx.frame[i].pieces)
			send_complete(&u->tx.frame[i]);
}

void xd_udp_complete(struct xd_udp *u)
{
	for (uint32_t i = 0; u->tx.incomplete && i < u->tx.messages; i++)
		if (!u->tx.message[i].is_sent)
			complete_message(u, &u->tx.message[i]);
	u->tx.incomplete = false;
}

/* ---- to engines of this host -------------------------------------------------------------- */

static void send_read_about(const struct xd_udp_frame *f, struct xd_udp_about *a)
{
	const uint8_t *ip = f->data + f->meta.ip_off;
	const struct xr_ipv4 *v4 = (const void *)ip;
	const struct xr_udp *udp = (const void *)(f->data + f->meta.bth_off - XR_UDP_HLEN);

	*a = (struct xd_udp_about){ .sport = xr_be16(udp->src) };
	if (f->meta.ip_version == 4) {
		xr_gid_set_ipv4(&a->src, v4->src);
		xr_gid_set_ipv4(&a->dst, v4->dst);
		a->traffic_class = v4->tos;
		a->ttl = v4->ttl;
		return;
	}
	memcpy(a->src.raw, ip + 8, sizeof(a->src.raw));
	memcpy(a->dst.raw, ip + 24, sizeof(a->dst.raw));
	a->traffic_class = (uint8_t)((ip[0] & 15) << 4 | ip[1] >> 4);
	a->ttl = ip[7];
}

/* Adds what is behind the UDP header of a frame. Returns the number of pieces. */
static uint32_t add_frame(struct iovec *iov, const struct xd_udp_frame *f)
{
	const struct xr_meta *m = &f->meta;
	uint32_t n = 0, rest = m->payload_off;

	if (!f->pieces) {
		iov[0] = (struct iovec){ f->data + m->bth_off, f->len - m->bth_off };
		return 1;
	}
	iov[n++] = (struct iovec){ f->data + m->bth_off, rest - m->bth_off };
	for (uint32_t i = 0; i < f->pieces; rest += f->piece[i++].len)
		iov[n++] = (struct iovec){ f->piece[i].data, f->piece[i].len };
	iov[n++] = (struct iovec){ f->data + rest, f->len - rest };
	return n;
}

static int send_message_nearby(struct xd_udp *u, int peer, const struct xd_udp_message *m,
			       struct xd_udp_about *about)
{
	struct iovec iov[XD_UDP_SEGMENTS * (XD_UDP_PIECES + 2)];
	uint32_t n = 0;

	about->size = m->count > 1 ? m->size : 0;
	for (uint32_t i = m->first; i != NONE; i = u->tx.frame[i].next) {
		about->unsealed |= u->tx.frame[i].pieces > 0;
		n += add_frame(iov + n, &u->tx.frame[i]);
	}
	return u->nearby->send(u->nearby, peer, about, iov, n, m->total);
}

/*
 * Notes where the next packets of its QPs will go. Those that went nearby and do not any more are
 * completed.
 */
static void note_way(struct xd_udp *u, const struct xd_udp_message *m, bool nearby)
{
	struct xd_udp_qp *qp;

	for (uint32_t i = m->first; i != NONE; i = u->tx.frame[i].next) {
		qp = xd_udp_qp_of(u, u->tx.frame[i].meta.qpn);
		if (qp)
			qp->nearby = nearby;
	}
	if (!nearby && u->tx.incomplete)
		complete_message(u, m);
}

/*
 * Sends the messages to engines of this host. Each peer gets its messages in order, so if it cannot
 * take one now, it takes no later one of this flush either: that waits, or goes through the kernel,
 * as the first one does.
 */
static void send_nearby(struct xd_udp *u)
{
	uint64_t waits = 0, by_kernel = 0; /* bits by peer */
	struct xd_udp_about about;
	int peer, err;

	for (uint32_t i = 0; i < u->tx.messages; i++) {
		struct xd_udp_message *m = &u->tx.message[i];
		const struct xd_udp_frame *first = &u->tx.frame[m->first];

		m->waits = false;
		if (m->is_sent)
			continue;
		send_read_about(first, &about);
		peer = u->nearby->peer(u->nearby, &about.dst, dest_qpn(first));
		err = peer < 0 || by_kernel >> peer & 1 ? -EPIPE
		      : waits >> peer & 1		? -EAGAIN
							: send_message_nearby(u, peer, m, &about);
		note_way(u, m, err != -EPIPE);
		if (peer < 0)
			continue;
		if (err == -EPIPE)
			by_kernel |= 1ull << peer;
		m->waits = err == -EAGAIN;
		waits |= (uint64_t)m->waits << peer;
		if (err)
			continue;
		xd_count(&u->stats.tx_by_memory, m->count);
		note_sent(u, i);
	}
}

/* ---- large frames ------------------------------------------------------------------------- */

static uint32_t bytes_of_large(uint32_t headers, uint32_t payload)
{
	return headers + payload + XR_ICRC_LEN;
}

/* The path MTU is not known here, so there has to be room for the longest payload. */
uint32_t xd_udp_large_packets(struct xd_socket *s, const struct xt_path *path, uint32_t dqpn,
			      uint32_t want)
{
	struct xd_udp *u = xd_udp_of(s);
	bool closed = false;
	int peer;

	if (!u->nearby || !u->nearby->peers)
		return 1;
	peer = u->nearby->peer(u->nearby, &path->dgid, dqpn);
	if (peer < 0)
		return 1;
	if (u->nearby->has_room(u->nearby, peer,
				bytes_of_large(XT_MAX_HEADERS, want * XR_MAX_PAYLOAD), &closed))
		return want;
	return closed ? 1 : 0;
}

bool xd_udp_send_large(struct xd_socket *s, const struct xt_frame *frame)
{
	static uint8_t no_icrc[XR_ICRC_LEN];
	struct xd_udp *u = xd_udp_of(s);
	const struct xd_udp_frame f = { .data = frame->seg[0].data, .meta = frame->meta };
	uint32_t headers = frame->meta.payload_off - frame->meta.bth_off, n = 0, payload = 0;
	struct iovec iov[XR_MAX_SGE + 2];
	struct xd_udp_about about;
	int peer;

	/* the peer gets what is put in order */
	if (u->tx.messages)
		xd_udp_tx_flush(s, false);
	send_read_about(&f, &about);
	peer = u->nearby->peer(u->nearby, &about.dst, dest_qpn(&f));
	if (u->tx.messages || peer < 0)
		return false;
	iov[n++] = (struct iovec){ f.data + frame->meta.bth_off, headers };
	for (uint32_t i = 0; i < frame->n_payload; payload += frame->payload[i++].len)
		iov[n++] = (struct iovec){ frame->payload[i].data, frame->payload[i].len };
	iov[n++] = (struct iovec){ no_icrc, XR_ICRC_LEN };
	about.unsealed = true;
	about.packets = frame->packets;
	about.size = payload / frame->packets;
	if (u->nearby->send(u->nearby, peer, &about, iov, n, bytes_of_large(headers, payload)))
		return false;
	xd_count(&u->stats.tx_by_memory, frame->packets);
	return true;
}

/* ---- all that waits ----------------------------------------------------------------------- */

/* Sends the messages from one port, in order: an ACK before what its program answered with. */
static void send_from(struct xd_udp *u, uint32_t port)
{
	struct xd_udp_batch *b = &u->tx.batch;

	b->count = b->iovs = 0;
	for (uint32_t i = 0; i < u->tx.messages; i++) {
		const struct xd_udp_message *m = &u->tx.message[i];

		if (!m->is_sent && !m->waits && m->port == port)
			add_to_batch(u, b, i);
	}
	if (b->count)
		send_batch(u, u->tx.fd[port], b);
}

/*
 * Returns true if the last message has grown since the last flush and has room for more. A single
 * packet does not wait, as that is an ACK or a short message.
 */
static bool send_may_grow(const struct xd_udp_tx *tx)
{
	const struct xd_udp_message *m = &tx->message[tx->messages - 1];

	return m->count > 1 && !m->ended && m->count < XD_UDP_SEGMENTS && m->count != tx->left;
}

void xd_udp_tx_flush(struct xd_socket *s, bool more)
{
	struct xd_udp *u = xd_udp_of(s);
	struct xd_udp_tx *tx = &u->tx;
	uint32_t ports = 0; /* bit by index: those with messages */

	tx->stalled = false;
	if (!tx->messages)
		return;
	if (more && !tx->unsent && send_may_grow(tx)) {
		tx->left = tx->message[tx->messages - 1].count;
		return;
	}
	tx->left = 0;
	tx->unsent = 0;
	for (uint32_t i = 0; i < tx->messages; i++) {
		tx->unsent += !tx->message[i].is_sent;
		ports |= 1u << tx->message[i].port;
	}
	/* Responses of a QP leave in the order of their PSNs, so ACKs may follow requests only. */
	if (!tx->responses)
		join_acks(u);
	if (u->nearby && u->nearby->peers)
		send_nearby(u);
	else if (tx->incomplete)
		xd_udp_complete(u);
	tx->stalled = true;
	for (; ports; ports &= ports - 1)
		send_from(u, (uint32_t)__builtin_ctz(ports));
	if (tx->unsent)
		return;
	tx->stalled = tx->incomplete = tx->responses = false;
	tx->frames = tx->messages = 0;
	tx->shared[0] = tx->shared[1] = 0;
	tx->flush++;
}
