// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "gso_queue.h"

static void gso_queue_send_singly(struct xd_gso_run *run, const struct xd_gso_ways *ways, void *ctx)
{
	for (uint32_t i = 0; i < run->count; i++)
		ways->send_alone(ctx, &run->frame[i]);
	run->count = 0;
}

/* In reverse, so that the next packets get the buffers in the order in which they are in memory. */
static void gso_queue_free_run(struct xd_gso_run *run, const struct xd_gso_ways *ways, void *ctx)
{
	while (run->count)
		ways->sent(ctx, &run->frame[--run->count]);
}

/* Sends runs. Returns the number of those that were sent. */
static uint32_t send_together(struct xd_gso_run *run, uint32_t n, const struct xd_gso_ways *ways,
			      void *ctx)
{
	uint32_t sent;

	sent = ways->send(ctx, run, n);
	for (uint32_t i = 0; i < sent; i++)
		gso_queue_free_run(&run[i], ways, ctx);
	return sent;
}

/* Returns the number of runs before the first one that leaves as a single frame. */
static uint32_t count_joined(const struct xd_gso_run *run, const struct xd_gso_run *end,
			     const struct xd_gso_ways *ways)
{
	uint32_t n = 0;

	while (run + n < end && (run[n].count > 1 || ways->sends_all))
		n++;
	return n;
}

static void gso_queue_send_all(struct xd_gso_queue *q, const struct xd_gso_ways *ways, void *ctx)
{
	struct xd_gso_run *run = q->run, *end = run + q->last + 1;
	uint32_t n;

	while (run < end) {
		n = count_joined(run, end, ways);
		if (n)
			n = send_together(run, n, ways, ctx);
		if (!n)
			gso_queue_send_singly(run++, ways, ctx);
		run += n;
	}
	q->last = q->left = q->buffers = 0;
}

/* A short run waits for those behind it, to leave with them in one system call. */
static void next_run(struct xd_gso_queue *q, const struct xd_gso_ways *ways, void *ctx)
{
	if (q->last + 1 == XD_GSO_RUNS || xd_gso_run_is_long(&q->run[q->last]))
		gso_queue_send_all(q, ways, ctx);
	else
		q->last++;
	q->left = 0;
}

void xd_gso_queue_put(struct xd_gso_queue *q, const struct xt_frame *frame,
		      const struct xd_gso_ways *ways, void *ctx)
{
	if (!xd_gso_run_add(&q->run[q->last], frame)) {
		next_run(q, ways, ctx);
		xd_gso_run_add(&q->run[q->last], frame);
	}
	q->buffers += frame->nseg;
}

static bool gso_queue_may_grow(const struct xd_gso_queue *q)
{
	const struct xd_gso_run *run = &q->run[q->last];

	return run->count > 1 && !run->ended && run->count != q->left;
}

void xd_gso_queue_flush(struct xd_gso_queue *q, bool more, const struct xd_gso_ways *ways,
			void *ctx)
{
	if (more && gso_queue_may_grow(q))
		q->left = q->run[q->last].count;
	else
		gso_queue_send_all(q, ways, ctx);
}
