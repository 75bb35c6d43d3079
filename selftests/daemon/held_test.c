// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Frames that injected faults keep back: order, directions, bytes, and a pool that ends. */
#include <string.h>

#include "daemon/datapath/delay.h"
#include "selftests/lib/tap.h"

static uint8_t bytes[XT_MAX_FRAME + 1];

static struct xt_frame frame(uint8_t first, uint32_t len)
{
	struct xt_frame f = { .nseg = 1, .len = len };

	bytes[0] = first;
	f.seg[0].data = bytes;
	f.seg[0].len = len;
	f.meta.qpn = first;
	return f;
}

static void test_order(void)
{
	struct xd_delay *h = xd_delay_new();
	struct xt_frame f = frame(1, 60), out;

	TAP_OK(xd_delay_next(h) == XT_NEVER && !xd_delay_due(h, XR_FAULT_RX, 1000, &out),
	       "nothing is held");
	xd_delay_add(h, XR_FAULT_RX, 300, &f);
	f = frame(2, 60);
	xd_delay_add(h, XR_FAULT_RX, 200, &f);
	f = frame(3, 60);
	xd_delay_add(h, XR_FAULT_TX, 100, &f);
	TAP_OK(xd_delay_next(h) == 100, "the soonest of both directions");
	TAP_OK(!xd_delay_due(h, XR_FAULT_RX, 199, &out), "not before its time");
	TAP_OK(xd_delay_due(h, XR_FAULT_RX, 300, &out) && out.seg[0].data[0] == 2 &&
		       out.meta.qpn == 2,
	       "the one that was due first comes first, with its metadata");
	TAP_OK(xd_delay_due(h, XR_FAULT_RX, 300, &out) && out.seg[0].data[0] == 1,
	       "then the other");
	TAP_OK(!xd_delay_due(h, XR_FAULT_RX, 300, &out), "directions are apart");
	TAP_OK(xd_delay_due(h, XR_FAULT_TX, 300, &out) && xd_delay_next(h) == XT_NEVER,
	       "and in the end there is nothing again");
	xd_delay_free(h);
	xd_delay_free(NULL);
}

static void test_pieces(void)
{
	struct xd_delay *h = xd_delay_new();
	struct xt_frame f = { .nseg = 2, .len = XT_MAX_FRAME }, out;
	uint32_t i;

	for (i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 31);
	f.seg[0] = (struct xt_seg){ bytes, 4000 };
	f.seg[1] = (struct xt_seg){ bytes + 4000, XT_MAX_FRAME - 4000 };
	TAP_OK(xd_delay_add(h, XR_FAULT_TX, 0, &f) && xd_delay_due(h, XR_FAULT_TX, 0, &out) &&
		       out.nseg == 1 && out.len == XT_MAX_FRAME &&
		       !memcmp(out.seg[0].data, bytes, XT_MAX_FRAME),
	       "the longest frame in two pieces comes back in one");
	f.seg[1].len++;
	f.len++;
	TAP_OK(!xd_delay_add(h, XR_FAULT_TX, 0, &f), "a longer one is lost");
	xd_delay_free(h);
}

static void test_full(void)
{
	struct xd_delay *h = xd_delay_new();
	struct xt_frame f = frame(1, 60), out;
	uint32_t n = 0, back = 0;

	while (n < 100000 && xd_delay_add(h, XR_FAULT_RX, n, &f))
		n++;
	TAP_OK(n > 0 && n < 100000, "there is an end to it (%u frames)", n);
	while (xd_delay_due(h, XR_FAULT_RX, n, &out))
		back++;
	TAP_OK(back == n && xd_delay_add(h, XR_FAULT_RX, 0, &f),
	       "all come back, and there is room");
	xd_delay_free(h);
}

int main(void)
{
	test_order();
	test_pieces();
	test_full();
	return tap_end();
}
