// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "maps.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <xroce/bits.h>

#include "daemon/base/log.h"
#include "daemon/base/options.h"

static int map_fd(const struct bpf_map *map)
{
	return bpf_map__fd(map);
}

static struct xd_maps *maps_of(struct xd_tables *t)
{
	return (struct xd_maps *)t;
}

/* ---- tables ------------------------------------------------------------------------------- */

static int maps_update(const struct bpf_map *map, const void *key, const void *value)
{
	return bpf_map_update_elem(map_fd(map), key, value, BPF_ANY);
}

static int delete (const struct bpf_map *map, const void *key)
{
	int err = bpf_map_delete_elem(map_fd(map), key);

	return err == -ENOENT ? 0 : err;
}

static int maps_set_qp(struct xd_tables *t, uint32_t qpn, const struct xr_qp_entry *entry)
{
	return maps_update(maps_of(t)->qps, &qpn, entry);
}

static int maps_del_qp(struct xd_tables *t, uint32_t qpn)
{
	return delete (maps_of(t)->qps, &qpn);
}

static int maps_set_key(struct xd_tables *t, uint32_t index, const struct xr_key_entry *entry)
{
	return maps_update(maps_of(t)->keys, &index, entry);
}

static int maps_del_key(struct xd_tables *t, uint32_t index)
{
	return delete (maps_of(t)->keys, &index);
}

static int maps_set_addr(struct xd_tables *t, const struct xr_addr *addr, uint32_t gid_index)
{
	struct xr_addr_entry entry = { .gid_index = gid_index };

	return maps_update(maps_of(t)->addrs, addr, &entry);
}

static int maps_del_addr(struct xd_tables *t, const struct xr_addr *addr)
{
	return delete (maps_of(t)->addrs, addr);
}

static int maps_read_stat(struct xd_tables *t, enum xr_reason reason, struct xr_stat *stat)
{
	int cpus = libbpf_num_possible_cpus(), err;
	struct xr_stat *per_cpu;
	uint32_t key = reason;

	if (cpus < 0)
		return cpus;
	per_cpu = calloc((size_t)cpus, sizeof(*per_cpu));
	if (!per_cpu)
		return -ENOMEM;
	*stat = (struct xr_stat){ 0 };
	err = bpf_map_lookup_elem(map_fd(maps_of(t)->stats), &key, per_cpu);
	for (int c = 0; c < cpus && !err; c++) {
		stat->packets += per_cpu[c].packets;
		stat->bytes += per_cpu[c].bytes;
	}
	free(per_cpu);
	return err;
}

/* ---- refused packets ------------------------------------------------------------------------ */

static void maps_report_refused(struct xd_tables *t, bool on)
{
	__atomic_store_n(maps_of(t)->skel.report_refused, on, __ATOMIC_RELAXED);
}

static uint64_t maps_take_refused(struct xd_tables *t, uint32_t most, xd_refused_fn fn, void *arg)
{
	struct xd_maps *m = maps_of(t);
	uint64_t lost = __atomic_load_n(m->skel.refused_lost, __ATOMIC_RELAXED), n;

	m->refused.left = most;
	m->refused.fn = fn;
	m->refused.arg = arg;
	ring_buffer__consume(m->refused.ring);
	n = lost - m->refused.lost;
	m->refused.lost = lost;
	return n;
}

static const struct xd_tables_ops maps_ops = {
	.qp_set = maps_set_qp,
	.qp_del = maps_del_qp,
	.key_set = maps_set_key,
	.key_del = maps_del_key,
	.addr_set = maps_set_addr,
	.addr_del = maps_del_addr,
	.stat = maps_read_stat,
	.report_refused = maps_report_refused,
	.refused = maps_take_refused,
};

/* ---- creation ------------------------------------------------------------------------------- */

static uint32_t qps(const struct xd_options *opt)
{
	return opt->max_qp + XD_OWN_QPS;
}

/* Only the filter of sockets has those of direct programs. */
static uint32_t direct_qps(const struct bpf_object *obj, const struct xd_options *opt)
{
	if (!bpf_object__find_map_by_name(obj, "direct_keys"))
		return 0;
	return xd_options_verdict_slots(opt) * XR_PUBLISH_QPS;
}

static void maps_resize(const struct bpf_object *obj, const char *name, uint32_t entries)
{
	bpf_map__set_max_entries(bpf_object__find_map_by_name(obj, name), entries);
}

void xd_maps_resize(struct bpf_object *obj, const struct xd_options *opt)
{
	maps_resize(obj, "qps", qps(opt) + direct_qps(obj, opt));
	/*
	 * As many as xt_keys_new() gets: one more than a power of two would double the buckets that
	 * the kernel allocates here, 16 bytes each.
	 */
	maps_resize(obj, "keys", 2 * opt->max_mr);
	maps_resize(obj, "psns", xr_pow2_roundup(qps(opt)));
}

static int maps_map_psns(struct xd_maps *m, const struct xd_options *opt)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *p;

	m->psns_size = (xr_pow2_roundup(qps(opt)) * sizeof(struct xr_psn_entry) + page - 1) &
		       ~(page - 1);
	p = mmap(NULL, m->psns_size, PROT_READ | PROT_WRITE, MAP_SHARED, map_fd(m->psns), 0);
	if (p == MAP_FAILED)
		return -errno;
	m->tables.psns = p;
	return 0;
}

static int maps_on_refused(void *arg, void *data, size_t size)
{
	struct xd_maps *m = arg;

	m->refused.fn(m->refused.arg, data);
	return --m->refused.left ? 0 : -ECANCELED;
}

static int map_refused(struct xd_maps *m)
{
	int fd = map_fd(bpf_object__find_map_by_name(m->skel.obj, "refused"));

	m->refused.ring = ring_buffer__new(fd, maps_on_refused, m, NULL);
	return m->refused.ring ? 0 : -errno;
}

static void find_maps(struct xd_maps *m)
{
	m->qps = bpf_object__find_map_by_name(m->skel.obj, "qps");
	m->keys = bpf_object__find_map_by_name(m->skel.obj, "keys");
	m->addrs = bpf_object__find_map_by_name(m->skel.obj, "addrs");
	m->psns = bpf_object__find_map_by_name(m->skel.obj, "psns");
	m->stats = bpf_object__find_map_by_name(m->skel.obj, "stats");
}

static int log_warning(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	if (level == LIBBPF_WARN)
		xd_log_library(fmt, ap);
	return 0;
}

void xd_maps_log_warnings(void)
{
	libbpf_set_print(log_warning);
}

void xd_maps_init(struct xd_maps *m)
{
	*m = (struct xd_maps){ .tables.ops = &maps_ops };
	xd_pins_init(&m->pins);
}

int xd_maps_take(struct xd_maps *m, const struct xd_options *opt,
		 const struct xd_maps_skeleton *skel)
{
	int err;

	m->skel = *skel;
	find_maps(m);
	err = maps_map_psns(m, opt);
	if (err) {
		xd_log(XD_ERR, "mapping the PSN table: %s", strerror(-err));
		return err;
	}
	err = map_refused(m);
	if (err) {
		xd_log(XD_ERR, "mapping the ring of refused packets: %s", strerror(-err));
		return err;
	}
	return xd_pins_make(&m->pins, opt, m->skel.obj);
}

void xd_maps_free(struct xd_maps *m)
{
	if (m->tables.psns)
		munmap(m->tables.psns, m->psns_size);
	ring_buffer__free(m->refused.ring);
	xd_pins_free(&m->pins);
}
