// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Writes MADs of every kind that the CM engine sends, with random contents, to a capture file, and
 * prints what tshark must show of them: number of the packet, field, value. For cm_tshark.
 *
 *     cm_pcap FILE
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/cm/mad.h"
#include "selftests/lib/ipv4.h"
#include "selftests/sim/rng.h"

#define ROUNDS 50
#define HEADERS (14 + 20 + 8 + 12 + 8) /* Ethernet, IPv4, UDP, BTH, DETH */
#define ICRC 4

static struct rng rng = { 42 };
static FILE *pcap;
static unsigned packet;

/* ---- capture file ------------------------------------------------------------------ */

static void write_words(const uint32_t *words, unsigned count)
{
	fwrite(words, sizeof(*words), count, pcap);
}

static void write_packet(const uint8_t *mad)
{
	static const uint8_t udp[8] = { 0xc0, 0, 0x12, 0xb7, 1, 0x20, 0, 0 };
	static const uint8_t transport[20] = { 0x64, 0, 0xff, 0xff, 0, 0, 0, 1,	   0x80, 0,
					       0,    0, 0x80, 1,    0, 0, 0, 0x00, 0,	 1 };
	uint8_t frame[HEADERS + XC_MAD_LEN + ICRC] = { 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0 };
	uint8_t ip[20] = {
		0x45, 0, 1, 0x34, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2
	};
	uint32_t header[4] = { packet, 0, sizeof(frame), sizeof(frame) };

	ipv4_seal(ip);
	memcpy(frame + 14, ip, sizeof(ip));
	memcpy(frame + 34, udp, sizeof(udp));
	memcpy(frame + 42, transport, sizeof(transport));
	memcpy(frame + HEADERS, mad, XC_MAD_LEN);
	write_words(header, 4);
	fwrite(frame, sizeof(frame), 1, pcap);
}

/* ---- expected values ---------------------------------------------------------------- */

static void expect(const char *field, uint64_t value)
{
	printf("%u\tinfiniband.%s\t0x%" PRIx64 "\n", packet, field, value);
}

/* The bytes, and zeros up to the end of the field */
static void expect_bytes(const char *field, const struct xc_data *d, unsigned len)
{
	const uint8_t *p = d->data;

	printf("%u\tinfiniband.%s\t", packet, field);
	for (unsigned i = 0; i < len; i++)
		printf("%02x", i < d->len ? p[i] : 0);
	putchar('\n');
}

static void expect_gid(const char *field, const struct xr_addr *gid)
{
	const uint8_t *p = gid->raw + XR_GID_IPV4_OFF;

	printf("%u\tinfiniband.%s\t%u.%u.%u.%u\n", packet, field, p[0], p[1], p[2], p[3]);
}

static void expect_header(const struct xc_msg *m, uint32_t modifier)
{
	expect("mad.baseversion", 1);
	expect("mad.mgmtclass", 7);
	expect("mad.classversion", 2);
	expect("mad.method", 3);
	expect("mad.status", 0);
	expect("mad.classspecific", 0);
	expect("mad.transactionid", m->tid);
	expect("mad.attributeid", 0x10 + m->kind);
	expect("mad.attributemodifier", modifier);
}

/* ---- messages ------------------------------------------------------------------------ */

static uint64_t bits(unsigned count)
{
	return rng_next(&rng) >> (64 - count);
}

static struct xc_data some_data(unsigned max)
{
	static uint8_t pool[4][XC_MAD_LEN];
	static unsigned next;
	uint8_t *p = pool[next++ % 4];

	rng_bytes(&rng, p, XC_MAD_LEN - 8);
	return (struct xc_data){ p, rng_below(&rng, max + 1) };
}

static struct xc_msg message(enum xc_kind kind)
{
	return (struct xc_msg){
		.kind = kind,
		.tid = bits(64),
		.local_id = bits(32),
		.remote_id = bits(32),
	};
}

static void emit(const struct xc_msg *m, uint32_t modifier)
{
	uint8_t mad[XC_MAD_LEN];

	xc_mad_encode(mad, m);
	packet++;
	write_packet(mad);
	expect_header(m, modifier);
}

static void expect_req(const struct xc_req *q)
{
	expect("cm.req.serviceid", q->service_id);
	expect("cm.req.localcaguid", q->guid);
	expect("cm.req.localqkey", q->qkey);
	expect("cm.req.localqpn", q->qpn);
	expect("cm.req.responderres", q->responder_resources);
	expect("cm.req.localeecn", 0);
	expect("cm.req.initdepth", q->initiator_depth);
	expect("cm.req.remoteeecn", 0);
	expect("cm.req.remoteresptout", q->remote_response_timeout);
	expect("cm.req.transpsvctype", q->transport == XC_XRC ? 3 : q->transport);
	expect("cm.req.e2eflowctrl", q->flow_control);
	expect("cm.req.startpsn", q->starting_psn);
	expect("cm.req.localresptout", q->local_response_timeout);
	expect("cm.req.retrcount", q->retry_count);
	expect("cm.req.pkey", q->pkey);
	expect("cm.req.pppmtu", q->mtu);
	expect("cm.req.rdcexist", 0);
	expect("cm.req.rnrretrcount", q->rnr_retry_count);
	expect("cm.req.maxcmretr", q->max_cm_retries);
	expect("cm.req.srq", q->srq);
	expect("cm.req.ext_transport", q->transport == XC_XRC);
	expect("cm.req.prim_locallid", q->path.hop_limit > 1 ? 0xffff : 0);
	expect("cm.req.prim_remotelid", q->path.hop_limit > 1 ? 0xffff : 0);
	expect_gid("cm.req.prim_localgid_ipv4", &q->path.local);
	expect_gid("cm.req.prim_remotegid_ipv4", &q->path.peer);
	/* tshark 4.0 takes flow label and rate from one byte before their place. */
	expect("cm.req.prim_tfcclass", q->path.traffic_class);
	expect("cm.req.prim_hoplim", q->path.hop_limit);
	expect("cm.req.prim_sl", q->path.sl);
	expect("cm.req.prim_subnetlocal", q->path.hop_limit <= 1);
	expect("cm.req.prim_localacktout", q->ack_timeout);
	expect_bytes("cm.req.private", &q->data, XC_REQ_DATA);
}

static void put_req(void)
{
	struct xc_msg m = message(XC_REQ);
	struct xc_req *q = &m.req;

	xr_gid_set_ipv4(&q->path.local, bits(32));
	xr_gid_set_ipv4(&q->path.peer, bits(32));
	q->path.flow_label = bits(20);
	q->path.traffic_class = bits(8);
	q->path.hop_limit = bits(2);
	q->path.sl = bits(4);
	q->service_id = bits(40); /* tshark dissects the RDMA IP CM service otherwise */
	q->guid = bits(64);
	q->transport = rng_below(&rng, 3);
	q->qpn = bits(24);
	q->qkey = bits(32);
	q->starting_psn = bits(24);
	q->responder_resources = bits(8);
	q->initiator_depth = bits(8);
	q->remote_response_timeout = bits(5);
	q->local_response_timeout = bits(5);
	q->max_cm_retries = bits(4);
	q->retry_count = bits(3);
	q->rnr_retry_count = bits(3);
	q->ack_timeout = bits(5);
	q->mtu = rng_between(&rng, 1, 5);
	q->rate = bits(6);
	q->pkey = bits(16);
	q->flow_control = bits(1);
	q->srq = bits(1);
	q->ece_options = bits(32);
	q->data = some_data(XC_REQ_DATA);
	emit(&m, q->ece_options);
	expect("cm.req", m.local_id);
	expect_req(q);
}

static void put_rep(void)
{
	struct xc_msg m = message(XC_REP);
	struct xc_rep *p = &m.rep;

	p->guid = bits(64);
	p->qpn = bits(24);
	p->eecn = bits(24);
	p->qkey = bits(32);
	p->starting_psn = bits(24);
	p->responder_resources = bits(8);
	p->initiator_depth = bits(8);
	p->target_ack_delay = bits(5);
	p->failover = rng_below(&rng, 3);
	p->rnr_retry_count = bits(3);
	p->flow_control = bits(1);
	p->srq = bits(1);
	p->ece_options = bits(32);
	p->data = some_data(XC_REP_DATA);
	emit(&m, p->ece_options);
	expect("cm.rep", m.local_id);
	expect("cm.rep.remotecommid", m.remote_id);
	expect("cm.rep.localqkey", p->qkey);
	expect("cm.rep.localqpn", p->qpn);
	expect("cm.rep.localeecn", p->eecn);
	expect("cm.rep.startpsn", p->starting_psn);
	expect("cm.rep.respres", p->responder_resources);
	expect("cm.rep.initdepth", p->initiator_depth);
	expect("cm.rep.tgtackdelay", p->target_ack_delay);
	expect("cm.rep.failoveracc", p->failover);
	expect("cm.rep.e2eflowctrl", p->flow_control);
	expect("cm.rep.rnrretrcount", p->rnr_retry_count);
	expect("cm.rep.srq", p->srq);
	expect("cm.rep.reserved", 0);
	expect("cm.rep.localcaguid", p->guid);
	expect_bytes("cm.rep.private", &p->data, XC_REP_DATA);
}

static void put_rtu(void)
{
	struct xc_msg m = message(XC_RTU);

	m.rtu.data = some_data(XC_RTU_DATA);
	emit(&m, 0);
	expect("cm.rtu.localcommid", m.local_id);
	expect("cm.rtu.remotecommid", m.remote_id);
	expect_bytes("cm.rtu.private", &m.rtu.data, XC_RTU_DATA);
}

static void put_rej(void)
{
	struct xc_msg m = message(XC_REJ);
	struct xc_rej *r = &m.rej;

	r->message = rng_below(&rng, 3);
	r->reason = bits(16);
	r->ari = some_data(XC_REJ_ARI);
	r->data = some_data(XC_REJ_DATA);
	emit(&m, 0);
	expect("cm.rej.localcommid", m.local_id);
	expect("cm.rej.remotecommid", m.remote_id);
	expect("cm.rej.msgrej", r->message);
	expect("cm.rej.reserved0", 0);
	expect("cm.rej.rejinfolen", r->ari.len);
	expect("cm.rej.reserved1", 0);
	expect("cm.rej.reason", r->reason);
	expect_bytes("cm.rej.ari", &r->ari, XC_REJ_ARI);
	expect_bytes("cm.rej.private", &r->data, XC_REJ_DATA);
}

static void put_dreq(void)
{
	struct xc_msg m = message(XC_DREQ);

	m.dreq.qpn = bits(24);
	m.dreq.data = some_data(XC_DREQ_DATA);
	emit(&m, 0);
	expect("cm.dreq.localcommid", m.local_id);
	expect("cm.dreq.remotecommid", m.remote_id);
	expect("cm.req.remoteqpneecn", m.dreq.qpn);
	expect_bytes("cm.dreq.private", &m.dreq.data, XC_DREQ_DATA);
}

static void put_drep(void)
{
	struct xc_msg m = message(XC_DREP);

	m.drep.data = some_data(XC_DREP_DATA);
	emit(&m, 0);
	expect("cm.drsp.localcommid", m.local_id);
	expect("cm.drsp.remotecommid", m.remote_id);
	expect_bytes("cm.drsp.private", &m.drep.data, XC_DREP_DATA);
}

/* tshark 4.0 dissects only the header of these. */
static void put_others(void)
{
	struct xc_msg mra = message(XC_MRA), req = message(XC_SIDR_REQ);
	struct xc_msg rep = message(XC_SIDR_REP), apr = message(XC_APR);

	mra.mra.service_timeout = bits(5);
	emit(&mra, 0);
	req.sidr_req.data = some_data(XC_SIDR_REQ_DATA);
	emit(&req, 0);
	rep.sidr_rep.ece_options = bits(32);
	rep.sidr_rep.data = some_data(XC_SIDR_REP_DATA);
	emit(&rep, rep.sidr_rep.ece_options);
	apr.apr.status = 2;
	emit(&apr, 0);
}

int main(int argc, char **argv)
{
	static const uint32_t file_header[6] = { 0xa1b2c3d4, 4 << 16 | 2, 0, 0, 65535, 1 };

	pcap = argc == 2 ? fopen(argv[1], "w") : NULL;
	if (!pcap)
		return 2;
	write_words(file_header, 6);
	for (unsigned i = 0; i < ROUNDS; i++) {
		put_req();
		put_rep();
		put_rtu();
		put_rej();
		put_dreq();
		put_drep();
		put_others();
	}
	return fclose(pcap) ? 1 : 0;
}
