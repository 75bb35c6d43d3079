/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Writes packets to the rings of a capture (include/xroce/capture.h). A ring has one writer: the
 * worker whose packets it gets, with the worker's lock; the control thread for the last one.
 */
#ifndef XD_CAPTURE_H
#define XD_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/capture.h>

#include "daemon/transport/transport.h"

/* One ring of a capture, in the list of its worker */
struct xd_tap {
	struct xd_tap *next;
	const struct xr_capture_filter *filter;
	uint32_t snap_len;
	uint32_t size; /* of the ring */
	struct xr_capture_ring *shared;
	uint8_t *data;
	uint64_t producer, matched, lost;
	uint64_t lost_before; /* before the last record */
	uint64_t consumer;    /* as last read; the client writes to it */
};

struct xd_capture {
	struct xr_capture_filter filter;
	uint32_t rings;
	uint64_t refused; /* packets, whatever the filter */
	struct xd_tap tap[];
};

struct xd_packet {
	const struct xt_frame *frame; /* with metadata */
	enum xr_capture_type type;
	uint32_t queue;
	uint64_t time;
};

/* Bytes in front of the first ring, and of the whole memory of a capture */
uint64_t xd_capture_data(uint32_t rings);
uint64_t xd_capture_bytes(uint32_t rings, uint32_t ring_size);
/*
 * memory: xd_capture_bytes() bytes of zeros, which the caller frees after the capture. The request
 * was checked. Returns NULL if there is no memory.
 */
struct xd_capture *xd_capture_new(const struct xr_capture_req *req, uint32_t rings, void *memory);
void xd_capture_free(struct xd_capture *c); /* NULL allowed */

/* Returns true if the filter selects the packet. Checks the offsets of the metadata. */
bool xd_capture_selects(const struct xr_capture_filter *f, enum xr_capture_type type,
			const struct xt_frame *frame);
/* Writes a packet that the XDP program has dropped to the last ring, if the filter selects it. */
void xd_capture_refused(struct xd_capture *c, const struct xr_refused *r);
/* Counts packets that nobody has seen. */
void xd_capture_lost(struct xd_capture *c, uint64_t n);
/* Writes a packet to the ring, or counts it as lost if there is no room. */
void xd_tap_put(struct xd_tap *t, const struct xd_packet *p);

#endif /* XD_CAPTURE_H */
