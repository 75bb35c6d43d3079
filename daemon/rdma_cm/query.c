// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Addresses, paths and QP attributes of an id, as the kernel's ucma.c and cm.c return them. */
#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stddef.h>
#include <string.h>

#include "daemon/netdev/net.h"
#include "id.h"

#define PORT 1
#define SELECT_EQUAL 2 /* IB_SA_EQ: MTU, rate and life time are exactly the given ones */

/* Copies a reply, which may be cut if the client has room for the first `least` bytes only. */
static int reply(struct xd_reply *rep, const void *body, uint32_t size, uint32_t least,
		 uint32_t out)
{
	if (out < least)
		return -ENOSPC;
	if (out < size)
		size = out;
	memcpy(xd_reply_body(rep, size), body, size);
	return 0;
}

/* ---- QUERY_ROUTE ---------------------------------------------------------------- */

static void fill_route(const struct xd_cm_id *id, struct ib_user_path_rec *r)
{
	const struct xd_cm_path *p = &id->path;
	struct xr_addr src = xd_cm_addr_gid(&id->src), dst = xd_cm_addr_gid(&id->dst);

	r->pkey = htobe16(XR_DEFAULT_PKEY);
	if (!id->paths) {
		memcpy(r->sgid, src.raw, sizeof(r->sgid));
		memcpy(r->dgid, dst.raw, sizeof(r->dgid));
		return;
	}
	memcpy(r->sgid, p->gids.local.raw, sizeof(r->sgid));
	memcpy(r->dgid, p->gids.peer.raw, sizeof(r->dgid));
	r->flow_label = htobe32(p->gids.flow_label);
	r->reversible = 1;
	r->mtu = p->mtu;
	r->hop_limit = p->gids.hop_limit;
	r->traffic_class = p->gids.traffic_class;
	r->sl = p->gids.sl;
	r->mtu_selector = SELECT_EQUAL;
	r->rate_selector = SELECT_EQUAL;
	r->rate = p->rate;
	r->packet_life_time_selector = SELECT_EQUAL;
	r->packet_life_time = p->life_time;
}

static void copy_inet(struct sockaddr_in6 *to, const union xd_cm_addr *from)
{
	memcpy(to, from, from->sa.sa_family == AF_INET ? sizeof(from->in) : sizeof(from->in6));
}

int xd_cm_query_route(struct xd_cm_id *id, uint32_t out, struct xd_reply *rep)
{
	struct rdma_ucm_query_route_resp r = { 0 };

	copy_inet(&r.src_addr, &id->src);
	copy_inet(&r.dst_addr, &id->dst);
	if (id->device) {
		r.node_guid = xd_net_link(id->cm->dev->net)->guid;
		r.port_num = PORT;
		r.num_paths = id->paths;
		r.ibdev_index = id->cm->dev->index;
		fill_route(id, &r.ib_route[0]);
	}
	return reply(rep, &r, sizeof(r), offsetof(struct rdma_ucm_query_route_resp, ibdev_index),
		     out);
}

/* ---- QUERY ---------------------------------------------------------------------- */

#define LEAST_ADDR offsetof(struct rdma_ucm_query_addr_resp, ibdev_index)

static void fill_device(const struct xd_cm_id *id, struct rdma_ucm_query_addr_resp *r)
{
	if (!id->device)
		return;
	r->node_guid = xd_net_link(id->cm->dev->net)->guid;
	r->port_num = PORT;
	r->ibdev_index = id->cm->dev->index;
	r->pkey = htobe16(XR_DEFAULT_PKEY);
}

static int query_addr(const struct xd_cm_id *id, uint32_t out, struct xd_reply *rep)
{
	struct rdma_ucm_query_addr_resp r = { 0 };

	r.src_size = (uint16_t)xd_cm_addr_size(id->src.sa.sa_family);
	memcpy(&r.src_addr, &id->src, r.src_size);
	r.dst_size = (uint16_t)xd_cm_addr_size(id->dst.sa.sa_family);
	memcpy(&r.dst_addr, &id->dst, r.dst_size);
	fill_device(id, &r);
	return reply(rep, &r, sizeof(r), LEAST_ADDR, out);
}

static void as_ib(const struct xd_cm_id *id, const union xd_cm_addr *from,
		  struct __kernel_sockaddr_storage *to)
{
	struct xd_sockaddr_ib ib = { .family = AF_IB };

	if (from->sa.sa_family == AF_IB) {
		ib = from->ib;
	} else {
		ib.pkey = id->device ? htobe16(XR_DEFAULT_PKEY) : 0;
		if (id->device)
			ib.gid = xd_cm_addr_gid(from);
		ib.sid = htobe64(xd_cm_service_id(id->ps, from));
	}
	memcpy(to, &ib, sizeof(ib));
}

static int query_gid(const struct xd_cm_id *id, uint32_t out, struct xd_reply *rep)
{
	struct rdma_ucm_query_addr_resp r = {
		.src_size = sizeof(struct xd_sockaddr_ib),
		.dst_size = sizeof(struct xd_sockaddr_ib),
	};

	fill_device(id, &r);
	as_ib(id, &id->src, &r.src_addr);
	as_ib(id, &id->dst, &r.dst_addr);
	return reply(rep, &r, sizeof(r), LEAST_ADDR, out);
}

/* IBTA 15.2.5.16, in 32-bit words */
static void pack_path(const struct xd_cm_id *id, uint32_t word[16])
{
	const struct xd_cm_path *p = &id->path;
	const uint32_t reversible = 1u << 23, equal = SELECT_EQUAL;
	uint64_t service = htobe64(xd_cm_service_id(id->ps, &id->dst));

	memset(word, 0, 16 * sizeof(*word));
	memcpy(word, &service, sizeof(service));
	memcpy(word + 2, p->gids.peer.raw, 16);
	memcpy(word + 6, p->gids.local.raw, 16);
	word[11] = htobe32(p->gids.flow_label << 8 | p->gids.hop_limit);
	word[12] = htobe32((uint32_t)p->gids.traffic_class << 24 | reversible | p->pkey);
	word[13] = htobe32((uint32_t)p->gids.sl << 16 | equal << 14 | (uint32_t)p->mtu << 8 |
			   equal << 6 | p->rate);
	word[14] = htobe32(equal << 30 | (uint32_t)p->life_time << 24);
}

static int query_path(const struct xd_cm_id *id, uint32_t out, struct xd_reply *rep)
{
	const struct rdma_ucm_query_path_resp head = { .num_paths = id->paths };
	struct ib_path_rec_data path = {
		.flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL,
	};
	uint8_t body[sizeof(head) + sizeof(path)];
	uint32_t size = sizeof(head);

	memcpy(body, &head, sizeof(head));
	if (id->paths && out >= sizeof(body)) {
		pack_path(id, path.path_rec);
		memcpy(body + sizeof(head), &path, sizeof(path));
		size = sizeof(body);
	}
	return reply(rep, body, size, sizeof(head), out);
}

int xd_cm_query(struct xd_cm_id *id, uint32_t option, uint32_t out, struct xd_reply *rep)
{
	switch (option) {
	case RDMA_USER_CM_QUERY_ADDR:
		return query_addr(id, out, rep);
	case RDMA_USER_CM_QUERY_PATH:
		return query_path(id, out, rep);
	case RDMA_USER_CM_QUERY_GID:
		return query_gid(id, out, rep);
	default:
		return -ENOSYS;
	}
}

/* ---- INIT_QP_ATTR --------------------------------------------------------------- */

#define DEFAULT_QKEY 0x01234567u /* RDMA_UDP_QKEY */

void xd_cm_default_qkey(struct xd_cm_id *id)
{
	if (!id->qp.qkey)
		id->qp.qkey = DEFAULT_QKEY;
}

void xd_cm_ah_attr(const struct xd_cm_id *id, struct ib_uverbs_ah_attr *ah)
{
	const struct xc_path *p = &id->path.gids;
	int index = xd_net_gid_index(id->cm->dev->net, &p->local);

	memset(ah, 0, sizeof(*ah));
	memcpy(ah->grh.dgid, p->peer.raw, sizeof(ah->grh.dgid));
	ah->grh.flow_label = p->flow_label;
	if (index < 0) /* the address was removed */
		index = xd_gid_held(&id->gid);
	ah->grh.sgid_index = index < 0 ? 0 : (uint8_t)index;
	ah->grh.hop_limit = p->hop_limit;
	ah->grh.traffic_class = p->traffic_class;
	ah->sl = p->sl;
	ah->is_global = 1;
	ah->port_num = PORT;
}

/* Before a connection, and for UD */
static void plain_attr(struct xd_cm_id *id, struct ib_uverbs_qp_attr *a)
{
	a->qp_attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	a->port_num = PORT;
	if (id->qp_type == IBV_QPT_UD) {
		xd_cm_default_qkey(id);
		a->qkey = id->qp.qkey;
		a->qp_attr_mask |= IBV_QP_QKEY;
	} else {
		a->qp_attr_mask |= IBV_QP_ACCESS_FLAGS;
	}
}

static void init_attr(const struct xd_cm_id *id, struct ib_uverbs_qp_attr *a)
{
	a->qp_attr_mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	a->port_num = PORT;
	a->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (id->qp.responder_resources)
		a->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
				      XR_ACCESS_FLUSH_GLOBAL | XR_ACCESS_FLUSH_PERSISTENT;
}

static void rtr_attr(const struct xd_cm_id *id, struct ib_uverbs_qp_attr *a)
{
	a->qp_attr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			  IBV_QP_RQ_PSN;
	xd_cm_ah_attr(id, &a->ah_attr);
	a->path_mtu = id->path.mtu;
	a->dest_qp_num = id->qp.remote;
	a->rq_psn = id->qp.rq_psn;
	if (id->qp_type == IBV_QPT_RC || id->qp_type == IBV_QPT_XRC_RECV) {
		a->qp_attr_mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		a->max_dest_rd_atomic = id->qp.responder_resources;
	}
}

static void rts_attr(const struct xd_cm_id *id, struct ib_uverbs_qp_attr *a)
{
	bool requester = id->qp_type == IBV_QPT_RC || id->qp_type == IBV_QPT_XRC_SEND;

	a->qp_attr_mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	a->sq_psn = id->qp.sq_psn;
	if (requester) {
		a->qp_attr_mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
		a->retry_cnt = id->qp.retry_count;
		a->rnr_retry = id->qp.rnr_retry_count;
		a->max_rd_atomic = id->qp.initiator_depth;
	}
	if (requester || id->qp_type == IBV_QPT_XRC_RECV) {
		a->qp_attr_mask |= IBV_QP_TIMEOUT;
		a->timeout = id->ack_timeout_set ? id->ack_timeout : id->qp.timeout;
	}
}

static bool in_progress(enum xc_state s, bool peer_known)
{
	switch (s) {
	case XC_REQ_SENT:
	case XC_MRA_REQ_RCVD:
		return !peer_known;
	case XC_REQ_RCVD:
	case XC_MRA_REQ_SENT:
	case XC_REP_SENT:
	case XC_MRA_REP_RCVD:
	case XC_REP_RCVD:
	case XC_MRA_REP_SENT:
	case XC_ESTABLISHED:
		return true;
	default:
		return false;
	}
}

static int connection_attr(const struct xd_cm_id *id, uint32_t state, struct ib_uverbs_qp_attr *a)
{
	if (!in_progress(xc_info(id->conn)->state, state != IBV_QPS_INIT))
		return -EINVAL;
	switch (state) {
	case IBV_QPS_INIT:
		init_attr(id, a);
		return 0;
	case IBV_QPS_RTR:
		rtr_attr(id, a);
		return 0;
	case IBV_QPS_RTS:
		rts_attr(id, a);
		return 0;
	default:
		return -EINVAL;
	}
}

int xd_cm_init_qp_attr(struct xd_cm_id *id, uint32_t state, struct ib_uverbs_qp_attr *a)
{
	memset(a, 0, sizeof(*a));
	a->qp_state = state;
	if (state > IBV_QPS_ERR || !id->device)
		return -EINVAL;
	if (id->conn && id->qp_type != IBV_QPT_UD)
		return connection_attr(id, state, a);
	plain_attr(id, a);
	if (state == IBV_QPS_RTR)
		a->rq_psn = id->qp.rq_psn;
	return 0;
}
