/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The tables (tables.h) in the daemon's memory, for packets that user space checks (verdict.h).
 * Workers read them without a lock. Their memory grows with the number of entries.
 */
#ifndef XD_MEMORY_TABLES_H
#define XD_MEMORY_TABLES_H

#include "hash.h"
#include "tables.h"

/* Words of keys and values in the hash tables: QPN, key index and GID; struct xr_*_entry */
#define XD_WORDS(type) ((sizeof(type) + 7) / 8)
#define XD_QP_WORDS XD_WORDS(struct xr_qp_entry)
#define XD_KEY_WORDS XD_WORDS(struct xr_key_entry)
#define XD_ADDR_WORDS XD_WORDS(struct xr_addr_entry)
#define XD_GID_WORDS XD_WORDS(struct xr_addr)

/* Packets of one worker by reason: written by it, read by any thread */
struct xd_verdict_counts {
	struct xr_stat reason[XR_REASON_COUNT];
	struct xd_verdict_counts *next;
};

struct xd_memory_tables {
	struct xd_tables tables; /* first */
	struct xd_hash qps, keys, addrs;
	uint32_t psns, nak_rate;
	size_t psns_size;		  /* mapped; 0: psns belongs to somebody else */
	pthread_mutex_t lock;		  /* of the lists and the ring */
	struct xd_verdict_counts *counts; /* of the workers */
	struct xd_verdict_counts ended;	  /* sums of workers that are no more */
	struct {
		bool on; /* any thread */
		struct xr_refused *ring;
		uint32_t first, count;
		uint64_t lost; /* since the last call */
	} refused;
};

/*
 * qps: QPs of the device, slots of the PSN table. nak_rate: packets per second and worker that
 * require a NAK. xd_memory_tables_free() must follow the end of all verdicts.
 */
int xd_memory_tables_new(uint32_t qps, uint32_t nak_rate, struct xd_tables **tables);
void xd_memory_tables_free(struct xd_tables *tables); /* NULL allowed */
/* Uses a PSN table of another place, with at least `qps` slots, before any entry is set. */
void xd_memory_tables_share_psns(struct xd_tables *tables, struct xr_psn_entry *psns);

static inline struct xd_memory_tables *xd_memory_tables_of(struct xd_tables *tables)
{
	return (struct xd_memory_tables *)tables;
}

/* Adds counts, all 0, to those that xd_tables_stat() sums up, or removes them; the sums stay. */
void xd_memory_tables_join(struct xd_memory_tables *m, struct xd_verdict_counts *counts);
void xd_memory_tables_leave(struct xd_memory_tables *m, struct xd_verdict_counts *counts);

/* Returns true if dropped packets are to be reported. Any thread. */
static inline bool xd_memory_tables_reports(const struct xd_memory_tables *m)
{
	return __atomic_load_n(&m->refused.on, __ATOMIC_RELAXED);
}

/* Reports a dropped packet; counts it as lost if there is no room. Any thread. */
void xd_memory_tables_report(struct xd_memory_tables *m, const struct xr_refused *r);

#endif /* XD_MEMORY_TABLES_H */
