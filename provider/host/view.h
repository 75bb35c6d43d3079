/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The view of a context for the daemon (include/xroce/view.h). All functions but open and close are
 * for the holder of the engine's lock.
 */
#ifndef XP_HOST_VIEW_H
#define XP_HOST_VIEW_H

#include <stdint.h>

#include <xroce/view.h>

#include "daemon/transport/transport.h"

#define XP_VIEW_NS 50000000u

struct xp_host;
struct xp_qp_object;
struct xp_mr_object;
struct xp_cq_object;

/* Records of one kind: the lowest free one is used first */
struct xp_view_table {
	uint64_t *used;	       /* bit by index */
	uint32_t words, first; /* all words before `first` are full */
};

struct xp_view {
	struct xr_view *v;	   /* NULL: the program has none */
	struct xp_host *next_host; /* of those that have a view */
	int process;		   /* that has opened it */
	uint64_t due;		   /* counters are stored then; XT_NEVER: nothing has changed */
	uint32_t next;		   /* record of a QP whose counters are stored next */
	struct xp_view_table qps, mrs, cqs;
	struct xp_qp_object *qp[XR_VIEW_QPS]; /* by record */
	struct xt_counters counters;	      /* when the present pass over the QPs began */
	struct xt_traffic ended;
};

/* Returns a new memfd for a view, or a negative errno. */
int xp_view_new(void);
/* Takes over the descriptor. Without a view, the daemon shows less: it is no error. */
void xp_view_open(struct xp_host *h, int fd);
/* The host is open: if the program exits without closing it, the counters are stored once more. */
void xp_view_opened(struct xp_host *h);
void xp_view_close(struct xp_host *h);

/* A QP was created; it has changed, which has no effect before that. */
void xp_view_qp_new(struct xp_host *h, struct xp_qp_object *qp);
void xp_view_qp(struct xp_host *h, struct xp_qp_object *qp);
/* A region or a CQ was created, or has changed. */
void xp_view_mr(struct xp_host *h, struct xp_mr_object *mr);
/* The same for the region that has the key, if it was created */
void xp_view_key(struct xp_host *h, const struct xt_key *key);
void xp_view_cq(struct xp_host *h, struct xp_cq_object *cq);
/* An object is going to be destroyed. */
void xp_view_qp_end(struct xp_host *h, struct xp_qp_object *qp);
void xp_view_mr_end(struct xp_host *h, struct xp_mr_object *mr);
void xp_view_cq_end(struct xp_host *h, struct xp_cq_object *cq);

/* Stores counters, of a few QPs in each call, and sets when it is due again. */
void xp_view_store(struct xp_host *h);

/* Traffic changes counters: returns `next`, or when they are due, if that is earlier. */
static inline uint64_t xp_view_look(struct xp_host *h, struct xp_view *view, uint64_t now,
				    uint64_t next)
{
	if (!view->v)
		return next;
	if (now >= view->due)
		xp_view_store(h);
	else if (view->due == XT_NEVER)
		view->due = now + XP_VIEW_NS;
	return next < view->due ? next : view->due;
}

#endif /* XP_HOST_VIEW_H */
