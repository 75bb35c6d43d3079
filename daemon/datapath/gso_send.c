// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "gso_send.h"

#include <errno.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <xroce/parse.h>

#include "daemon/transport/checksum.h"

/* Linux 6.2; the headers of some supported distributions are older. */
#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

/* The IP packet, and the datagram in it, have 16 bits for their length. */
#define MAX_DATAGRAM (UINT16_MAX - XR_IPV4_HLEN)
/* Bytes of GSO frames that other processors have not received yet */
#define SEND_BUFFER (4 << 20)

/* ---- runs --------------------------------------------------------------------------------- */

static bool same(const uint8_t *a, const uint8_t *b, uint32_t from, uint32_t end)
{
	return !memcmp(a + from, b + from, end - from);
}

/* Compares what IPv4 headers share in a run. The kernel counts the identification up. */
static bool continues_ipv4(const uint8_t *first, const uint8_t *ip, uint32_t index)
{
	const struct xr_ipv4 *a = (const struct xr_ipv4 *)first, *b = (const struct xr_ipv4 *)ip;

	return same(first, ip, 0, offsetof(struct xr_ipv4, len)) &&
	       same(first, ip, offsetof(struct xr_ipv4, frag), offsetof(struct xr_ipv4, check)) &&
	       same(first, ip, offsetof(struct xr_ipv4, src), XR_IPV4_HLEN) &&
	       (uint16_t)(xr_be16(a->id) + index) == xr_be16(b->id);
}

static bool continues_ipv6(const uint8_t *first, const uint8_t *ip)
{
	return same(first, ip, 0, offsetof(struct xr_ipv6, len)) &&
	       same(first, ip, offsetof(struct xr_ipv6, next_header), XR_IPV6_HLEN);
}

/* Compares the headers of a frame with those of the first one, `index` frames before. */
static bool continues(const struct xt_frame *a, const struct xt_frame *b, uint32_t index)
{
	const uint8_t *first = a->seg[0].data, *next = b->seg[0].data;
	uint32_t ip = a->meta.ip_off, udp = a->meta.bth_off - XR_UDP_HLEN, bth = a->meta.bth_off;

	if (b->meta.ip_off != ip || b->meta.bth_off != bth ||
	    b->meta.ip_version != a->meta.ip_version || !same(first, next, 0, ip))
		return false;
	if (!(a->meta.ip_version == 4 ? continues_ipv4(first + ip, next + ip, index)
				      : continues_ipv6(first + ip, next + ip)))
		return false;
	return same(first, next, udp, udp + offsetof(struct xr_udp, len)) &&
	       same(first, next, bth + offsetof(struct xr_bth, fecn_dqpn),
		    bth + offsetof(struct xr_bth, ack_psn));
}

/* The kernel segments frames without VLAN tags only. */
static bool possible(const struct xt_frame *f)
{
	return f->meta.ip_off == XR_ETH_HLEN && f->nseg <= 2;
}

/*
 * Copies what the functions of this file and the ring need, field by field. The processor has just
 * written the fields, and wider reads would wait until the payload before them is in the cache.
 */
static void keep(struct xt_frame *to, const struct xt_frame *f)
{
	for (uint32_t i = 0; i < f->nseg; i++) {
		to->seg[i].data = f->seg[i].data;
		to->seg[i].len = f->seg[i].len;
	}
	to->nseg = f->nseg;
	to->len = f->len;
	to->meta.ip_version = f->meta.ip_version;
	to->meta.ip_off = f->meta.ip_off;
	to->meta.bth_off = f->meta.bth_off;
}

bool xd_gso_run_add(struct xd_gso_run *run, const struct xt_frame *f)
{
	uint32_t size = f->len - f->meta.bth_off;

	if (!run->count) {
		run->size = size;
		run->total = 0;
		run->ended = !possible(f);
	} else if (run->ended || run->count == XD_GSO_RUN || size > run->size || !possible(f) ||
		   run->total + size > MAX_DATAGRAM - XR_UDP_HLEN ||
		   !continues(&run->frame[0], f, run->count)) {
		return false;
	}
	keep(&run->frame[run->count++], f);
	run->total += size;
	run->ended |= size < run->size;
	return true;
}

bool xd_gso_run_is_long(const struct xd_gso_run *run)
{
	return run->count >= XD_GSO_RUN / 2 || run->total >= MAX_DATAGRAM / 2;
}

/* ---- messages ----------------------------------------------------------------------------- */

static void patch_ipv4(struct xr_ipv4 *ip, uint32_t udp_len)
{
	ip->len = xr_be16(XR_IPV4_HLEN + udp_len);
	ip->check = 0;
	ip->check = (__be16)~xr_ipv4_sum(ip);
}

/* Changes the headers of the first packet into those of the whole frame. */
static void patch(uint8_t *headers, const struct xr_meta *m, uint32_t payload)
{
	struct xr_udp *udp = (struct xr_udp *)(headers + m->bth_off - XR_UDP_HLEN);
	uint8_t *ip = headers + m->ip_off;
	uint32_t len = XR_UDP_HLEN + payload;

	if (m->ip_version == 4)
		patch_ipv4((struct xr_ipv4 *)ip, len);
	else
		((struct xr_ipv6 *)ip)->len = xr_be16(len);
	udp->len = xr_be16(len);
	/* the kernel continues with the sum over the datagrams */
	udp->check = xt_pseudo_header_sum(ip, len);
}

/* The fields are in the byte order of the machine, as for a virtio device before version 1. */
static void put_vnet_header(uint8_t *to, const struct xd_gso_run *run)
{
	const struct xr_meta *m = &run->frame[0].meta;
	struct virtio_net_hdr vnet = {
		.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
		.gso_type = VIRTIO_NET_HDR_GSO_UDP_L4,
		.hdr_len = m->bth_off,
		.gso_size = (uint16_t)run->size,
		.csum_start = (uint16_t)(m->bth_off - XR_UDP_HLEN),
		.csum_offset = offsetof(struct xr_udp, check),
	};

	memcpy(to, &vnet, sizeof(vnet));
}

static void add_iov(struct xd_gso_message *msg, uint8_t *base, uint32_t len)
{
	msg->iov[msg->iovs++] = (struct iovec){ .iov_base = base, .iov_len = len };
}

void xd_gso_run_message(const struct xd_gso_run *run, struct xd_gso_message *msg)
{
	const struct xr_meta *m = &run->frame[0].meta;
	uint8_t *headers = msg->headers + sizeof(struct virtio_net_hdr);

	put_vnet_header(msg->headers, run);
	memcpy(headers, run->frame[0].seg[0].data, m->bth_off);
	patch(headers, m, run->total);
	msg->iovs = 0;
	add_iov(msg, msg->headers, (uint32_t)sizeof(struct virtio_net_hdr) + m->bth_off);
	for (uint32_t i = 0; i < run->count; i++) {
		const struct xt_frame *f = &run->frame[i];

		add_iov(msg, f->seg[0].data + m->bth_off, f->seg[0].len - m->bth_off);
		if (f->nseg == 2)
			add_iov(msg, f->seg[1].data, f->seg[1].len);
	}
}

/* ---- the socket --------------------------------------------------------------------------- */

static int set_up(int fd, unsigned int ifindex)
{
	struct sockaddr_ll ll = { .sll_family = AF_PACKET, .sll_ifindex = (int)ifindex };
	int on = 1, size = SEND_BUFFER;

	if (setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)) ||
	    bind(fd, (struct sockaddr *)&ll, sizeof(ll)))
		return -errno;
	/* without it, fewer frames are on their way */
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
	return 0;
}

int xd_gso_open(const char *ifname)
{
	unsigned int ifindex = if_nametoindex(ifname);
	int fd, err;

	if (!ifindex)
		return -errno;
	/* protocol 0: receive nothing */
	fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	err = set_up(fd, ifindex);
	if (!err)
		return fd;
	close(fd);
	return err;
}

int xd_gso_send(int fd, struct xd_gso_message *messages, uint32_t n)
{
	struct mmsghdr msg[XD_GSO_MESSAGES];
	int sent;

	for (uint32_t i = 0; i < n; i++)
		msg[i] = (struct mmsghdr){ .msg_hdr = { .msg_iov = messages[i].iov,
							.msg_iovlen = messages[i].iovs } };
	sent = sendmmsg(fd, msg, n, MSG_DONTWAIT);
	return sent < 0 ? -errno : sent;
}
