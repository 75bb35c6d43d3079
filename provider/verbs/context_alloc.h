/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The memory of contexts. libibverbs allocates it, with operations of its own. */
#ifndef XP_CONTEXT_ALLOC_H
#define XP_CONTEXT_ALLOC_H

struct xp_context;
struct xp_device;

/* Returns NULL if there is no memory. */
struct xp_context *xp_context_alloc(struct xp_device *dev);
/* Also frees a context of which opening failed half way. */
void xp_context_free(struct xp_context *ctx);

#endif /* XP_CONTEXT_ALLOC_H */
