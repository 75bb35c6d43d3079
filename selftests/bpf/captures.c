// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Packets of a real peer. Before each packet of a capture, the test adds the addresses, QP,
 * sequence numbers and key that make it valid. Then it removes or changes one entry at a time.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>

#include "daemon/transport/transport.h"
#include "rows.h"
#include "selftests/lib/parse.h"
#include "selftests/lib/pcap.h"
#include "selftests/lib/tap.h"
#include "suites.h"

#define PCAPS "selftests/pcaps"

/* A captured packet, and the map entries that make it valid */
struct packet {
	const uint8_t *data;
	uint32_t len;
	struct xr_meta meta;
	struct xr_addr src, dst;
	struct xr_bth bth;
	uint16_t flags;
	struct xr_qp_entry qp;
	struct xr_psn_entry psns;
	bool has_key;
	uint32_t rkey;
	struct xr_key_entry key;
};

static enum xr_qp_type type_of(const struct packet *p)
{
	switch (p->bth.opcode & XR_CLASS_MASK) {
	case XR_CLASS_UC:
		return XR_QPT_UC;
	case XR_CLASS_UD:
		return XR_QPT_UD;
	default:
		return XR_QPT_RC;
	}
}

static void read_addresses(struct packet *p)
{
	const uint8_t *ip = p->data + p->meta.ip_off;

	p->src = p->meta.ip_version == 4 ? gid4(ip + 12) : gid6(ip + 8);
	p->dst = p->meta.ip_version == 4 ? gid4(ip + 16) : gid6(ip + 24);
}

/* Returns the first extended header. The captures have no XRCETH. */
static const void *extended(const struct packet *p)
{
	return p->data + p->meta.bth_off + sizeof(p->bth);
}

/* Derives the QP entry for which the packet is valid. */
static void derive_qp(struct packet *p)
{
	uint32_t psn = ntohl(p->bth.ack_psn) & XR_PSN_MASK;
	struct xr_deth deth = {};

	if (p->flags & XR_EXT_DETH)
		memcpy(&deth, extended(p), sizeof(deth));
	p->qp = (struct xr_qp_entry){
		.peer = p->src,
		.local = p->dst,
		.pd = TEST_PD,
		.slot = QP_COUNT,
		.pkey = ntohs(p->bth.pkey),
		.path_mtu = p->flags & XR_OPF_FULL_MTU ? p->meta.payload_len : 4096,
		.state = XR_QPS_RTS,
		.type = type_of(p),
		.access = XR_ACCESS_REMOTE,
		.qkey = ntohl(deth.qkey),
	};
	p->psns = (struct xr_psn_entry){ psn, psn, (psn + 1) & XR_PSN_MASK, 0 };
}

/* Derives the smallest region for which the packet is valid. */
static void derive_key(struct packet *p)
{
	const struct xr_reth *reth = extended(p);
	bool atomic = p->flags & XR_EXT_ATOMICETH;

	p->has_key = p->flags & (XR_EXT_RETH | XR_EXT_ATOMICETH);
	if (!p->has_key)
		return;
	p->rkey = ntohl(reth->rkey);
	p->key = (struct xr_key_entry){
		.va = be64toh(reth->va),
		.length = atomic ? XR_ATOMIC_LEN : ntohl(reth->len),
		.pd = TEST_PD,
		.access = XR_ACCESS_REMOTE,
		.state = XR_KEY_VALID,
		.type = XR_KEY_MR,
	};
	p->has_key = p->key.length;
}

/* Returns false if the packet is not RoCE v2. */
static bool dissect(struct packet *p, const uint8_t *data, uint32_t len)
{
	struct xt_frame frame = { .seg = { { (uint8_t *)data, len } }, .nseg = 1, .len = len };

	memset(p, 0, sizeof(*p));
	p->data = data;
	p->len = len;
	if (parse_frame(&frame) != XR_OK)
		return false;
	p->meta = frame.meta;
	memcpy(&p->bth, data + p->meta.bth_off, sizeof(p->bth));
	p->flags = opcode_flags(p->bth.opcode);
	read_addresses(p);
	derive_qp(p);
	derive_key(p);
	return true;
}

static bool install(struct fixture *f, const struct packet *p)
{
	return fixture_add_addr(f, &p->dst) && fixture_add_qp(f, p->meta.qpn, &p->qp, &p->psns) &&
	       (!p->has_key || fixture_add_key(f, p->rkey, p->key));
}

static void remove_entries(struct fixture *f, const struct packet *p)
{
	fixture_del_qp(f, p->meta.qpn);
	fixture_del_addr(f, &p->dst);
	if (p->has_key)
		fixture_del_key(f, p->rkey);
}

static bool expect(struct fixture *f, const struct packet *p, enum xdp_action action,
		   enum xr_reason reason)
{
	struct xr_meta meta = p->meta;

	meta.reason = reason;
	return run_bytes(f, p->data, p->len, action, reason, &meta);
}

static bool is_reliable(const struct packet *p)
{
	return type_of(p) == XR_QPT_RC;
}

/* Runs the packet with wrong entries. */
static bool play_wrong_keys(struct fixture *f, struct packet *p)
{
	enum xdp_action action = is_reliable(p) ? XDP_REDIRECT : XDP_DROP;
	const struct xr_key_entry right = p->key;
	bool ok;

	fixture_add_key(f, p->rkey ^ 0x80, right);
	ok = expect(f, p, action, XR_KEY_VARIANT);
	p->key.va++;
	p->key.length--;
	ok &= install(f, p) && expect(f, p, action, XR_KEY_RANGE);
	p->key = right;
	p->key.length--;
	ok &= install(f, p) && expect(f, p, action, XR_KEY_RANGE);
	p->key = right;
	p->key.access = 0;
	ok &= install(f, p) && expect(f, p, action, XR_KEY_ACCESS);
	p->key = right;
	p->key.pd++;
	ok &= install(f, p) && expect(f, p, action, XR_KEY_PD);
	p->key = right;
	return ok;
}

static bool play_wrong_qps(struct fixture *f, struct packet *p)
{
	const struct xr_qp_entry right = p->qp;
	bool ok = true;

	p->qp.state = XR_QPS_ERR;
	ok &= install(f, p) && expect(f, p, XDP_DROP, XR_QP_STATE);
	p->qp = right;
	p->qp.pkey ^= 1;
	ok &= install(f, p) && expect(f, p, XDP_DROP, XR_PKEY);
	p->qp = right;
	if (p->qp.type == XR_QPT_UD) {
		p->qp.qkey ^= 1;
		ok &= install(f, p) && expect(f, p, XDP_DROP, XR_QKEY);
	} else {
		p->qp.peer.raw[15] ^= 1;
		ok &= install(f, p) && expect(f, p, XDP_DROP, XR_WRONG_PEER);
	}
	p->qp = right;
	return ok;
}

static bool play_roce(struct fixture *f, struct packet *p)
{
	uint32_t qpn = p->meta.qpn;
	bool ok = install(f, p) && expect(f, p, XDP_REDIRECT, XR_OK);

	/* packets to a multicast group are not checked against a QP */
	if (qpn != XR_MULTICAST_QPN) {
		ok &= play_wrong_qps(f, p);
		install(f, p);
		if (p->has_key)
			ok &= play_wrong_keys(f, p);
		fixture_del_qp(f, qpn);
		ok &= expect(f, p, XDP_DROP, XR_NO_QP);
	}
	remove_entries(f, p);
	return ok & expect(f, p, XDP_PASS, XR_NOT_OUR_ADDR);
}

/* Selects the first 20 packets of each opcode, then every 16th: long captures repeat themselves. */
static bool is_worth_it(unsigned *of_opcode, unsigned n)
{
	return (*of_opcode)++ < 20 || n % 16 == 0;
}

static void play_file(struct fixture *f, const char *name)
{
	unsigned roce = 0, rest = 0, n = 0, opcodes[256] = {};
	char path[512];
	struct packet p;
	const uint8_t *data;
	struct pcap pcap;
	uint32_t len;
	bool ok = true;

	snprintf(path, sizeof(path), PCAPS "/%s", name);
	if (!TAP_OK(pcap_open(&pcap, path), "%s opens", name))
		return;
	while ((data = pcap_next(&pcap, &len))) {
		n++;
		if (!dissect(&p, data, len)) {
			ok &= run_bytes(f, data, len, XDP_PASS, XR_NOT_IP, NULL);
			rest++;
		} else if (is_worth_it(&opcodes[p.bth.opcode], n)) {
			bool right = play_roce(f, &p);

			if (!right)
				printf("# packet %u\n", n);
			ok &= right;
			roce++;
		}
	}
	pcap_close(&pcap);
	TAP_OK(ok && n, "%s: %u RoCE v2 packets of %u, %u others", name, roce, n, rest);
}

static int is_pcap(const struct dirent *entry)
{
	const char *dot = strrchr(entry->d_name, '.');

	return dot && !strcmp(dot, ".pcap");
}

void test_captures(struct fixture *f)
{
	struct dirent **files;
	int i, n = scandir(PCAPS, &files, is_pcap, alphasort);

	if (!TAP_OK(n > 0, "captures in " PCAPS))
		return;
	for (i = 0; i < n; i++) {
		play_file(f, files[i]->d_name);
		free(files[i]);
	}
	free(files);
}
