// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Streams of WRITEs on several QPs, and latency after a stream on one open device:
 *
 *   streams serve GID_INDEX PORT QPS [VECTOR]
 *       VECTOR: completion vector, which names the worker of the QPs; 0: workers take turns
 *   streams write GID_INDEX PORT QPS HOST SECONDS [SIZE [VECTOR]]
 *       prints messages a second of all QPs, and Jain's index of the messages of each; SIZE: of a
 *       WRITE, 64 KiB by default
 *   streams after GID_INDEX PORT 1 HOST SECONDS
 *       measures 8-byte READs one at a time, runs a stream for SECONDS, and measures READs again;
 *       prints their median in us before it, in the first 20 ms after it, and in the 500 ms then
 */
#include <unistd.h>

#include "pair.h"

#define TIMEOUT 30.0
#define BEFORE_MS 200
#define SOON_MS 20
#define LATER_MS 500
#define MAX_SAMPLES (1u << 20)

static uint32_t size = PAIR_MESSAGE;

static uint32_t wait_one(struct pair *p)
{
	struct ibv_wc wc;

	MUST(next_completion(p->cq, &wc, TIMEOUT) == 1, "no completion");
	MUST(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
	return (uint32_t)wc.wr_id;
}

static void post_write(struct pair *p, uint32_t qp)
{
	struct ibv_sge sge = { (uint64_t)p->buf, size, p->mr->lkey };

	pair_post(p, qp, IBV_WR_RDMA_WRITE, &sge, p->remote_addr, p->rkey);
}

static double jain(const uint64_t *count, uint32_t n)
{
	double sum = 0, squares = 0;

	for (uint32_t i = 0; i < n; i++) {
		sum += (double)count[i];
		squares += (double)count[i] * (double)count[i];
	}
	return squares > 0 ? sum * sum / (n * squares) : 0;
}

/* Keeps PAIR_DEPTH WRITEs on each QP. Counts completions by QP after a tenth of the time. */
static void stream(struct pair *p, double seconds, uint64_t *count)
{
	uint64_t begin = now_ns(), duration = (uint64_t)(seconds * 1e9), counted = 0, t, qp;

	for (uint32_t i = 0; i < p->n * PAIR_DEPTH; i++)
		post_write(p, i % p->n);
	do {
		qp = wait_one(p);
		post_write(p, (uint32_t)qp);
		t = now_ns() - begin;
		if (t < duration / 10)
			continue;
		count[qp]++;
		counted++;
	} while (t < duration);
	printf("%.1f %.4f\n", (double)counted * 1e9 / ((double)duration * 0.9), jain(count, p->n));
}

static void drain(struct pair *p)
{
	for (uint32_t i = 0; i < p->n * PAIR_DEPTH; i++)
		wait_one(p);
}

static int compare(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Returns the median time of READs in us. */
static double read_median(struct pair *p, uint64_t ms)
{
	struct ibv_sge sge = { (uint64_t)p->buf, 8, p->mr->lkey };
	uint32_t *sample = calloc(MAX_SAMPLES, sizeof(*sample)), n = 0;
	uint64_t begin = now_ns(), from, to = begin;
	double median;

	MUST(sample, "memory");
	while (to - begin < ms * 1000000 && n < MAX_SAMPLES) {
		from = now_ns();
		pair_post(p, 0, IBV_WR_RDMA_READ, &sge, p->remote_addr, p->rkey);
		wait_one(p);
		to = now_ns();
		sample[n++] = (uint32_t)(to - from);
	}
	qsort(sample, n, sizeof(*sample), compare);
	median = sample[n / 2] / 1e3;
	free(sample);
	return median;
}

static void after_stream(struct pair *p, double seconds, uint64_t *count)
{
	double before = read_median(p, BEFORE_MS), soon;

	stream(p, seconds, count);
	drain(p);
	soon = read_median(p, SOON_MS);
	printf("%.2f %.2f %.2f\n", before, soon, read_median(p, LATER_MS));
}

int main(int argc, char **argv)
{
	uint64_t *count;
	struct pair p;
	bool serves;
	int vector;
	char c;

	MUST(argc > 4, "arguments");
	serves = !strcmp(argv[1], "serve");
	vector = serves ? 5 : 8;
	pair_open_at(&p, (uint32_t)atoi(argv[4]), atoi(argv[2]),
		     argc > vector ? atoi(argv[vector]) : 0);
	pair_connect(&p, !serves && argc > 5 ? argv[5] : NULL, atoi(argv[3]));
	if (serves)
		return read(p.sock, &c, 1) > 0;
	MUST(argc > 6, "arguments");
	if (argc > 7)
		size = (uint32_t)atoi(argv[7]);
	MUST(size <= PAIR_MESSAGE, "size");
	count = calloc(p.n, sizeof(*count));
	MUST(count, "memory");
	if (!strcmp(argv[1], "write"))
		stream(&p, atof(argv[6]), count);
	else
		after_stream(&p, atof(argv[6]), count);
	free(count);
	return 0;
}
