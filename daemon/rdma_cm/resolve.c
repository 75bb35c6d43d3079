// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Binds ids to addresses, and resolves addresses and routes of peers. */
#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/loop.h"
#include "daemon/clients/refuse.h"
#include "daemon/netdev/net.h"
#include "daemon/objects/port.h"
#include "daemon/objects/resolve.h"
#include "id.h"

#define HOP_LIMIT 64
/* Packet life time without the option ACK_TIMEOUT: CMA_IBOE_PACKET_LIFETIME of Linux 6.12 */
#define LIFE_TIME 16

/* ---- local addresses ------------------------------------------------------------ */

/* Returns the first GID of the address family that a loopback address stands for. */
static int first_gid(const struct xd_cm_id *id, bool ipv4, struct xr_addr *gid)
{
	const struct xd_net *net = id->cm->dev->net;
	uint32_t i;

	/* Index 0 is that of a link-local address: the last choice */
	for (i = 1; i <= XR_GID_TABLE_LEN; i++) {
		if (xd_net_gid(net, i % XR_GID_TABLE_LEN, gid) && xr_gid_is_ipv4(gid) == ipv4 &&
		    !xd_gid_is_gone(id->obj.client, gid))
			return 0;
	}
	return -ENODEV;
}

/* Returns true if the device has the GID, and no fault hides it from the program. */
static bool has_gid(const struct xd_cm_id *id, const struct xr_addr *gid)
{
	return xd_net_gid_index(id->cm->dev->net, gid) >= 0 && !xd_gid_is_gone(id->obj.client, gid);
}

int xd_cm_local_gid(const struct xd_cm_id *id, const union xd_cm_addr *a, struct xr_addr *gid)
{
	if (xd_cm_addr_is_any(a)) {
		if (a->sa.sa_family != AF_INET && !first_gid(id, false, gid))
			return 0;
		return first_gid(id, true, gid);
	}
	*gid = xd_cm_addr_gid(a);
	return has_gid(id, gid) ? 0 : -ENODEV;
}

void xd_cm_hold_gid(struct xd_cm_id *id, const struct xr_addr *gid)
{
	struct xd_net *net = id->cm->dev->net;
	int index = xd_net_gid_index(net, gid);

	if (index >= 0)
		xd_net_gid_hold(net, &id->gid, (uint32_t)index);
}

/* ---- bind ----------------------------------------------------------------------- */

static int check_scope(const struct xd_cm_id *id, const union xd_cm_addr *a)
{
	if (!xd_cm_addr_is_link_local(a))
		return 0;
	if (!a->in6.sin6_scope_id)
		return -EINVAL;
	return a->in6.sin6_scope_id == xd_net_link(id->cm->dev->net)->ifindex ? 0 : -ENODEV;
}

static bool ipv6_only(void)
{
	FILE *f = fopen("/proc/sys/net/ipv6/bindv6only", "re");
	int only = 0;

	if (!f)
		return false;
	if (fscanf(f, "%d", &only) != 1)
		only = 0;
	fclose(f);
	return only;
}

static void resolve_unbind(struct xd_cm_id *id)
{
	xd_cm_port_release(id);
	xd_net_gid_release(id->cm->dev->net, &id->gid);
	memset(&id->src, 0, sizeof(id->src));
	memset(&id->dst, 0, sizeof(id->dst));
	id->device = false;
	id->state = XD_CM_IDLE;
}

static int resolve_bind_port(struct xd_cm_id *id)
{
	uint16_t family = id->src.sa.sa_family;
	int err;

	if (!id->afonly_set && family != AF_IB)
		id->afonly = family == AF_INET || ipv6_only();
	err = xd_cm_port_bind(id);
	if (err)
		resolve_unbind(id);
	else
		id->state = XD_CM_BOUND;
	return err;
}

/* dst: peer's address if it is known, which decides whether a port is free; else NULL */
static int bind_to(struct xd_cm_id *id, const union xd_cm_addr *src, const union xd_cm_addr *dst)
{
	bool device = !xd_cm_addr_is_any(src);
	struct xr_addr gid;
	int err;

	if (id->state != XD_CM_IDLE)
		return -EINVAL;
	err = check_scope(id, src);
	if (err)
		return err;
	if (device && xd_cm_local_gid(id, src, &gid))
		return xd_refuse(id->obj.client,
				 xd_net_is_local(id->cm->dev->net, &gid) ? -ENODEV : -EADDRNOTAVAIL,
				 "the source address is not one of the device: xroce status");
	id->src = *src;
	id->device = device;
	if (device)
		xd_cm_hold_gid(id, &gid);
	if (dst)
		id->dst = *dst;
	id->dst.sa.sa_family = src->sa.sa_family;
	return resolve_bind_port(id);
}

int xd_cm_bind(struct xd_cm_id *id, const union xd_cm_addr *addr)
{
	return bind_to(id, addr, NULL);
}

/* ---- addresses ------------------------------------------------------------------ */

void xd_cm_resolve_cancel(struct xd_cm_id *id)
{
	if (id->resolve)
		xd_net_resolve_cancel(id->resolve);
	id->resolve = NULL;
	xd_timer_free(id->timer);
	id->timer = NULL;
}

static void rdma_cm_finish(struct xd_cm_id *id, int err)
{
	xd_cm_resolve_cancel(id);
	if (!err) {
		id->state = XD_CM_ADDR_RESOLVED;
		id->device = true;
		xd_cm_addr_set_gid(&id->src, &id->path.gids.local,
				   xd_net_link(id->cm->dev->net)->ifindex);
		xd_cm_event_raise(id, XD_CM_EVENT_ADDR_RESOLVED, 0);
	} else {
		id->state = XD_CM_BOUND;
		xd_cm_event_raise(id, XD_CM_EVENT_ADDR_ERROR, err);
	}
}

/* Called within xd_net_resolve() if the next hop is known; id->resolve is NULL then. */
static void on_resolved(void *arg, int err, const struct xt_path *path)
{
	struct xd_cm_id *id = arg;

	id->resolve_err = err;
	if (!id->resolve)
		return;
	id->resolve = NULL;
	rdma_cm_finish(id, err == -EHOSTUNREACH ? -ETIMEDOUT : err);
}

static void resolve_on_timeout(void *arg)
{
	rdma_cm_finish(arg, -ETIMEDOUT);
}

/* No neighbour answers at a port that a fault lets be down. Own GIDs need no neighbour. */
static bool is_cut_off(const struct xd_cm_id *id)
{
	return id->obj.client->fault_port &&
	       xd_net_gid_index(id->cm->dev->net, &id->path.gids.peer) < 0;
}

/* Raises ADDR_RESOLVED if the next hop is known; else id->resolve waits for it. */
static int resolve_look_up(struct xd_cm_id *id)
{
	struct xd_device *dev = id->cm->dev;
	const struct xc_path *p = &id->path.gids;
	struct xr_ah_attr attr = {
		.dgid = p->peer,
		.sgid_index = (uint32_t)xd_net_gid_index(dev->net, &p->local),
		.hop_limit = HOP_LIMIT,
		.port_num = 1,
		.is_global = 1,
	};

	if (!has_gid(id, &p->local))
		return -ENODEV;
	id->resolve = xd_net_resolve(dev->net, &attr, on_resolved, id);
	if (id->resolve)
		return 0;
	if (!id->resolve_err)
		rdma_cm_finish(id, 0);
	return id->resolve_err;
}

static int resolve_start(struct xd_cm_id *id, uint32_t timeout_ms)
{
	int err;

	id->state = XD_CM_ADDR_QUERY;
	xd_cm_hold_gid(id, &id->path.gids.local);
	if (!is_cut_off(id)) {
		err = resolve_look_up(id);
		if (!id->resolve)
			return err;
	}
	id->timer = xd_timer_new(id->cm->dev->loop, resolve_on_timeout, id);
	if (!id->timer) {
		xd_cm_resolve_cancel(id);
		return -ENOMEM;
	}
	xd_timer_arm(id->timer, (uint64_t)timeout_ms * 1000000);
	return 0;
}

void xd_cm_resolve_again(struct xd_cm_id *id)
{
	int err;

	if (id->state != XD_CM_ADDR_QUERY || id->resolve || is_cut_off(id))
		return;
	err = resolve_look_up(id);
	if (err)
		rdma_cm_finish(id, err);
}

/* Returns true if the route of the destination selects the source address. */
static bool resolve_is_routed(const struct xd_cm_id *id)
{
	return id->dst.sa.sa_family && !xd_cm_addr_is_any(&id->dst) && xd_cm_addr_is_zero(&id->src);
}

/* A wildcard as destination means this host, as a loopback address does. */
static int find_gids(struct xd_cm_id *id)
{
	struct xc_path *p = &id->path.gids;
	int err;

	if (xd_cm_addr_is_any(&id->dst)) {
		const union xd_cm_addr *a = xd_cm_addr_is_any(&id->src) ? &id->dst : &id->src;

		err = xd_cm_local_gid(id, a, &p->local);
		p->peer = p->local;
		return err;
	}
	p->peer = xd_cm_addr_gid(&id->dst);
	if (!resolve_is_routed(id))
		return xd_cm_local_gid(id, &id->src, &p->local);
	err = xd_net_source(id->cm->dev->net, &p->peer, &p->local);
	return err || has_gid(id, &p->local) ? err : -ENODEV;
}

int xd_cm_resolve_addr(struct xd_cm_id *id, const union xd_cm_addr *src,
		       const union xd_cm_addr *dst, uint32_t timeout_ms, bool last)
{
	union xd_cm_addr any = { .sa.sa_family = dst->sa.sa_family };
	bool bound = id->state == XD_CM_BOUND;
	int err = check_scope(id, dst);

	if (!bound && id->state != XD_CM_IDLE)
		return -EINVAL;
	if (err)
		return err;
	if (dst->sa.sa_family == AF_IB)
		any.ib.pkey = dst->ib.pkey;
	if (bound && id->src.sa.sa_family != dst->sa.sa_family)
		return -EINVAL;
	if (bound)
		id->dst = *dst;
	else
		err = bind_to(id, src->sa.sa_family ? src : &any, dst);
	if (!err && id->src.sa.sa_family != dst->sa.sa_family)
		err = -EINVAL;
	if (!err)
		err = find_gids(id);
	if (err == -ENODEV && last && resolve_is_routed(id)) {
		rdma_cm_finish(id, err);
		return 0;
	}
	if (!err)
		err = resolve_start(id, timeout_ms);
	if (err && bound)
		id->state = XD_CM_BOUND;
	else if (err && id->state != XD_CM_IDLE)
		resolve_unbind(id);
	return err;
}

/* ---- routes --------------------------------------------------------------------- */

uint8_t xd_cm_port_mtu(const struct xd_rdma_cm *cm)
{
	return xd_port_mtu_code(xd_port_mtu(cm->dev));
}

/*
 * The flow label decides the UDP source port, so connections differ in it. As in Linux from 5.12
 * on, it is a hash of the ports unless the program has set it.
 */
static uint32_t flow_label(const struct xd_cm_id *id)
{
	uint32_t label = 0;

	if (id->src.sa.sa_family == AF_INET6)
		label = ntohl(id->src.in6.sin6_flowinfo) & 0xfffff;
	if (!label)
		label = xd_cm_addr_port(&id->src) * 31u + xd_cm_addr_port(&id->dst);
	return label & 0xfffff;
}

int xd_cm_resolve_route(struct xd_cm_id *id, uint32_t timeout_ms)
{
	struct xd_cm_path *p = &id->path;

	if (!timeout_ms || id->state != XD_CM_ADDR_RESOLVED)
		return -EINVAL;
	p->gids.flow_label = flow_label(id);
	p->gids.hop_limit = HOP_LIMIT;
	p->gids.traffic_class = id->tos;
	p->gids.sl = 0;
	p->mtu = xd_cm_port_mtu(id->cm);
	p->rate = 0; /* that of the port */
	p->pkey = XR_DEFAULT_PKEY;
	p->life_time = id->ack_timeout_set && id->ack_timeout ? id->ack_timeout - 1 : LIFE_TIME;
	id->paths = 1;
	id->state = XD_CM_ROUTE_RESOLVED;
	xd_cm_event_raise(id, XD_CM_EVENT_ROUTE_RESOLVED, 0);
	return 0;
}

/* Packed path record, IBTA 15.2.5.16, in 32-bit words */
#define PATH_FLOW_HOP 11
#define PATH_CLASS 12
#define PATH_SL_MTU 13
#define PATH_LIFE_TIME 14

/* The GIDs stay those of the resolved address: RoCE has no others. */
int xd_cm_set_path(struct xd_cm_id *id, const void *value, uint32_t length)
{
	struct ib_path_rec_data rec;
	uint32_t at, word, mtu;
	int err;

	if (!length || length % sizeof(rec))
		return -EINVAL;
	for (at = 0; at < length; at += sizeof(rec)) {
		memcpy(&rec, (const uint8_t *)value + at, sizeof(rec));
		if (rec.flags == (IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL))
			break;
	}
	if (at == length || !id->device)
		return -EINVAL;
	err = xd_cm_resolve_route(id, 1);
	if (err)
		return err;
	word = ntohl(rec.path_rec[PATH_FLOW_HOP]);
	id->path.gids.flow_label = word >> 8 & 0xfffff;
	if (word & 0xff)
		id->path.gids.hop_limit = (uint8_t)word;
	id->path.gids.traffic_class = (uint8_t)(ntohl(rec.path_rec[PATH_CLASS]) >> 24);
	word = ntohl(rec.path_rec[PATH_SL_MTU]);
	id->path.gids.sl = word >> 16 & 0xf;
	mtu = word >> 8 & 0x3f;
	if (mtu && mtu < id->path.mtu)
		id->path.mtu = (uint8_t)mtu;
	id->path.life_time = ntohl(rec.path_rec[PATH_LIFE_TIME]) >> 24 & 0x3f;
	return 0;
}
