/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Frames that wait to be sent as GSO frames. They leave in the order in which they were put. Not
 * thread-safe.
 */
#ifndef XD_GSO_QUEUE_H
#define XD_GSO_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/io/gso_run.h"

/* Runs that are sent at once, at most */
#define XD_GSO_RUNS 4

struct xd_gso_queue {
	struct xd_gso_run run[XD_GSO_RUNS]; /* frames join the last one */
	uint32_t last;			    /* its index */
	uint32_t left;			    /* frames that the latest flush left in the last run */
	uint32_t buffers;		    /* of all frames */
};

/* The ways by which frames leave the queue */
struct xd_gso_ways {
	/* Sends runs. Returns the number of those that were sent, 0: none. */
	uint32_t (*send)(void *ctx, const struct xd_gso_run *runs, uint32_t n);
	/* Takes back the buffers of a frame that was sent. */
	void (*sent)(void *ctx, const struct xt_frame *frame);
	/* Sends a frame alone: its run has no other, or was not sent. */
	void (*send_alone)(void *ctx, const struct xt_frame *frame);
	bool sends_all; /* send() is for runs of one frame as well */
};

/* Adds a frame. May send those before it. */
void xd_gso_queue_put(struct xd_gso_queue *q, const struct xt_frame *frame,
		      const struct xd_gso_ways *ways, void *ctx);
/*
 * Sends all frames. more: others follow at once, so they may wait for these if the last run has
 * grown since the latest flush. If that run has a single frame it does not wait, as that is an ACK
 * or a short message.
 */
void xd_gso_queue_flush(struct xd_gso_queue *q, bool more, const struct xd_gso_ways *ways,
			void *ctx);

#endif /* XD_GSO_QUEUE_H */
