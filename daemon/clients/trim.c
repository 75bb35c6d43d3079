// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Returns freed memory to the kernel. */
#include <errno.h>
#include <malloc.h>

#include "daemon/base/loop.h"
#include "clients.h"
#include "device.h"

/* Part of the control thread's time that is used to return memory */
#define TRIM_PART 100

/*
 * free() does not return the memory of many small objects to the kernel. This takes some 40 ms if
 * there are, or were, as many objects as possible. Not in a job: the control thread could wait for
 * the allocator's lock meanwhile, with a worker paused.
 */
static void clients_trim(void *arg)
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

int xd_trim_start(struct xd_clients *cs)
{
	cs->trim = xd_timer_new(cs->dev->loop, clients_trim, cs);
	return cs->trim ? 0 : -ENOMEM;
}

void xd_trim_stop(struct xd_clients *cs)
{
	xd_timer_free(cs->trim);
}
