// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Replays captured MADs of the Linux CM with our CM engine in place of one side, then of the other:
 * the engine must send the MADs that Linux sent, byte for byte, and report those that it receives.
 * Our communication IDs and transaction IDs are those of the capture. Run from the top of the tree,
 * or with the directory of the captures as argument.
 */
#include <xroce/parse.h>

#include "cm_hosts.h"
#include "selftests/lib/pcap.h"

#define MAX_MADS 16

static const char *const captures[] = { "cm_rping", "cm_reject", "cm_udaddy", "veth_cmreq" };
static const char *dir = "selftests/pcaps";

struct mad {
	struct xr_addr from, to;
	uint8_t data[XC_MAD_LEN];
	struct xc_msg msg;
};

static struct mad mads[MAX_MADS];
static unsigned count;
static struct c_host *host;
static struct xc_id *id;

/* ---- captures -------------------------------------------------------------------- */

/* Stores the MAD of a packet from QP 1 to QP 1. */
static void add_packet(uint8_t *data, uint32_t len)
{
	struct xr_cursor c = { .pos = data, .end = data + len, .left = len };
	struct mad *m = &mads[count];
	struct xr_outer outer;
	struct xr_packet pkt = { 0 };

	if (xr_parse_network(&c, &pkt, &outer) != XR_OK ||
	    xr_parse_transport(&c, &pkt, &outer) != XR_OK || pkt.qpn != XR_GSI_QPN)
		return;
	if (count == MAX_MADS || pkt.payload_len != XC_MAD_LEN || pkt.ip_version != 4)
		abort();
	memset(&m->from, 0, sizeof(m->from));
	memcpy(m->data, data + pkt.payload_off, XC_MAD_LEN);
	xr_gid_set_ipv4(&m->from, ((struct xr_ipv4 *)(data + pkt.ip_off))->src);
	xr_gid_set_ipv4(&m->to, ((struct xr_ipv4 *)(data + pkt.ip_off))->dst);
	if (xc_mad_decode(m->data, XC_MAD_LEN, &m->msg) != XC_DECODED)
		abort();
	count++;
}

static bool load(const char *name)
{
	struct pcap pcap;
	uint8_t *data;
	uint32_t len;
	char path[512];

	count = 0;
	snprintf(path, sizeof(path), "%s/%s.pcap", dir, name);
	if (!pcap_open(&pcap, path))
		return false;
	while ((data = pcap_next(&pcap, &len)))
		add_packet(data, len);
	pcap_close(&pcap);
	return count;
}

/* ---- our side -------------------------------------------------------------------- */

static struct xc_path path_of(const struct mad *m, bool ours)
{
	return (struct xc_path){
		.local = ours ? m->from : m->to,
		.peer = ours ? m->to : m->from,
		.hop_limit = 64,
	};
}

/* Makes the engine use the communication ID and transaction ID of its first captured MAD. */
static void set_random(const struct xr_addr *gid)
{
	for (unsigned i = 0; i < count; i++) {
		const struct xc_msg *m = &mads[i].msg;

		if (!xr_gid_equal(&mads[i].from, gid) || !m->local_id)
			continue;
		memcpy(host->random, &m->local_id, sizeof(m->local_id));
		memcpy(host->random + sizeof(m->local_id), &m->tid, sizeof(m->tid));
		host->random_len = sizeof(m->local_id) + sizeof(m->tid);
		return;
	}
}

static uint64_t guid_of(const struct xr_addr *gid)
{
	for (unsigned i = 0; i < count; i++) {
		const struct xc_msg *m = &mads[i].msg;

		if (xr_gid_equal(&mads[i].from, gid) && m->kind == XC_REQ)
			return m->req.guid;
		if (xr_gid_equal(&mads[i].from, gid) && m->kind == XC_REP)
			return m->rep.guid;
	}
	return 1;
}

static void connect_as(const struct mad *m)
{
	struct xc_req req = m->msg.req;

	/* The sender sees the path from its side. */
	req.path.local = m->from;
	req.path.peer = m->to;
	xc_connect(host->cm, &req, NULL, &id);
}

static void sidr_request_as(const struct mad *m)
{
	struct xc_sidr_param param = {
		.path = path_of(m, true),
		.response_timeout = C_RESPONSE,
		.max_cm_retries = C_RETRIES,
		.req = m->msg.sidr_req,
	};

	xc_sidr_request(host->cm, &param, NULL, &id);
}

static void reject_as(const struct xc_msg *m)
{
	/* Linux rejects its own REQ if the program gives up. */
	if (m->rej.reason == XC_REJ_TIMEOUT)
		xc_destroy(id);
	else
		xc_reject(id, &m->rej);
}

/* Does what the program and the timers of Linux did before it sent a MAD. */
static void act(const struct mad *m)
{
	const struct xc_msg *msg = &m->msg;

	if (id && (msg->kind == XC_REQ || msg->kind == XC_SIDR_REQ)) {
		c_now = xc_deadline(host->cm);
		xc_run(host->cm);
		return;
	}
	switch (msg->kind) {
	case XC_REQ:
		connect_as(m);
		break;
	case XC_REP:
		xc_accept(id, &msg->rep);
		break;
	case XC_REJ:
		reject_as(msg);
		break;
	case XC_RTU:
		xc_establish(id, &msg->rtu.data);
		break;
	case XC_DREQ:
		xc_disconnect(id, &msg->dreq.data);
		break;
	case XC_DREP:
		xc_reply_disconnect(id, &msg->drep.data);
		break;
	case XC_SIDR_REQ:
		sidr_request_as(m);
		break;
	case XC_SIDR_REP:
		xc_sidr_reply(id, &msg->sidr_rep);
		break;
	default:
		break;
	}
}

static void send_one(const struct mad *m, const char *name)
{
	struct c_mad sent = { 0 };

	act(m);
	TAP_OK(host->queued == 1 && c_take(host, &sent) == m->msg.kind &&
		       !memcmp(sent.data, m->data, XC_MAD_LEN),
	       "%s: we send the same %s", name, xc_kind_name(m->msg.kind));
	TAP_OK(xr_gid_equal(&sent.path.local, &m->from) && xr_gid_equal(&sent.path.peer, &m->to),
	       "%s: with the same addresses", name);
}

static enum xc_event_type event_of(const struct xc_msg *msg)
{
	static const enum xc_event_type types[XC_NUM_KINDS] = {
		[XC_REQ] = XC_EVENT_REQ,	   [XC_REP] = XC_EVENT_REP,
		[XC_REJ] = XC_EVENT_REJECTED,	   [XC_RTU] = XC_EVENT_ESTABLISHED,
		[XC_DREQ] = XC_EVENT_DREQ,	   [XC_DREP] = XC_EVENT_DISCONNECTED,
		[XC_SIDR_REQ] = XC_EVENT_SIDR_REQ, [XC_SIDR_REP] = XC_EVENT_SIDR_REP,
	};

	return types[msg->kind];
}

static void receive_one(const struct mad *m, const char *name)
{
	struct xc_path path = path_of(m, false);
	unsigned before = host->events;
	bool again = id && m->msg.kind == XC_REQ;

	xc_receive(host->cm, &path, m->data, XC_MAD_LEN);
	if (again) {
		TAP_OK(host->events == before && c_lose(host) == XC_MRA,
		       "%s: the second REQ gets an MRA", name);
		return;
	}
	TAP_OK(host->events == before + 1 && c_last(host)->type == event_of(&m->msg),
	       "%s: their %s is reported", name, xc_kind_name(m->msg.kind));
	id = c_last(host)->id;
}

/* Replays the capture with our engine as the host that has the address. */
static void replay(const char *capture, const struct xr_addr *gid)
{
	char name[64];

	snprintf(name, sizeof(name), "%s, 10.9.0.%u", capture, gid->raw[15]);
	host = calloc(1, sizeof(*host));
	c_start(host, 0, guid_of(gid));
	set_random(gid);
	id = NULL;
	for (unsigned i = 0; i < count; i++)
		if (xr_gid_equal(&mads[i].from, gid))
			send_one(&mads[i], name);
		else
			receive_one(&mads[i], name);
	TAP_OK(!host->queued, "%s: nothing else is sent", name);
	c_free(host);
}

int main(int argc, char **argv)
{
	struct xr_addr from, to;

	if (argc > 1)
		dir = argv[1];
	for (unsigned i = 0; i < sizeof(captures) / sizeof(captures[0]); i++) {
		if (!load(captures[i])) {
			TAP_OK(false, "%s: no MADs", captures[i]);
			continue;
		}
		from = mads[0].from;
		to = mads[0].to;
		replay(captures[i], &from);
		replay(captures[i], &to);
	}
	return tap_end();
}
