// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The program whose service is measured while neighbours work:
 *
 *   victim serve GID_INDEX PORT
 *   victim read GID_INDEX PORT HOST SECONDS     prints p50, p99 and longest in us, READs a second
 *   victim stream GID_INDEX PORT HOST SECONDS   prints Gbit/s
 */
#include <unistd.h>

#include "pair.h"

#define MAX_SAMPLES (4u << 20)
#define TIMEOUT 30.0

static void wait_one(struct pair *p)
{
	struct ibv_wc wc;

	MUST(next_completion(p->cq, &wc, TIMEOUT) == 1, "no completion");
	MUST(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
}

static int compare(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void read_loop(struct pair *p, double seconds)
{
	struct ibv_sge sge = { (uint64_t)p->buf, 8, p->mr->lkey };
	uint32_t *sample = calloc(MAX_SAMPLES, sizeof(*sample)), n = 0;
	uint64_t begin = now_ns(), end = begin + (uint64_t)(seconds * 1e9), from, to = begin;

	while (to < end && n < MAX_SAMPLES) {
		from = now_ns();
		pair_post(p, 0, IBV_WR_RDMA_READ, &sge, p->remote_addr, p->rkey);
		wait_one(p);
		to = now_ns();
		sample[n++] = (uint32_t)(to - from);
	}
	qsort(sample, n, sizeof(*sample), compare);
	printf("%.1f %.1f %.0f %.0f\n", sample[n / 2] / 1e3, sample[(uint64_t)n * 99 / 100] / 1e3,
	       sample[n - 1] / 1e3, n * 1e9 / (double)(to - begin));
	free(sample);
}

static void stream(struct pair *p, double seconds)
{
	struct ibv_sge sge = { (uint64_t)p->buf, PAIR_MESSAGE, p->mr->lkey };
	uint64_t begin = now_ns(), end = begin + (uint64_t)(seconds * 1e9), to, n = 0;

	for (uint32_t i = 0; i < PAIR_DEPTH; i++)
		pair_post(p, 0, IBV_WR_RDMA_WRITE, &sge, p->remote_addr, p->rkey);
	do {
		wait_one(p);
		pair_post(p, 0, IBV_WR_RDMA_WRITE, &sge, p->remote_addr, p->rkey);
		to = now_ns();
		n++;
	} while (to < end);
	printf("%.3f\n", (double)n * PAIR_MESSAGE * 8 / (double)(to - begin));
}

int main(int argc, char **argv)
{
	struct pair p;
	char c;

	MUST(argc > 3, "arguments");
	pair_open(&p, 1, atoi(argv[2]));
	pair_connect(&p, argc > 4 ? argv[4] : NULL, atoi(argv[3]));
	if (!strcmp(argv[1], "serve"))
		return read(p.sock, &c, 1) > 0;
	MUST(argc > 5, "arguments");
	if (!strcmp(argv[1], "read"))
		read_loop(&p, atof(argv[5]));
	else
		stream(&p, atof(argv[5]));
	return 0;
}
