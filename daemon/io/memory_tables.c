// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "memory_tables.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <xroce/bits.h>

#include "count.h"

/* Reports that wait for xd_tables_refused(): as many as fit into the ring of the XDP program */
#define REPORTS 6144

/* ---- entries ------------------------------------------------------------------------------ */

static int memory_tables_set(struct xd_hash *h, uint32_t number, const void *entry, size_t size)
{
	uint64_t key = number, value[XD_QP_WORDS] = { 0 };

	memcpy(value, entry, size);
	return xd_hash_set(h, &key, value);
}

static int del(struct xd_hash *h, uint32_t number)
{
	uint64_t key = number;

	xd_hash_del(h, &key);
	return 0;
}

static int memory_tables_set_qp(struct xd_tables *t, uint32_t qpn, const struct xr_qp_entry *entry)
{
	return memory_tables_set(&xd_memory_tables_of(t)->qps, qpn, entry, sizeof(*entry));
}

static int memory_tables_del_qp(struct xd_tables *t, uint32_t qpn)
{
	return del(&xd_memory_tables_of(t)->qps, qpn);
}

static int memory_tables_set_key(struct xd_tables *t, uint32_t index,
				 const struct xr_key_entry *entry)
{
	return memory_tables_set(&xd_memory_tables_of(t)->keys, index, entry, sizeof(*entry));
}

static int memory_tables_del_key(struct xd_tables *t, uint32_t index)
{
	return del(&xd_memory_tables_of(t)->keys, index);
}

static int memory_tables_set_addr(struct xd_tables *t, const struct xr_addr *addr,
				  uint32_t gid_index)
{
	uint64_t key[XD_GID_WORDS], value = gid_index;

	memcpy(key, addr, sizeof(key));
	return xd_hash_set(&xd_memory_tables_of(t)->addrs, key, &value);
}

static int memory_tables_del_addr(struct xd_tables *t, const struct xr_addr *addr)
{
	uint64_t key[XD_GID_WORDS];

	memcpy(key, addr, sizeof(key));
	xd_hash_del(&xd_memory_tables_of(t)->addrs, key);
	return 0;
}

/* ---- counters ----------------------------------------------------------------------------- */

static void memory_tables_add(struct xr_stat *sum, const struct xr_stat *stat)
{
	sum->packets += xd_counted((const uint64_t *)&stat->packets);
	sum->bytes += xd_counted((const uint64_t *)&stat->bytes);
}

static int memory_tables_read_stat(struct xd_tables *t, enum xr_reason reason, struct xr_stat *stat)
{
	struct xd_memory_tables *m = xd_memory_tables_of(t);

	pthread_mutex_lock(&m->lock);
	*stat = m->ended.reason[reason];
	for (const struct xd_verdict_counts *c = m->counts; c; c = c->next)
		memory_tables_add(stat, &c->reason[reason]);
	pthread_mutex_unlock(&m->lock);
	return 0;
}

void xd_memory_tables_join(struct xd_memory_tables *m, struct xd_verdict_counts *counts)
{
	pthread_mutex_lock(&m->lock);
	counts->next = m->counts;
	m->counts = counts;
	pthread_mutex_unlock(&m->lock);
}

void xd_memory_tables_leave(struct xd_memory_tables *m, struct xd_verdict_counts *counts)
{
	struct xd_verdict_counts **at = &m->counts;

	pthread_mutex_lock(&m->lock);
	while (*at != counts)
		at = &(*at)->next;
	*at = counts->next;
	for (int i = 0; i < XR_REASON_COUNT; i++)
		memory_tables_add(&m->ended.reason[i], &counts->reason[i]);
	pthread_mutex_unlock(&m->lock);
}

/* ---- reports ------------------------------------------------------------------------------ */

static void memory_tables_report_refused(struct xd_tables *t, bool on)
{
	struct xd_memory_tables *m = xd_memory_tables_of(t);

	pthread_mutex_lock(&m->lock);
	if (on && !m->refused.ring) /* without memory, all reports are lost */
		m->refused.ring = calloc(REPORTS, sizeof(*m->refused.ring));
	__atomic_store_n(&m->refused.on, on, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&m->lock);
}

void xd_memory_tables_report(struct xd_memory_tables *m, const struct xr_refused *r)
{
	pthread_mutex_lock(&m->lock);
	if (m->refused.ring && m->refused.count < REPORTS)
		m->refused.ring[(m->refused.first + m->refused.count++) % REPORTS] = *r;
	else
		m->refused.lost++;
	pthread_mutex_unlock(&m->lock);
}

/* Takes the oldest report. Returns false if there is none. */
static bool take_report(struct xd_memory_tables *m, struct xr_refused *r)
{
	bool any;

	pthread_mutex_lock(&m->lock);
	any = m->refused.count;
	if (any) {
		*r = m->refused.ring[m->refused.first];
		m->refused.first = (m->refused.first + 1) % REPORTS;
		m->refused.count--;
	}
	pthread_mutex_unlock(&m->lock);
	return any;
}

static uint64_t take_lost(struct xd_memory_tables *m)
{
	uint64_t lost;

	pthread_mutex_lock(&m->lock);
	lost = m->refused.lost;
	m->refused.lost = 0;
	pthread_mutex_unlock(&m->lock);
	return lost;
}

/* The lock is not held during fn(), so that no worker waits for it. */
static uint64_t memory_tables_take_refused(struct xd_tables *t, uint32_t most, xd_refused_fn fn,
					   void *arg)
{
	struct xd_memory_tables *m = xd_memory_tables_of(t);
	uint64_t lost = take_lost(m);
	struct xr_refused r;

	for (; most && take_report(m, &r); most--)
		fn(arg, &r);
	return lost;
}

/* ---- creation ----------------------------------------------------------------------------- */

static const struct xd_tables_ops memory_ops = {
	.qp_set = memory_tables_set_qp,
	.qp_del = memory_tables_del_qp,
	.key_set = memory_tables_set_key,
	.key_del = memory_tables_del_key,
	.addr_set = memory_tables_set_addr,
	.addr_del = memory_tables_del_addr,
	.stat = memory_tables_read_stat,
	.report_refused = memory_tables_report_refused,
	.refused = memory_tables_take_refused,
};

/* Pages that no slot uses take no memory. */
static int memory_tables_map_psns(struct xd_memory_tables *m, uint32_t qps)
{
	size_t size = xr_pow2_roundup(qps) * sizeof(struct xr_psn_entry);
	void *p;

	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return -errno;
	m->psns = xr_pow2_roundup(qps);
	m->psns_size = size;
	m->tables.psns = p;
	return 0;
}

static int init(struct xd_memory_tables *m, uint32_t qps)
{
	int err = xd_hash_init(&m->qps, 1, XD_QP_WORDS);
	int err_keys = xd_hash_init(&m->keys, 1, XD_KEY_WORDS);
	int err_addrs = xd_hash_init(&m->addrs, XD_GID_WORDS, XD_ADDR_WORDS);

	return err ?: err_keys ?: err_addrs ?: memory_tables_map_psns(m, qps);
}

int xd_memory_tables_new(uint32_t qps, uint32_t nak_rate, struct xd_tables **tables)
{
	struct xd_memory_tables *m = calloc(1, sizeof(*m));
	int err;

	if (!m)
		return -ENOMEM;
	m->tables.ops = &memory_ops;
	m->nak_rate = nak_rate;
	pthread_mutex_init(&m->lock, NULL);
	err = init(m, qps);
	if (err) {
		xd_memory_tables_free(&m->tables);
		return err;
	}
	*tables = &m->tables;
	return 0;
}

void xd_memory_tables_share_psns(struct xd_tables *tables, struct xr_psn_entry *psns)
{
	struct xd_memory_tables *m = xd_memory_tables_of(tables);

	munmap(tables->psns, m->psns_size);
	m->psns_size = 0;
	tables->psns = psns;
}

void xd_memory_tables_free(struct xd_tables *tables)
{
	struct xd_memory_tables *m = xd_memory_tables_of(tables);

	if (!m)
		return;
	if (m->psns_size)
		munmap(tables->psns, m->psns_size);
	xd_hash_free(&m->qps);
	xd_hash_free(&m->keys);
	xd_hash_free(&m->addrs);
	free(m->refused.ring);
	pthread_mutex_destroy(&m->lock);
	free(m);
}
