// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "gso.h"

#include <linux/ethtool.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/kernel.h"
#include "daemon/base/options.h"
#include "daemon/helper/steer.h"
#include "xsk.h"

/* Generic XDP passes frames of several buffers on, instead of copying them into one first. */
#define GENERIC_MULTI_BUFFER KERNEL_VERSION(6, 9, 0)

/* Packet sockets accept UDP GSO frames (VIRTIO_NET_HDR_GSO_UDP_L4). */
#define SEND_UDP_GSO KERNEL_VERSION(6, 2, 0)

void xd_gso_read_facts(const char *ifname, bool noqueue, struct xd_gso_facts *f)
{
	struct ethtool_drvinfo info = { .cmd = ETHTOOL_GDRVINFO };

	*f = (struct xd_gso_facts){
		.noqueue = noqueue,
		.multi_buffer = xd_xsk_multi_buffer_possible(),
		.kernel = xd_kernel_version(),
	};
	if (!xd_ethtool(ifname, &info))
		snprintf(f->driver, sizeof(f->driver), "%.31s", info.driver);
	xd_count_queues(ifname, &f->rx_queues, &f->tx_queues);
	f->served = f->rx_queues;
	f->workers = 1;
}

/*
 * The order of AF_XDP and a packet socket is certain only if there is nothing between. The kernel
 * selects the queue of a packet socket's frame by a hash, so frames for several workers, or from
 * hosts that serve few queues alike, would arrive at the wrong ones.
 */
static const char *why_not_send(const struct xd_options *opt, const struct xd_gso_facts *f)
{
	if (opt->gso == XD_GSO_OFF)
		return "turned off by --gso off";
	if (opt->attach == XD_ATTACH_ZEROCOPY)
		return "zero-copy AF_XDP has no GSO";
	if (f->kernel < SEND_UDP_GSO)
		return "packet sockets send them from Linux 6.2 on";
	if (f->workers > 1)
		return "the device has several workers";
	if (f->served < f->rx_queues)
		return "not all receive queues are served";
	if (!f->noqueue)
		return "the interface has a queueing discipline";
	return NULL;
}

/* A veth interface receives GSO frames from its peer, but only if neither has native XDP. */
static bool prefer_generic(const struct xd_options *opt, const struct xd_gso_facts *f)
{
	return opt->gso != XD_GSO_OFF && opt->attach == XD_ATTACH_AUTO && !opt->dispatcher &&
	       !strcmp(f->driver, "veth") && f->workers == 1 && f->served == f->rx_queues &&
	       f->multi_buffer && f->kernel >= GENERIC_MULTI_BUFFER;
}

struct xd_gso xd_gso_choose(const struct xd_options *opt, const struct xd_gso_facts *facts)
{
	const char *why_not = why_not_send(opt, facts);

	return (struct xd_gso){
		.send = !why_not,
		.send_all = !why_not && facts->tx_queues > 1,
		.prefer_generic = prefer_generic(opt, facts),
		.why_not = why_not,
	};
}
