// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Builds packets: a template of all headers for each QP, patched for each packet. The payload is
 * copied once, into the frame that is sent. The ICRC is computed over that copy, as the program may
 * change its memory at any time.
 */
#include <arpa/inet.h>
#include <linux/if_ether.h>

#include <xroce/gid.h>

#include "ah.h"
#include "daemon/transport/engine.h"
#include "daemon/transport/scheduling/flow.h"
#include "daemon/transport/memory/guard.h"
#include "icrc.h"
#include "packet.h"
#include "daemon/transport/qp.h"

#define IP_DF 0x4000

static void packet_put16(uint8_t *p, uint32_t value)
{
	p[0] = value >> 8;
	p[1] = value;
}

static uint32_t packet_get16(const uint8_t *p)
{
	return p[0] << 8 | p[1];
}

uint16_t xt_source_port(const struct xt_tuning *tuning, const struct xt_path *path, uint32_t qpn,
			uint32_t dqpn)
{
	uint32_t v = path->flow_label;

	if (path->udp_sport)
		return path->udp_sport;
	if (!v && tuning->port_by_slot)
		return tuning->ports[(dqpn >> 1) % tuning->n_ports];
	if (!v) {
		v = qpn * 0x9e3779b1u ^ dqpn;
		v ^= v >> 16;
	}
	v = (v & 0x3fff) ^ (v & 0xfc000) >> 14;
	return tuning->n_ports ? tuning->ports[v % tuning->n_ports] : v | 0xc000;
}

static uint32_t put_ethernet(uint8_t *p, const struct xt_path *path)
{
	uint32_t len = XR_ETH_HLEN;

	memcpy(p, path->dmac, ETH_ALEN);
	memcpy(p + ETH_ALEN, path->smac, ETH_ALEN);
	if (path->vlan) {
		packet_put16(p + 12, ETH_P_8021Q);
		packet_put16(p + 14, path->vlan);
		len += XR_VLAN_HLEN;
	}
	packet_put16(p + len - 2, path->ip_version == 4 ? ETH_P_IP : ETH_P_IPV6);
	return len;
}

/*
 * Writes an IPv4 header without total length, identification and checksum: patch_lengths() sets
 * these.
 */
static uint32_t put_ipv4(uint8_t *p, const struct xt_path *path, uint32_t *sum)
{
	int i;

	p[0] = 0x45;
	p[1] = path->traffic_class;
	packet_put16(p + 6, IP_DF);
	p[8] = path->hop_limit;
	p[9] = IPPROTO_UDP;
	memcpy(p + 12, path->sgid.raw + XR_GID_IPV4_OFF, 4);
	memcpy(p + 16, path->dgid.raw + XR_GID_IPV4_OFF, 4);
	for (*sum = 0, i = 0; i < (int)XR_IPV4_HLEN; i += 2)
		*sum += packet_get16(p + i);
	return XR_IPV4_HLEN;
}

/* Writes an IPv6 header without the payload length: patch_lengths() sets it. */
static uint32_t put_ipv6(uint8_t *p, const struct xt_path *path)
{
	packet_put16(p, 6 << 12 | path->traffic_class << 4 | (path->flow_label >> 16 & 0xf));
	packet_put16(p + 2, path->flow_label);
	p[6] = IPPROTO_UDP;
	p[7] = path->hop_limit;
	memcpy(p + 8, path->sgid.raw, 16);
	memcpy(p + 24, path->dgid.raw, 16);
	return XR_IPV6_HLEN;
}

void xt_template_build(struct xt_template *t, const struct xt_path *path, uint32_t dqpn,
		       uint32_t udp_sport)
{
	struct xr_bth bth = {
		.flags = XR_BTH_MIGREQ,
		.pkey = htobe16(XR_DEFAULT_PKEY),
		.fecn_dqpn = htobe32(dqpn),
	};
	uint8_t *udp;

	memset(t, 0, sizeof(*t));
	t->ip_version = path->ip_version;
	t->self = path->self;
	t->ip_off = put_ethernet(t->bytes, path);
	if (path->ip_version == 4)
		t->bth_off = t->ip_off + put_ipv4(t->bytes + t->ip_off, path, &t->ip_sum);
	else
		t->bth_off = t->ip_off + put_ipv6(t->bytes + t->ip_off, path);
	udp = t->bytes + t->bth_off;
	packet_put16(udp, udp_sport);
	packet_put16(udp + 2, XR_UDP_PORT);
	t->bth_off += XR_UDP_HLEN;
	memcpy(t->bytes + t->bth_off, &bth, sizeof(bth));
	t->len = t->bth_off + XR_BTH_HLEN;
}

/* total: bytes of the frame; id: identification of the IPv4 header */
static void patch_lengths(const struct xt_template *t, uint8_t *frame, uint32_t total, uint16_t id)
{
	uint8_t *ip = frame + t->ip_off;
	uint32_t len = total - t->ip_off, sum;

	packet_put16(frame + t->bth_off - 4, total - t->bth_off + XR_UDP_HLEN);
	if (t->ip_version != 4) {
		packet_put16(ip + 4, len - XR_IPV6_HLEN);
		return;
	}
	packet_put16(ip + 2, len);
	packet_put16(ip + 4, id);
	sum = t->ip_sum + len + id;
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	packet_put16(ip + 10, ~sum & 0xffff);
}

/* UD: sets the fields that are not in the template of the address handle. */
static void patch_destination(const struct xt_qp *qp, const struct xt_packet *p, uint8_t *frame)
{
	uint8_t *bth = frame + p->ah->tmpl.bth_off;
	__be32 dqpn = htobe32(p->dqpn);

	packet_put16(bth - XR_UDP_HLEN,
		     xt_source_port(&qp->engine->tuning, &p->ah->path, qp->info.qpn, p->dqpn));
	memcpy(bth + 4, &dqpn, sizeof(dqpn));
}

static void patch_bth(const struct xt_qp *qp, uint8_t *bth, const struct xt_packet *p, uint32_t pad)
{
	__be32 ack_psn = htobe32((p->psn & XR_PSN_MASK) | (p->ackreq ? XR_BTH_ACKREQ : 0));

	bth[0] = qp->class | p->opcode;
	bth[1] = XR_BTH_MIGREQ | pad << XR_BTH_PAD_SHIFT | (p->solicited ? XR_BTH_SE : 0);
	memcpy(bth + 8, &ack_psn, sizeof(ack_psn));
}

/* ---- filling a frame ------------------------------------------------- */

struct packet_cursor {
	struct xt_seg *seg;
	uint32_t off;
};

/* Returns false if a page of the source is absent; its bytes are zeros in the frame. */
static bool put_bytes(struct packet_cursor *c, const uint8_t *src, uint32_t len)
{
	bool complete = true;
	uint32_t run;

	for (; len; src += run, len -= run) {
		while (c->off == c->seg->len) {
			c->seg++;
			c->off = 0;
		}
		run = c->seg->len - c->off < len ? c->seg->len - c->off : len;
		/* perhaps for a READ of the peer */
		if (XT_UNORDERED(xt_guard_copy(c->seg->data + c->off, src, run))) {
			memset(c->seg->data + c->off, 0, run);
			complete = false;
		}
		c->off += run;
	}
	return complete;
}

/* Makes the ICRC of a frame wrong, so that the peer drops the frame. */
static void spoil(struct xt_frame *frame)
{
	const struct xt_seg *last = &frame->seg[frame->nseg - 1];

	last->data[last->len - 1] ^= 0xff;
}

static const struct xt_template *template_of(const struct xt_qp *qp, const struct xt_packet *p)
{
	return p->ah ? &p->ah->tmpl : &qp->tmpl;
}

static uint32_t frame_len(const struct xt_qp *qp, const struct xt_packet *p, uint32_t pad)
{
	return template_of(qp, p)->len + p->ext_len + p->payload.len + pad + XR_ICRC_LEN;
}

static void fill_headers(struct xt_qp *qp, const struct xt_packet *p, struct xt_frame *frame,
			 uint32_t pad)
{
	const struct xt_template *t = template_of(qp, p);
	uint8_t *headers = frame->seg[0].data;

	memcpy(headers, t->bytes, t->len);
	memcpy(headers + t->len, p->ext, p->ext_len);
	patch_lengths(t, headers, frame->len, frame->ip_id);
	if (p->ah)
		patch_destination(qp, p, headers);
	patch_bth(qp, headers + t->bth_off, p, pad);
}

static void packet_fill(struct xt_qp *qp, const struct xt_packet *p, struct xt_frame *frame,
			uint32_t pad)
{
	static const uint8_t zeros[3];
	const struct xt_template *t = template_of(qp, p);
	struct packet_cursor c = { frame->seg, t->len + p->ext_len };
	bool complete = true;
	uint32_t i;

	fill_headers(qp, p, frame, pad);
	if (frame->unsealed) {
		c.off += p->payload.len;
		put_bytes(&c, zeros, pad);
		return;
	}
	for (i = 0; i < p->payload.n; i++)
		complete &= put_bytes(&c, p->payload.seg[i].data, p->payload.seg[i].len);
	put_bytes(&c, zeros, pad);
	xt_icrc_seal(frame->seg, frame->nseg, t->ip_off, t->bth_off);
	/* The pages were present when the payload was gathered. */
	if (!complete)
		spoil(frame);
}

static struct xt_frame frame_for(const struct xt_qp *qp, const struct xt_packet *p, uint32_t pad)
{
	const struct xt_template *t = template_of(qp, p);

	return (struct xt_frame){
		.len = frame_len(qp, p, pad),
		.ip_id = qp->ip_id,
		.self = t->self,
		.meta = {
			.ip_version = t->ip_version,
			.ip_off = t->ip_off,
			.bth_off = t->bth_off,
			.payload_off = (uint16_t)(t->len + p->ext_len),
			.qpn = qp->info.qpn,
		},
	};
}

bool xt_frame_complete(struct xt_frame *frame)
{
	struct packet_cursor c = { frame->seg, frame->meta.payload_off };
	bool complete = true;

	for (uint32_t i = 0; i < frame->n_payload; i++)
		complete &= put_bytes(&c, frame->payload[i].data, frame->payload[i].len);
	xt_icrc_seal(frame->seg, frame->nseg, frame->meta.ip_off, frame->meta.bth_off);
	frame->unsealed = false;
	if (!complete)
		spoil(frame);
	return complete;
}

/* Other QPs complete work requests when they send them; the program may change the memory then. */
static bool keeps_payload(const struct xt_qp *qp, const struct xt_packet *p)
{
	return !p->payload.passing &&
	       (qp->info.type == XR_QPT_RC || qp->info.type == XR_QPT_XRC_SEND ||
		qp->info.type == XR_QPT_XRC_RECV);
}

static void count_sent(struct xt_qp *qp, const struct xt_packet *p, const struct xt_frame *frame)
{
	XT_QP_COUNT(qp, tx_packets, p->packets);
	XT_QP_COUNT(qp, tx_bytes, frame->len);
	xt_flow_charge(qp->flow, XT_PACKET_COST + frame->len);
}

static bool send_large(struct xt_qp *qp, const struct xt_packet *p)
{
	struct xt_engine *e = qp->engine;
	struct xt_frame frame = frame_for(qp, p, 0);
	uint8_t headers[XT_TEMPLATE_LEN + XT_MAX_EXT];

	frame.packets = (uint8_t)p->packets;
	frame.unsealed = true;
	frame.seg[0] = (struct xt_seg){ headers, frame.meta.payload_off };
	frame.nseg = 1;
	frame.payload = p->payload.seg;
	frame.n_payload = p->payload.n;
	fill_headers(qp, p, &frame, 0);
	if (!e->ops->send_large(e->ctx, &frame))
		return false;
	count_sent(qp, p, &frame);
	return true;
}

uint32_t xt_large_packets(const struct xt_qp *qp, uint32_t left)
{
	const struct xt_engine *e = qp->engine;
	uint32_t want = left < XT_LARGE_PACKETS ? left : XT_LARGE_PACKETS;

	if (want < 2 || !e->ops->large_packets || qp->info.type != XR_QPT_RC)
		return 1;
	return e->ops->large_packets(e->ctx, &qp->path, qp->attr.dest_qp_num, want);
}

bool xt_send(struct xt_qp *qp, const struct xt_packet *p)
{
	struct xt_engine *e = qp->engine;
	uint32_t pad = -p->payload.len & 3;
	struct xt_frame frame;

	if (__builtin_expect(p->packets > 1, false))
		return send_large(qp, p);
	frame = frame_for(qp, p, pad);
	frame.payload = p->payload.seg;
	frame.n_payload = keeps_payload(qp, p) ? p->payload.n : 0;
	if (!e->ops->tx_get(e->ctx, frame.len, &frame)) {
		e->tx_full = true;
		return false;
	}
	qp->ip_id++;
	packet_fill(qp, p, &frame, pad);
	count_sent(qp, p, &frame);
	e->ops->tx_put(e->ctx, &frame);
	return true;
}

/* ---- packets that loopback replaces ---------------------------------- */

/* Fills the first `len` bytes, the headers at least, of a frame that is not shown as a whole. */
static void fill_start(struct xt_qp *qp, const struct xt_packet *p, struct xt_frame *frame,
		       uint32_t len)
{
	uint32_t headers = template_of(qp, p)->len + p->ext_len, left, run, i;
	struct packet_cursor c = { frame->seg, headers };

	fill_headers(qp, p, frame, -p->payload.len & 3);
	left = len > headers ? len - headers : 0;
	for (i = 0; left && i < p->payload.n; i++, left -= run) {
		run = p->payload.seg[i].len < left ? p->payload.seg[i].len : left;
		put_bytes(&c, p->payload.seg[i].data, run);
	}
	frame->seg[0].len = c.off;
}

void xt_show(struct xt_qp *qp, const struct xt_packet *p)
{
	uint32_t pad = -p->payload.len & 3, end;
	struct xt_frame frame = frame_for(qp, p, pad);
	struct xt_engine *e = qp->engine;

	if (!e->show_len || frame.len > sizeof(e->shown))
		return;
	qp->ip_id++;
	frame.nseg = 1;
	frame.seg[0] = (struct xt_seg){ e->shown, frame.len };
	end = frame.len - pad - XR_ICRC_LEN;
	if (e->show_len < end || (p->payload.len && !p->payload.n))
		fill_start(qp, p, &frame, e->show_len);
	else
		packet_fill(qp, p, &frame, pad);
	e->ops->show(e->ctx, &frame);
}

/* ---- the GRH in UD receive buffers --------------------------------- */

static void put_grh(uint8_t grh[XR_GRH_LEN], const uint8_t *ip, uint8_t version)
{
	uint32_t len = version == 4 ? XR_IPV4_HLEN : XR_IPV6_HLEN;

	memset(grh, 0, XR_GRH_LEN - len);
	memcpy(grh + XR_GRH_LEN - len, ip, len);
}

void xt_grh_of_frame(const struct xt_frame *frame, uint8_t grh[XR_GRH_LEN])
{
	put_grh(grh, frame->seg[0].data + frame->meta.ip_off, frame->meta.ip_version);
}

void xt_grh_of_packet(struct xt_qp *qp, const struct xt_packet *p, uint8_t grh[XR_GRH_LEN])
{
	const struct xt_template *t = template_of(qp, p);
	uint8_t headers[XT_TEMPLATE_LEN];

	memcpy(headers, t->bytes, t->len);
	patch_lengths(t, headers, frame_len(qp, p, -p->payload.len & 3), qp->ip_id++);
	put_grh(grh, headers + t->ip_off, t->ip_version);
}
