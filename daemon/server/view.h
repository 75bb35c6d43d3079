/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Views of direct programs (include/xroce/view.h): their objects and counters in lists, sums,
 * metrics and events. A program can store anything there, at any time. So records are copied by
 * pread(), which meets neither holes nor faults, and a copy is only shown: no value is used as an
 * index or a length.
 */
#ifndef XD_VIEW_H
#define XD_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/view.h>

#include "counters.h"

struct json;
struct xd_client;
struct xd_clients;
struct xd_server;
struct xd_user;

/* Takes over fds[0] of LEND. -EINVAL: it is no view of this build; -EMFILE, -ENOMEM. */
int xd_view_open(struct xd_client *c, int *fd);
/* The client ends: keeps its last counters in the sums. No effect if it has no view. */
void xd_view_close(struct xd_client *c);

/*
 * Returns how many objects of a kind, or pages (XR_CLAIM_PAGES), the program says it has; without a
 * view, what it has claimed.
 */
uint32_t xd_view_objects(const struct xd_client *c, uint32_t kind);
/* The same of all direct programs of a user; u NULL: of all users */
uint64_t xd_views_objects(const struct xd_clients *cs, const struct xd_user *u, uint32_t kind);
/* Adds the counters of direct contexts, those that have ended included. */
void xd_views_sum(struct xd_server *s, struct xd_sums *sums);
/* Adds the traffic of QPs that exist to `live` of their programs. */
void xd_views_sum_traffic(struct xd_clients *cs);

/* Returns false if the view has no counts of the rules `seq` (struct xr_direct_page). */
bool xd_view_faults(const struct xd_client *c, uint32_t seq, struct xr_view_fault *hits);

/* view_monitor.c: publishes what has changed since the last call; publish false: only notes it. */
void xd_views_publish(struct xd_clients *cs, bool publish);
/* The client ends, and with it the QPs that it has left. */
void xd_view_publish_end(struct xd_client *c);

/* ---- for view_monitor.c and show_list.c ---- */

struct xd_view_known {
	uint32_t qpn, type, state; /* qpn 0: no QP */
};

struct xd_view {
	int fd;
	bool rings;		  /* it has rings for captures */
	struct xr_view_sums sums; /* when they were read last: they do not decrease */
	uint32_t changes;	  /* of the view, when it was compared last */
	struct xd_view_known *known;
	uint32_t n_known;
};

typedef void xd_view_fn(void *arg, uint32_t index, const void *record);
/* Calls fn for the records of a list that are in use. */
void xd_view_each(const struct xd_view *v, enum xr_view_list list, xd_view_fn *fn, void *arg);
/*
 * The same for some records from *index on, at most XD_VIEW_PIECE. Sets *index to the first of the
 * others. Returns false if there were none.
 */
bool xd_view_piece(const struct xd_view *v, enum xr_view_list list, uint32_t *index, xd_view_fn *fn,
		   void *arg);
#define XD_VIEW_PIECE 64u
/* The time, and the number or handle, of the object of a record */
uint64_t xd_view_created(enum xr_view_list list, const void *record);
uint32_t xd_view_number(const void *record);
uint32_t xd_view_changes(const struct xd_view *v);

#endif /* XD_VIEW_H */
