// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "drain.h"

#include <stdbool.h>
#include <time.h>

#include <xroce/ring.h>

#include "daemon/base/loop.h"
#include "qp.h"

/* The client can write to these words, too, and so make itself wait. */
static bool drain_executed(const struct xr_queue *sq, uint32_t end)
{
	return (int32_t)(__atomic_load_n(&sq->consumer, __ATOMIC_ACQUIRE) - end) >= 0;
}

void xd_drain_add(struct xd_drain *d, const struct xd_qp *qp)
{
	const struct xr_queue *sq = qp->sq.ptr;

	uint32_t end = sq ? __atomic_load_n(&sq->producer, __ATOMIC_ACQUIRE) : 0;

	if (!sq || d->n == XD_DRAIN_QPS || drain_executed(sq, end) ||
	    __atomic_load_n(&sq->word, __ATOMIC_RELAXED) != XR_QPS_RTS)
		return;
	d->sq[d->n] = sq;
	d->end[d->n++] = end;
}

void xd_drain_run(struct xd_client_job *job)
{
	const struct xd_drain *d = container_of(job, struct xd_drain, job);
	const struct timespec pause = { .tv_nsec = XD_DRAIN_POLL_NS };
	uint64_t until = xd_now() + XD_DRAIN_WAIT_NS;
	uint32_t i = 0;

	while (i < d->n && xd_now() < until) {
		if (drain_executed(d->sq[i], d->end[i]))
			i++;
		else
			nanosleep(&pause, NULL);
	}
}
