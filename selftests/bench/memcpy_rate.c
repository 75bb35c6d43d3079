// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Measures the memcpy rate of one core, the reference for transfers within one host.
 *
 *   memcpy_rate BYTES...
 *
 * Prints "BYTES GBIT-PER-SECOND" for each size, tab-separated. Copies the same buffer repeatedly,
 * as the bandwidth programs of perftest do, so both profit equally from caches.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/clock.h"

#define DURATION_NS 300000000ull

static double measure(uint8_t *dst, const uint8_t *src, size_t size)
{
	size_t burst = size < 65536 ? 65536 / size : 1;
	uint64_t start = now_ns(), bytes = 0, t;

	do {
		for (size_t i = 0; i < burst; i++) {
			memcpy(dst, src, size);
			/* the compiler must not remove the copy */
			__asm__ volatile("" : : "r"(dst), "r"(src) : "memory");
		}
		bytes += burst * size;
		t = now_ns() - start;
	} while (t < DURATION_NS);
	return (double)bytes * 8 / (double)t;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		size_t size = strtoul(argv[i], NULL, 0);
		/* page-aligned, like the buffers of perftest */
		size_t room = (size + 4095) & ~(size_t)4095;
		uint8_t *src = size ? aligned_alloc(4096, room) : NULL;
		uint8_t *dst = size ? aligned_alloc(4096, room) : NULL;

		if (!src || !dst) {
			fprintf(stderr, "memcpy_rate: %s bytes: cannot allocate\n", argv[i]);
			return 1;
		}
		memset(src, 1, size);
		memset(dst, 2, size);
		printf("%zu\t%.3f\n", size, measure(dst, src, size));
		free(src);
		free(dst);
	}
	return 0;
}
