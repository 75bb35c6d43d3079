// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The delay queue: order, directions, bytes and its limit; copies of frames. */
#include <string.h>

#include "daemon/faults/delay_queue.h"
#include "daemon/transport/wire/frame_copy.h"
#include "selftests/lib/tap.h"

static uint8_t bytes[XT_MAX_FRAME + 1];

static struct xt_frame frame(uint8_t first, uint32_t len)
{
	struct xt_frame f = { .nseg = 1, .len = len };

	bytes[0] = first;
	f.seg[0].data = bytes;
	f.seg[0].len = len;
	f.meta.qpn = first;
	f.guessed_id = true;
	return f;
}

static void test_order(void)
{
	struct xd_delay *q = xd_delay_new();
	struct xt_frame f = frame(1, 60), out;

	TAP_OK(xd_delay_next(q) == XT_NEVER && !xd_delay_due(q, XD_FAULT_RX, 1000, &out),
	       "a new queue is empty");
	xd_delay_add(q, XD_FAULT_RX, 300, XD_FAULT_NO_RULE, &f);
	f = frame(2, 60);
	xd_delay_add(q, XD_FAULT_RX, 200, XD_FAULT_NO_RULE, &f);
	f = frame(3, 60);
	xd_delay_add(q, XD_FAULT_TX, 100, XD_FAULT_NO_RULE, &f);
	TAP_OK(xd_delay_next(q) == 100, "the next time is the earliest of both directions");
	TAP_OK(!xd_delay_due(q, XD_FAULT_RX, 199, &out), "no frame is due before its time");
	TAP_OK(xd_delay_due(q, XD_FAULT_RX, 300, &out) && out.seg[0].data[0] == 2 &&
		       out.meta.qpn == 2 && out.guessed_id,
	       "the frame due first is returned first, with its metadata");
	TAP_OK(xd_delay_due(q, XD_FAULT_RX, 300, &out) && out.seg[0].data[0] == 1,
	       "the frame due second follows");
	TAP_OK(!xd_delay_due(q, XD_FAULT_RX, 300, &out),
	       "frames of the other direction are not returned");
	TAP_OK(xd_delay_due(q, XD_FAULT_TX, 300, &out) && xd_delay_next(q) == XT_NEVER,
	       "the queue is empty at the end");
	xd_delay_free(q);
	xd_delay_free(NULL);
}

static void test_segments(void)
{
	struct xd_delay *q = xd_delay_new();
	struct xt_frame f = { .nseg = 2, .len = XT_MAX_FRAME }, out;
	uint32_t i;

	for (i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 31);
	f.seg[0] = (struct xt_seg){ bytes, 4000 };
	f.seg[1] = (struct xt_seg){ bytes + 4000, XT_MAX_FRAME - 4000 };
	TAP_OK(xd_delay_add(q, XD_FAULT_TX, 0, XD_FAULT_NO_RULE, &f) &&
		       xd_delay_due(q, XD_FAULT_TX, 0, &out) && out.nseg == 1 &&
		       out.len == XT_MAX_FRAME && !memcmp(out.seg[0].data, bytes, XT_MAX_FRAME),
	       "the longest frame, in two segments, is returned in one");
	f.seg[1].len++;
	f.len++;
	TAP_OK(!xd_delay_add(q, XD_FAULT_TX, 0, XD_FAULT_NO_RULE, &f), "a longer frame is refused");
	xd_delay_free(q);
}

static void test_full(void)
{
	struct xd_delay *q = xd_delay_new();
	struct xt_frame f = frame(1, 60), out;
	uint32_t n = 0, back = 0;

	while (n < 100000 && xd_delay_add(q, XD_FAULT_RX, n, XD_FAULT_NO_RULE, &f))
		n++;
	TAP_OK(n > 0 && n < 100000, "the queue is limited (%u frames)", n);
	while (xd_delay_due(q, XD_FAULT_RX, n, &out))
		back++;
	TAP_OK(back == n && xd_delay_add(q, XD_FAULT_RX, 0, XD_FAULT_NO_RULE, &f),
	       "all frames are returned, and the queue has room again");
	xd_delay_free(q);
}

static void test_share(void)
{
	struct xd_delay *q = xd_delay_new();
	struct xt_frame f = frame(1, 60), out;
	uint32_t first = 0, second = 0;

	while (xd_delay_add(q, XD_FAULT_RX, 1, 0, &f))
		first++;
	while (xd_delay_add(q, XD_FAULT_TX, 1, 1, &f))
		second++;
	TAP_OK(first && second >= first / 2 && xd_delay_has_room(q),
	       "a rule leaves room for the frames of others (%u, %u)", first, second);
	TAP_OK(xd_delay_due(q, XD_FAULT_RX, 1, &out) && xd_delay_add(q, XD_FAULT_RX, 1, 1, &f),
	       "a frame that is gone makes room");
	xd_delay_free(q);
}

static void test_fill(void)
{
	uint8_t a[60], b[40];
	struct xt_frame to = { .seg = { { a, sizeof(a) }, { b, sizeof(b) } },
			       .nseg = 2,
			       .len = 100 };

	xt_frame_fill(&to, bytes);
	TAP_OK(!memcmp(a, bytes, 60) && !memcmp(b, bytes + 60, 40),
	       "a frame is filled by segments");
}

int main(void)
{
	test_order();
	test_segments();
	test_share();
	test_fill();
	test_full();
	return tap_end();
}
