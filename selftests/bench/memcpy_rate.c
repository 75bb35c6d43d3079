// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What one core copies from memory to memory, the measure for transfers within one host.
 *
 *   memcpy_rate BYTES...
 *
 * Prints "BYTES GBIT-PER-SECOND" for each size, tab-separated. One buffer is copied over and over,
 * as the bandwidth programs of perftest do, so caches help both alike.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DURATION_NS 300000000ull

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static double measure(uint8_t *dst, const uint8_t *src, size_t size)
{
	size_t burst = size < 65536 ? 65536 / size : 1;
	uint64_t start = now_ns(), bytes = 0, t;

	do {
		for (size_t i = 0; i < burst; i++) {
			memcpy(dst, src, size);
			/* the copy must happen: nobody else looks at it */
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
		/* on pages of their own, as perftest has its buffers */
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
