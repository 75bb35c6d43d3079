// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* PSN arithmetic modulo 2^24. */
#include <stdint.h>

#include <xroce/wire.h>

#include "selftests/lib/tap.h"

static void test_rows(void)
{
	static const struct row {
		uint32_t a, b;
		int32_t diff;
	} rows[] = {
		{ 0, 0, 0 },
		{ 1, 0, 1 },
		{ 0, 1, -1 },
		{ 0, 0xffffff, 1 },
		{ 0xffffff, 0, -1 },
		{ 5, 0xfffffb, 10 },
		{ 0x7fffff, 0, 0x7fffff },
		{ 0x800000, 0, -0x800000 },
		{ 0, 0x800000, -0x800000 },
		{ 0x800000, 1, 0x7fffff },
		/* Bits 31:24 are ignored. */
		{ 0xff000001, 0x12000000, 1 },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		TAP_OK(xr_psn_diff(rows[i].a, rows[i].b) == rows[i].diff, "%06x - %06x = %d",
		       rows[i].a, rows[i].b, rows[i].diff);
}

int main(void)
{
	unsigned wrong = 0;

	test_rows();
	for (uint32_t a = 0; a <= XR_PSN_MASK; a += 4093)
		for (uint32_t n = 0; n < 0x800000; n += 65521) {
			uint32_t b = (a + n) & XR_PSN_MASK;

			wrong += xr_psn_diff(b, a) != (int32_t)n;
			wrong += n && xr_psn_diff(a, b) != -(int32_t)n;
		}
	TAP_OK(!wrong, "xr_psn_diff() undoes an addition modulo 2^24");
	return tap_end();
}
