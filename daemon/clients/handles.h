/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Objects and their handles: one table per client and kind of object, from handle to object. A
 * handle is the index of a slot, never 0, and is valid for its client only.
 *
 * The kinds are registered by the level above: struct xd_kind_ops.
 */
#ifndef XD_HANDLES_H
#define XD_HANDLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json;
struct xd_client;
struct xd_clients;

#define XD_MAX_KINDS 16

/* Begins the struct of each kind of object */
struct xd_object {
	struct xd_client *client; /* NULL: in no table */
	uint32_t kind;
	uint32_t handle;
	uint32_t refs;	  /* objects that need this one: it cannot be destroyed */
	uint64_t bytes;	  /* of the daemon's memory, charged to the user */
	uint64_t created; /* time, ns */
};

/* A kind of object, as the level above registers it */
struct xd_kind_ops {
	const char *name; /* plural, for the numbers that `xroce` shows */
	uint32_t list;	  /* enum xr_show_what that lists the objects, 0: none */
	void (*show)(struct json *j, struct xd_object *obj); /* fields of one object in that list */
	uint32_t detail_list; /* the same list with everything that is known, 0: none */
	void (*show_detail)(struct json *j, struct xd_object *obj);
	void (*before_details)(const struct xd_clients *cs); /* a list is shown; NULL: nothing */
	uint32_t (*number)(const struct xd_object *obj); /* first in the row; NULL: the handle */
	/*
	 * Looks a number up in a table of the device. *obj: the only object that has it; NULL: none
	 * has. Returns false if several objects may have it. NULL: the number is the handle
	 */
	bool (*find)(const struct xd_clients *cs, uint32_t number, struct xd_object **obj);
	/*
	 * The same for an object of a direct program: a record of its view, which may contain
	 * anything. NULL: there are no records
	 */
	void (*show_view)(struct json *j, const void *record, const struct xd_client *c,
			  bool detail);
	/* The network has changed: looks at paths and addresses again. NULL: nothing to do */
	void (*refresh)(struct xd_object *obj);
	/* Frees some of what belongs to an object: see unload.h. NULL: nothing to do */
	bool (*unload)(struct xd_object *obj);
	/* Frees an object in any state. The objects that it refers to still exist. */
	void (*free)(struct xd_object *obj);
	/*
	 * Offsets of uint32_t in struct xd_options: limits for one client, for all clients of one
	 * user, and for all together
	 */
	size_t client_limit, user_limit, device_limit;
	uint32_t bytes; /* of the daemon's memory for one object */
};

struct xd_kinds {
	/* In the order in which the objects of a client are freed */
	const struct xd_kind_ops *const *ops;
	uint32_t n;
	uint32_t objects[XD_MAX_KINDS]; /* how many exist */
	uint32_t claims[XD_MAX_KINDS];	/* how many more direct contexts may have */
};

struct xd_table {
	void **slot; /* slot[0] stays empty */
	uint32_t room;
	uint32_t used;
	uint32_t last; /* index of the last slot that was ever used */
	uint32_t free; /* index of a slot that is free again; 0: none */
};

/* Finds a free slot, in constant time, and sets *handle. -ENOMEM. */
int xd_table_add(struct xd_table *t, void *item, uint32_t *handle);
void *xd_table_get(const struct xd_table *t, uint32_t handle);
void xd_table_del(struct xd_table *t, uint32_t handle);
void xd_table_free(struct xd_table *t);
/* Returns the next item after *handle, and sets *handle to its own. Start with 0. NULL: end. */
void *xd_table_next(const struct xd_table *t, uint32_t *handle);

/* The objects of a client */
struct xd_handles {
	struct xd_table table[XD_MAX_KINDS];
	uint32_t claims[XD_MAX_KINDS]; /* objects that the client has itself, or may have */
	uint32_t kind, handle, freed;  /* progress of xd_handles_free_objects() */
};

/*
 * Adds an object to its client's table and charges its memory. Returns -ENOMEM, as programs expect,
 * also at the limit of the client or of the device; -EDQUOT: a limit of the user.
 */
int xd_object_add(struct xd_client *c, struct xd_object *obj, uint32_t kind);
/* Charges more memory of the daemon for an object until it is deleted. -EDQUOT. */
int xd_object_charge(struct xd_object *obj, uint64_t bytes);
void xd_object_del(struct xd_object *obj); /* no effect if it is in no table */
/* Frees some of what belongs to an object: unload.h. Returns true if nothing is left. */
bool xd_object_unload(struct xd_object *obj);
void *xd_object_get(const struct xd_client *c, uint32_t kind, uint32_t handle);
/* xd_table_next() for the client's objects of one kind */
void *xd_object_next(const struct xd_client *c, uint32_t kind, uint32_t *handle);
/* No object of the kind has a larger handle. */
uint32_t xd_object_last(const struct xd_client *c, uint32_t kind);
uint32_t xd_object_count(const struct xd_client *c, uint32_t kind);
/* Adds the age of an object, and the program that has it, to a row; detail: and its clock time. */
void xd_show_owner(struct json *j, const struct xd_client *c, uint64_t created, bool detail);
void xd_object_show_owner(struct json *j, const struct xd_object *obj, bool detail);
/* Adds the age and the clock time of an event at a time of xd_now(). */
void xd_show_moment(struct json *j, uint64_t at);
/* Returns a limit by its offset in struct xd_options. */
uint32_t xd_kind_limit(const struct xd_clients *cs, size_t offset);
/* Returns how many objects of one kind the client and its user may have. */
uint32_t xd_object_limit(const struct xd_client *c, uint32_t kind);

/*
 * A direct context has its objects itself. The limits include what its client has claimed: objects,
 * and pages of memory that it registers (XR_CLAIM_PAGES). Claims `count`, and a small part of what
 * is left. Returns the errors of xd_object_add().
 */
int xd_claim(struct xd_client *c, uint32_t kind, uint32_t count, uint32_t *claimed);
/* Gives back claims, which the client must have. */
void xd_unclaim(struct xd_client *c, uint32_t kind, uint32_t n);
uint32_t xd_claimed(const struct xd_client *c, uint32_t kind);

/* Frees some of the client's objects, for a millisecond. Returns true if none is left. */
bool xd_handles_free_objects(struct xd_client *c);
void xd_handles_free(struct xd_client *c);

#endif /* XD_HANDLES_H */
