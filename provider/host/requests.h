/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Requests of a direct context. A function serves one type, with the bodies and errors that
 * control.h specifies; it returns 0 or a negative errno.
 */
#ifndef XP_HOST_REQUESTS_H
#define XP_HOST_REQUESTS_H

#include "internal.h"

/* X(NAME, name): the types that the host serves, by xp_do_name() */
/* clang-format off */
#define XP_HOST_REQUESTS(X) \
	X(ALLOC_PD, alloc_pd) \
	X(DEALLOC_PD, dealloc_pd) \
	X(REG_MR, reg_mr) \
	X(REREG_MR, rereg_mr) \
	X(DEREG_MR, dereg_mr) \
	X(ADVISE_MR, advise_mr) \
	X(RESERVED_LKEY, reserved_lkey) \
	X(ALLOC_FAST_MR, alloc_fast_mr) \
	X(ALLOC_INTEGRITY_MR, alloc_integrity_mr) \
	X(ALLOC_MW, alloc_mw) \
	X(DEALLOC_MW, dealloc_mw) \
	X(ALLOC_DM, alloc_dm) \
	X(FREE_DM, free_dm) \
	X(CREATE_CHANNEL, create_channel) \
	X(DESTROY_CHANNEL, destroy_channel) \
	X(CREATE_CQ, create_cq) \
	X(RESIZE_CQ, resize_cq) \
	X(MODIFY_CQ, modify_cq) \
	X(DESTROY_CQ, destroy_cq) \
	X(CHECK_CQ, check_cq) \
	X(CREATE_SRQ, create_srq) \
	X(MODIFY_SRQ, modify_srq) \
	X(QUERY_SRQ, query_srq) \
	X(DESTROY_SRQ, destroy_srq) \
	X(OPEN_XRCD, open_xrcd) \
	X(CLOSE_XRCD, close_xrcd) \
	X(OPEN_QP, open_qp) \
	X(IMPORT_PD, import_pd) \
	X(IMPORT_MR, import_mr) \
	X(IMPORT_DM, import_dm) \
	X(CREATE_QP, create_qp) \
	X(MODIFY_QP, modify_qp) \
	X(QUERY_QP, query_qp) \
	X(DESTROY_QP, destroy_qp) \
	X(ATTACH_MCAST, attach_mcast) \
	X(DETACH_MCAST, detach_mcast) \
	X(CREATE_AH, create_ah) \
	X(DESTROY_AH, destroy_ah)
/* clang-format on */

#define X(NAME, name) int xp_do_##name(struct xp_host *h, struct xp_call *call);
XP_HOST_REQUESTS(X)
#undef X

/* Explains an error, and returns it. */
int xp_host_refuse(struct xp_host *h, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Asks the daemon for the port's MTU, interface and addresses. In open() and call() only */
int xp_host_learn_port(struct xp_host *h);

/*
 * Adds an object, which the daemon counts: -ENOMEM and -EDQUOT, with its text, if a limit is
 * reached. The engine's lock must be free, as the daemon may be asked.
 */
int xp_host_add(struct xp_host *h, struct xp_object *obj, enum xp_kind kind);
void xp_host_del(struct xp_host *h, struct xp_object *obj); /* no effect if it was not added */
/* The same for pages that are registered. They have no objects. */
int xp_host_add_pages(struct xp_host *h, uint32_t n);
void xp_host_del_pages(struct xp_host *h, uint32_t n);

/* Stores the body of a reply, as much of it as the caller has room for. */
void xp_reply(struct xp_call *call, const void *rep, size_t len);

/* Memory for rings, zeroed and on pages of its own. Returns NULL if there is none. */
void *xp_shared_alloc(size_t size);
void xp_shared_free(void *p, size_t size); /* NULL allowed */
struct xr_queue *xp_queue_new(uint32_t depth, uint32_t stride, size_t *size);
struct xr_shm_ref xp_shared_ref(const void *p, size_t size);

/* ---- cq.c ---- */

/* See struct xp_host_ops. */
void xp_cq_forget(struct xp_host *h, uint32_t handle);

/* ---- channel.c ---- */

/* See struct xp_host_ops. */
struct xp_channel_object *xp_channel_of(struct xp_host *h, uint32_t handle);

/* ---- comp_events.c: all but xp_channel_take() are for the thread that has the engine ---- */

/* Raises a completion event. */
void xp_channel_raise(struct xp_host *h, struct xp_channel_object *ch, struct xp_comp_events *e);
/* There are no more events: the daemon has ended. */
void xp_channel_end(struct xp_channel_object *ch);
/* A CQ joins a channel. Returns 0 or -ENOMEM. */
int xp_channel_add_cq(struct xp_channel_object *ch);
/* It leaves. Its events that were not taken are dropped. */
void xp_channel_remove_cq(struct xp_host *h, struct xp_channel_object *ch,
			  struct xp_comp_events *e);
/* See take_event() of struct xp_host_ops. */
int xp_channel_take(struct xp_channel_object *ch, void (*taken)(uint64_t cookie), uint64_t *cookie);

/* ---- events.c ---- */

/*
 * Raises an asynchronous event. Entered. The number of written events is part of the reply when the
 * object is destroyed.
 */
void xp_event_raise(struct xp_host *h, struct xp_event_source *src, uint32_t type);
/* Writes events that had to wait. Entered. */
void xp_events_retry(struct xp_host *h);
/* No event of the source is written any more. Returns the number of those that were. Entered. */
uint32_t xp_event_end(struct xp_host *h, struct xp_event_source *src);

/* Detaches a QP from all groups. */
void xp_mcast_leave(struct xp_host *h, struct xp_qp_object *qp);

/*
 * The path to a destination: the daemon says how it is reached. *local: it is an address of this
 * host's device. max_mtu: of the port, bytes
 */
int xp_path_resolve(struct xp_host *h, const struct xr_ah_attr *attr, struct xt_path *path,
		    bool *local, uint32_t *max_mtu);

#endif /* XP_HOST_REQUESTS_H */
