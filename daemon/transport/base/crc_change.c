// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Polynomials over GF(2) modulo that of CRC-32 have the coefficient of x^0 in the highest bit, as
 * the CRC has. A change of four bytes is a polynomial c; with n bytes behind them, it changes the
 * CRC by c * x^(32 + 8n). The polynomial of CRC-32 is primitive, so powers of x have inverses.
 */
#include "crc_change.h"

#include <pthread.h>

#define POLYNOMIAL 0xedb88320u
#define ONE 0x80000000u

static uint32_t power[XT_CRC_BEHIND + 1];   /* x^(32 + 8n) */
static uint32_t inverse[XT_CRC_BEHIND + 1]; /* x^-(32 + 8n) */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint32_t times_x(uint32_t a)
{
	return a >> 1 ^ (-(a & 1) & POLYNOMIAL);
}

static uint32_t by_x(uint32_t a)
{
	return a & ONE ? (a ^ POLYNOMIAL) << 1 | 1 : a << 1;
}

static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (; a; a <<= 1) {
		product ^= -(a >> 31) & b;
		b = times_x(b);
	}
	return product;
}

static void crc_change_fill(void)
{
	uint32_t up = ONE, down = ONE;

	for (int i = 0; i < 32; i++) {
		up = times_x(up);
		down = by_x(down);
	}
	for (uint32_t n = 0; n <= XT_CRC_BEHIND; n++) {
		power[n] = up;
		inverse[n] = down;
		for (int i = 0; i < 8; i++) {
			up = times_x(up);
			down = by_x(down);
		}
	}
}

uint32_t xt_crc32_difference(uint32_t change, uint32_t behind)
{
	pthread_once(&once, crc_change_fill);
	return multiply(change, power[behind]);
}

uint32_t xt_crc32_change(uint32_t difference, uint32_t behind)
{
	pthread_once(&once, crc_change_fill);
	return multiply(difference, inverse[behind]);
}
