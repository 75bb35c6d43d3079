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
struct xp_object;

/* Objects by their records. Most of it is never touched. */
struct xp_view_places {
#define X(NAME, name, records)                                                                     \
	struct xp_object *name[records];                                                           \
	uint64_t name##_used[(records) / 64];
	XR_VIEW_LISTS(X)
#undef X
};

/* Records of one list: the lowest free one is used first */
struct xp_view_table {
	struct xp_object **object; /* by index; NULL: the record is free */
	uint64_t *used;		   /* bit by index */
	uint32_t words, first;	   /* all words before `first` are full */
};

struct xp_view {
	struct xr_view_file *v; /* NULL: the program has none */
	uint64_t due;		/* counters are stored then; XT_NEVER: nothing has changed */
	uint32_t list, next;	/* record of the object whose counters are stored next */
	struct xp_view_places *places;
	struct xp_view_table table[XR_VIEW_LIST_COUNT];
	struct xt_counters counters; /* when the present pass over the objects began */
	struct xt_traffic ended;
};

/* Returns a new memfd for a view, or a negative errno. */
int xp_view_new(void);
/* Takes over the descriptor. Without a view, the daemon shows less: it is no error. */
void xp_view_open(struct xp_host *h, int fd);
/* Stores the counters of the engine. No effect without a view */
void xp_view_store_sums(struct xp_host *h);
void xp_view_close(struct xp_host *h);

/*
 * An object was created, and is complete; it has changed, which has no effect before it was added;
 * it is going to be destroyed.
 */
void xp_view_add(struct xp_host *h, struct xp_object *obj);
void xp_view_change(struct xp_host *h, const struct xp_object *obj);
void xp_view_remove(struct xp_host *h, struct xp_object *obj);
/* The object that has the key has changed. */
void xp_view_key(struct xp_host *h, const struct xt_key *key);

/* Stores counters, of a few objects in each call, and sets when it is due again. */
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
