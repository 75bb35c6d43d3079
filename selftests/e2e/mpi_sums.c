/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* An MPI program: collective, point-to-point and one-sided operations; every value is checked. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST (1 << 18) /* values of 4 bytes */

static int me, ranks;

static void check(const char *what, int count, int got, int wanted)
{
	if (got == wanted)
		return;
	printf("rank %d: %s of %d values: %d, not %d\n", me, what, count, got, wanted);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void sums(int count, int *mine, int *all)
{
	for (int i = 0; i < count; i++)
		mine[i] = me + i;
	MPI_Allreduce(mine, all, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < count; i++)
		check("sum", count, all[i], ranks * i + ranks * (ranks - 1) / 2);
}

/* Each rank sends to the next one. */
static void circle(int count, int *mine, int *other)
{
	int next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;

	for (int i = 0; i < count; i++)
		mine[i] = me * 1000003 + i;
	MPI_Sendrecv(mine, count, MPI_INT, next, 1, other, count, MPI_INT, before, 1,
		     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (int i = 0; i < count; i++)
		check("message", count, other[i], before * 1000003 + i);
}

/* Each rank puts into the memory of the next one. */
static void puts_of(int count, int *mine, int *window)
{
	int next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;
	MPI_Win win;

	for (int i = 0; i < count; i++)
		mine[i] = me * 7 - i;
	MPI_Win_create(window, count * (MPI_Aint)sizeof(int), sizeof(int), MPI_INFO_NULL,
		       MPI_COMM_WORLD, &win);
	MPI_Win_fence(0, win);
	MPI_Put(mine, count, MPI_INT, next, 0, count, MPI_INT, win);
	MPI_Win_fence(0, win);
	for (int i = 0; i < count; i++)
		check("put", count, window[i], before * 7 - i);
	MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
	int *mine = malloc(MOST * sizeof(int)), *other = malloc(MOST * sizeof(int));

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (int count = 1; mine && other && count <= MOST; count *= 8) {
		sums(count, mine, other);
		circle(count, mine, other);
		puts_of(count, mine, other);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (!me && mine && other)
		printf("%d ranks agree\n", ranks);
	MPI_Finalize();
	free(mine);
	free(other);
	return 0;
}
