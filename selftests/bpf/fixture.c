// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_xdp.h>

#include "fixture.h"
#include "gso.skel.h"
#include "xroce.skel.h"

#ifndef AF_XDP
#define AF_XDP 44
#endif
#ifndef SOL_XDP
#define SOL_XDP 283
#endif

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

bool reasons_seen[XR_REASON_COUNT];

const char *reason_name(int reason)
{
	static const char *const names[] = {
#define X(name, action, text) #name,
		XR_REASONS(X)
#undef X
	};

	return reason < 0 || reason >= XR_REASON_COUNT ? "none" : names[reason];
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

bool fixture_add_qp(struct fixture *f, uint32_t qpn, const struct xr_qp_entry *entry,
		    const struct xr_psn_entry *psns)
{
	return !bpf_map__update_elem(f->skel->maps.qps, &qpn, sizeof(qpn), entry, sizeof(*entry),
				     BPF_ANY) &&
	       !bpf_map__update_elem(f->skel->maps.psns, &entry->slot, sizeof(entry->slot), psns,
				     sizeof(*psns), BPF_ANY);
}

bool fixture_del_qp(struct fixture *f, uint32_t qpn)
{
	return !bpf_map__delete_elem(f->skel->maps.qps, &qpn, sizeof(qpn), 0);
}

static bool add_qp_row(struct fixture *f, enum test_qp qp)
{
	const struct qp_row *row = &qp_rows[qp];
	struct xr_qp_entry entry = {
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
	struct xr_psn_entry psns = {
		.expected = TEST_PSN,
		.unacked = TEST_PSN,
		.next = (TEST_PSN + row->in_flight) & XR_PSN_MASK,
	};

	return fixture_add_qp(f, test_qpn(qp), &entry, &psns);
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

bool fixture_add_key(struct fixture *f, uint32_t rkey, struct xr_key_entry entry)
{
	uint32_t index = XR_KEY_INDEX(rkey);

	entry.variant = XR_KEY_VARIANT(rkey);
	return !bpf_map__update_elem(f->skel->maps.keys, &index, sizeof(index), &entry,
				     sizeof(entry), BPF_ANY);
}

/* ---- other tables ------------------------------------------------------------------ */

static bool is_multicast(const struct xr_addr *addr)
{
	if (xr_gid_is_ipv4(addr))
		return addr->raw[XR_GID_IPV4_OFF] >> 4 == 0xe;
	return addr->raw[0] == 0xff;
}

bool fixture_add_addr(struct fixture *f, const struct xr_addr *addr)
{
	struct xr_addr_entry entry = { .gid_index = is_multicast(addr) ? XR_ADDR_GROUP : 0 };

	return !bpf_map__update_elem(f->skel->maps.addrs, addr, sizeof(*addr), &entry,
				     sizeof(entry), BPF_ANY);
}

bool fixture_set_limiter(struct fixture *f, const struct xr_limiter *limiter)
{
	struct xr_limiter all[f->cpus];
	uint32_t zero = 0;
	unsigned i;

	for (i = 0; i < f->cpus; i++)
		all[i] = *limiter;
	return !bpf_map__update_elem(f->skel->maps.limiter, &zero, sizeof(zero), all, sizeof(all),
				     BPF_ANY);
}

bool fixture_plug(struct fixture *f, bool in)
{
	uint32_t queue = 0;
	int fd = bpf_map__fd(f->skel->maps.xsks);

	return in ? !bpf_map_update_elem(fd, &queue, &f->socket, BPF_ANY)
		  : !bpf_map_delete_elem(fd, &queue);
}

static bool fill_tables(struct fixture *f)
{
	struct xr_addr ours[] = { gid4(local4), gid6(local6), gid4(second4), gid4(group4),
				  gid6(group6) };
	unsigned i;

	for (i = QP_USUAL + 1; i < QP_MISSING; i++)
		if (!add_qp_row(f, i))
			return false;
	for (i = 0; i < KEY_MISSING; i++)
		if (!fixture_add_key(f, test_rkey(i), key_rows[i]))
			return false;
	for (i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		if (!fixture_add_addr(f, &ours[i]))
			return false;
	return true;
}

/* The map accepts any AF_XDP socket with a ring. Test runs deliver no frames to it. */
static int xdp_socket(void)
{
	int entries = 64, fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);

	if (fd >= 0 && setsockopt(fd, SOL_XDP, XDP_RX_RING, &entries, sizeof(entries))) {
		close(fd);
		return -1;
	}
	return fd;
}

bool fixture_stats(struct fixture *f, struct xr_stat stats[XR_REASON_COUNT])
{
	struct xr_stat all[XR_REASON_COUNT][f->cpus];
	uint32_t keys[XR_REASON_COUNT], count = XR_REASON_COUNT, next;
	unsigned i, cpu;

	if (bpf_map_lookup_batch(bpf_map__fd(f->skel->maps.stats), NULL, &next, keys, all, &count,
				 NULL) &&
	    errno != ENOENT)
		return false;
	memset(stats, 0, XR_REASON_COUNT * sizeof(*stats));
	for (i = 0; i < count; i++)
		for (cpu = 0; cpu < f->cpus; cpu++) {
			stats[keys[i]].packets += all[i][cpu].packets;
			stats[keys[i]].bytes += all[i][cpu].bytes;
		}
	return count == XR_REASON_COUNT;
}

static int on_refused(void *arg, void *data, size_t size)
{
	struct fixture *f = arg;

	f->report = *(struct xr_refused *)data;
	f->reports++;
	return 0;
}

bool fixture_gso_possible(void)
{
	unsigned major = 0, minor = 0;
	struct utsname u;

	return !uname(&u) && sscanf(u.release, "%u.%u", &major, &minor) == 2 &&
	       (major > 6 || (major == 6 && minor >= 2));
}

static bool load_gso(struct fixture *f)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "xroce_bpf");
	struct bpf_map *map, *copy;
	const void *elf;
	size_t size;

	elf = gso_bpf__elf_bytes(&size);
	if (!fixture_gso_possible())
		return true;
	f->gso = bpf_object__open_mem(elf, size, &opts);
	if (!f->gso)
		return false;
	bpf_object__for_each_map(map, f->skel->obj)
	{
		copy = bpf_object__find_map_by_name(f->gso, bpf_map__name(map));
		if (!copy || bpf_map__reuse_fd(copy, bpf_map__fd(map)))
			return false;
	}
	return !bpf_object__load(f->gso);
}

struct bpf_program *fixture_program(const struct fixture *f, const char *name)
{
	return bpf_object__find_program_by_name(strcmp(name, "xroce_gso") ? f->skel->obj : f->gso,
						name);
}

bool fixture_open(struct fixture *f, uint32_t nak_rate)
{
	memset(f, 0, sizeof(*f));
	f->socket = -1;
	f->cpus = libbpf_num_possible_cpus();
	f->skel = xroce_bpf__open();
	if (!f->skel)
		return false;
	f->skel->rodata->nak_rate = nak_rate;
	if (xroce_bpf__load(f->skel) || !load_gso(f) || !fill_tables(f))
		goto fail;
	f->skel->bss->report_refused = 1;
	f->refused = ring_buffer__new(bpf_map__fd(f->skel->maps.refused), on_refused, f, NULL);
	if (!f->refused)
		goto fail;
	f->socket = xdp_socket();
	if (f->socket < 0 || !fixture_plug(f, true) || !fixture_stats(f, f->before))
		goto fail;
	return true;
fail:
	fixture_close(f);
	return false;
}

void fixture_close(struct fixture *f)
{
	if (f->socket >= 0)
		close(f->socket);
	ring_buffer__free(f->refused);
	bpf_object__close(f->gso);
	xroce_bpf__destroy(f->skel);
	f->refused = NULL;
	f->skel = NULL;
	f->gso = NULL;
	f->socket = -1;
}

/* ---- running ----------------------------------------------------------------------- */

/* Returns the reason whose counter increased by this packet; -1 if other counters changed, too. */
static int counted_reason(struct fixture *f, uint32_t len)
{
	struct xr_stat after[XR_REASON_COUNT], *before = f->before;
	int i, reason = -1, moved = 0;

	if (!fixture_stats(f, after))
		return -1;
	for (i = 0; i < XR_REASON_COUNT; i++) {
		if (!memcmp(&after[i], &before[i], sizeof(after[i])))
			continue;
		moved++;
		if (after[i].packets == before[i].packets + 1 &&
		    after[i].bytes == before[i].bytes + len)
			reason = i;
	}
	memcpy(f->before, after, sizeof(after));
	return moved == 1 ? reason : -1;
}

static bool was_reported(struct fixture *f, const struct input *in, int reason)
{
	const struct xr_refused *r = &f->report;
	uint32_t captured = in->len < sizeof(r->bytes) ? in->len : sizeof(r->bytes);

	f->reports = 0;
	ring_buffer__consume(f->refused);
	return f->reports == 1 && r->reason == reason && r->length == in->len &&
	       r->captured == captured && !memcmp(r->bytes, in->data, captured);
}

int fixture_run(struct fixture *f, const struct input *in, struct verdict *out)
{
	static uint8_t data[FRAME_MAX + 256], result[FRAME_MAX + 256];
	struct xdp_md ctx = {
		.data = in->foreign_meta,
		.data_end = in->foreign_meta + (in->linear ? in->linear : in->len),
	};
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = data, .data_out = result, .repeat = 1,
		    .data_size_in = in->foreign_meta + in->len, .data_size_out = sizeof(result),
		    .ctx_in = &ctx, .ctx_size_in = sizeof(ctx));
	const struct bpf_program *prog;
	uint32_t meta_len;
	int err;

	prog = fixture_program(f, in->program ?: "xroce");
	memset(data, 0xee, in->foreign_meta);
	memcpy(data + in->foreign_meta, in->data, in->len);
	err = bpf_prog_test_run_opts(bpf_program__fd(prog), &opts);
	if (err)
		return -errno;
	memset(out, 0, sizeof(*out));
	out->action = opts.retval;
	out->reason = counted_reason(f, in->len);
	if (out->reason >= 0)
		reasons_seen[out->reason] = true;
	out->reported = was_reported(f, in, out->reason);
	meta_len = opts.data_size_out - in->len;
	out->has_meta = meta_len == sizeof(out->meta) + in->foreign_meta;
	if (out->has_meta)
		memcpy(&out->meta, result, sizeof(out->meta));
	out->intact = opts.data_size_out >= in->len &&
		      !memcmp(result + meta_len, in->data, in->len);
	return 0;
}
