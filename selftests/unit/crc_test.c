// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The CRC of the ICRC, against a bit by bit computation. */
#include <stdlib.h>

#include "daemon/transport/crc.h"
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

/* Returns the number of lengths for which the CRC is wrong. */
static unsigned int wrong(uint32_t start, const uint8_t *p)
{
	unsigned int bad = 0;
	uint32_t reg = ~start;

	for (size_t len = 0; len <= LONGEST; len++) {
		bad += xt_crc32(start, p, len) != ~reg;
		reg = next(reg, p[len]);
	}
	return bad;
}

int main(void)
{
	unsigned int bad = 0;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)rand();
	TAP_OK(xt_crc32(0, (const uint8_t *)"123456789", 9) == 0xcbf43926, "the known check value");
	for (size_t i = 0; i < OFFSETS - 1; i++)
		bad += wrong((uint32_t)rand(), data + i);
	TAP_OK(!bad, "lengths up to %d at all alignments, continuing any CRC: %u wrong", LONGEST,
	       bad);
	return tap_end();
}
