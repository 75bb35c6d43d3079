/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Completion channels. */
#ifndef XP_COMP_CHANNEL_H
#define XP_COMP_CHANNEL_H

#include <infiniband/verbs.h>

#include "provider/verbs/event_socket.h"

struct xp_channel_object;
struct xp_context;
struct xp_cq;

struct xp_channel {
	struct ibv_comp_channel ibch;
	struct xp_context *ctx; /* of this process: child.h */
	uint32_t handle;
	struct xp_event_socket *events; /* NULL: the context is direct */
	struct xp_channel_object *host; /* NULL: it is not */
	struct xp_cq *cqs;		/* under the mutex of struct ibv_context */
	bool events_only; /* packets do not make the descriptor readable: channel_set.h; atomic */
	bool was_woken;	  /* a packet may have made it readable before; atomic */
};

static inline struct xp_channel *xp_channel(struct ibv_comp_channel *ibch)
{
	return (struct xp_channel *)ibch;
}

struct ibv_comp_channel *xp_create_comp_channel(struct ibv_context *ibctx);
int xp_destroy_comp_channel(struct ibv_comp_channel *ibch);
int xp_get_cq_event(struct ibv_comp_channel *ibch, struct ibv_cq **ibcq, void **cq_context);
void xp_ack_cq_events(struct ibv_cq *ibcq, unsigned int n);

/* Adds a CQ to its channel, and removes it. */
void xp_channel_join(struct xp_cq *cq, struct ibv_comp_channel *ibch);
void xp_channel_leave(struct xp_cq *cq);

#endif /* XP_COMP_CHANNEL_H */
