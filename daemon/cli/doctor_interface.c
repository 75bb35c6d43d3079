// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Checks of one network interface */
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/way/interface.h"
#include "daemon/way/way.h"
#include "doctor.h"

/* ---- XDP ------------------------------------------------------------------------- */

/* Returns true if a daemon of xroce serves the interface, so that the program is its own. */
static bool is_served(const struct doctor *d)
{
	char **names = cli_devices(d->cli), **p;
	struct cli_client c;
	bool found = false;

	for (p = names; p && *p && !found; p++) {
		found = !cli_client_open(&c, d->cli, *p) && !strcmp(c.hello.netdev, d->interface);
		cli_client_close(&c);
	}
	xp_sockets_free(names);
	return found;
}

static void found_driver(struct doctor_finding *f, const struct xd_driver *d)
{
	if (d->xdp & XD_DRIVER_XDP && d->xdp & XD_DRIVER_REDIRECT)
		doctor_found(f, DOCTOR_OK, "the driver has native XDP%s%s%s; not tried",
			     d->xdp & XD_DRIVER_ZEROCOPY ? ", zero copy" : "",
			     d->xdp & XD_DRIVER_ZEROCOPY && d->zerocopy_segments == 1
				     ? " of single buffers"
				     : "",
			     d->xdp & XD_DRIVER_MULTI_BUFFER ? ", multi-buffer" : "");
	else
		doctor_found(f, DOCTOR_OK, "the driver has generic XDP only; not tried");
}

void doctor_xdp(struct doctor *d, struct doctor_finding *f)
{
	bool exists = if_nametoindex(d->interface);
	uint32_t program = xd_interface_program(d->interface);
	struct xd_driver driver;

	if (!exists)
		doctor_found(f, DOCTOR_UNKNOWN, "no such interface; not tried");
	else if (xd_driver_read(d->interface, &driver))
		doctor_found(f, DOCTOR_UNKNOWN,
			     "before Linux 6.3, the kernel does not tell; not tried");
	else
		found_driver(f, &driver);
	if (program && !is_served(d)) {
		doctor_found(f, DOCTOR_LIMITED, "another XDP program (id %u) is on the interface",
			     program);
		doctor_remedy(f, "xroced --io socket, or --dispatcher; see docs/xdp.md");
	}
}

/* ---- the interface ---------------------------------------------------------------- */

static void count_addresses(const char *name, unsigned int *four, unsigned int *six)
{
	struct ifaddrs *all = NULL, *a;

	*four = *six = 0;
	if (getifaddrs(&all))
		return;
	for (a = all; a; a = a->ifa_next) {
		if (!a->ifa_addr || strcmp(a->ifa_name, name))
			continue;
		*four += a->ifa_addr->sa_family == AF_INET;
		*six += a->ifa_addr->sa_family == AF_INET6;
	}
	freeifaddrs(all);
}

void doctor_interface(struct doctor *d, struct doctor_finding *f)
{
	unsigned int four, six;
	struct xd_interface i;

	if (!if_nametoindex(d->interface)) {
		doctor_found(f, DOCTOR_MISSING, "there is no interface '%s' here", d->interface);
		doctor_remedy(f, "ip link lists those of this network namespace");
		return;
	}
	xd_interface_read(d->interface, &i);
	count_addresses(d->interface, &four, &six);
	doctor_found(f, i.up && four + six ? DOCTOR_OK : DOCTOR_LIMITED,
		     "%s is %s, MTU %d, %u IPv4 and %u IPv6 addresses%s%s", d->interface,
		     i.up ? "up" : "down", i.mtu, four, six, *i.driver ? ", driver " : "",
		     i.driver);
	if (!i.up)
		doctor_remedy(f, "ip link set %s up", d->interface);
	else if (!(four + six))
		doctor_remedy(f, "ip address add ADDRESS dev %s: a device needs one for its GID",
			      d->interface);
}
