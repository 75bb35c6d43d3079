// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "clients.h"

#include <errno.h>
#include <malloc.h>

#include "daemon/base/jobs.h"
#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/base/options.h"
#include "daemon/base/reaper.h"
#include "client.h"

/* Part of the control thread's time that is used to return memory */
#define TRIM_PART 100

/*
 * free() does not return the memory of many small objects to the kernel. This takes some 40 ms if
 * there are, or were, as many objects as possible. Not in a job: the control thread could wait for
 * the allocator's lock meanwhile, with workers paused.
 */
static void trim(void *arg)
{
	struct xd_clients *cs = arg;
	uint64_t begun = xd_now(), now;

	malloc_trim(0);
	now = xd_now();
	cs->trimmed = now + (now - begun) * TRIM_PART;
}

void xd_clients_trim(struct xd_clients *cs)
{
	uint64_t now = xd_now();

	xd_timer_arm(cs->trim, cs->trimmed > now ? cs->trimmed - now : 0);
}

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
	cs->trim = xd_timer_new(dev->loop, trim, cs);
	cs->reaper = xd_reaper_new(dev->loop);
	if (!cs->trim || !cs->reaper)
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
	xd_timer_free(cs->trim);
	xd_limits_free(&cs->limits);
	xd_programs_free(&cs->programs);
	return true;
}
