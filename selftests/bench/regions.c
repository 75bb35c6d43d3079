// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Registers and deregisters a region of 64 KiB of shared memory again and again:
 *
 *   regions COUNT
 *
 * Prints a line for ibv_reg_mr(), ibv_dereg_mr() and both together: its name, and the median, the
 * 99th percentile and the longest time in us. Before each registration it sleeps, as a program that
 * registers all the time would be delayed beside others (--client-max-load).
 */
#include <sys/mman.h>
#include <unistd.h>

#include "selftests/e2e/verbs_util.h"

#define SIZE (64u << 10)
#define SLEEP_US 1000

enum step { REGISTER, DEREGISTER, BOTH, STEPS };

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void live(struct ibv_pd *pd, void *mem, double us[STEPS])
{
	double begin = now(), middle, end;
	struct ibv_mr *mr = ibv_reg_mr(pd, mem, SIZE, IBV_ACCESS_LOCAL_WRITE);

	MUST(mr, "register");
	middle = now();
	MUST(!ibv_dereg_mr(mr), "deregister");
	end = now();
	us[REGISTER] = (middle - begin) * 1e6;
	us[DEREGISTER] = (end - middle) * 1e6;
	us[BOTH] = (end - begin) * 1e6;
}

int main(int argc, char **argv)
{
	static const char *const names[] = { "register", "deregister", "both" };
	int n = argc > 1 ? atoi(argv[1]) : 0;
	struct ibv_context *ctx = open_device(NULL);
	double *times[STEPS], us[STEPS];
	struct ibv_pd *pd;
	void *mem;

	MUST(n > 0, "usage: regions COUNT");
	MUST(ctx, "no device");
	pd = ibv_alloc_pd(ctx);
	MUST(pd, "PD");
	mem = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MUST(mem != MAP_FAILED, "memory");
	memset(mem, 1, SIZE);
	for (int s = 0; s < STEPS; s++) {
		times[s] = calloc((size_t)n, sizeof(double));
		MUST(times[s], "memory");
	}
	live(pd, mem, us); /* the first one starts helpers of the client */
	for (int i = 0; i < n; i++) {
		usleep(SLEEP_US);
		live(pd, mem, us);
		for (int s = 0; s < STEPS; s++)
			times[s][i] = us[s];
	}
	for (int s = 0; s < STEPS; s++) {
		qsort(times[s], (size_t)n, sizeof(double), by_value);
		printf("%s %.1f %.1f %.1f\n", names[s], times[s][n / 2], times[s][n * 99 / 100],
		       times[s][n - 1]);
	}
	return 0;
}
