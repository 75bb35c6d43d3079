// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "way.h"

#include <net/if_arp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- facts ----------------------------------------------------------------------- */

/* As the kernel decides when a socket is bound. Those of the daemon are multi-buffer since 6.6. */
enum xd_zerocopy xd_way_zerocopy(int err, const struct xd_driver *d)
{
	const uint64_t all = XD_DRIVER_XDP | XD_DRIVER_REDIRECT | XD_DRIVER_ZEROCOPY;

	if (err)
		return XD_ZEROCOPY_UNTOLD;
	if ((d->xdp & all) != all)
		return XD_ZEROCOPY_NONE;
	return d->zerocopy_segments == 1 ? XD_ZEROCOPY_SINGLE : XD_ZEROCOPY_USABLE;
}

void xd_way_read(struct xd_way_facts *f, const char *interface)
{
	struct xd_interface i;
	struct xd_driver d;
	int err = xd_driver_read(interface, &d);

	xd_interface_read(interface, &i);
	f->interface = interface;
	f->loopback = i.type == ARPHRD_LOOPBACK;
	f->no_ethernet = i.type >= 0 && i.type != ARPHRD_ETHER && !f->loopback;
	f->dummy = !strcmp(i.driver, "dummy");
	f->zerocopy = xd_way_zerocopy(err, &d);
}

/* ---- the rule -------------------------------------------------------------------- */

/* Stores the reason, and returns the way. */
__attribute__((format(printf, 4, 5))) static bool way_takes(bool xdp, char *why, size_t size,
							    const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, size, fmt, ap);
	va_end(ap);
	return xdp;
}

/*
 * Without zero copy, XDP is slower than sockets for all but small messages by the daemon, and no
 * program can run the transport itself. What holds whoever starts the daemon comes first.
 */
static bool by_driver(const struct xd_way_facts *f, char *why, size_t size)
{
	if (f->interface && f->zerocopy == XD_ZEROCOPY_NONE)
		return way_takes(false, why, size, "%s has no zero-copy AF_XDP", f->interface);
	if (f->interface && f->zerocopy == XD_ZEROCOPY_SINGLE)
		return way_takes(false, why, size,
				 "%s has zero-copy AF_XDP for frames in one buffer only",
				 f->interface);
	if (f->interface && f->zerocopy == XD_ZEROCOPY_UNTOLD)
		return way_takes(
			false, why, size,
			"the kernel does not tell whether %s has zero-copy AF_XDP (Linux 6.3 "
			"does)",
			f->interface);
	if (f->lacks)
		return way_takes(false, why, size, "%s", f->lacks);
	if (!f->interface)
		return way_takes(
			false, why, size,
			"on interfaces without zero-copy AF_XDP, XDP on others; xroce doctor "
			"INTERFACE tells which");
	return way_takes(true, why, size, "zero-copy AF_XDP is available");
}

bool xd_way_is_xdp(const struct xd_way_facts *f, char *why, size_t size)
{
	if (f->only_xdp)
		return way_takes(true, why, size,
				 "requested by --attach, --dispatcher or --queues");
	if (f->no_ethernet)
		return way_takes(false, why, size, "%s is not Ethernet", f->interface);
	if (f->bind)
		return way_takes(false, why, size, "requested by --bind");
	if (f->dummy)
		return way_takes(false, why, size, "%s is a dummy interface", f->interface);
	if (f->loopback)
		return way_takes(false, why, size, "%s is the loopback interface", f->interface);
	return by_driver(f, why, size);
}
