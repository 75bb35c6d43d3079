/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Objects of a direct context, their handles and their events. */
#ifndef XP_HOST_OBJECTS_H
#define XP_HOST_OBJECTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <xroce/control.h>

#include "daemon/transport/transport.h"

enum xp_kind {
	XP_KIND_QP = XR_KIND_QP,
	XP_KIND_AH = XR_KIND_AH,
	XP_KIND_SRQ = XR_KIND_SRQ,
	XP_KIND_XRCD = XR_KIND_XRCD,
	XP_KIND_CQ = XR_KIND_CQ,
	XP_KIND_CHANNEL = XR_KIND_CHANNEL,
	XP_KIND_MW = XR_KIND_MW,
	XP_KIND_MR = XR_KIND_MR,
	XP_KIND_DM = XR_KIND_DM,
	XP_KIND_PD = XR_KIND_PD,
	XP_PAGES = XR_CLAIM_PAGES, /* no objects, but pages of memory that are registered */
	XP_KIND_MEMBER,		   /* a QP of a multicast group: no handle and no limit */
	XP_KINDS
};

struct xp_object {
	uint8_t kind; /* enum xp_kind */
	uint32_t handle;
	uint32_t refs; /* objects that use it */
	uint32_t view; /* record in the view, plus 1; 0: none */
	uint64_t created;
};

struct xp_objects {
	struct xp_object **of;			 /* by handle - 1 */
	uint32_t room, free;			 /* free: handles below are in use */
	uint32_t used[XP_KINDS], most[XP_KINDS]; /* objects, and their limit */
	uint32_t *shown;			 /* `used` as others see it; NULL: nobody does */
};

/* Adds an object. Returns -ENOMEM, -EDQUOT if there are as many as permitted, or 0. */
int xp_object_add(struct xp_objects *o, struct xp_object *obj, enum xp_kind kind);
void xp_object_del(struct xp_objects *o, struct xp_object *obj);
/* Adds to the number of objects of a kind, modulo 2^32. */
void xp_objects_count(struct xp_objects *o, enum xp_kind kind, uint32_t n);
/* Returns NULL if there is no such object of the kind. */
void *xp_object_get(const struct xp_objects *o, enum xp_kind kind, uint32_t handle);
/* Returns an object of the kind, NULL if there is none. */
void *xp_object_any(const struct xp_objects *o, enum xp_kind kind);

/* The asynchronous events of an object. Those of one type that were not written yet are one. */
struct xp_event_source {
	int fd; /* -1: none */
	uint64_t cookie;
	uint32_t pending; /* bit by type */
	uint32_t written;
	struct xp_event_source *next; /* of those that are blocked */
	bool blocked;
};

struct xp_pd {
	struct xp_object obj;
	uint32_t number; /* in keys and QPs */
};

/* The completion events of a CQ */
struct xp_comp_events {
	uint64_t cookie;
	uint32_t count; /* that were raised and not taken; atomic */
};

/* See channel.c. */
struct xp_channel_object {
	struct xp_object obj;
	struct xp_channel_object *next;
	int fd; /* an eventfd */
	/* CQs with events, from head on, modulo size: a power of 2 */
	struct xp_comp_events **queue;
	uint32_t size;
	uint32_t tail; /* of the thread that has the engine; others read it, atomic */
	uint32_t head; /* of the thread that has `taking` */
	bool signaled; /* fd was written to, or is about to be; atomic */
	bool ended;    /* no more events: fd stays readable; atomic */
	pthread_mutex_t taking;
};

struct xp_cq_object {
	struct xp_object obj;
	struct xt_cq xt;
	struct xr_queue *ring;
	size_t ring_size;
	uint32_t depth;
	uint32_t vector;
	bool moderated; /* the engine has room for its timer */
	struct xp_channel_object *channel;
	struct xp_comp_events completions;
	struct xp_event_source async;
};

struct xp_xrcd_object {
	struct xp_object obj;
	uint32_t number; /* in QPs and SRQs */
};

struct xp_srq_object {
	struct xp_object obj;
	struct xt_srq xt;
	struct xr_queue *ring;
	size_t ring_size;
	struct xp_pd *pd;
	struct xp_xrcd_object *xrcd; /* NULL: a basic SRQ, without CQ */
	struct xp_cq_object *cq;
	struct xp_event_source async;
};

struct xp_qp_object {
	struct xp_object obj;
	struct xt_qp *xt;
	uint32_t type, qpn, slot;
	uint32_t place; /* in the kernel's tables, see publish.h */
	struct xr_qp_entry published;
	/* XRC_SEND has no recv_cq; XRC_RECV has only xrcd. */
	struct xp_pd *pd;
	struct xp_cq_object *send_cq, *recv_cq;
	struct xp_srq_object *srq;
	struct xp_xrcd_object *xrcd;
	struct xr_queue *sq, *rq;
	size_t sq_size, rq_size;
	uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline;
	bool sq_sig_all;
	uint32_t attached; /* multicast groups */
	struct xp_event_source async;
};

struct xp_dm_object {
	struct xp_object obj;
	uint8_t *base;
	uint64_t length;
	size_t size; /* in whole pages */
};

/* Where the bytes of a region are */
struct xp_mr_memory {
	struct xt_mem_seg seg[2];
	uint32_t nseg;
	const struct xt_mem_ops *ops;
	uint64_t length;
	void *mapping; /* of a descriptor; NULL: none */
	size_t mapped;
	uint32_t pages; /* that count as registered */
	struct xp_dm_object *dm;
	bool is_null;
};

struct xp_mr_object {
	struct xp_object obj;
	struct xt_key *key;
	struct xp_pd *pd;
	uint64_t addr, length, iova;
	uint32_t access;
	struct xt_mem mem;
	uint32_t place; /* of its key in the kernel's tables, see publish.h */
	struct xp_mr_memory memory;
	/* of fast registration and integrity; NULL: none */
	struct xt_mem_seg *own_seg;
	struct xt_integrity *integrity;
	void *shared; /* lists of pages or pieces, which the program fills */
	size_t shared_size;
};

struct xp_mw_object {
	struct xp_object obj;
	struct xt_key *key;
	struct xp_pd *pd;
	uint32_t place; /* of its key in the kernel's tables, see publish.h */
};

struct xp_ah_object {
	struct xp_object obj;
	struct xp_pd *pd;
	uint32_t gid_index;
	struct xt_path path;
};

/* A QP of a multicast group */
struct xp_member {
	struct xp_object obj;
	const struct xp_qp_object *qp;
	struct xr_addr gid;
	struct xp_member *next; /* of the group */
};

#endif /* XP_HOST_OBJECTS_H */
