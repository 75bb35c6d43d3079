/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Child processes. After fork() parent and child share rings and connections, and only one process
 * can use them. The parent keeps them. In the child every context is marked XP_FORKED and verbs on
 * its objects fail.
 *
 * A verb in the child that takes the context itself uses a child context instead, which belongs to
 * the child and is opened by the first such verb. Each object has a pointer to the context that it
 * belongs to, so verbs on objects need no such look-up. The field that programs see, `context` of
 * verbs.h, is the context that they know (`shown`), because some compare it. A child of the child
 * gets a child context of the child context.
 *
 * A PD of the parent becomes one of the child when the child creates an object in it (xp_own_pd()).
 */
#ifndef XP_CHILD_H
#define XP_CHILD_H

#include "provider/verbs/context.h"

/* Adds a context to, and removes it from, those that the fork handlers mark. */
void xp_fork_watch(struct xp_context *ctx);
void xp_fork_unwatch(struct xp_context *ctx);

/*
 * Returns the context that serves this process: ibctx itself, or in a child process the child
 * context, or ibctx if that cannot be opened.
 */
struct ibv_context *xp_process_context(struct ibv_context *ibctx);

/* Serialize changes of objects of the parent that become those of the child. */
void xp_child_lock(void);
void xp_child_unlock(void);

#endif /* XP_CHILD_H */
