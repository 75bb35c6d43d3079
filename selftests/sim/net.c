// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The network: checks every frame that an engine sends, applies faults and delivers it later, in
 * order unless a fault reorders it. On arrival the checks of the XDP program are applied.
 */
#include <arpa/inet.h>
#include <stdio.h>

#include "selftests/lib/parse.h"
#include "sim.h"

/* Picoseconds per byte at 100 Gbit/s: a full window must take less than an ACK timeout. */
#define PS_PER_BYTE 80
#define TX_SEGS 3

/* ---- addresses ----------------------------------------------------------- */

void host_gid(const struct host *h, int version, struct xr_addr *gid)
{
	memset(gid, 0, sizeof(*gid));
	if (version == 4)
		xr_gid_set_ipv4(gid, htobe32(10 << 24));
	else
		gid->raw[0] = 0xfd;
	gid->raw[15] = h->index + 1;
}

void group_gid(unsigned group, int version, struct xr_addr *gid)
{
	memset(gid, 0, sizeof(*gid));
	if (version == 4) {
		xr_gid_set_ipv4(gid, htobe32(239u << 24));
	} else {
		gid->raw[0] = 0xff;
		gid->raw[1] = 0x0e;
	}
	gid->raw[15] = group + 1;
}

void host_mac(const struct host *h, uint8_t *mac)
{
	static const uint8_t base[6] = { 2, 0, 0, 0, 0, 1 };

	memcpy(mac, base, sizeof(base));
	mac[4] = h->index;
}

/* ---- trace --------------------------------------------------------------- */

static const char *op_name(uint8_t opcode)
{
	static const char *const names[XR_OP_COUNT] = {
#define X(op, flags, classes) [XR_OP_##op] = #op,
		XR_OPERATIONS(X)
#undef X
	};
	const char *name = names[opcode & ~XR_CLASS_MASK];

	return name ? name : opcode == XR_OPCODE_CNP ? "CNP" : "?";
}

static uint32_t be32_at(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return ntohl(v);
}

static void trace_frame(struct world *w, const char *verb, const struct frame *f)
{
	const uint8_t *bth = f->data + f->meta.bth_off;
	uint16_t flags = xr_opcodes[bth[0]].flags;
	uint32_t ack_psn = be32_at(bth + 8);
	char more[64] = "";

	if (flags & XR_EXT_AETH) {
		uint32_t aeth = be32_at(bth + ext_off(flags, XR_EXT_AETH));

		snprintf(more, sizeof(more), " syndrome %02x msn %u", aeth >> 24,
			 aeth & XR_PSN_MASK);
	} else if (flags & XR_EXT_RETH) {
		snprintf(more, sizeof(more), " length %u",
			 be32_at(bth + ext_off(flags, XR_EXT_RETH) + 12));
	}
	sim_trace(w, "%u>%u %-7s #%-5llu %-17s qp %06x psn %06x%s%s payload %u%s", f->from, f->to,
		  verb, (unsigned long long)f->flight.seq, op_name(bth[0]), f->meta.qpn,
		  ack_psn & XR_PSN_MASK, ack_psn & XR_BTH_ACKREQ ? " ackreq" : "",
		  bth[1] & XR_BTH_SE ? " solicited" : "", f->meta.payload_len, more);
}

/* ---- sending ----------------------------------------------------------------------------------
 */

bool net_tx_get(void *ctx, uint32_t len, struct xt_frame *frame)
{
	struct sim_engine *e = ctx;
	struct world *w = e->w;
	uint32_t at = 0, n;
	struct frame *f;

	CHECK(w, len <= XT_MAX_FRAME, "frame of %u bytes", len);
	if (!e->tx_room)
		return false;
	e->tx_room--;
	if (e->udp)
		return udp_tx_get(e, len, frame);
	f = malloc(sizeof(*f) + len);
	memset(f->data, 0xcc, len);
	f->len = f->first = len;
	f->packets = 1;
	f->from = e->host->index;
	f->invalid = f->damaged = false;
	frame->nseg = 0;
	frame->len = len;
	frame->cookie = (uintptr_t)f;
	for (; at < len; at += n) {
		n = len - at;
		if (frame->nseg + 1 < TX_SEGS && rng_chance(&w->sched, 20))
			n = at			 ? rng_between(&w->sched, 1, n)
			    : n > XT_MAX_HEADERS ? rng_between(&w->sched, XT_MAX_HEADERS, n)
						 : n;
		frame->seg[frame->nseg++] = (struct xt_seg){ f->data + at, n };
	}
	return true;
}

/* Returns NULL for a multicast address. */
static struct host *destination(struct world *w, const uint8_t *data, const struct xr_meta *meta)
{
	const uint8_t *ip = data + meta->ip_off;
	unsigned last = meta->ip_version == 4 ? ip[19] : ip[39];

	if (meta->ip_version == 4 ? ip[16] == 239 : ip[24] == 0xff)
		return NULL;
	CHECK(w, last >= 1 && last <= w->hosts, "packet to an unknown address");
	return &w->host[last - 1];
}

static void launch(struct world *w, struct frame *f, uint64_t delay)
{
	struct host *h = &w->host[f->from];
	uint64_t start = h->link_free > w->now ? h->link_free : w->now;

	h->link_free = start + f->len * PS_PER_BYTE / 1000 + 1;
	f->flight.when = h->link_free + w->latency + delay;
	flights_add(&w->flights, &f->flight);
}

static struct frame *copy_of(struct world *w, const struct frame *f)
{
	struct frame *c = malloc(sizeof(*c) + f->len);

	memcpy(c, f, sizeof(*c) + f->len);
	c->flight.seq = w->frame_seq++;
	return c;
}

static void corrupt(struct world *w, const struct xd_fault_action *action, struct frame *f)
{
	struct xt_frame whole = { .seg[0] = { f->data, f->len }, .nseg = 1, .len = f->len };

	xd_fault_damage(action, &whole);
	f->invalid = f->damaged = true;
	if (w->verbose)
		sim_trace(w, "    next frame is corrupted");
}

/* ---- forged packets ------------------------------------------------------ */

static void reseal(struct frame *f)
{
	struct xt_seg whole = { f->data, f->len };
	struct xr_ipv4 *ip = (struct xr_ipv4 *)(f->data + f->meta.ip_off);

	memset(f->data + f->meta.bth_off - 2, 0, 2); /* no UDP checksum */
	if (f->meta.ip_version == 4) {
		ip->check = 0;
		ip->check = (__be16)~xr_ipv4_sum(ip);
	}
	xt_icrc_seal(&whole, 1, f->meta.ip_off, f->meta.bth_off);
}

/* Sets the lengths in the IP and UDP headers to those of a frame of so many bytes. */
static void set_lengths(struct frame *f, uint32_t len)
{
	uint8_t *ip = f->data + f->meta.ip_off, *udp = f->data + f->meta.bth_off - XR_UDP_HLEN;
	unsigned ip_len = len - f->meta.ip_off, udp_len = len - f->meta.bth_off + XR_UDP_HLEN;

	if (f->meta.ip_version == 4)
		ip[2] = ip_len >> 8, ip[3] = ip_len;
	else
		ip[4] = (ip_len - XR_IPV6_HLEN) >> 8, ip[5] = ip_len - XR_IPV6_HLEN;
	udp[4] = udp_len >> 8;
	udp[5] = udp_len;
}

/* Sends a CNP (IBTA A17.9.3) to a live QP, which may only count it. */
static void forge_cnp(struct world *w, const struct frame *seen)
{
	uint32_t bth_off = seen->meta.bth_off;
	uint32_t len = bth_off + XR_BTH_HLEN + XR_CNP_PAYLOAD + XR_ICRC_LEN;
	struct frame *f = malloc(sizeof(*f) + len);
	uint8_t *bth = f->data + bth_off;

	memcpy(f, seen, sizeof(*f) + bth_off + XR_BTH_HLEN);
	memset(bth + XR_BTH_HLEN, 0, XR_CNP_PAYLOAD);
	f->len = f->first = len;
	f->flight.seq = w->frame_seq++;
	bth[0] = XR_OPCODE_CNP;
	bth[1] = XR_BTH_MIGREQ;
	bth[4] = 0x40;
	memset(bth + 8, 0, 4);
	set_lengths(f, len);
	reseal(f);
	f->invalid = true;
	w->forged++;
	launch(w, f, rng_below(&w->sched, 50 * USEC));
}

/* Sends a copy with one wrong header field and a valid ICRC. It must have no effect. */
static void forge(struct world *w, const struct frame *seen)
{
	struct rng *r = &w->sched;
	struct frame *f = copy_of(w, seen);
	uint8_t *ip = f->data + f->meta.ip_off, *bth = f->data + f->meta.bth_off;

	/* A QP accepts datagrams from any address. */
	switch (rng_between(r, (bth[0] & XR_CLASS_MASK) == XR_CLASS_UD, 3)) {
	case 0: /* source address */
		ip[f->meta.ip_version == 4 ? 12 + rng_below(r, 4) : 8 + rng_below(r, 16)] ^= 0x40;
		break;
	case 1: /* destination QP */
		bth[5 + rng_below(r, 2)] ^= 1 << rng_below(r, 8);
		break;
	case 2: /* transport class */
		bth[0] ^= rng_chance(r, 50) ? XR_CLASS_UC : XR_CLASS_XRC;
		break;
	default: /* P_Key */
		bth[2] ^= 1 << rng_below(r, 7);
		break;
	}
	/* Change the payload, so that the checks detect an accepted packet. */
	if (f->meta.payload_len)
		f->data[f->meta.payload_off] ^= 0xff;
	reseal(f);
	f->invalid = true;
	w->forged++;
	launch(w, f, rng_below(r, 50 * USEC));
}

static struct xd_fault_action draw_faults(struct world *w, struct frame *f)
{
	struct xt_frame whole = { .seg[0] = { f->data, f->len }, .nseg = 1, .len = f->len };

	return xd_faults_next(w->faults, &(struct xd_fault_packet){
						 .direction = XD_FAULT_TX,
						 .frame = &whole,
						 .now = w->now,
						 .rules = UINT64_MAX,
					 });
}

/* Sends a frame through the network, with faults. */
static void transmit(struct world *w, struct frame *f, struct host *dest)
{
	struct xd_fault_action action = { .copies = 1 };
	struct frame *copy = NULL;

	f->to = dest->index;
	if (xd_faults_on(w->faults, XD_FAULT_TX))
		action = draw_faults(w, f);
	if (w->host[f->from].cut || dest->cut)
		action.copies = 0;
	if (w->verbose)
		trace_frame(w, action.copies ? "sent" : "LOST", f);
	if (!action.copies) {
		free(f);
		return;
	}
	/* the memory of a host neither forges nor damages what it carries */
	if (f->packets == 1 && rng_below(&w->sched, 1000) < w->forge) {
		if (rng_chance(&w->sched, 15))
			forge_cnp(w, f);
		else
			forge(w, f);
	}
	if (action.copies == 2)
		copy = copy_of(w, f);
	if (action.flips && f->packets == 1)
		corrupt(w, &action, f);
	launch(w, f, action.delay_ns[0]);
	if (copy)
		launch(w, copy, action.delay_ns[1]);
}

void net_tx_put(void *ctx, struct xt_frame *frame)
{
	struct sim_engine *e = ctx;
	struct world *w = e->w;
	struct frame *f = e->udp ? NULL : (struct frame *)(uintptr_t)frame->cookie;
	uint8_t *data = f ? f->data : frame->seg[0].data;
	struct xt_frame whole = { .seg[0] = { data, frame->len }, .nseg = 1, .len = frame->len };

	CHECK(w, parse_frame(&whole) == XR_OK, "engine sent a malformed packet");
	CHECK(w, xt_icrc_ok(&whole), "engine sent a packet with a wrong ICRC");
	verify_packet(w, e->host, destination(w, data, &whole.meta), &whole);
	w->packets++;
	if (!f) {
		udp_tx_put(e, frame);
		return;
	}
	f->meta = whole.meta;
	f->flight.seq = w->frame_seq++;
	net_send(e, f);
}

/* ---- large frames, between hosts with one engine that have no sockets --------------------- */

uint32_t net_large_packets(void *ctx, const struct xt_path *path, uint32_t dqpn, uint32_t want)
{
	struct sim_engine *e = ctx;
	struct world *w = e->w;
	struct host *dest = &w->host[path->dgid.raw[15] - 1];
	unsigned answer;

	(void)dqpn;
	if (!w->large || e->udp || dest->sockets || dest->engines > 1)
		return 1;
	answer = rng_below(&w->sched, 10);
	return answer < 2 ? answer : rng_between(&w->sched, 2, want);
}

/* Checks a frame, or the first packet of a large one, as its receiver does. */
static bool parse_first(struct frame *f)
{
	struct xt_frame first = { .seg[0] = { f->data, f->first }, .nseg = 1, .len = f->first };

	if (parse_frame(&first) != XR_OK)
		return false;
	f->meta = first.meta;
	f->meta.payload_len += f->len - f->first;
	return true;
}

static struct frame *frame_of_large(struct sim_engine *e, const struct xt_frame *frame)
{
	struct frame *f = malloc(sizeof(*f) + frame->len);
	uint32_t at = frame->seg[0].len, headers = at;

	memset(f->data, 0, frame->len);
	memcpy(f->data, frame->seg[0].data, headers);
	for (uint32_t i = 0; i < frame->n_payload; at += frame->payload[i++].len)
		memcpy(f->data + at, frame->payload[i].data, frame->payload[i].len);
	CHECK(e->w, at + XR_ICRC_LEN == frame->len, "large frame of a wrong length");
	f->len = frame->len;
	f->packets = frame->packets;
	f->first = f->len - (at - headers) / f->packets * (f->packets - 1);
	f->from = e->host->index;
	f->invalid = f->damaged = false;
	f->meta = frame->meta;
	set_lengths(f, f->first);
	reseal(f);
	return f;
}

bool net_send_large(void *ctx, const struct xt_frame *frame)
{
	struct sim_engine *e = ctx;
	struct world *w = e->w;
	struct xt_frame first = { .nseg = 1 };
	struct frame *f;

	if (rng_chance(&w->sched, 5))
		return false;
	f = frame_of_large(e, frame);
	first.seg[0] = (struct xt_seg){ f->data, f->first };
	first.len = f->first;
	CHECK(w, parse_frame(&first) == XR_OK, "engine sent a malformed large frame");
	CHECK(w, xr_opcodes[f->data[f->meta.bth_off]].flags & XR_OPF_FULL_MTU,
	      "large frame that may have the last packet of a message");
	verify_packet(w, e->host, destination(w, f->data, &first.meta), &first);
	parse_first(f);
	w->packets += f->packets;
	w->large_frames++;
	f->flight.seq = w->frame_seq++;
	net_send(e, f);
	return true;
}

void net_send(struct sim_engine *e, struct frame *f)
{
	struct world *w = e->w;
	struct host *dest = destination(w, f->data, &f->meta);
	unsigned i;

	if (dest) {
		transmit(w, f, dest);
		return;
	}
	/* A switch floods multicast to all hosts but the sender. */
	for (i = 0; i < w->hosts; i++)
		if (&w->host[i] != e->host)
			transmit(w, copy_of(w, f), &w->host[i]);
	free(f);
}

/* ---- receiving --------------------------------------------------------------------------------
 */

/* The window check of tables.h */
static bool psn_fits(const struct xr_psn_entry *e, uint16_t flags, uint32_t psn)
{
	if (flags & XR_OPF_REQUEST) {
		int32_t diff = xr_psn_diff(psn, e->expected);

		return diff >= -XR_PSN_BEHIND && diff <= XR_PSN_AHEAD;
	}
	return xr_psn_diff(psn, e->unacked) >= -XR_PSN_LATE && xr_psn_diff(psn, e->next) < 0;
}

static bool is_from_peer(const struct frame *f, const struct xr_qp_entry *qp)
{
	const uint8_t *ip = f->data + f->meta.ip_off;

	if (f->meta.ip_version == 4)
		return !memcmp(ip + 12, qp->peer.raw + 12, 4) &&
		       !memcmp(ip + 16, qp->local.raw + 12, 4);
	return !memcmp(ip + 8, qp->peer.raw, 16) && !memcmp(ip + 24, qp->local.raw, 16);
}

/* The verdict of the XDP program, from its copy of the QP table */
static bool xdp_passes(struct world *w, struct host *h, const struct frame *f)
{
	const uint8_t *bth = f->data + f->meta.bth_off;
	struct xt_qp *qp = xt_qp_by_num(h->shared.qps, f->meta.qpn);
	struct sim_qp *q;
	struct xr_qp_entry entry;

	if (f->meta.qpn == XR_MULTICAST_QPN)
		return true;
	if (!qp)
		return false;
	q = xt_qp_info(qp)->owner;
	xt_qp_entry(qp, &entry);
	if (entry.state < XR_QPS_RTR || entry.state > XR_QPS_SQE)
		return false;
	if (q->type == XR_QPT_UD)
		return true;
	if (!is_from_peer(f, &entry))
		return false;
	if (q->type == XR_QPT_UC || psn_fits(&h->psns[entry.slot], xr_opcodes[bth[0]].flags,
					     be32_at(bth + 8) & XR_PSN_MASK))
		return true;
	CHECK(w, f->invalid || q->conn->broken || q->conn->script == SCRIPT_RESET,
	      "XDP would drop a good packet (psn %06x, qp %u): window is expected %06x unacked "
	      "%06x next %06x",
	      be32_at(bth + 8) & XR_PSN_MASK, q->id, h->psns[entry.slot].expected,
	      h->psns[entry.slot].unacked, h->psns[entry.slot].next);
	return false;
}

static struct sim_engine *engine_for(struct host *h, const struct frame *f)
{
	const uint8_t *udp = f->data + f->meta.bth_off - XR_UDP_HLEN;
	uint32_t qpn = f->meta.qpn;
	struct xt_qp *qp = xt_qp_by_num(h->shared.qps, qpn);
	unsigned i;

	/* RSS selects the RX queue by addresses and ports. */
	if (qpn == XR_MULTICAST_QPN)
		return &h->engine[(f->from + udp[1]) % h->engines];
	/* It may select that of another engine, which then forwards the frame. */
	if (h->engines > 1 && xd_faults_on(h->w->faults, XD_FAULT_TX) &&
	    rng_chance(&h->w->sched, 10))
		return &h->engine[rng_below(&h->w->sched, h->engines)];
	for (i = 1; qp && i < h->engines; i++)
		if (h->engine[i].engine == xt_qp_info(qp)->engine)
			return &h->engine[i];
	return &h->engine[0];
}

void net_arrive(struct world *w)
{
	struct frame *f = flights_take(&w->flights);
	struct host *h = &w->host[f->to];
	struct sim_engine *e = NULL; /* takes the frame */
	const char *verb = NULL;

	if (!parse_first(f)) {
		free(f);
		return;
	}
	if (h->cut)
		verb = "CUT";
	else if (w->xdp_checks && !xdp_passes(w, h, f))
		verb = "XDP";
	else if (h->sockets)
		verb = udp_arrive(h, f);
	else if ((e = engine_for(h, f))->inbox_len >= w->inbox_max)
		verb = "FULL";
	if (w->verbose)
		trace_frame(w, verb ? verb : "arrived", f);
	if (verb || !e)
		free(f);
	else
		engine_deliver(e, f);
}
