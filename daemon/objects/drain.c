// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "drain.h"

#include <stdbool.h>
#include <time.h>

#include <xroce/ring.h>

#include "daemon/base/loop.h"
#include "qp.h"

#define MAX_WAIT_NS 1000000000u
#define POLL_NS 200000

/* The client can write to these words, too, and so make itself wait. */
static bool empty(const struct xr_queue *sq)
{
	return __atomic_load_n(&sq->producer, __ATOMIC_RELAXED) ==
	       __atomic_load_n(&sq->consumer, __ATOMIC_ACQUIRE);
}

void xd_drain_add(struct xd_drain *d, const struct xd_qp *qp)
{
	const struct xr_queue *sq = qp->sq.ptr;

	if (sq && d->n < XD_DRAIN_QPS && !empty(sq) &&
	    __atomic_load_n(&sq->word, __ATOMIC_RELAXED) == XR_QPS_RTS)
		d->sq[d->n++] = sq;
}

void xd_drain_run(struct xd_client_job *job)
{
	const struct xd_drain *d = container_of(job, struct xd_drain, job);
	const struct timespec pause = { .tv_nsec = POLL_NS };
	uint64_t until = xd_now() + MAX_WAIT_NS;
	uint32_t i = 0;

	while (i < d->n && xd_now() < until) {
		if (empty(d->sq[i]))
			i++;
		else
			nanosleep(&pause, NULL);
	}
}
