// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * ISA-L's code for processors without AVX-512 multiplies 16 bytes at a time. Processors with AVX2
 * and VPCLMULQDQ (Zen 3, Alder Lake) multiply 32, which takes half of the time. Where carry-less
 * multiplication is emulated or missing, as in virtual machines without KVM, zlib's tables are
 * quicker than both.
 *
 * The data is a polynomial over GF(2), bit 0 of the first byte first. A block that is n bits before
 * another one is folded into it: its halves are multiplied by x^(n+32) and x^(n-32) modulo the
 * polynomial of the CRC. The block that remains has the same CRC as the data. ("Fast CRC
 * Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel, 2009)
 */
#include "crc.h"

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include <isa-l/crc.h>
#include <zlib.h>

#include "simd.h"

/* ---- carry-less multiplication ------------------------------------------------------------- */

#define VECTOR sizeof(__m256i)
#define LANES 4
/* Below this length, ISA-L takes no longer. */
#define SHORT (2 * LANES * VECTOR)
/* CRC of no data, as crc32_gzip_refl() takes it, with all bits of the register 0 */
#define ZERO_REGISTER 0xffffffffu

#define TARGET __attribute__((target("avx2,pclmul,vpclmulqdq")))

/* Factors for n bits: those for the first 64 bits of a block, and for the others. */
#define FACTORS(first, second) _mm_set_epi64x(second, first)
#define FOLD_128 FACTORS(0x1751997d0, 0x0ccaa009e)
#define FOLD_256 FACTORS(0x0f1da05aa, 0x15a546366)
#define FOLD_1024 FACTORS(0x1e88ef372, 0x14a7fe880)

TARGET static inline __m256i load(const uint8_t *p)
{
	return _mm256_loadu_si256((const __m256i *)p);
}

/* Folds a vector, by the distance of the factors, into another one. */
TARGET static inline __m256i fold(__m256i from, __m256i factors, __m256i into)
{
	__m256i first = _mm256_clmulepi64_epi128(from, factors, 0x00);
	__m256i second = _mm256_clmulepi64_epi128(from, factors, 0x11);

	return _mm256_xor_si256(_mm256_xor_si256(first, second), into);
}

TARGET static __m128i fold_halves(__m256i v)
{
	__m128i from = _mm256_castsi256_si128(v), into = _mm256_extracti128_si256(v, 1);
	__m128i first = _mm_clmulepi64_si128(from, FOLD_128, 0x00);
	__m128i second = _mm_clmulepi64_si128(from, FOLD_128, 0x11);

	return _mm_xor_si128(_mm_xor_si128(first, second), into);
}

TARGET static uint32_t crc32_vectors(uint32_t crc, const uint8_t *p, size_t len)
{
	__m256i by_all = _mm256_broadcastsi128_si256(FOLD_1024);
	__m256i by_one = _mm256_broadcastsi128_si256(FOLD_256);
	uint8_t rest[sizeof(__m128i) + VECTOR];
	__m256i v[LANES];
	int i;

	for (i = 0; i < LANES; i++, p += VECTOR)
		v[i] = load(p);
	/* the register is inverted, and added to the first 32 bits */
	v[0] = _mm256_xor_si256(v[0], _mm256_set_epi32(0, 0, 0, 0, 0, 0, 0, (int)~crc));
	for (len -= sizeof(v); len >= sizeof(v); len -= sizeof(v)) {
		for (i = 0; i < LANES; i++, p += VECTOR)
			v[i] = fold(v[i], by_all, load(p));
	}
	for (i = 1; i < LANES; i++)
		v[i] = fold(v[i - 1], by_one, v[i]);
	for (; len >= VECTOR; len -= VECTOR, p += VECTOR)
		v[LANES - 1] = fold(v[LANES - 1], by_one, load(p));
	_mm_storeu_si128((__m128i *)rest, fold_halves(v[LANES - 1]));
	memcpy(rest + sizeof(__m128i), p, len);
	return crc32_gzip_refl(ZERO_REGISTER, rest, sizeof(__m128i) + len);
}

/* ISA-L has code for 64 bytes at a time, for processors with AVX-512. */
static int has_vectors(void)
{
	return __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx2") &&
	       !__builtin_cpu_supports("avx512f");
}

uint32_t xt_crc32_by_multiplication(uint32_t crc, const uint8_t *data, size_t len)
{
	if (len >= SHORT && has_vectors())
		return crc32_vectors(crc, data, len);
	crc = crc32_gzip_refl(crc, data, len);
	xt_simd_end();
	return crc;
}

/* ---- tables -------------------------------------------------------------------------------- */

uint32_t xt_crc32_by_tables(uint32_t crc, const uint8_t *data, size_t len)
{
	return (uint32_t)crc32_z(crc, data, len);
}

/* ---- the quicker one ----------------------------------------------------------------------- */

/* Bytes of a call, the payload of a packet with path MTU 2048, and number of calls */
#define SAMPLE 2048
#define SAMPLES 5

typedef uint32_t crc32_fn(uint32_t crc, const uint8_t *data, size_t len);

static bool tables;

/* Returns the fewest cycles of a call: the others were interrupted, or filled caches. */
static uint64_t measure(crc32_fn *fn)
{
	static const uint8_t data[SAMPLE];
	uint64_t begin, cycles, fewest = UINT64_MAX;
	int i;

	for (i = 0; i < SAMPLES; i++) {
		begin = __rdtsc();
		fn(0, data, sizeof(data));
		cycles = __rdtsc() - begin;
		fewest = cycles < fewest ? cycles : fewest;
	}
	return fewest;
}

/* Emulators have the instruction, so that only a measurement tells. */
__attribute__((constructor)) static void crc_choose(void)
{
	tables = measure(xt_crc32_by_tables) < measure(xt_crc32_by_multiplication);
}

uint32_t xt_crc32(uint32_t crc, const uint8_t *data, size_t len)
{
	return __builtin_expect(tables, false) ? xt_crc32_by_tables(crc, data, len)
					       : xt_crc32_by_multiplication(crc, data, len);
}
