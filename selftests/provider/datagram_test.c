// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Address handles, address resolution, multicast */
#include <arpa/inet.h>

#include "fixture.h"
#include "selftests/lib/tap.h"

static void address_handles(struct fixture *f)
{
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH };
	struct ibv_ah_attr attr = { .port_num = 1, .is_global = 1 };
	struct ibv_grh grh = { 0 };
	uint8_t *ip = (uint8_t *)&grh + 20;
	struct ibv_ah *ah;

	ah = ibv_create_ah(f->pd, &attr);
	TAP_OK(ah && !ibv_destroy_ah(ah), "AH: created and destroyed");
	attr.grh.hop_limit = FAKE_REFUSED_HOP;
	TAP_OK(!ibv_create_ah(f->pd, &attr) && errno == EHOSTUNREACH,
	       "AH: refused if the address cannot be resolved");
	attr.is_global = 0;
	TAP_OK(!ibv_create_ah(f->pd, &attr) && errno == EINVAL, "AH: refused without a GRH");
	/* 10.0.0.2 to 10.0.0.1, TTL 64, protocol 17 */
	memcpy(ip, "\x45\0\0\x1c\0\0\0\0\x40\x11\x66\xcf\x0a\0\0\x02\x0a\0\0\x01", 20);
	TAP_OK(!ibv_init_ah_from_wc(f->ctx, 1, &wc, &grh, &attr) && attr.is_global &&
		       attr.grh.sgid_index == 2 && attr.grh.dgid.raw[15] == 2 &&
		       attr.grh.hop_limit == 64,
	       "init_ah_from_wc: uses an IPv4 header");
	ip[10] ^= 1;
	TAP_OK(ibv_init_ah_from_wc(f->ctx, 1, &wc, &grh, &attr) == -1,
	       "init_ah_from_wc: refuses a wrong IPv4 checksum");
	memset(&grh, 0, sizeof(grh));
	grh.version_tclass_flow = htonl(6u << 28 | 5);
	grh.next_hdr = 17;
	grh.sgid.raw[0] = grh.dgid.raw[0] = 0xfe;
	grh.sgid.raw[1] = grh.dgid.raw[1] = 0x80;
	grh.sgid.raw[15] = 9;
	grh.dgid.raw[15] = 1;
	TAP_OK(!ibv_init_ah_from_wc(f->ctx, 1, &wc, &grh, &attr) && attr.grh.sgid_index == 0 &&
		       attr.grh.dgid.raw[15] == 9 && attr.grh.flow_label == 5,
	       "init_ah_from_wc: uses an IPv6 header");
	ah = ibv_create_ah_from_wc(f->pd, &wc, &grh, 1);
	TAP_OK(ah && !ibv_destroy_ah(ah), "create_ah_from_wc: creates an AH");
}

/* Like the function of libibverbs, ibv_resolve_eth_l2_from_gid() returns a negative errno. */
static void neighbours(struct fixture *f)
{
	struct ibv_ah_attr attr = { .port_num = 1, .is_global = 1, .grh.dgid.raw[15] = 7 };
	uint8_t mac[6] = { 0 };
	uint16_t vlan = 0;

	TAP_OK(!ibv_resolve_eth_l2_from_gid(f->ctx, &attr, mac, &vlan) && mac[0] == 2 &&
		       mac[5] == 7 && vlan == 0xffff,
	       "resolve_eth_l2: returns the MAC address, and VLAN 0xffff for untagged");
	attr.grh.traffic_class = 5;
	TAP_OK(!ibv_resolve_eth_l2_from_gid(f->ctx, &attr, mac, &vlan) && vlan == 5,
	       "resolve_eth_l2: returns the VLAN");
	attr.grh.hop_limit = FAKE_REFUSED_HOP;
	TAP_OK(ibv_resolve_eth_l2_from_gid(f->ctx, &attr, mac, &vlan) == -EHOSTUNREACH,
	       "resolve_eth_l2: fails if the address cannot be resolved");
}

static struct ibv_qp *make_ud(struct fixture *f, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_UD,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	return ibv_create_qp(f->pd, &init);
}

static void groups(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 16, NULL, NULL, 0);
	struct ibv_qp *ud = make_ud(f, cq), *rc = make_qp(f, cq, cq, IBV_QPS_INIT);
	union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 1 } }, none = { .raw = { 0xfe, 0x80 } };
	union ibv_gid other = { .raw = { 0xff, 0x0e, [15] = 2 } };

	TAP_OK(ibv_attach_mcast(rc, &group, 0) == EINVAL, "attach_mcast: refused for an RC QP");
	TAP_OK(ibv_attach_mcast(ud, &none, 0) == EINVAL,
	       "attach_mcast: refused for a GID that is not a group");
	TAP_OK(ibv_detach_mcast(ud, &group, 0) == EINVAL,
	       "detach_mcast: refused for a QP that is not attached");
	TAP_OK(!ibv_attach_mcast(ud, &group, 0), "attach_mcast: attaches a UD QP");
	TAP_OK(ibv_detach_mcast(ud, &other, 0) == EINVAL,
	       "detach_mcast: refused for another group");
	TAP_OK(ibv_destroy_qp(ud) == EBUSY && !to_state(ud, IBV_QPS_INIT),
	       "an attached QP cannot be destroyed and remains usable");
	TAP_OK(!ibv_detach_mcast(ud, &group, 0) && !ibv_destroy_qp(ud),
	       "a detached QP is destroyed");
	TAP_OK(!ibv_destroy_qp(rc) && !ibv_destroy_cq(cq), "RC QP and CQ are destroyed");
}

int main(void)
{
	struct fixture f;
	unsigned int before;

	setup(&f);
	before = fake_objects(&f.daemon);
	address_handles(&f);
	neighbours(&f);
	groups(&f);
	TAP_OK(fake_objects(&f.daemon) == before, "all objects are destroyed");
	teardown(&f);
	return tap_end();
}
