// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The options of packets. Those of the same QP and direction mostly have the same. */
#include <linux/bpf.h>

#include "capture.h"

/* What the options depend on, unless packets were lost */
struct subject {
	uint32_t qpn;
	uint16_t type, queue;
	uint8_t reason;
};

static struct known {
	struct subject subject;
	size_t len; /* 0: unused */
	uint8_t options[PCAPNG_OPTIONS_MAX];
} known[64]; /* by QP and type */

/* The action that XDP has returned for the packet, -1: it has not seen the packet */
static int xdp_action(const struct xr_capture_record *r)
{
	switch (r->type) {
	case XR_CAPTURE_RX:
		return XDP_REDIRECT;
	case XR_CAPTURE_REFUSED:
		return XDP_DROP;
	default:
		return -1;
	}
}

static bool is_sent(const struct xr_capture_record *r)
{
	return r->type == XR_CAPTURE_TX || r->type == XR_CAPTURE_LOCAL;
}

static size_t build(uint8_t *buf, const struct xr_capture_record *r)
{
	char comment[PCAPNG_TEXT_MAX];
	const struct pcapng_notes notes = {
		.queue = r->queue,
		.direction = is_sent(r) ? PCAPNG_OUT : PCAPNG_IN,
		.xdp_action = xdp_action(r),
		.dropped = r->lost,
		.comment = comment,
		.comment_len = capture_comment(r, comment),
	};

	return pcapng_options(buf, &notes);
}

static bool is_of(const struct known *k, const struct xr_capture_record *r)
{
	const struct subject *s = &k->subject;

	return k->len && s->qpn == r->qpn && s->type == r->type && s->queue == r->queue &&
	       s->reason == r->reason && !r->lost;
}

const uint8_t *capture_options(const struct xr_capture_record *r, size_t *len)
{
	struct known *k = &known[(r->qpn ^ r->type) % (sizeof(known) / sizeof(known[0]))];

	if (!is_of(k, r)) {
		k->len = build(k->options, r);
		k->subject = (struct subject){ r->qpn, r->type, r->queue, r->reason };
	}
	*len = k->len;
	if (r->lost)
		k->len = 0;
	return k->options;
}
