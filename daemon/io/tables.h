/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The tables with which each received packet is checked (include/xroce/tables.h), their counters,
 * and reports of dropped packets. They mirror the daemon's objects. An update can take a system
 * call: for control paths only. Updates are thread-safe: workers update keys, and QPs that fail.
 */
#ifndef XD_TABLES_H
#define XD_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/reason.h>
#include <xroce/tables.h>

struct xd_tables;

typedef void (*xd_refused_fn)(void *arg, const struct xr_refused *r);

struct xd_tables_ops {
	int (*qp_set)(struct xd_tables *t, uint32_t qpn, const struct xr_qp_entry *entry);
	int (*qp_del)(struct xd_tables *t, uint32_t qpn);
	int (*key_set)(struct xd_tables *t, uint32_t index, const struct xr_key_entry *entry);
	int (*key_del)(struct xd_tables *t, uint32_t index);
	int (*addr_set)(struct xd_tables *t, const struct xr_addr *addr, uint32_t gid_index);
	int (*addr_del)(struct xd_tables *t, const struct xr_addr *addr);
	int (*stat)(struct xd_tables *t, enum xr_reason reason, struct xr_stat *stat);
	void (*report_refused)(struct xd_tables *t, bool on);
	uint64_t (*refused)(struct xd_tables *t, uint32_t most, xd_refused_fn fn, void *arg);
};

struct xd_tables {
	const struct xd_tables_ops *ops;
	struct xr_psn_entry *psns; /* sequence windows, by QP slot: written without a call */
};

/* All return 0 or a negative error. Deleting an entry that does not exist is no error. */
static inline int xd_tables_set_qp(struct xd_tables *t, uint32_t qpn,
				   const struct xr_qp_entry *entry)
{
	return t->ops->qp_set(t, qpn, entry);
}

static inline int xd_tables_del_qp(struct xd_tables *t, uint32_t qpn)
{
	return t->ops->qp_del(t, qpn);
}

static inline int xd_tables_set_key(struct xd_tables *t, uint32_t index,
				    const struct xr_key_entry *entry)
{
	return t->ops->key_set(t, index, entry);
}

static inline int xd_tables_del_key(struct xd_tables *t, uint32_t index)
{
	return t->ops->key_del(t, index);
}

/* gid_index: or XR_ADDR_GROUP */
static inline int xd_tables_set_addr(struct xd_tables *t, const struct xr_addr *addr,
				     uint32_t gid_index)
{
	return t->ops->addr_set(t, addr, gid_index);
}

static inline int xd_tables_del_addr(struct xd_tables *t, const struct xr_addr *addr)
{
	return t->ops->addr_del(t, addr);
}

/* Reads the counter of a reason. */
static inline int xd_tables_stat(struct xd_tables *t, enum xr_reason reason, struct xr_stat *stat)
{
	return t->ops->stat(t, reason, stat);
}

/* Packets that are dropped: reports them from now on or no longer. */
static inline void xd_tables_report_refused(struct xd_tables *t, bool on)
{
	t->ops->report_refused(t, on);
}

/* Passes at most `most` reports to fn and returns the number that was lost since the last call. */
static inline uint64_t xd_tables_refused(struct xd_tables *t, uint32_t most, xd_refused_fn fn,
					 void *arg)
{
	return t->ops->refused(t, most, fn, arg);
}

#endif /* XD_TABLES_H */
