/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Objects and how clients name them: one table per client and kind, from handle to object. A
 * handle is a slot's number, never 0; it means nothing to other clients.
 *
 * An object keeps its durable part, plain data that names others by handle or number, in a struct
 * of its own; what only this process can use lies beside it.
 */
#ifndef XD_HANDLES_H
#define XD_HANDLES_H

#include <stdbool.h>
#include <stdint.h>

struct xd_client;
struct xd_server;

/* In the order in which a dead client's objects go */
enum xd_kind {
	XD_QP,
	XD_AH,
	XD_SRQ,
	XD_XRCD,
	XD_CQ,
	XD_CHANNEL,
	XD_MW,
	XD_MR,
	XD_DM,
	XD_PD,
	XD_KINDS
};

struct xd_object {
	struct xd_client *client;
	enum xd_kind kind;
	uint32_t handle;
	uint32_t refs; /* objects that need this one: it cannot go */
};

struct xd_table {
	void **slot; /* slot[0] stays empty */
	uint32_t room;
	uint32_t used;
	uint32_t hint; /* nothing is free below */
};

/* -ENOMEM: no slot. Fills *handle. */
int xd_table_add(struct xd_table *t, void *item, uint32_t *handle);
void *xd_table_get(const struct xd_table *t, uint32_t handle);
void xd_table_del(struct xd_table *t, uint32_t handle);
void xd_table_free(struct xd_table *t);
/* From a handle on, 0 to begin with: the next item that is there. NULL: no more. */
void *xd_table_next(const struct xd_table *t, uint32_t *handle);

/*
 * A place in the client's table and in the limits of client and device: -ENOMEM, as programs expect of
 * either. The object begins with its struct xd_object.
 */
int xd_object_add(struct xd_client *c, struct xd_object *obj, enum xd_kind kind);
void xd_object_del(struct xd_object *obj); /* not added: nothing */
void *xd_object_get(const struct xd_client *c, enum xd_kind kind, uint32_t handle);

#endif /* XD_HANDLES_H */
