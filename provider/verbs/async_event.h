/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Asynchronous events. */
#ifndef XP_ASYNC_EVENT_H
#define XP_ASYNC_EVENT_H

#include <stdbool.h>

#include <infiniband/verbs.h>

int xp_get_async_event(struct ibv_context *ibctx, struct ibv_async_event *event);
void xp_ack_async_event(struct ibv_async_event *event);

/* Returns true if the event is of an object of this library; false for port and device events. */
bool xp_is_our_event(const struct ibv_async_event *event);

#endif /* XP_ASYNC_EVENT_H */
