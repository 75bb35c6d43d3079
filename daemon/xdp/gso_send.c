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

#include "daemon/transport/wire/checksum.h"

/* Linux 6.2; the headers of some supported distributions are older. */
#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

/* Bytes of GSO frames that other processors have not received yet */
#define SEND_BUFFER (4 << 20)

/* ---- messages ----------------------------------------------------------------------------- */

static void gso_send_patch_ipv4(struct xr_ipv4 *ip, uint32_t udp_len)
{
	ip->len = xr_be16(XR_IPV4_HLEN + udp_len);
	ip->check = 0;
	ip->check = (__be16)~xr_ipv4_sum(ip);
}

/* Changes the headers of the first packet into those of the whole frame. */
static void gso_send_patch(uint8_t *headers, const struct xr_meta *m, uint32_t payload)
{
	struct xr_udp *udp = (struct xr_udp *)(headers + m->bth_off - XR_UDP_HLEN);
	uint8_t *ip = headers + m->ip_off;
	uint32_t len = XR_UDP_HLEN + payload;

	if (m->ip_version == 4)
		gso_send_patch_ipv4((struct xr_ipv4 *)ip, len);
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

/* Without a GSO type, the kernel takes the frame as it is. */
static void single_message(const struct xt_frame *f, struct xd_gso_message *msg)
{
	memset(msg->headers, 0, sizeof(struct virtio_net_hdr));
	add_iov(msg, msg->headers, sizeof(struct virtio_net_hdr));
	for (uint32_t i = 0; i < f->nseg; i++)
		add_iov(msg, f->seg[i].data, f->seg[i].len);
}

void xd_gso_run_message(const struct xd_gso_run *run, struct xd_gso_message *msg)
{
	const struct xr_meta *m = &run->frame[0].meta;
	uint8_t *headers = msg->headers + sizeof(struct virtio_net_hdr);

	msg->iovs = 0;
	if (run->count == 1) {
		single_message(run->frame, msg);
		return;
	}
	put_vnet_header(msg->headers, run);
	memcpy(headers, run->frame[0].seg[0].data, m->bth_off);
	gso_send_patch(headers, m, run->total);
	add_iov(msg, msg->headers, (uint32_t)sizeof(struct virtio_net_hdr) + m->bth_off);
	for (uint32_t i = 0; i < run->count; i++) {
		const struct xt_frame *f = &run->frame[i];

		add_iov(msg, f->seg[0].data + m->bth_off, f->seg[0].len - m->bth_off);
		if (f->nseg == 2)
			add_iov(msg, f->seg[1].data, f->seg[1].len);
	}
}

/* ---- the socket --------------------------------------------------------------------------- */

static int gso_send_set_up(int fd, unsigned int ifindex)
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
	err = gso_send_set_up(fd, ifindex);
	if (!err)
		return fd;
	close(fd);
	return err;
}

int xd_gso_send(int fd, const struct xd_gso_run *runs, uint32_t n)
{
	struct xd_gso_message message[XD_GSO_RUNS];
	struct mmsghdr msg[XD_GSO_RUNS];
	int sent;

	for (uint32_t i = 0; i < n; i++) {
		xd_gso_run_message(&runs[i], &message[i]);
		msg[i] = (struct mmsghdr){ .msg_hdr = { .msg_iov = message[i].iov,
							.msg_iovlen = message[i].iovs } };
	}
	sent = sendmmsg(fd, msg, n, MSG_DONTWAIT);
	return sent < 0 ? -errno : sent;
}
