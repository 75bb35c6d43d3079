// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The CRC of the ICRC, against a bit by bit computation. */
#include <stdlib.h>

#include "daemon/transport/base/crc.h"
#include "selftests/lib/tap.h"

#define POLYNOMIAL 0xedb88320u /* reflected */
#define LONGEST 1200
#define OFFSETS 34 /* more than a vector, which loads may be unaligned to */

static uint8_t data[OFFSETS + LONGEST];

/* The register before and after a byte, as the definition has it */
static uint32_t next(uint32_t reg, uint8_t byte)
{
	reg ^= byte;
	for (int i = 0; i < 8; i++)
		reg = reg & 1 ? reg >> 1 ^ POLYNOMIAL : reg >> 1;
	return reg;
}

typedef uint32_t crc32_fn(uint32_t crc, const uint8_t *data, size_t len);

/* Returns the number of lengths for which the CRC is wrong. */
static unsigned int wrong(crc32_fn *fn, uint32_t start, const uint8_t *p)
{
	unsigned int bad = 0;
	uint32_t reg = ~start;

	for (size_t len = 0; len <= LONGEST; len++) {
		bad += fn(start, p, len) != ~reg;
		reg = next(reg, p[len]);
	}
	return bad;
}

static void test(const char *name, crc32_fn *fn)
{
	unsigned int bad = 0;

	TAP_OK(fn(0, (const uint8_t *)"123456789", 9) == 0xcbf43926, "%s: the known check value",
	       name);
	for (size_t i = 0; i < OFFSETS - 1; i++)
		bad += wrong(fn, (uint32_t)rand(), data + i);
	TAP_OK(!bad, "%s: lengths up to %d at all alignments, continuing any CRC: %u wrong", name,
	       LONGEST, bad);
}

int main(void)
{
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)rand();
	test("multiplication", xt_crc32_by_multiplication);
	test("tables", xt_crc32_by_tables);
	test("the quicker one", xt_crc32);
	return tap_end();
}
