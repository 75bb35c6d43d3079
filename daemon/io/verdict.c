// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "verdict.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <xroce/verdict.h>

#include "count.h"
#include "memory_tables.h"

/* An entry, as the hash table copies it */
#define COPY(type)                                                                                 \
	union {                                                                                    \
		struct type entry;                                                                 \
		uint64_t word[XD_WORDS(struct type)];                                              \
	}

struct xr_view {
	struct xd_memory_tables *tables;
	COPY(xr_addr_entry) addr;
	COPY(xr_qp_entry) qp;
	COPY(xr_key_entry) key;
	struct xr_psn_entry psns;
};

/* On cache lines of its own */
struct xd_verdict {
	struct xr_view view;
	struct xr_limiter limiter;
	uint32_t worker;
	struct xd_verdict_counts counts;
} __attribute__((aligned(64)));

/* ---- tables ------------------------------------------------------------------------------- */

static __always_inline const struct xr_addr_entry *xr_find_addr(struct xr_view *view,
								const struct xr_addr *addr)
{
	uint64_t key[XD_GID_WORDS];

	memcpy(key, addr, sizeof(key));
	return xd_hash_find(&view->tables->addrs, key, XD_GID_WORDS, view->addr.word, XD_ADDR_WORDS)
		       ? &view->addr.entry
		       : NULL;
}

static __always_inline const struct xr_qp_entry *xr_find_qp(struct xr_view *view, __u32 qpn)
{
	uint64_t key = qpn;

	return xd_hash_find(&view->tables->qps, &key, 1, view->qp.word, XD_QP_WORDS)
		       ? &view->qp.entry
		       : NULL;
}

static __always_inline const struct xr_key_entry *xr_find_key(struct xr_view *view, __u32 index)
{
	uint64_t key = index;

	return xd_hash_find(&view->tables->keys, &key, 1, view->key.word, XD_KEY_WORDS)
		       ? &view->key.entry
		       : NULL;
}

/* Engines store single words at any time. */
static __always_inline const struct xr_psn_entry *xr_find_psns(struct xr_view *view, __u32 slot)
{
	const struct xr_psn_entry *at = &view->tables->tables.psns[slot];

	if (slot >= view->tables->psns)
		return NULL;
	view->psns.expected = __atomic_load_n(&at->expected, __ATOMIC_RELAXED);
	view->psns.unacked = __atomic_load_n(&at->unacked, __ATOMIC_RELAXED);
	view->psns.next = __atomic_load_n(&at->next, __ATOMIC_RELAXED);
	return &view->psns;
}

/* ---- verdict ------------------------------------------------------------------------------ */

static void verdict_count(struct xd_verdict *v, enum xr_reason reason, uint32_t packets,
			  uint32_t bytes)
{
	struct xr_stat *stat = &v->counts.reason[reason];

	xd_count((uint64_t *)&stat->packets, packets);
	xd_count((uint64_t *)&stat->bytes, bytes);
}

void xd_verdict_pass(struct xd_verdict *v, uint32_t packets, uint32_t bytes)
{
	verdict_count(v, XR_OK, packets, bytes);
}

static void verdict_report(struct xd_verdict *v, const struct xd_headers *h,
			   const struct xr_packet *pkt, enum xr_reason reason, uint64_t now)
{
	struct xr_refused r;

	xr_fill_refused(&r, pkt, reason, h->len, now);
	r.queue = v->worker;
	r.captured = h->copied < sizeof(r.bytes) ? h->copied : sizeof(r.bytes);
	memcpy(r.bytes, h->bytes, r.captured);
	memset(r.bytes + r.captured, 0, sizeof(r.bytes) - r.captured);
	xd_memory_tables_report(v->view.tables, &r);
}

static enum xr_reason verdict_examine(struct xr_view *view, const struct xd_headers *h,
				      struct xr_packet *pkt)
{
	struct xr_cursor c = { .pos = h->bytes, .end = h->bytes + h->copied, .left = h->len };

	XR_REQUIRE(xr_parse_frame(view, &c, pkt));
	return xr_check_packet(view, pkt);
}

bool xd_verdict(struct xd_verdict *v, const struct xd_headers *h, uint64_t now,
		struct xr_meta *meta)
{
	struct xr_packet pkt = { 0 };
	enum xr_reason reason = verdict_examine(&v->view, h, &pkt);
	bool take = xr_is_for_engine(&pkt, reason);

	if (take && xr_actions[reason] == XR_ACT_ANSWER &&
	    !xr_limiter_take(&v->limiter, v->view.tables->nak_rate, now)) {
		reason = XR_RATE_LIMIT;
		take = false;
	}
	verdict_count(v, reason, 1, h->len);
	xr_fill_meta(meta, &pkt, reason);
	if (!take && xr_actions[reason] != XR_ACT_PASS && xd_memory_tables_reports(v->view.tables))
		verdict_report(v, h, &pkt, reason, now);
	return take;
}

bool xd_verdict_is_own(struct xd_verdict *v, const struct xr_addr *addr)
{
	const struct xr_addr_entry *e = xr_find_addr(&v->view, addr);

	return e && e->gid_index != XR_ADDR_GROUP;
}

/* ---- creation ----------------------------------------------------------------------------- */

int xd_verdict_new(struct xd_tables *tables, uint32_t worker, struct xd_verdict **verdict)
{
	struct xd_verdict *v = aligned_alloc(_Alignof(struct xd_verdict), sizeof(*v));

	if (!v)
		return -ENOMEM;
	*v = (struct xd_verdict){
		.view.tables = xd_memory_tables_of(tables),
		.worker = worker,
	};
	xd_memory_tables_join(v->view.tables, &v->counts);
	*verdict = v;
	return 0;
}

void xd_verdict_free(struct xd_verdict *v)
{
	if (v)
		xd_memory_tables_leave(v->view.tables, &v->counts);
	free(v);
}
