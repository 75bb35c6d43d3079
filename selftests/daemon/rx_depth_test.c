// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The number of buffers that the kernel may receive into, with a simulated clock. */
#include "daemon/xdp/rx_depth.h"
#include "selftests/lib/tap.h"

#define MOST 4096
#define OF_QP 512
#define SECOND 1000000000ull

static void test_qps(void)
{
	static const struct {
		struct xt_receivers r;
		uint32_t depth;
		const char *name;
	} rows[] = {
		{ { 0, 0 }, OF_QP, "without QPs there are buffers for management datagrams" },
		{ { 1, 0 }, OF_QP, "one reliable QP has the buffers that its peer fills" },
		{ { 3, 0 }, 3 * OF_QP, "three have three times as many" },
		{ { 8, 0 }, MOST, "eight have all" },
		{ { UINT32_MAX, 0 }, MOST, "any number has all" },
		{ { 0, 1 }, MOST, "an unreliable QP has all" },
		{ { 1, 1 }, MOST, "also beside a reliable one" },
	};
	struct xd_rx_depth d;
	unsigned i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		xd_rx_depth_init(&d, MOST, OF_QP);
		TAP_OK(xd_rx_depth(&d, &rows[i].r, 0, SECOND) == rows[i].depth, "%s", rows[i].name);
	}
	xd_rx_depth_init(&d, 128, OF_QP);
	TAP_OK(xd_rx_depth(&d, &rows[0].r, 0, SECOND) == 128, "there are never more than all");
}

static void test_waiting(void)
{
	static const struct xt_receivers one = { 1, 0 };
	struct xd_rx_depth d;
	uint64_t now = SECOND;

	xd_rx_depth_init(&d, MOST, OF_QP);
	TAP_OK(xd_rx_depth(&d, &one, OF_QP / 2, now) == OF_QP, "half of them may wait");
	TAP_OK(xd_rx_depth(&d, &one, OF_QP - 1, now) == MOST, "if nearly all wait, all are used");
	now += XD_RX_DEPTH_DEEP_NS - 1;
	TAP_OK(xd_rx_depth(&d, &one, 0, now) == MOST, "for a second");
	TAP_OK(xd_rx_depth(&d, &one, 0, now + 1) == OF_QP, "and not longer");
	xd_rx_depth(&d, &one, OF_QP, now + 1);
	TAP_OK(xd_rx_depth(&d, &one, 0, now + SECOND) == MOST, "the second starts again");
}

int main(void)
{
	test_qps();
	test_waiting();
	return tap_end();
}
