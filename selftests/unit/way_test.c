// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Which way of packets a daemon takes by itself, and which reason it gives */
#include <errno.h>
#include <string.h>

#include "daemon/way/way.h"

#include "../lib/tap.h"

/* An interface with everything that XDP needs, for a user who may use it */
#define BEST                                                                                       \
	{                                                                                          \
		.interface = "eth7", .zerocopy = XD_ZEROCOPY_USABLE                                \
	}

static void takes(bool xdp, const struct xd_way_facts *f, const char *why)
{
	char text[256] = "";
	bool is = xd_way_is_xdp(f, text, sizeof(text));

	TAP_OK(is == xdp && !strcmp(text, why), "%s: %s", xdp ? "xdp" : "socket", why);
	if (is != xdp || strcmp(text, why))
		printf("# %s: %s\n", is ? "xdp" : "socket", text);
}

static void driver(int err, uint64_t xdp, uint32_t segments, enum xd_zerocopy expected,
		   const char *what)
{
	const struct xd_driver d = { .xdp = xdp, .zerocopy_segments = segments };

	TAP_OK(xd_way_zerocopy(err, &d) == expected, "%s", what);
}

static void drivers(void)
{
	const uint64_t native = XD_DRIVER_XDP | XD_DRIVER_REDIRECT | XD_DRIVER_MULTI_BUFFER;

	driver(-ENOENT, 0, 0, XD_ZEROCOPY_UNTOLD, "a kernel without the family does not tell");
	driver(-ENOENT, XD_DRIVER_ZEROCOPY, 8, XD_ZEROCOPY_UNTOLD,
	       "whatever is left in memory then");
	driver(0, 0, 0, XD_ZEROCOPY_NONE, "a driver without XDP has no zero copy");
	driver(0, native, 0, XD_ZEROCOPY_NONE, "nor has one with native XDP, as veth");
	driver(0, XD_DRIVER_XDP | XD_DRIVER_ZEROCOPY, 8, XD_ZEROCOPY_NONE,
	       "zero copy without redirection is none for the kernel");
	driver(0, native | XD_DRIVER_ZEROCOPY, 0, XD_ZEROCOPY_USABLE,
	       "zero copy of Linux 6.3 to 6.5, without multi-buffer sockets");
	driver(0, native | XD_DRIVER_ZEROCOPY, 1, XD_ZEROCOPY_SINGLE,
	       "zero copy of one buffer, which the kernel refuses to multi-buffer sockets");
	driver(0, native | XD_DRIVER_ZEROCOPY, 8, XD_ZEROCOPY_USABLE, "zero copy of several");
}

/* Each fact alone changes the way of the best interface. */
static void reasons(void)
{
	struct xd_way_facts best = BEST, f = best;

	takes(true, &f, "zero-copy AF_XDP is available");
	f.no_ethernet = true;
	takes(false, &f, "eth7 is not Ethernet");
	f = best;
	f.bind = true;
	takes(false, &f, "requested by --bind");
	f = best;
	f.dummy = true;
	takes(false, &f, "eth7 is a dummy interface");
	f = best;
	f.loopback = true;
	takes(false, &f, "eth7 is the loopback interface");
	f = best;
	f.zerocopy = XD_ZEROCOPY_NONE;
	takes(false, &f, "eth7 has no zero-copy AF_XDP");
	f.zerocopy = XD_ZEROCOPY_SINGLE;
	takes(false, &f, "eth7 has zero-copy AF_XDP for frames in one buffer only");
	f.zerocopy = XD_ZEROCOPY_UNTOLD;
	takes(false, &f,
	      "the kernel does not tell whether eth7 has zero-copy AF_XDP (Linux 6.3 does)");
	f = best;
	f.lacks = "BPF maps for XDP: Operation not permitted";
	takes(false, &f, "BPF maps for XDP: Operation not permitted");
}

static void precedence(void)
{
	struct xd_way_facts f = {
		.interface = "eth7",
		.only_xdp = true,
		.bind = true,
		.no_ethernet = true,
		.loopback = true,
		.dummy = true,
		.zerocopy = XD_ZEROCOPY_NONE,
		.lacks = "BPF",
	};

	takes(true, &f, "requested by --attach, --dispatcher or --queues");
	f = (struct xd_way_facts){ .interface = "eth7",
				   .zerocopy = XD_ZEROCOPY_NONE,
				   .lacks = "BPF" };
	takes(false, &f, "eth7 has no zero-copy AF_XDP");
	f.interface = NULL;
	takes(false, &f, "BPF");
	f.lacks = NULL;
	takes(false, &f,
	      "on interfaces without zero-copy AF_XDP, XDP on others; xroce doctor INTERFACE "
	      "tells which");
}

int main(void)
{
	char text[8];
	const struct xd_way_facts best = BEST;

	drivers();
	reasons();
	precedence();
	xd_way_is_xdp(&best, text, sizeof(text));
	TAP_OK(!strcmp(text, "zero-co"), "a long reason is cut");
	return tap_end();
}
