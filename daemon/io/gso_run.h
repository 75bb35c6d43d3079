/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A run is a sequence of frames that can be sent as one GSO frame (docs/gso.md): they have the same
 * headers up to the destination QP, apart from what the kernel's UDP segmentation sets in each
 * packet, and the same length, except that the last one may be shorter.
 */
#ifndef XD_GSO_RUN_H
#define XD_GSO_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/transport/transport.h"

/* Frames of a run at most, each with at most two segments */
#define XD_GSO_RUN 64

struct xd_gso_run {
	struct xt_frame frame[XD_GSO_RUN];
	uint32_t count;
	uint32_t size;	/* bytes behind the UDP header of each frame but the last */
	uint32_t total; /* of all frames */
	bool ended;	/* the last frame is shorter */
};

/*
 * Returns true if a frame can be sent as the one `index` frames behind the first one of a run, as
 * far as its headers go. a, b: their metadata
 */
bool xd_gso_continues(const uint8_t *first, const struct xr_meta *a, const uint8_t *next,
		      const struct xr_meta *b, uint32_t index);
/* The same for a frame to any QP of the socket that receives the run */
bool xd_gso_continues_flow(const uint8_t *first, const struct xr_meta *a, const uint8_t *next,
			   const struct xr_meta *b, uint32_t index);
/* Adds a frame, whose buffers stay as they are. Returns false if it does not continue the run. */
bool xd_gso_run_add(struct xd_gso_run *run, const struct xt_frame *frame);
/* Returns true if the run is worth a system call of its own. */
bool xd_gso_run_is_long(const struct xd_gso_run *run);

#endif /* XD_GSO_RUN_H */
