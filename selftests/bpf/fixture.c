// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_xdp.h>

#include "daemon/io/memory_tables.h"
#include "daemon/io/verdict.h"
#include "fixture.h"
#include "gso.skel.h"
#include "xroce.skel.h"

#ifndef AF_XDP
#define AF_XDP 44
#endif
#ifndef SOL_XDP
#define SOL_XDP 283
#endif

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

/* ---- tables --------------------------------------------------------------------- */

static int update(const struct bpf_map *map, const void *key, const void *value)
{
	return bpf_map_update_elem(bpf_map__fd(map), key, value, BPF_ANY);
}

bool fixture_add_qp(struct fixture *f, uint32_t qpn, const struct xr_qp_entry *entry,
		    const struct xr_psn_entry *psns)
{
	f->memory->psns[entry->slot] = *psns;
	return !update(f->skel->maps.qps, &qpn, entry) &&
	       !update(f->skel->maps.psns, &entry->slot, psns) &&
	       !xd_tables_set_qp(f->memory, qpn, entry);
}

bool fixture_del_qp(struct fixture *f, uint32_t qpn)
{
	return !bpf_map__delete_elem(f->skel->maps.qps, &qpn, sizeof(qpn), 0) &&
	       !xd_tables_del_qp(f->memory, qpn);
}

bool fixture_add_key(struct fixture *f, uint32_t rkey, struct xr_key_entry entry)
{
	uint32_t index = XR_KEY_INDEX(rkey);

	entry.variant = XR_KEY_VARIANT(rkey);
	return !update(f->skel->maps.keys, &index, &entry) &&
	       !xd_tables_set_key(f->memory, index, &entry);
}

bool fixture_del_key(struct fixture *f, uint32_t rkey)
{
	uint32_t index = XR_KEY_INDEX(rkey);

	return !bpf_map__delete_elem(f->skel->maps.keys, &index, sizeof(index), 0) &&
	       !xd_tables_del_key(f->memory, index);
}

bool fixture_add_addr(struct fixture *f, const struct xr_addr *addr)
{
	struct xr_addr_entry entry = { .gid_index = test_gid_index(addr) };

	return !update(f->skel->maps.addrs, addr, &entry) &&
	       !xd_tables_set_addr(f->memory, addr, entry.gid_index);
}

bool fixture_del_addr(struct fixture *f, const struct xr_addr *addr)
{
	return !bpf_map__delete_elem(f->skel->maps.addrs, addr, sizeof(*addr), 0) &&
	       !xd_tables_del_addr(f->memory, addr);
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
	bool ok = true;

	for (unsigned i = QP_USUAL + 1; i < QP_MISSING && ok; i++) {
		struct xr_qp_entry entry = test_qp_entry(i);
		struct xr_psn_entry psns = test_psns(i);

		ok = fixture_add_qp(f, test_qpn(i), &entry, &psns);
	}
	for (unsigned i = 0; i < KEY_MISSING && ok; i++)
		ok = fixture_add_key(f, test_rkey(i), test_key_entry(i));
	for (unsigned i = 0; i < TEST_ADDRS && ok; i++) {
		struct xr_addr addr = test_addr(i);

		ok = fixture_add_addr(f, &addr);
	}
	return ok;
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

static bool open_user(struct fixture *f, uint32_t nak_rate)
{
	return !xd_memory_tables_new(bpf_map__max_entries(f->skel->maps.psns), nak_rate,
				     &f->memory) &&
	       !xd_verdict_new(f->memory, 0, &f->user);
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
	if (xroce_bpf__load(f->skel) || !load_gso(f) || !open_user(f, nak_rate) || !fill_tables(f))
		goto fail;
	f->skel->bss->report_refused = 1;
	xd_tables_report_refused(f->memory, true);
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
	xd_verdict_free(f->user);
	xd_memory_tables_free(f->memory);
	f->refused = NULL;
	f->skel = NULL;
	f->gso = NULL;
	f->user = NULL;
	f->memory = NULL;
	f->socket = -1;
}

/* ---- running ----------------------------------------------------------------------- */

/* Returns the reason whose counter increased by this packet; -1 if other counters changed, too. */
static int counted_reason(struct xr_stat *before, const struct xr_stat *after, uint32_t len)
{
	int i, reason = -1, moved = 0;

	for (i = 0; i < XR_REASON_COUNT; i++) {
		if (!memcmp(&after[i], &before[i], sizeof(after[i])))
			continue;
		moved++;
		if (after[i].packets == before[i].packets + 1 &&
		    after[i].bytes == before[i].bytes + len)
			reason = i;
		before[i] = after[i];
	}
	return moved == 1 ? reason : -1;
}

/* bytes: those of the frame that the reporter had */
static bool was_reported(struct fixture *f, const struct input *in, uint32_t bytes, int reason)
{
	const struct xr_refused *r = &f->report;
	uint32_t captured = bytes < sizeof(r->bytes) ? bytes : sizeof(r->bytes);

	return f->reports == 1 && r->reason == reason && r->length == in->len &&
	       r->captured == captured && !memcmp(r->bytes, in->data, captured);
}

static int run_bpf(struct fixture *f, const struct input *in, struct verdict *out)
{
	static uint8_t data[FRAME_MAX + 256], result[FRAME_MAX + 256];
	struct xdp_md ctx = {
		.data = in->foreign_meta,
		.data_end = in->foreign_meta + (in->linear ? in->linear : in->len),
	};
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = data, .data_out = result, .repeat = 1,
		    .data_size_in = in->foreign_meta + in->len, .data_size_out = sizeof(result),
		    .ctx_in = &ctx, .ctx_size_in = sizeof(ctx));
	struct xr_stat after[XR_REASON_COUNT];
	const struct bpf_program *prog;
	uint32_t meta_len;

	prog = fixture_program(f, in->program ?: "xroce");
	memset(data, 0xee, in->foreign_meta);
	memcpy(data + in->foreign_meta, in->data, in->len);
	if (bpf_prog_test_run_opts(bpf_program__fd(prog), &opts))
		return -errno;
	out->action = opts.retval;
	out->reason = fixture_stats(f, after) ? counted_reason(f->before, after, in->len) : -1;
	ring_buffer__consume(f->refused);
	meta_len = opts.data_size_out - in->len;
	out->has_meta = meta_len == sizeof(out->meta) + in->foreign_meta;
	if (out->has_meta)
		memcpy(&out->meta, result, sizeof(out->meta));
	out->intact = opts.data_size_out >= in->len &&
		      !memcmp(result + meta_len, in->data, in->len);
	return 0;
}

/* ---- user space -------------------------------------------------------------------- */

static void on_user_refused(void *arg, const struct xr_refused *r)
{
	struct fixture *f = arg;

	f->report = *r;
	f->reports++;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* What is not ours is left to the kernel by XDP, and dropped by user space. */
static uint32_t action_of(bool taken, int reason)
{
	static const uint8_t actions[] = {
#define X(name, action, text) XR_ACT_##action,
		XR_REASONS(X)
#undef X
	};

	if (taken)
		return XDP_REDIRECT;
	return reason >= 0 && actions[reason] == XR_ACT_PASS ? XDP_PASS : XDP_DROP;
}

/* The headers are in memory of their own, so that a read behind them is found by the sanitizers. */
static int run_user(struct fixture *f, const struct input *in, struct verdict *out)
{
	uint32_t copied = in->linear ?: in->len;
	struct xr_stat after[XR_REASON_COUNT];
	uint8_t *bytes = malloc(copied);
	struct xd_headers h = { .bytes = bytes, .copied = copied, .len = in->len };
	bool taken;

	if (!bytes)
		return -ENOMEM;
	memcpy(bytes, in->data, copied);
	taken = xd_verdict(f->user, &h, now_ns(), &out->meta);
	for (int i = 0; i < XR_REASON_COUNT; i++)
		xd_tables_stat(f->memory, i, &after[i]);
	out->reason = counted_reason(f->user_before, after, in->len);
	out->action = action_of(taken, out->reason);
	xd_tables_refused(f->memory, UINT32_MAX, on_user_refused, f);
	out->has_meta = taken;
	out->intact = !memcmp(bytes, in->data, copied) && out->meta.reason == out->reason;
	free(bytes);
	return 0;
}

int fixture_run(struct fixture *f, const struct input *in, struct verdict *out)
{
	bool user = in->program && !strcmp(in->program, FIXTURE_USER);
	int err;

	memset(out, 0, sizeof(*out));
	f->reports = 0;
	err = user ? run_user(f, in, out) : run_bpf(f, in, out);
	if (err)
		return err;
	if (out->reason >= 0 && !user)
		reasons_seen[out->reason] = true;
	out->reported = was_reported(f, in, user && in->linear ? in->linear : in->len, out->reason);
	return 0;
}
