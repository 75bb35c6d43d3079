// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Conversion between CM messages and MADs. Offsets are those of the tables of IBTA 12.6 to 12.11,
 * from the end of the MAD header. Reserved fields are sent as zero and ignored when received.
 */
#include <string.h>

#include "mad.h"

/* MAD header, IBTA 13.4.2 */
#define BASE_VERSION 1
#define CLASS_CM 0x07
#define CLASS_VERSION 2
#define METHOD_SEND 3
#define FIRST_ATTRIBUTE 0x10
#define HEADER 24

/* LIDs of a path with routers; RoCE has no LIDs */
#define PERMISSIVE_LID 0xffff

/* ---- fields ------------------------------------------------------------------ */

static uint16_t mad_get16(const uint8_t *p)
{
	return p[0] << 8 | p[1];
}

static uint32_t get24(const uint8_t *p)
{
	return (uint32_t)p[0] << 16 | mad_get16(p + 1);
}

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)mad_get16(p) << 16 | mad_get16(p + 2);
}

static uint64_t get64(const uint8_t *p)
{
	return (uint64_t)get32(p) << 32 | get32(p + 4);
}

static void mad_put16(uint8_t *p, uint16_t v)
{
	p[0] = v >> 8;
	p[1] = v;
}

static void put24(uint8_t *p, uint32_t v)
{
	p[0] = v >> 16;
	mad_put16(p + 1, v);
}

static void mad_put32(uint8_t *p, uint32_t v)
{
	mad_put16(p, v >> 16);
	mad_put16(p + 2, v);
}

static void put64(uint8_t *p, uint64_t v)
{
	mad_put32(p, v >> 32);
	mad_put32(p + 4, v);
}

static void put_data(uint8_t *p, const struct xc_data *data)
{
	if (data->len)
		memcpy(p, data->data, data->len);
}

static struct xc_data get_data(const uint8_t *p, unsigned len)
{
	return (struct xc_data){ p, len };
}

/* A part of a field of fixed size, with a length that may be wrong */
static struct xc_data get_part(const uint8_t *p, unsigned len, unsigned max)
{
	return get_data(p, len < max ? len : max);
}

/* ---- REQ --------------------------------------------------------------------- */

/* Transport service types, and the extended type of service type 3 */
enum { SERVICE_RC, SERVICE_UC, SERVICE_RD, SERVICE_EXTENDED };
#define EXTENDED_XRC 1

static void mad_put_transport(uint8_t *d, uint8_t transport)
{
	if (transport == XC_UC)
		d[43] |= SERVICE_UC << 1;
	if (transport == XC_XRC) {
		d[43] |= SERVICE_EXTENDED << 1;
		d[51] |= EXTENDED_XRC;
	}
}

static uint8_t get_transport(const uint8_t *d)
{
	switch (d[43] >> 1 & 3) {
	case SERVICE_RC:
		return XC_RC;
	case SERVICE_UC:
		return XC_UC;
	case SERVICE_EXTENDED:
		return (d[51] & 7) == EXTENDED_XRC ? XC_XRC : XC_OTHER;
	default:
		return XC_OTHER;
	}
}

static void put_req_path(uint8_t *d, const struct xc_req *q)
{
	const struct xc_path *path = &q->path;
	bool routed = path->hop_limit > 1;

	mad_put16(d + 52, routed ? PERMISSIVE_LID : 0);
	mad_put16(d + 54, routed ? PERMISSIVE_LID : 0);
	memcpy(d + 56, path->local.raw, 16);
	memcpy(d + 72, path->peer.raw, 16);
	mad_put32(d + 88, path->flow_label << 12 | (q->rate & 0x3f));
	d[92] = path->traffic_class;
	d[93] = path->hop_limit;
	d[94] = path->sl << 4 | !routed << 3;
	d[95] = q->ack_timeout << 3;
}

static void put_req(uint8_t *d, const struct xc_req *q)
{
	put24(d + 5, q->vendor_id);
	put64(d + 8, q->service_id);
	put64(d + 16, q->guid);
	mad_put32(d + 28, q->qkey);
	put24(d + 32, q->qpn);
	d[35] = q->responder_resources;
	d[39] = q->initiator_depth;
	d[43] = q->remote_response_timeout << 3 | q->flow_control;
	put24(d + 44, q->starting_psn);
	d[47] = q->local_response_timeout << 3 | (q->retry_count & 7);
	mad_put16(d + 48, q->pkey);
	d[50] = q->mtu << 4 | (q->rnr_retry_count & 7);
	d[51] = q->max_cm_retries << 4 | q->srq << 3;
	mad_put_transport(d, q->transport);
	put_req_path(d, q);
	put_data(d + 140, &q->data);
}

static void get_req(const uint8_t *d, struct xc_req *q)
{
	q->vendor_id = get24(d + 5);
	q->service_id = get64(d + 8);
	q->guid = get64(d + 16);
	q->qkey = get32(d + 28);
	q->qpn = get24(d + 32);
	q->responder_resources = d[35];
	q->initiator_depth = d[39];
	q->remote_response_timeout = d[43] >> 3;
	q->transport = get_transport(d);
	q->flow_control = d[43] & 1;
	q->starting_psn = get24(d + 44);
	q->local_response_timeout = d[47] >> 3;
	q->retry_count = d[47] & 7;
	q->pkey = mad_get16(d + 48);
	q->mtu = d[50] >> 4;
	q->rnr_retry_count = d[50] & 7;
	q->max_cm_retries = d[51] >> 4;
	q->srq = d[51] >> 3 & 1;
	memcpy(q->path.peer.raw, d + 56, 16);
	memcpy(q->path.local.raw, d + 72, 16);
	q->path.flow_label = get32(d + 88) >> 12;
	q->rate = d[91] & 0x3f;
	q->path.traffic_class = d[92];
	q->path.hop_limit = d[93];
	q->path.sl = d[94] >> 4;
	q->ack_timeout = d[95] >> 3;
	q->data = get_data(d + 140, XC_REQ_DATA);
}

/* ---- REP --------------------------------------------------------------------- */

static void put_rep(uint8_t *d, const struct xc_rep *p)
{
	mad_put32(d + 8, p->qkey);
	put24(d + 12, p->qpn);
	d[15] = p->vendor_id >> 16;
	put24(d + 16, p->eecn);
	d[19] = p->vendor_id >> 8;
	put24(d + 20, p->starting_psn);
	d[23] = p->vendor_id;
	d[24] = p->responder_resources;
	d[25] = p->initiator_depth;
	d[26] = p->target_ack_delay << 3 | (p->failover & 3) << 1 | p->flow_control;
	d[27] = p->rnr_retry_count << 5 | p->srq << 4;
	put64(d + 28, p->guid);
	put_data(d + 36, &p->data);
}

static void get_rep(const uint8_t *d, struct xc_rep *p)
{
	p->qkey = get32(d + 8);
	p->qpn = get24(d + 12);
	p->eecn = get24(d + 16);
	p->vendor_id = (uint32_t)d[15] << 16 | d[19] << 8 | d[23];
	p->starting_psn = get24(d + 20);
	p->responder_resources = d[24];
	p->initiator_depth = d[25];
	p->target_ack_delay = d[26] >> 3;
	p->failover = d[26] >> 1 & 3;
	p->flow_control = d[26] & 1;
	p->rnr_retry_count = d[27] >> 5;
	p->srq = d[27] >> 4 & 1;
	p->guid = get64(d + 28);
	p->data = get_data(d + 36, XC_REP_DATA);
}

/* ---- other messages of connections ------------------------------------------- */

static void put_mra(uint8_t *d, const struct xc_mra *m)
{
	d[8] = m->message << 6;
	d[9] = m->service_timeout << 3;
	put_data(d + 10, &m->data);
}

static void get_mra(const uint8_t *d, struct xc_mra *m)
{
	m->message = d[8] >> 6;
	m->service_timeout = d[9] >> 3;
	m->data = get_data(d + 10, XC_MRA_DATA);
}

static void put_rej(uint8_t *d, const struct xc_rej *r)
{
	d[8] = r->message << 6;
	d[9] = r->ari.len << 1;
	mad_put16(d + 10, r->reason);
	put_data(d + 12, &r->ari);
	put_data(d + 84, &r->data);
}

static void get_rej(const uint8_t *d, struct xc_rej *r)
{
	r->message = d[8] >> 6;
	r->reason = mad_get16(d + 10);
	r->ari = get_part(d + 12, d[9] >> 1, XC_REJ_ARI);
	r->data = get_data(d + 84, XC_REJ_DATA);
}

static void put_dreq(uint8_t *d, const struct xc_dreq *q)
{
	put24(d + 8, q->qpn);
	put_data(d + 12, &q->data);
}

static void get_dreq(const uint8_t *d, struct xc_dreq *q)
{
	q->qpn = get24(d + 8);
	q->data = get_data(d + 12, XC_DREQ_DATA);
}

/* ---- SIDR -------------------------------------------------------------------- */

static void put_sidr_req(uint8_t *d, const struct xc_sidr_req *q)
{
	mad_put16(d + 4, q->pkey);
	put64(d + 8, q->service_id);
	put_data(d + 16, &q->data);
}

static void get_sidr_req(const uint8_t *d, struct xc_sidr_req *q)
{
	q->pkey = mad_get16(d + 4);
	q->service_id = get64(d + 8);
	q->data = get_data(d + 16, XC_SIDR_REQ_DATA);
}

/* The field of the vendor ID has 24 bits: 16 at offset 6 and 8 at offset 11. */
static void put_sidr_rep(uint8_t *d, const struct xc_sidr_rep *p)
{
	d[4] = p->status;
	d[5] = p->info.len;
	mad_put16(d + 6, p->vendor_id >> 8);
	put24(d + 8, p->qpn);
	d[11] = p->vendor_id;
	put64(d + 12, p->service_id);
	mad_put32(d + 20, p->qkey);
	put_data(d + 24, &p->info);
	put_data(d + 96, &p->data);
}

static void get_sidr_rep(const uint8_t *d, struct xc_sidr_rep *p)
{
	p->status = d[4];
	p->vendor_id = (uint32_t)mad_get16(d + 6) << 8 | d[11];
	p->qpn = get24(d + 8);
	p->service_id = get64(d + 12);
	p->qkey = get32(d + 20);
	p->info = get_part(d + 24, d[5], XC_SIDR_REP_INFO);
	p->data = get_data(d + 96, XC_SIDR_REP_DATA);
}

/* ---- APR --------------------------------------------------------------------- */

static void put_apr(uint8_t *d, const struct xc_apr *a)
{
	d[8] = a->info.len;
	d[9] = a->status;
	put_data(d + 12, &a->info);
}

static void get_apr(const uint8_t *d, struct xc_apr *a)
{
	a->status = d[9];
	a->info = get_part(d + 12, d[8], XC_REJ_ARI);
}

/* ---- all messages ------------------------------------------------------------ */

static void put_ids(uint8_t *d, const struct xc_msg *m)
{
	if (m->kind == XC_SIDR_REP) {
		mad_put32(d, m->remote_id);
		return;
	}
	mad_put32(d, m->local_id);
	if (m->kind != XC_REQ && m->kind != XC_SIDR_REQ)
		mad_put32(d + 4, m->remote_id);
}

static void get_ids(const uint8_t *d, struct xc_msg *m)
{
	m->local_id = m->remote_id = 0;
	if (m->kind == XC_SIDR_REP) {
		m->remote_id = get32(d);
		return;
	}
	m->local_id = get32(d);
	if (m->kind != XC_REQ && m->kind != XC_SIDR_REQ)
		m->remote_id = get32(d + 4);
}

/* The attribute modifier carries the options of enhanced connection establishment. */
static uint32_t *ece_options(struct xc_msg *m)
{
	switch (m->kind) {
	case XC_REQ:
		return &m->req.ece_options;
	case XC_REP:
		return &m->rep.ece_options;
	case XC_SIDR_REP:
		return &m->sidr_rep.ece_options;
	default:
		return NULL;
	}
}

static void put_body(uint8_t *d, const struct xc_msg *m)
{
	switch (m->kind) {
	case XC_REQ:
		put_req(d, &m->req);
		break;
	case XC_MRA:
		put_mra(d, &m->mra);
		break;
	case XC_REJ:
		put_rej(d, &m->rej);
		break;
	case XC_REP:
		put_rep(d, &m->rep);
		break;
	case XC_RTU:
	case XC_DREP:
		put_data(d + 8, &m->rtu.data);
		break;
	case XC_DREQ:
		put_dreq(d, &m->dreq);
		break;
	case XC_SIDR_REQ:
		put_sidr_req(d, &m->sidr_req);
		break;
	case XC_SIDR_REP:
		put_sidr_rep(d, &m->sidr_rep);
		break;
	case XC_APR:
		put_apr(d, &m->apr);
		break;
	case XC_LAP: /* never sent */
	case XC_NUM_KINDS:
		break;
	}
}

static void get_body(const uint8_t *d, struct xc_msg *m)
{
	switch (m->kind) {
	case XC_REQ:
		get_req(d, &m->req);
		break;
	case XC_MRA:
		get_mra(d, &m->mra);
		break;
	case XC_REJ:
		get_rej(d, &m->rej);
		break;
	case XC_REP:
		get_rep(d, &m->rep);
		break;
	case XC_RTU:
	case XC_DREP:
		m->rtu.data = get_data(d + 8, XC_RTU_DATA);
		break;
	case XC_DREQ:
		get_dreq(d, &m->dreq);
		break;
	case XC_SIDR_REQ:
		get_sidr_req(d, &m->sidr_req);
		break;
	case XC_SIDR_REP:
		get_sidr_rep(d, &m->sidr_rep);
		break;
	case XC_LAP:
		m->lap.qpn = get24(d + 12);
		break;
	case XC_APR:
		get_apr(d, &m->apr);
		break;
	case XC_NUM_KINDS:
		break;
	}
}

void xc_mad_encode(uint8_t mad[XC_MAD_LEN], const struct xc_msg *msg)
{
	const uint32_t *options = ece_options((struct xc_msg *)msg);

	memset(mad, 0, XC_MAD_LEN);
	mad[0] = BASE_VERSION;
	mad[1] = CLASS_CM;
	mad[2] = CLASS_VERSION;
	mad[3] = METHOD_SEND;
	put64(mad + 8, msg->tid);
	mad_put16(mad + 16, FIRST_ATTRIBUTE + msg->kind);
	mad_put32(mad + 20, options ? *options : 0);
	put_ids(mad + HEADER, msg);
	put_body(mad + HEADER, msg);
}

enum xc_decoded xc_mad_decode(const uint8_t *mad, size_t len, struct xc_msg *msg)
{
	unsigned attribute;
	uint32_t *options;

	if (len != XC_MAD_LEN || mad[0] != BASE_VERSION || mad[1] != CLASS_CM)
		return XC_NOT_CM;
	attribute = mad_get16(mad + 16);
	if (mad[3] != METHOD_SEND || mad_get16(mad + 4) || attribute < FIRST_ATTRIBUTE ||
	    attribute >= FIRST_ATTRIBUTE + XC_NUM_KINDS)
		return XC_MALFORMED;
	memset(msg, 0, sizeof(*msg));
	msg->kind = attribute - FIRST_ATTRIBUTE;
	msg->tid = get64(mad + 8);
	get_ids(mad + HEADER, msg);
	if (mad[2] != CLASS_VERSION)
		return XC_OTHER_VERSION;
	get_body(mad + HEADER, msg);
	options = ece_options(msg);
	if (options)
		*options = get32(mad + 20);
	return XC_DECODED;
}

/* ---- RDMA IP CM header ------------------------------------------------------- */

/* IBTA A11: version, IP version 7:4, source port, source and destination address */
void xc_ip_header_put(uint8_t *p, const struct xc_ip_header *h)
{
	unsigned skip = h->ip_version == 4 ? XR_GID_IPV4_OFF : 0;

	memset(p, 0, XC_IP_HEADER_LEN);
	p[1] = h->ip_version << 4;
	mad_put16(p + 2, h->src_port);
	memcpy(p + 4 + skip, h->src.raw + skip, 16 - skip);
	memcpy(p + 20 + skip, h->dst.raw + skip, 16 - skip);
}

static void get_address(const uint8_t *p, uint8_t ip_version, struct xr_addr *addr)
{
	__be32 ipv4;

	memcpy(addr->raw, p, 16);
	memcpy(&ipv4, p + XR_GID_IPV4_OFF, sizeof(ipv4));
	if (ip_version == 4)
		xr_gid_set_ipv4(addr, ipv4);
}

bool xc_ip_header_get(const uint8_t *p, struct xc_ip_header *h)
{
	h->ip_version = p[1] >> 4;
	h->src_port = mad_get16(p + 2);
	if (p[0] || (h->ip_version != 4 && h->ip_version != 6))
		return false;
	get_address(p + 4, h->ip_version, &h->src);
	get_address(p + 20, h->ip_version, &h->dst);
	return true;
}
