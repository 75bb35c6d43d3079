// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Address handles, address resolution, multicast. */
#include <arpa/inet.h>
#include <netinet/ip.h>
#include <stdlib.h>
#include <string.h>

#include <xroce/gid.h>

#include "provider/base/debug.h"
#include "provider/base/fail.h"
#include "provider/verbs/ah.h"
#include "provider/verbs/child.h"
#include "provider/verbs/pd.h"
#include "provider/verbs/qp.h"
#include "provider/verbs/query.h"
#include "provider/verbs/request.h"

#define NO_VLAN 0xffff

void xp_ah_attr_to_control(struct xr_ah_attr *to, const struct ibv_ah_attr *from)
{
	*to = (struct xr_ah_attr){
		.sgid_index = from->grh.sgid_index,
		.flow_label = from->grh.flow_label,
		.hop_limit = from->grh.hop_limit,
		.traffic_class = from->grh.traffic_class,
		.sl = from->sl,
		.port_num = from->port_num,
		.is_global = !!from->is_global,
	};
	memcpy(to->dgid.raw, from->grh.dgid.raw, sizeof(to->dgid.raw));
}

void xp_ah_attr_from_control(struct ibv_ah_attr *to, const struct xr_ah_attr *from)
{
	memset(to, 0, sizeof(*to));
	to->grh.sgid_index = from->sgid_index;
	to->grh.flow_label = from->flow_label;
	to->grh.hop_limit = from->hop_limit;
	to->grh.traffic_class = from->traffic_class;
	to->sl = from->sl;
	to->port_num = from->port_num;
	to->is_global = from->is_global;
	memcpy(to->grh.dgid.raw, from->dgid.raw, sizeof(from->dgid.raw));
}

struct ibv_ah *xp_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct xr_create_ah_req req = { .pd = xp_own_pd(pd)->ibpd.handle };
	struct xr_handle_rep rep;
	struct xp_ah *ah;
	int err;

	if (!attr->is_global)
		return xp_null(
			xp_refuse("ibv_create_ah", EINVAL,
				  "is_global is 0; RoCE needs a GRH with dgid and sgid_index"));
	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return xp_null(xp_refuse_memory("ibv_create_ah"));
	xp_ah_attr_to_control(&req.attr, attr);
	err = xp_request(xp_own_pd(pd)->ctx, XR_MSG_CREATE_AH, &req, sizeof(req), &rep,
			 sizeof(rep));
	if (err) {
		free(ah);
		return xp_null(err);
	}
	ah->ctx = xp_pd(pd)->ctx;
	ah->ibah.context = pd->context;
	ah->ibah.pd = pd;
	ah->ibah.handle = rep.handle;
	return &ah->ibah;
}

int xp_destroy_ah(struct ibv_ah *ah)
{
	int err = xp_release(xp_ah(ah)->ctx, XR_MSG_DESTROY_AH, ah->handle, NULL);

	if (err)
		return -err;
	free(ah);
	return 0;
}

/* Like the function of libibverbs, returns a negative errno. *vid is 0xffff for untagged. */
int xp_resolve_eth_l2_from_gid(struct ibv_context *ibctx, struct ibv_ah_attr *attr, uint8_t mac[6],
			       uint16_t *vid)
{
	struct xr_resolve_ah_req req;
	struct xr_resolve_ah_rep rep;
	int err;

	xp_ah_attr_to_control(&req.attr, attr);
	err = xp_request(xp_ctx(xp_process_context(ibctx)), XR_MSG_RESOLVE_AH, &req, sizeof(req),
			 &rep, sizeof(rep));
	if (err)
		return err;
	memcpy(mac, rep.mac, sizeof(rep.mac));
	*vid = rep.vlan ? rep.vlan : NO_VLAN;
	return 0;
}

/* ---- multicast; RoCE has no LIDs ----------------------------------------------- */

static int mcast(struct ibv_qp *ibqp, uint32_t type, const union ibv_gid *gid)
{
	struct xr_mcast_req req = { .qp = ibqp->handle };

	memcpy(req.gid.raw, gid->raw, sizeof(req.gid.raw));
	return -xp_request(xp_qp(ibqp)->ctx, type, &req, sizeof(req), NULL, 0);
}

int xp_attach_mcast(struct ibv_qp *ibqp, const union ibv_gid *gid, uint16_t lid)
{
	return mcast(ibqp, XR_MSG_ATTACH_MCAST, gid);
}

int xp_detach_mcast(struct ibv_qp *ibqp, const union ibv_gid *gid, uint16_t lid)
{
	return mcast(ibqp, XR_MSG_DETACH_MCAST, gid);
}

/* ---- the sender of a completion ------------------------------------------------ */

static uint16_t ipv4_checksum(const uint8_t *header)
{
	uint32_t sum = 0;
	unsigned int i;

	for (i = 0; i < 20; i += 2)
		sum += header[i] << 8 | header[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

/*
 * The 40 bytes before a datagram contain an IPv6 header, or 20 undefined bytes and an IPv4 header
 * (IBTA A17.4.5.2). Only a valid checksum distinguishes the latter.
 */
static bool grh_is_ipv4(const struct ibv_grh *grh)
{
	const uint8_t *header = (const uint8_t *)grh + 20;

	return header[0] == 0x45 && ipv4_checksum(header) == 0xffff;
}

static void gid_from_ipv4(union ibv_gid *gid, __be32 addr)
{
	struct xr_addr mapped;

	xr_gid_set_ipv4(&mapped, addr);
	memcpy(gid->raw, mapped.raw, sizeof(gid->raw));
}

#define INIT_AH "ibv_init_ah_from_wc"

/* An answer to a multicast datagram needs another source address. */
static int check_local(bool multicast)
{
	return multicast ? xp_refuse(INIT_AH, EINVAL, "the datagram was sent to a multicast group")
			 : 0;
}

/* Fills the route back to the sender, and the GID that the datagram was sent to. */
static int reverse_grh(const struct ibv_grh *grh, struct ibv_global_route *to, union ibv_gid *local)
{
	uint32_t first = ntohl(grh->version_tclass_flow);
	struct iphdr ip;

	if (grh_is_ipv4(grh)) {
		memcpy(&ip, (const uint8_t *)grh + 20, sizeof(ip));
		gid_from_ipv4(local, ip.daddr);
		gid_from_ipv4(&to->dgid, ip.saddr);
		to->hop_limit = ip.ttl;
		to->traffic_class = ip.tos;
		return check_local(IN_MULTICAST(ntohl(ip.daddr)));
	}
	if (first >> 28 != 6 || grh->next_hdr != IPPROTO_UDP)
		return xp_refuse(INIT_AH, EPROTONOSUPPORT,
				 "the 40 bytes are no IPv4 or IPv6 header");
	*local = grh->dgid;
	to->dgid = grh->sgid;
	to->flow_label = first & 0xfffff;
	to->hop_limit = grh->hop_limit;
	to->traffic_class = first >> 20 & 0xff;
	return check_local(grh->dgid.raw[0] == 0xff);
}

int xp_init_ah_from_wc(struct ibv_context *ibctx, uint8_t port, struct ibv_wc *wc,
		       struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	union ibv_gid local;
	int err;

	memset(attr, 0, sizeof(*attr));
	attr->port_num = port;
	attr->is_global = 1;
	/* RoCE has no LIDs: only the GRH names the sender. */
	err = port == 1 && wc->wc_flags & IBV_WC_GRH
		      ? reverse_grh(grh, &attr->grh, &local)
		      : xp_refuse(INIT_AH, EINVAL, "port %u, wc_flags 0x%x; port 1, IBV_WC_GRH",
				  port, wc->wc_flags);
	if (!err)
		err = xp_find_gid(xp_ctx(xp_process_context(ibctx)), &local);
	if (err == -ENODATA)
		xp_refuse(INIT_AH, err, "the destination of the datagram is no GID of the device");
	if (err < 0)
		return xp_fail(err);
	attr->grh.sgid_index = err;
	return 0;
}

struct ibv_ah *xp_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
				    uint8_t port)
{
	struct ibv_ah_attr attr;

	if (xp_init_ah_from_wc(pd->context, port, wc, grh, &attr))
		return NULL;
	return xp_create_ah(pd, &attr);
}
