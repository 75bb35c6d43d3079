// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "clients.h"

#include <errno.h>

#include "daemon/base/jobs.h"
#include "daemon/base/log.h"
#include "daemon/base/options.h"
#include "daemon/base/reaper.h"
#include "client.h"

int xd_clients_start(struct xd_clients *cs, struct xd_device *dev, const struct xd_client_ops *ops,
		     const struct xd_kind_ops *const *kinds, uint32_t n)
{
	int err;

	*cs = (struct xd_clients){ .dev = dev, .ops = ops, .kinds = { .ops = kinds, .n = n } };
	xd_limits_init(&cs->limits, dev->opt->user_max_files);
	err = xd_events_start(cs);
	if (!err)
		err = xd_delayed_start(cs);
	if (!err)
		err = xd_walks_start(cs);
	if (err)
		return err;
	cs->reaper = xd_reaper_new(dev->loop);
	if (!cs->reaper || xd_trim_start(cs))
		return -ENOMEM;
	cs->jobs = xd_jobs_new(dev->loop, dev->opt->max_clients + dev->opt->max_cm_channels +
						  2 * XD_RESERVED_CLIENTS + 2);
	return cs->jobs ? 0 : -ENOMEM;
}

bool xd_clients_stop(struct xd_clients *cs)
{
	struct xd_client *c;

	for (c = cs->first; c; c = c->next)
		xd_client_end(c);
	if (!xd_jobs_free(cs->jobs)) {
		xd_log(XD_WARN, "a job for a client hangs: the kernel has to release what is left");
		return false;
	}
	xd_monitors_free(&cs->monitors);
	xd_events_stop(cs);
	xd_delayed_stop(cs);
	xd_reaper_free(cs->reaper);
	xd_walks_stop(cs);
	xd_trim_stop(cs);
	xd_programs_free(&cs->programs);
	return true;
}
