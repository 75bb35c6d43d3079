// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "filter.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/options.h"
#include "daemon/io/memory_tables.h"
#include "filter.skel.h"
#include "maps.h"

struct xd_filter {
	struct xd_tables tables; /* first */
	struct filter_bpf *skel; /* owns the maps */
	struct xd_maps maps;
	struct xd_tables *memory;
};

static struct xd_filter *filter_of(struct xd_tables *t)
{
	return (struct xd_filter *)t;
}

/* ---- tables: both ------------------------------------------------------------------------- */

static int filter_set_qp(struct xd_tables *t, uint32_t qpn, const struct xr_qp_entry *entry)
{
	int err = xd_tables_set_qp(filter_of(t)->memory, qpn, entry);

	return err ?: xd_tables_set_qp(&filter_of(t)->maps.tables, qpn, entry);
}

static int filter_del_qp(struct xd_tables *t, uint32_t qpn)
{
	int err = xd_tables_del_qp(filter_of(t)->memory, qpn);

	return xd_tables_del_qp(&filter_of(t)->maps.tables, qpn) ?: err;
}

static int filter_set_key(struct xd_tables *t, uint32_t index, const struct xr_key_entry *entry)
{
	int err = xd_tables_set_key(filter_of(t)->memory, index, entry);

	return err ?: xd_tables_set_key(&filter_of(t)->maps.tables, index, entry);
}

static int filter_del_key(struct xd_tables *t, uint32_t index)
{
	int err = xd_tables_del_key(filter_of(t)->memory, index);

	return xd_tables_del_key(&filter_of(t)->maps.tables, index) ?: err;
}

static int filter_set_addr(struct xd_tables *t, const struct xr_addr *addr, uint32_t gid_index)
{
	int err = xd_tables_set_addr(filter_of(t)->memory, addr, gid_index);

	return err ?: xd_tables_set_addr(&filter_of(t)->maps.tables, addr, gid_index);
}

static int filter_del_addr(struct xd_tables *t, const struct xr_addr *addr)
{
	int err = xd_tables_del_addr(filter_of(t)->memory, addr);

	return xd_tables_del_addr(&filter_of(t)->maps.tables, addr) ?: err;
}

/* Each packet is counted by one of them. */
static int filter_read_stat(struct xd_tables *t, enum xr_reason reason, struct xr_stat *stat)
{
	struct xr_stat kept;
	int err = xd_tables_stat(filter_of(t)->memory, reason, &kept);

	err = xd_tables_stat(&filter_of(t)->maps.tables, reason, stat) ?: err;
	if (err)
		return err;
	stat->packets += kept.packets;
	stat->bytes += kept.bytes;
	return 0;
}

static void filter_report_refused(struct xd_tables *t, bool on)
{
	xd_tables_report_refused(filter_of(t)->memory, on);
	xd_tables_report_refused(&filter_of(t)->maps.tables, on);
}

struct counted {
	uint32_t n;
	xd_refused_fn fn;
	void *arg;
};

static void count_refused(void *arg, const struct xr_refused *r)
{
	struct counted *c = arg;

	c->n++;
	c->fn(c->arg, r);
}

static uint64_t filter_take_refused(struct xd_tables *t, uint32_t most, xd_refused_fn fn, void *arg)
{
	struct counted c = { .fn = fn, .arg = arg };
	uint64_t lost = xd_tables_refused(filter_of(t)->memory, most, count_refused, &c);

	if (c.n < most)
		lost += xd_tables_refused(&filter_of(t)->maps.tables, most - c.n, fn, arg);
	return lost;
}

static const struct xd_tables_ops filter_ops = {
	.qp_set = filter_set_qp,
	.qp_del = filter_del_qp,
	.key_set = filter_set_key,
	.key_del = filter_del_key,
	.addr_set = filter_set_addr,
	.addr_del = filter_del_addr,
	.stat = filter_read_stat,
	.report_refused = filter_report_refused,
	.refused = filter_take_refused,
};

struct xd_tables *xd_filter_tables(struct xd_filter *f)
{
	return &f->tables;
}

struct xd_tables *xd_filter_memory(const struct xd_filter *f)
{
	return f->memory;
}

/* ---- pins --------------------------------------------------------------------------------- */

const char *xd_filter_pins(const struct xd_filter *f)
{
	return f->maps.pins.dir;
}

int xd_filter_give_pins(struct xd_filter *f)
{
	return xd_pins_give(&f->maps.pins);
}

void xd_filter_release_pins(struct xd_filter *f)
{
	xd_pins_release(&f->maps.pins);
}

/* ---- load --------------------------------------------------------------------------------- */

/*
 * Tries to load a program of a few instructions that needs CAP_PERFMON, as the filter does, beside
 * CAP_BPF: a pointer to the end of the stack. libbpf would log why it may not load the filter.
 */
static bool may_load(void)
{
	static const struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_X,
		  .dst_reg = BPF_REG_1,
		  .src_reg = BPF_REG_10 },
		{ .code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = BPF_REG_1 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_SOCKET_FILTER, "xroce_probe", "GPL", insns,
			       sizeof(insns) / sizeof(*insns), NULL);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Entries of all slots together. A socket that is replaced and the new one both have a slot. */
static void resize_for_slots(struct xd_filter *f, const struct xd_options *opt)
{
	uint32_t slots = xd_options_verdict_slots(opt);

	bpf_map__set_max_entries(f->skel->maps.slots, slots + 1);
	bpf_map__set_max_entries(f->skel->maps.direct_keys, slots ? slots * XR_PUBLISH_KEYS : 1);
}

static int load_skeleton(struct xd_filter *f, const struct xd_options *opt)
{
	f->skel = filter_bpf__open();
	if (!f->skel)
		return -errno;
	xd_maps_resize(f->skel->obj, opt);
	resize_for_slots(f, opt);
	f->skel->rodata->nak_rate = opt->nak_rate;
	return filter_bpf__load(f->skel);
}

static int filter_load(struct xd_filter *f, const struct xd_options *opt)
{
	struct xd_maps_skeleton skel;
	int err = load_skeleton(f, opt);

	if (err) {
		xd_log(XD_NOTICE, "loading the socket filter: %s", strerror(-err));
		return err;
	}
	skel = (struct xd_maps_skeleton){
		.obj = f->skel->obj,
		.report_refused = (uint32_t *)&f->skel->bss->report_refused,
		.refused_lost = (uint64_t *)&f->skel->bss->refused_lost,
	};
	return xd_maps_take(&f->maps, opt, &skel);
}

static int open_memory(struct xd_filter *f, const struct xd_options *opt)
{
	int err = xd_memory_tables_new(opt->max_qp + XD_OWN_QPS, opt->nak_rate, &f->memory);

	if (err)
		xd_log(XD_ERR, "tables of the socket filter: %s", strerror(-err));
	else
		xd_memory_tables_share_psns(f->memory, f->maps.tables.psns);
	return err;
}

int xd_filter_new(const struct xd_options *opt, struct xd_filter **filter)
{
	struct xd_filter *f;
	int err;

	if (!may_load())
		return -EPERM;
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	xd_maps_log_warnings();
	xd_maps_init(&f->maps);
	err = filter_load(f, opt);
	if (!err)
		err = open_memory(f, opt);
	if (err) {
		xd_filter_free(f);
		return err;
	}
	f->tables.ops = &filter_ops;
	f->tables.psns = f->maps.tables.psns;
	*filter = f;
	return 0;
}

int xd_filter_attach(const struct xd_filter *f, int fd)
{
	int program = bpf_program__fd(f->skel->progs.xroce_filter);

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_BPF, &program, sizeof(program)) ? -errno : 0;
}

/* ---- slots -------------------------------------------------------------------------------- */

static int cookie_of(int fd, uint64_t *cookie)
{
	socklen_t len = sizeof(*cookie);

	return getsockopt(fd, SOL_SOCKET, SO_COOKIE, cookie, &len) ? -errno : 0;
}

int xd_filter_set_slot(const struct xd_filter *f, int fd, uint32_t slot, uint32_t slots,
		       uint32_t flags)
{
	const struct xr_slot_entry entry = { .slot = slot, .slots = slots, .flags = flags };
	uint64_t cookie;
	int err = cookie_of(fd, &cookie);

	return err ? err
		   : bpf_map_update_elem(bpf_map__fd(f->skel->maps.slots), &cookie, &entry,
					 BPF_ANY);
}

void xd_filter_end_slot(const struct xd_filter *f, int fd)
{
	uint64_t cookie;

	if (!cookie_of(fd, &cookie))
		bpf_map_delete_elem(bpf_map__fd(f->skel->maps.slots), &cookie);
}

int xd_filter_attach_slot(const struct xd_filter *f, int fd, uint32_t slot, uint32_t slots)
{
	int program = bpf_program__fd(f->skel->progs.xroce_slot);
	int err = xd_filter_set_slot(f, fd, slot, slots, 0);

	if (!err && setsockopt(fd, SOL_SOCKET, SO_ATTACH_BPF, &program, sizeof(program)))
		err = -errno;
	if (err)
		xd_filter_end_slot(f, fd);
	return err;
}

int xd_filter_publish_qp(struct xd_filter *f, uint32_t qpn, const struct xr_qp_entry *entry)
{
	struct xd_tables *t = &f->maps.tables;

	return entry ? xd_tables_set_qp(t, qpn, entry) : xd_tables_del_qp(t, qpn);
}

int xd_filter_publish_key(struct xd_filter *f, uint32_t slot, uint32_t index,
			  const struct xr_key_entry *entry)
{
	const struct xr_direct_key key = { .slot = slot, .index = index };
	int map = bpf_map__fd(f->skel->maps.direct_keys), err;

	if (entry)
		return bpf_map_update_elem(map, &key, entry, BPF_ANY);
	err = bpf_map_delete_elem(map, &key);
	return err == -ENOENT ? 0 : err;
}

/* ---- end ---------------------------------------------------------------------------------- */

void xd_filter_free(struct xd_filter *f)
{
	if (!f)
		return;
	xd_memory_tables_free(f->memory);
	xd_pins_release(&f->maps.pins);
	xd_maps_free(&f->maps);
	filter_bpf__destroy(f->skel);
	free(f);
}
