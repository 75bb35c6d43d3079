// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "boost.h"

#include <sys/resource.h>

#define HIGHEST (-20)

/* Linux applies the nice value to the calling thread only. */
void xd_boost_begin(struct xd_boost *b, uint64_t now)
{
	if (b->denied || now >= b->until)
		return;
	b->nice = getpriority(PRIO_PROCESS, 0);
	b->on = !setpriority(PRIO_PROCESS, 0, HIGHEST);
	b->denied = !b->on;
}

void xd_boost_end(struct xd_boost *b, uint64_t now, uint64_t ns)
{
	if (ns > XD_BOOST_LONG_NS)
		b->until = now + XD_BOOST_FOR_NS;
	if (b->on)
		setpriority(PRIO_PROCESS, 0, b->nice);
	b->on = false;
}
