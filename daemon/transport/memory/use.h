/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counts an access of a message to a region (usage.h). */
#ifndef XT_USE_H
#define XT_USE_H

#include <xroce/ring.h>

#include "keys.h"
#include "daemon/transport/qp.h"

/* Returns the entry of the region that a key stands for, NULL if there is none. */
struct xt_usage_entry *xt_usage_find(struct xt_qp *qp, enum xt_use use, uint32_t key);

/* Most QPs use the same region again and again: its entry needs no look-up of the key. */
static inline void xt_use_key(struct xt_qp *qp, enum xt_use use, uint32_t key, uint64_t bytes)
{
	struct xt_usage_entry *entry = qp->usage[use];

	if (__builtin_expect(!entry || entry->key != key ||
				     entry->generation != entry->region->generation,
			     false))
		entry = xt_usage_find(qp, use, key);
	if (!entry)
		return;
	entry->usage.of[use].count++;
	entry->usage.of[use].bytes += bytes;
}

/*
 * A message of the peer accessed the region that an R_Key names, its own or that of a window.
 * Without bytes there is nothing to count.
 */
static inline void xt_use_remote(struct xt_qp *qp, enum xt_use use, uint32_t rkey, uint64_t bytes)
{
	if (bytes && use != XT_USE_NONE)
		xt_use_key(qp, use, rkey, bytes);
}

/* A message accessed the first bytes of an SGL of n elements. */
static inline void xt_use_local(struct xt_qp *qp, enum xt_use use, const struct xr_sge *sge,
				uint32_t n, uint64_t bytes)
{
	uint64_t part;

	for (; n && bytes; n--, sge++, bytes -= part) {
		part = sge->length < bytes ? sge->length : bytes;
		if (part)
			xt_use_key(qp, use, sge->lkey, part);
	}
}

#endif /* XT_USE_H */
