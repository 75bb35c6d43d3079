// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "port.h"

#include <infiniband/verbs.h>

#include "daemon/clients/device.h"
#include "daemon/io/io.h"
#include "daemon/netdev/net.h"

/*
 * Bytes of a frame besides the payload, rounded up: IPv6, UDP, BTH, the longest extended headers
 * that come with payload, pad, ICRC. Path MTU 4096 needs a link MTU of 4200.
 */
#define OVERHEAD 104

uint32_t xd_port_max_mtu(const struct xd_device *dev)
{
	return xd_io_max_mtu(dev->io);
}

uint32_t xd_port_link_mtu(uint32_t path_mtu)
{
	return path_mtu + OVERHEAD;
}

uint32_t xd_port_mtu(const struct xd_device *dev)
{
	uint32_t mtu = xd_port_max_mtu(dev);

	while (mtu > 256 && xd_port_link_mtu(mtu) > xd_net_link(dev->net)->mtu)
		mtu /= 2;
	return mtu;
}

uint8_t xd_port_mtu_code(uint32_t path_mtu)
{
	uint8_t code = IBV_MTU_256;

	for (; path_mtu > 256; path_mtu /= 2)
		code++;
	return code;
}
