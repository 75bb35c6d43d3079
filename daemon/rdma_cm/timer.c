// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The timer of the CM engine. */

#include <errno.h>

#include "daemon/base/loop.h"
#include "id.h"

void xd_rdma_cm_arm(struct xd_rdma_cm *cm)
{
	uint64_t when = xc_deadline(cm->engine), now;

	/* A timer that expires too early is set again then. */
	if (when >= cm->armed)
		return;
	cm->armed = when;
	now = xd_now();
	xd_timer_arm(cm->timer, when > now ? when - now : 0);
}

static void rdma_cm_on_timer(void *arg)
{
	struct xd_rdma_cm *cm = arg;

	cm->armed = XC_NEVER;
	while (xc_run_one(cm->engine) && !xd_loop_must_yield(cm->dev->loop))
		;
	xd_rdma_cm_arm(cm);
}

int xd_cm_timer_start(struct xd_rdma_cm *cm)
{
	cm->armed = XC_NEVER;
	cm->timer = xd_timer_new(cm->dev->loop, rdma_cm_on_timer, cm);
	return cm->timer ? 0 : -ENOMEM;
}
