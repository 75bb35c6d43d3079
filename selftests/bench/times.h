/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Round-trip times, of which half is printed. */
#ifndef BENCH_TIMES_H
#define BENCH_TIMES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define TIMES_MAX (1 << 20)
#define TIMES_PRINTED 20000

struct times {
	uint32_t *ns;
	uint32_t n;
};

static inline bool times_new(struct times *t)
{
	t->n = 0;
	t->ns = malloc(TIMES_MAX * sizeof(*t->ns));
	return t->ns;
}

/* Times beyond the limit are not kept. */
static inline void times_add(struct times *t, uint64_t ns)
{
	if (t->n < TIMES_MAX)
		t->ns[t->n++] = (uint32_t)ns;
}

static inline int times_compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* Prints halves in us, one a line, sorted: all, or evenly spaced ones of many. Frees the times. */
static inline void times_print(struct times *t)
{
	uint32_t step = (t->n + TIMES_PRINTED - 1) / TIMES_PRINTED;

	qsort(t->ns, t->n, sizeof(*t->ns), times_compare);
	for (uint32_t i = 0; i < t->n; i += step)
		printf("%.3f\n", t->ns[i] / 2e3);
	free(t->ns);
}

#endif /* BENCH_TIMES_H */
