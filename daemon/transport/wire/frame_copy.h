/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Copies of frames that outlive the memory of the socket: for the inboxes of workers, and for the
 * delay queue of injected faults.
 */
#ifndef XT_FRAME_COPY_H
#define XT_FRAME_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/transport/transport.h"

/* A frame in one segment */
struct xt_frame_copy {
	uint32_t len;
	struct xr_meta meta;
	struct xt_inject inject, refusal;
	bool self, guessed_id;
	uint8_t bytes[XT_MAX_FRAME];
};

/* Copies bytes and metadata. The frame must not be longer than XT_MAX_FRAME. */
void xt_frame_copy(struct xt_frame_copy *to, const struct xt_frame *from);
/* Returns a frame that refers to the copy's bytes. */
struct xt_frame xt_frame_of(struct xt_frame_copy *copy);
/* Copies bytes into the segments of a frame of the same length. */
void xt_frame_fill(const struct xt_frame *to, const uint8_t *bytes);

#endif /* XT_FRAME_COPY_H */
