/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The options of captured packets: comment, direction, queue, verdict. A ring knows those of the
 * last packets, by QP and type, because most packets have the same as the one before.
 */
#ifndef XD_CAPTURE_OPTIONS_H
#define XD_CAPTURE_OPTIONS_H

#include <stdint.h>

#include <xroce/pcapng.h>

#include "capture.h"

#define XD_CAPTURE_KNOWN 256	/* options of a ring, by QP and type */
#define XD_CAPTURE_TEXT_MAX 160 /* bytes of a comment, with NUL */
#define XD_CAPTURE_OPTIONS_MAX (XD_CAPTURE_TEXT_MAX + 56)

struct xd_capture_options {
	uint64_t subject; /* what they depend on, unless packets were lost: xd_capture_subject() */
	uint32_t len;	  /* 0: unused */
	/* of the last block with these options, without its time; type 0: none */
	struct xr_pcapng_packet head;
	uint8_t bytes[XD_CAPTURE_OPTIONS_MAX + 4]; /* and the length of that block */
};

/* A number: to compare four fields one by one would take a packet some ns. */
static inline uint64_t xd_capture_subject(const struct xd_packet *p)
{
	const struct xr_meta *m = &p->frame->meta;

	return m->qpn | (uint64_t)(p->queue & UINT16_MAX) << 32 | (uint64_t)p->type << 48 |
	       (uint64_t)m->reason << 56;
}

/* Builds the options of a packet. lost: packets since the one before */
void xd_capture_options(struct xd_capture_options *o, uint64_t subject, uint64_t lost);

#endif /* XD_CAPTURE_OPTIONS_H */
