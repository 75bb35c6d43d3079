/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Writes packets to the rings of a capture (include/xroce/capture.h). A ring has one writer: the
 * worker whose packets it gets, with the worker's lock; the control thread for the last one; or a
 * direct program, with the lock of its engine.
 */
#ifndef XD_CAPTURE_H
#define XD_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/capture.h>

#include "daemon/transport/transport.h"

struct xd_capture_options;

#define XD_CAPTURE_CHUNKS 64 /* of a ring that is overwritten, at most */

/* One ring of a capture, in the list of its worker */
struct xd_tap {
	struct xd_tap *next;
	const struct xr_capture_filter *filter;
	bool all;	/* the filter selects all packets */
	uint64_t clock; /* as that of the capture */
	uint32_t snap_len;
	uint32_t size; /* of the ring */
	struct xr_capture_ring *shared;
	uint8_t *data;
	uint64_t producer, matched, lost;
	uint64_t lost_before; /* before the last packet */
	uint64_t requested;   /* the processor has been asked for lines up to this index */
	uint64_t consumer;    /* as last read; the client writes to it */
	struct xd_capture_options *known; /* options.h */
	/* a ring that is overwritten: where the first block of each chunk begins */
	bool overwrite;
	uint32_t chunk_shift;
	uint64_t mark[XD_CAPTURE_CHUNKS];
};

struct xd_capture {
	struct xr_capture_filter filter;
	uint32_t rings;
	uint64_t clock;	  /* CLOCK_REALTIME - CLOCK_MONOTONIC at the start, ns */
	uint64_t refused; /* packets, whatever the filter */
	struct xd_capture_options *known;
	struct xd_tap tap[];
};

struct xd_packet {
	const struct xt_frame *frame; /* with metadata */
	enum xr_capture_type type;
	uint32_t queue;
	uint64_t time;
};

/* ---- capture.c ---- */

/* Bytes in front of the first ring, and of the whole memory of a capture */
uint64_t xd_capture_data(uint32_t rings);
uint64_t xd_capture_bytes(uint32_t rings, uint32_t ring_size);
/*
 * memory: xd_capture_bytes() bytes of zeros, which the caller frees after the capture. The request
 * was checked. Returns NULL if there is no memory.
 */
struct xd_capture *xd_capture_new(const struct xr_capture_req *req, uint32_t rings, void *memory);
/* Tells the client that nothing is written any more, and frees the capture. NULL allowed */
void xd_capture_close(struct xd_capture *c);

/* Writes a packet that the XDP program has dropped to the last ring, if the filter selects it. */
void xd_capture_refused(struct xd_capture *c, const struct xr_refused *r);
/* Counts packets that nobody has seen. */
void xd_capture_lost(struct xd_capture *c, uint64_t n);

/* ---- filter.c ---- */

/* Returns true if the filter selects the packet. Checks the offsets of the metadata. */
bool xd_capture_selects(const struct xr_capture_filter *f, enum xr_capture_type type,
			const struct xt_frame *frame);
static inline bool xd_tap_selects(const struct xd_tap *t, enum xr_capture_type type,
				  const struct xt_frame *frame)
{
	return t->all || xd_capture_selects(t->filter, type, frame);
}

/* ---- ring.c ---- */

/* Writes a packet to the ring, or counts it as lost if there is no room. */
void xd_tap_put(struct xd_tap *t, const struct xd_packet *p);
/* The same with those of n packets that the filter selects. first: with the first of the frames */
void xd_tap_put_batch(struct xd_tap *t, const struct xd_packet *first, uint32_t n);
/* Brings the places of the next packets into the cache. Call this in each round. */
void xd_tap_prefetch(struct xd_tap *t);

/* ---- taps.c: the rings that one engine fills ---- */

void xd_taps_add(struct xd_tap **taps, struct xd_tap *t);
/* No effect if the tap is not in the list. */
void xd_taps_remove(struct xd_tap **taps, const struct xd_tap *t);
/* Returns as many bytes of local packets as one of the captures wants: see xt_engine_show(). */
uint32_t xd_taps_local_len(const struct xd_tap *taps);
/* Writes a packet, sent or local, to all rings whose filters select it. */
void xd_taps_put(struct xd_tap *taps, enum xr_capture_type type, uint32_t queue,
		 const struct xt_frame *f);
/* The same with packets that were received together. */
void xd_taps_put_received(struct xd_tap *taps, uint32_t queue, const struct xt_frame *frames,
			  uint32_t n);
/* Returns the numbers of events by the counters of an engine, and publishes them. */
void xd_capture_events(const struct xt_counters *c, uint64_t events[XR_CAPTURE_EVENTS]);
void xd_tap_set_events(struct xd_tap *t, const uint64_t events[XR_CAPTURE_EVENTS]);

#endif /* XD_CAPTURE_H */
