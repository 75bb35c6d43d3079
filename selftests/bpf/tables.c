// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "tables.h"

#include <string.h>

#include <xroce/wire.h>

#include "daemon/io/tables.h"

const uint8_t peer4[4] = { 10, 9, 0, 1 }, local4[4] = { 10, 9, 0, 2 };
const uint8_t second4[4] = { 10, 9, 0, 7 };
const uint8_t group4[4] = { 239, 1, 1, 1 };
static const uint8_t group6[16] = { 0xff, 0x0e, [15] = 1 };
const uint8_t peer6[16] = { 0xfd, 0, 0, 9, [15] = 1 }, local6[16] = { 0xfd, 0, 0, 9, [15] = 2 };

struct xr_addr gid4(const uint8_t addr[4])
{
	struct xr_addr gid;
	__be32 word;

	memcpy(&word, addr, sizeof(word));
	xr_gid_set_ipv4(&gid, word);
	return gid;
}

struct xr_addr gid6(const uint8_t addr[16])
{
	struct xr_addr gid;

	memcpy(gid.raw, addr, 16);
	return gid;
}

/* ---- queue pairs ----------------------------------------------------------------- */

struct qp_row {
	uint8_t type, state;
	bool v6;
	uint16_t access, pkey, mtu;
	uint32_t pd, in_flight;
};

#define USUAL_QP(t)                                                                                \
	.type = XR_QPT_##t, .state = XR_QPS_RTS, .access = XR_ACCESS_REMOTE,                       \
	.pkey = XR_DEFAULT_PKEY, .mtu = TEST_MTU, .pd = TEST_PD, .in_flight = TEST_IN_FLIGHT

/* the last initializer of a field wins: rows override defaults */
#pragma GCC diagnostic ignored "-Woverride-init"
static const struct qp_row qp_rows[QP_COUNT] = {
	[QP_RC4] = { USUAL_QP(RC) },
	[QP_RC6] = { USUAL_QP(RC), .v6 = true },
	[QP_UC4] = { USUAL_QP(UC) },
	[QP_UC6] = { USUAL_QP(UC), .v6 = true },
	[QP_UD4] = { USUAL_QP(UD) },
	[QP_UD6] = { USUAL_QP(UD), .v6 = true },
	[QP_XRC_SEND4] = { USUAL_QP(XRC_SEND) },
	[QP_XRC_SEND6] = { USUAL_QP(XRC_SEND), .v6 = true },
	[QP_XRC_RECV4] = { USUAL_QP(XRC_RECV) },
	[QP_XRC_RECV6] = { USUAL_QP(XRC_RECV), .v6 = true },
	[QP_RESET] = { USUAL_QP(RC), .state = XR_QPS_RESET },
	[QP_INIT] = { USUAL_QP(RC), .state = XR_QPS_INIT },
	[QP_RTR] = { USUAL_QP(RC), .state = XR_QPS_RTR },
	[QP_SQD] = { USUAL_QP(RC), .state = XR_QPS_SQD },
	[QP_SQE] = { USUAL_QP(UC), .state = XR_QPS_SQE },
	[QP_ERR] = { USUAL_QP(RC), .state = XR_QPS_ERR },
	[QP_NO_STATE] = { USUAL_QP(RC), .state = 0xff },
	[QP_LIMITED] = { USUAL_QP(RC), .pkey = 0x1234 },
	[QP_NO_WRITE] = { USUAL_QP(RC), .access = XR_ACCESS_REMOTE & ~XR_ACCESS_REMOTE_WRITE },
	[QP_NO_READ] = { USUAL_QP(RC), .access = XR_ACCESS_REMOTE & ~XR_ACCESS_REMOTE_READ },
	[QP_NO_ATOMIC] = { USUAL_QP(RC), .access = XR_ACCESS_REMOTE & ~XR_ACCESS_REMOTE_ATOMIC },
	[QP_NO_FLUSH] = { USUAL_QP(RC), .access = XR_ACCESS_REMOTE & ~XR_ACCESS_FLUSH_GLOBAL },
	[QP_PERSISTENT] = { USUAL_QP(RC), .access = XR_ACCESS_REMOTE | XR_ACCESS_FLUSH_PERSISTENT },
	[QP_PD8] = { USUAL_QP(RC), .pd = 8 },
	[QP_XRC_NO_PD] = { USUAL_QP(XRC_RECV), .pd = 0 },
	[QP_MTU256] = { USUAL_QP(RC), .mtu = 256 },
	[QP_MTU4096] = { USUAL_QP(RC), .mtu = 4096 },
	[QP_NO_MTU] = { USUAL_QP(UD), .mtu = 0 },
	[QP_HALF_IN_FLIGHT] = { USUAL_QP(RC), .in_flight = 1 << 23 },
};

uint32_t test_qpn(enum test_qp qp)
{
	return 0xabc000 + qp;
}

struct xr_qp_entry test_qp_entry(enum test_qp qp)
{
	const struct qp_row *row = &qp_rows[qp];

	return (struct xr_qp_entry){
		.peer = row->v6 ? gid6(peer6) : gid4(peer4),
		.local = row->v6 ? gid6(local6) : gid4(local4),
		.dest_qpn = 0x123456,
		.qkey = row->type == XR_QPT_UD ? TEST_QKEY : 0,
		.pd = row->pd,
		.slot = qp,
		.pkey = row->pkey,
		.path_mtu = row->mtu,
		.state = row->state,
		.type = row->type,
		.access = row->access,
	};
}

struct xr_psn_entry test_psns(enum test_qp qp)
{
	return (struct xr_psn_entry){
		.expected = TEST_PSN,
		.unacked = TEST_PSN,
		.next = (TEST_PSN + qp_rows[qp].in_flight) & XR_PSN_MASK,
	};
}

/* ---- keys ------------------------------------------------------------------------ */

#define USUAL_KEY                                                                                  \
	.va = KEY_VA, .length = KEY_LEN, .pd = TEST_PD, .state = XR_KEY_VALID, .type = XR_KEY_MR,  \
	.access = XR_ACCESS_LOCAL_WRITE | XR_ACCESS_REMOTE

static const struct xr_key_entry key_rows[KEY_COUNT] = {
	[KEY_FULL] = { USUAL_KEY },
	[KEY_READ_ONLY] = { USUAL_KEY, .access = XR_ACCESS_REMOTE_READ },
	[KEY_WRITE_ONLY] = { USUAL_KEY, .access = XR_ACCESS_LOCAL_WRITE | XR_ACCESS_REMOTE_WRITE },
	[KEY_ATOMIC_ONLY] = { USUAL_KEY,
			      .access = XR_ACCESS_LOCAL_WRITE | XR_ACCESS_REMOTE_ATOMIC },
	[KEY_LOCAL_ONLY] = { USUAL_KEY, .access = XR_ACCESS_LOCAL_WRITE },
	[KEY_FREED] = { USUAL_KEY, .state = XR_KEY_FREE },
	[KEY_INVALIDATED] = { USUAL_KEY, .state = XR_KEY_INVALID },
	[KEY_WINDOW] = { USUAL_KEY, .type = XR_KEY_MW, .qpn = 0xabc000 + QP_RC4 },
	[KEY_ZERO_BASED] = { USUAL_KEY, .va = 0 },
	[KEY_TOP] = { USUAL_KEY, .va = -(uint64_t)KEY_LEN },
	[KEY_EVERYTHING] = { USUAL_KEY, .va = 0, .length = UINT64_MAX },
	[KEY_EMPTY] = { USUAL_KEY, .length = 0 },
	[KEY_WRAPPING] = { USUAL_KEY, .va = 4096, .length = UINT64_MAX },
	[KEY_WINDOW_1] = { USUAL_KEY, .type = XR_KEY_MW, .access = XR_ACCESS_REMOTE_READ },
	[KEY_WINDOW_ZERO] = { USUAL_KEY, .type = XR_KEY_MW, .flags = XR_KEYF_TYPE_2, .va = 0,
			      .qpn = 0xabc000 + QP_RC4,
			      .access = XR_ACCESS_REMOTE_READ | XR_ACCESS_REMOTE_WRITE },
	[KEY_WINDOW_FREED] = { .pd = TEST_PD, .type = XR_KEY_MW, .flags = XR_KEYF_TYPE_2 },
	[KEY_FAST] = { USUAL_KEY, .flags = XR_KEYF_FAST },
	[KEY_FAST_FREED] = { USUAL_KEY, .flags = XR_KEYF_FAST, .state = XR_KEY_FREE },
};

uint32_t test_rkey(enum test_key key)
{
	return XR_KEY(0x4200u + key, 0xa0u + key);
}

uint64_t test_key_va(enum test_key key)
{
	return key_rows[key].va;
}

struct xr_key_entry test_key_entry(enum test_key key)
{
	struct xr_key_entry entry = key_rows[key];

	entry.variant = XR_KEY_VARIANT(test_rkey(key));
	return entry;
}

/* ---- addresses ------------------------------------------------------------------- */

static bool is_multicast(const struct xr_addr *addr)
{
	if (xr_gid_is_ipv4(addr))
		return addr->raw[XR_GID_IPV4_OFF] >> 4 == 0xe;
	return addr->raw[0] == 0xff;
}

uint32_t test_gid_index(const struct xr_addr *addr)
{
	return is_multicast(addr) ? XR_ADDR_GROUP : 0;
}

struct xr_addr test_addr(unsigned i)
{
	const struct xr_addr all[TEST_ADDRS] = { gid4(local4), gid6(local6), gid4(second4),
						 gid4(group4), gid6(group6) };

	return all[i];
}

/* ---- all ------------------------------------------------------------------------- */

bool test_tables_fill(struct xd_tables *tables)
{
	int err = 0;

	for (unsigned i = QP_USUAL + 1; i < QP_MISSING; i++) {
		struct xr_qp_entry entry = test_qp_entry(i);

		tables->psns[entry.slot] = test_psns(i);
		err = err ?: xd_tables_set_qp(tables, test_qpn(i), &entry);
	}
	for (unsigned i = 0; i < KEY_MISSING; i++) {
		struct xr_key_entry entry = test_key_entry(i);

		err = err ?: xd_tables_set_key(tables, XR_KEY_INDEX(test_rkey(i)), &entry);
	}
	for (unsigned i = 0; i < TEST_ADDRS; i++) {
		struct xr_addr addr = test_addr(i);

		err = err ?: xd_tables_set_addr(tables, &addr, test_gid_index(&addr));
	}
	return !err;
}
