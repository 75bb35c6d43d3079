/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A program of OpenSHMEM: puts, gets, atomic operations, locks and collective operations; every
 * value is checked.
 */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT 100000 /* longs that are put and got */
#define ADDS 100     /* atomic operations of each rank */

static int me, ranks;

static void check(const char *what, long got, long wanted)
{
	if (got == wanted)
		return;
	printf("rank %d: %s: %ld, not %ld\n", me, what, got, wanted);
	shmem_global_exit(1);
}

/*
 * Each rank puts into the memory of the next one, with a flag behind the data, and gets it back
 * from there.
 */
static void circle(long *memory, long *flag, long round)
{
	static long back[COUNT], mine[COUNT];
	const int next = (me + 1) % ranks, previous = (me + ranks - 1) % ranks;

	for (int i = 0; i < COUNT; i++)
		mine[i] = me + i * round;
	shmem_long_put(memory, mine, COUNT, next);
	shmem_fence();
	shmem_long_p(flag, round, next);
	shmem_long_wait_until(flag, SHMEM_CMP_EQ, round);
	for (int i = 0; i < COUNT; i++)
		check("put", memory[i], previous + i * round);
	shmem_long_get(back, memory, COUNT, next);
	for (int i = 0; i < COUNT; i++)
		check("get", back[i], mine[i]);
	check("one value", shmem_long_g(memory + 1, next), mine[1]);
	shmem_barrier_all();
}

/* All ranks add to one word and compare and swap another. */
static void atomics(long *words)
{
	for (int i = 0; i < ADDS; i++)
		shmem_long_atomic_add(words, me + 1, 0);
	while (shmem_long_atomic_compare_swap(words + 1, me, me + 1, 0) != me)
		;
	shmem_barrier_all();
	check("sum", shmem_long_atomic_fetch(words, 0), (long)ADDS * ranks * (ranks + 1) / 2);
	check("compare and swap", shmem_long_atomic_fetch(words + 1, 0), ranks);
}

/* Each rank reads and writes a word while it holds a lock. */
static void locks(long *lock, long *word)
{
	for (int i = 0; i < 10; i++) {
		shmem_set_lock(lock);
		shmem_long_p(word, shmem_long_g(word, 0) + 1, 0);
		shmem_quiet();
		shmem_clear_lock(lock);
	}
	shmem_barrier_all();
	check("word behind a lock", shmem_long_g(word, 0), 10 * ranks);
}

static void collective(void)
{
	static long sync[SHMEM_REDUCE_SYNC_SIZE > SHMEM_BCAST_SYNC_SIZE ? SHMEM_REDUCE_SYNC_SIZE
									: SHMEM_BCAST_SYNC_SIZE];
	static long source[100], sums[100], work[100 + SHMEM_REDUCE_MIN_WRKDATA_SIZE];

	for (size_t i = 0; i < sizeof(sync) / sizeof(*sync); i++)
		sync[i] = SHMEM_SYNC_VALUE;
	for (int i = 0; i < 100; i++)
		source[i] = me + i;
	shmem_barrier_all();
	shmem_long_sum_to_all(sums, source, 100, 0, 0, ranks, work, sync);
	for (int i = 0; i < 100; i++)
		check("sum", sums[i], (long)ranks * i + ranks * (ranks - 1) / 2);
	shmem_barrier_all();
}

int main(void)
{
	long *memory, *words;

	shmem_init();
	me = shmem_my_pe();
	ranks = shmem_n_pes();
	memory = shmem_malloc(COUNT * sizeof(long));
	words = shmem_calloc(8, sizeof(long));
	if (!memory || !words)
		shmem_global_exit(1);
	shmem_barrier_all();
	for (int round = 1; round <= 10; round++)
		circle(memory, words, round);
	atomics(words + 1);
	locks(words + 3, words + 4);
	collective();
	shmem_free(words);
	shmem_free(memory);
	if (!me)
		printf("%d ranks agree\n", ranks);
	shmem_finalize();
	return 0;
}
