// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "watchdog.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/base/notify.h"
#include "daemon/clients/device.h"
#include "daemon/datapath/worker.h"

#define CHECKS 4 /* in the time within which a message must come */

struct xd_watchdog {
	const struct xd_device *dev;
	struct xd_timer *timer;
	uint64_t interval_ns;
	bool hangs;			 /* was logged */
	uint64_t rounds[XR_MAX_WORKERS]; /* at the last check */
};

/* Returns true if a worker has had a round since the last check, which has woken it. */
static bool progressed(struct xd_watchdog *w, uint32_t index)
{
	struct xd_worker_stats s;
	bool moved;

	xd_worker_stats(w->dev->workers, index, &s);
	moved = s.rounds != w->rounds[index];
	w->rounds[index] = s.rounds;
	if (!moved && !w->hangs)
		xd_log(XD_ERR, "worker %u makes no progress", index);
	return moved;
}

static void watchdog_check(void *arg)
{
	struct xd_watchdog *w = arg;
	bool alive = true;

	for (uint32_t i = 0; i < xd_workers_count(w->dev->workers); i++)
		alive &= progressed(w, i);
	if (alive)
		xd_notify("WATCHDOG=1");
	w->hangs = !alive;
	xd_workers_wake(w->dev->workers);
	xd_timer_arm(w->timer, w->interval_ns);
}

int xd_watchdog_start(const struct xd_device *dev, struct xd_watchdog **out)
{
	uint64_t within = xd_notify_watchdog();
	struct xd_watchdog *w;

	*out = NULL;
	if (!within)
		return 0;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->dev = dev;
	w->interval_ns = within / CHECKS;
	w->timer = xd_timer_new(dev->loop, watchdog_check, w);
	if (!w->timer) {
		free(w);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < XR_MAX_WORKERS; i++)
		w->rounds[i] = UINT64_MAX; /* counts as progress */
	watchdog_check(w);
	*out = w;
	return 0;
}

void xd_watchdog_stop(struct xd_watchdog *w)
{
	if (!w)
		return;
	xd_timer_free(w->timer);
	free(w);
}
