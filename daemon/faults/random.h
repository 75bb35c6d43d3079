/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Random numbers from a seed, which repeat a sequence of faults. */
#ifndef XD_FAULTS_RANDOM_H
#define XD_FAULTS_RANDOM_H

#include <stdint.h>

/* splitmix64 */
static inline uint64_t xd_fault_draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

#endif /* XD_FAULTS_RANDOM_H */
