// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "gso_split.h"

#include <string.h>

#include <xroce/parse.h>

/* Ethernet, two VLAN tags, IPv6, UDP */
#define MAX_NETWORK_HEADERS (14 + 8 + 40 + 8)

/* Where the next byte is that has not been given to a packet */
struct gso_split_cursor {
	const struct xt_seg *seg;
	uint32_t off;
};

static struct xr_udp *udp_of(uint8_t *headers, const struct xr_meta *m)
{
	return (struct xr_udp *)(headers + m->bth_off - XR_UDP_HLEN);
}

/* Returns the bytes behind the UDP header; 0 if the headers are not in the first segment. */
static uint32_t payload_of(const struct xd_gso_frame *f)
{
	const struct xr_meta *m = &f->meta;
	uint32_t ip_hlen = m->ip_version == 4 ? XR_IPV4_HLEN : XR_IPV6_HLEN, len;

	if (m->bth_off > f->seg[0].len || m->bth_off > MAX_NETWORK_HEADERS ||
	    m->bth_off != m->ip_off + ip_hlen + XR_UDP_HLEN)
		return 0;
	len = xr_be16(udp_of(f->seg[0].data, m)->len);
	if (len < XR_UDP_HLEN || len - XR_UDP_HLEN > f->len - m->bth_off)
		return 0;
	return len - XR_UDP_HLEN;
}

uint32_t xd_gso_count(const struct xd_gso_frame *f)
{
	uint32_t size = f->meta.gso_size, count;

	if (!size)
		return 0;
	count = (payload_of(f) + size - 1) / size;
	return count <= XD_GSO_PACKETS ? count : 0;
}

/* ---- headers ------------------------------------------------------------------------------ */

/* Writes the length, the identification and the checksum of the i-th packet. */
static void gso_split_patch_ipv4(struct xr_ipv4 *ip, uint32_t len, uint32_t i)
{
	ip->len = xr_be16(len);
	ip->id = xr_be16(xr_be16(ip->id) + i);
	ip->check = 0;
	ip->check = (__be16)~xr_ipv4_sum(ip);
}

/* Changes the headers of a frame into those of its i-th packet, with n bytes behind UDP. */
static void gso_split_patch(uint8_t *headers, const struct xr_meta *m, uint32_t i, uint32_t n)
{
	struct xr_udp *udp = udp_of(headers, m);
	uint8_t *ip = headers + m->ip_off;

	if (m->ip_version == 4)
		gso_split_patch_ipv4((struct xr_ipv4 *)ip, XR_IPV4_HLEN + XR_UDP_HLEN + n, i);
	else
		((struct xr_ipv6 *)ip)->len = xr_be16(XR_UDP_HLEN + n);
	udp->len = xr_be16(XR_UDP_HLEN + n);
	/* the sum that the kernel keeps there is not one over the bytes; the ICRC covers them */
	udp->check = 0;
}

/* Not so: the packets of MADs, and those of multicast groups, which the XDP program checks */
static bool is_ordinary(uint32_t qpn)
{
	return qpn > XR_GSI_QPN && qpn != XR_MULTICAST_QPN;
}

/* Returns true if the packet is well-formed, and the engine checks the rest of it. */
static bool gso_split_parse(const struct xd_gso_headers *h, const struct xr_meta *m, uint32_t end,
			    uint32_t n, struct xr_packet *pkt)
{
	struct xr_cursor c = {
		.pos = h->bytes + m->bth_off,
		.end = h->bytes + end,
		.off = m->bth_off,
		.left = n,
	};

	*pkt = (struct xr_packet){ 0 };
	return xr_parse_bth(&c, pkt) == XR_OK && pkt->payload_off <= end &&
	       (pkt->qpn == m->qpn || (is_ordinary(pkt->qpn) && is_ordinary(m->qpn)));
}

/* ---- payload ------------------------------------------------------------------------------ */

/* Copies n bytes, which the frame has, and moves behind them. */
static void gso_split_copy(struct gso_split_cursor *c, uint8_t *to, uint32_t n)
{
	uint32_t run;

	for (; n; to += run, n -= run) {
		for (; c->off == c->seg->len; c->off = 0)
			c->seg++;
		run = c->seg->len - c->off < n ? c->seg->len - c->off : n;
		memcpy(to, c->seg->data + c->off, run);
		c->off += run;
	}
}

/* Adds n bytes, which the frame has, to a packet. Returns false if it has too many segments. */
static bool refer(struct gso_split_cursor *c, struct xt_frame *f, uint32_t n)
{
	uint32_t run;

	for (; n; n -= run) {
		for (; c->off == c->seg->len; c->off = 0)
			c->seg++;
		if (f->nseg == XT_MAX_SEGS)
			return false;
		run = c->seg->len - c->off < n ? c->seg->len - c->off : n;
		f->seg[f->nseg++] = (struct xt_seg){ c->seg->data + c->off, run };
		c->off += run;
	}
	return true;
}

static void gso_split_skip(struct gso_split_cursor *c, uint32_t n)
{
	for (; n > c->seg->len - c->off; c->off = 0) {
		n -= c->seg->len - c->off;
		c->seg++;
	}
	c->off += n;
}

/* ---- packets ------------------------------------------------------------------------------ */

/* Makes the i-th packet, with n bytes behind UDP, which start at the cursor. */
static bool gso_split_take(const struct xd_gso_frame *in, uint32_t i, uint32_t n,
			   struct gso_split_cursor c, struct xd_gso_headers *h,
			   struct xt_frame *out)
{
	const struct xr_meta *m = &in->meta;
	uint32_t end = m->bth_off + n < sizeof(h->bytes) ? m->bth_off + n : sizeof(h->bytes);
	struct gso_split_cursor start = c;
	struct xr_packet pkt;

	memcpy(h->bytes, in->seg[0].data, m->bth_off);
	gso_split_copy(&c, h->bytes + m->bth_off, end - m->bth_off);
	gso_split_patch(h->bytes, m, i, n);
	if (!gso_split_parse(h, m, end, n, &pkt))
		return false;
	*out = (struct xt_frame){
		.seg[0] = { h->bytes, pkt.payload_off },
		.nseg = 1,
		.len = m->bth_off + n,
		.meta = *m,
	};
	out->meta.reason = i ? XR_OK : m->reason;
	out->meta.qpn = pkt.qpn;
	out->meta.payload_off = pkt.payload_off;
	out->meta.payload_len = pkt.payload_len;
	gso_split_skip(&start, pkt.payload_off - m->bth_off);
	return refer(&start, out, out->len - pkt.payload_off);
}

uint32_t xd_gso_split(const struct xd_gso_frame *in, uint32_t count, struct xd_gso_headers *headers,
		      struct xt_frame *packets)
{
	struct gso_split_cursor c = { in->seg, in->meta.bth_off };
	uint32_t left = payload_of(in), size = in->meta.gso_size, made = 0;

	for (uint32_t i = 0; i < count; i++, left -= size) {
		uint32_t n = left < size ? left : size;

		made += gso_split_take(in, i, n, c, &headers[made], &packets[made]);
		if (i + 1 < count)
			gso_split_skip(&c, size);
	}
	return made;
}
