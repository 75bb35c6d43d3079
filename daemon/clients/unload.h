/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Much may belong to an object: a million windows to a QP, queued events and requests to an id. It
 * is freed in pieces before the object, by unload() of the kind.
 */
#ifndef XD_UNLOAD_H
#define XD_UNLOAD_H

#include <stddef.h>

struct xd_object;
struct xd_reply;

/* Executes the rest of a request, of which it gets a copy. Returns 0, -errno or XD_LATER. */
typedef int (*xd_unloaded_fn)(struct xd_object *obj, const void *request, struct xd_reply *rep);

/*
 * Frees all of it, then calls then(), which may be later; not if the client ends meanwhile. Returns
 * what then() returns, -ENOMEM, or XD_LATER.
 */
int xd_after_unload(struct xd_object *obj, const void *request, size_t length, xd_unloaded_fn then,
		    struct xd_reply *rep);

#endif /* XD_UNLOAD_H */
