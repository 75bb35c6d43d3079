// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Counts blocks of memory, so that a block that the engine does not free is found by every run. The
 * linker replaces calls of the functions (--wrap), except those within libc.
 */
#include "cm_sim.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t size);
void __real_free(void *p);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t size);
void __wrap_free(void *p);

static long blocks;

long memory_blocks(void)
{
	return blocks;
}

void *__wrap_malloc(size_t size)
{
	blocks++;
	return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	blocks++;
	return __real_calloc(count, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	blocks += !p;
	return __real_realloc(p, size);
}

void __wrap_free(void *p)
{
	blocks -= !!p;
	__real_free(p);
}
