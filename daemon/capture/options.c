// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "options.h"

#include <linux/bpf.h>
#include <string.h>

#include <xroce/reason.h>

/* ---- comments ------------------------------------------------------------------------------ */

static const struct {
	const char *name, *text;
} verdicts[XR_REASON_COUNT] = {
#define X(name, action, text) { #name, text },
	XR_REASONS(X)
#undef X
};

/* printf() would take longer than everything else that is done for a packet. */
struct options_text {
	char *at, *end;
};

static void options_add(struct options_text *t, const char *s)
{
	while (*s && t->at < t->end)
		*t->at++ = *s++;
}

static void options_add_number(struct options_text *t, uint32_t n)
{
	char digits[11], *d = digits + sizeof(digits) - 1;

	*d = 0;
	do
		*--d = (char)('0' + n % 10);
	while (n /= 10);
	options_add(t, d);
}

static void options_add_verdict(struct options_text *t, uint8_t reason)
{
	uint32_t known = reason < XR_REASON_COUNT ? reason : XR_NO_METADATA;

	options_add(t, ", verdict ");
	options_add(t, verdicts[known].name);
	if (reason) {
		options_add(t, ": ");
		options_add(t, verdicts[known].text);
	}
}

/* The fields that xd_capture_subject() packs into one value */
struct subject {
	uint32_t qpn;
	uint16_t queue;
	uint8_t type; /* enum xr_capture_type */
	uint8_t reason;
};

static void write_comment(char comment[XD_CAPTURE_TEXT_MAX], const struct subject *s)
{
	struct options_text t = { comment, comment + XD_CAPTURE_TEXT_MAX - 1 };

	options_add(&t, "QP ");
	options_add_number(&t, s->qpn);
	if (s->queue == XR_CAPTURE_DIRECT) {
		options_add(&t, ", direct");
	} else {
		options_add(&t, ", queue ");
		options_add_number(&t, s->queue);
	}
	if (s->type == XR_CAPTURE_LOCAL)
		options_add(&t, XR_CAPTURE_WITHIN);
	if (s->type == XR_CAPTURE_RX || s->type == XR_CAPTURE_REFUSED)
		options_add_verdict(&t, s->reason);
	*t.at = 0;
}

/* ---- options ------------------------------------------------------------------------------- */

/* The action that XDP has returned for the packet, -1: it has not seen the packet */
static int xdp_action(uint8_t type)
{
	switch (type) {
	case XR_CAPTURE_RX:
		return XDP_REDIRECT;
	case XR_CAPTURE_REFUSED:
		return XDP_DROP;
	default:
		return -1;
	}
}

static uint8_t *add_xdp_action(uint8_t *at, int action)
{
	uint8_t value[9] = { XR_PCAPNG_VERDICT_XDP };
	const int64_t wide = action;

	memcpy(value + 1, &wide, sizeof(wide));
	return xr_pcapng_option(at, XR_PCAPNG_VERDICT, value, sizeof(value));
}

static uint32_t direction(uint8_t type)
{
	return type == XR_CAPTURE_TX || type == XR_CAPTURE_LOCAL ? XR_PCAPNG_OUT : XR_PCAPNG_IN;
}

void xd_capture_options(struct xd_capture_options *o, uint64_t subject, uint64_t lost)
{
	const struct subject s = { (uint32_t)subject, (uint16_t)(subject >> 32),
				   (uint8_t)(subject >> 48), (uint8_t)(subject >> 56) };
	const uint32_t flags = direction(s.type), queue = s.queue;
	char comment[XD_CAPTURE_TEXT_MAX];
	uint8_t *at = o->bytes;

	write_comment(comment, &s);
	at = xr_pcapng_option(at, XR_PCAPNG_COMMENT, comment, (uint32_t)strlen(comment));
	at = xr_pcapng_option(at, XR_PCAPNG_FLAGS, &flags, sizeof(flags));
	if (s.queue != XR_CAPTURE_DIRECT)
		at = xr_pcapng_option(at, XR_PCAPNG_QUEUE, &queue, sizeof(queue));
	if (lost)
		at = xr_pcapng_option(at, XR_PCAPNG_DROPCOUNT, &lost, sizeof(lost));
	if (xdp_action(s.type) >= 0)
		at = add_xdp_action(at, xdp_action(s.type));
	at = xr_pcapng_option(at, XR_PCAPNG_END, "", 0);
	o->subject = subject;
	o->head.type = 0;
	o->len = (uint32_t)(at - o->bytes);
}
