// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rx_depth.h"

void xd_rx_depth_init(struct xd_rx_depth *d, uint32_t most, uint32_t of_qp)
{
	*d = (struct xd_rx_depth){ .most = most, .of_qp = of_qp };
}

/* Without QPs there are the management datagrams of new connections. */
static uint32_t for_qps(const struct xd_rx_depth *d, const struct xt_receivers *r)
{
	uint32_t reliable = __atomic_load_n(&r->reliable, __ATOMIC_RELAXED);

	if (__atomic_load_n(&r->unreliable, __ATOMIC_RELAXED) || reliable >= d->most / d->of_qp)
		return d->most;
	return (reliable ? reliable : 1) * d->of_qp;
}

uint32_t xd_rx_depth(struct xd_rx_depth *d, const struct xt_receivers *r, uint32_t waiting,
		     uint64_t now)
{
	uint32_t depth = for_qps(d, r);

	if (waiting > depth / 4 * 3)
		d->deep_until = now + XD_RX_DEPTH_DEEP_NS;
	return now < d->deep_until ? d->most : depth;
}
