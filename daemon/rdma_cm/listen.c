// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Listeners, and requests of peers. */
#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>

#include "daemon/base/options.h"
#include "daemon/netdev/net.h"
#include "daemon/objects/port.h"
#include "id.h"

/* ---- listen --------------------------------------------------------------------- */

static int listen_bind_any(struct xd_cm_id *id)
{
	union xd_cm_addr any = { .sa.sa_family = AF_INET };

	return xd_cm_bind(id, &any);
}

int xd_cm_listen(struct xd_cm_id *id, int32_t backlog)
{
	int32_t max = (int32_t)id->cm->dev->opt->cm_backlog;
	int err = 0;

	id->backlog = backlog <= 0 || backlog > max ? max : backlog;
	if (id->state != XD_CM_BOUND)
		err = listen_bind_any(id);
	if (!err)
		err = xd_cm_id_hold_gsi(id);
	if (!err)
		err = xd_cm_port_listen(id);
	if (err)
		return err;
	id->state = XD_CM_LISTEN;
	xd_cm_faults_listener(id);
	return 0;
}

/* ---- requests ------------------------------------------------------------------- */

/* A REQ or SIDR_REQ, decoded */
struct listen_request {
	struct xc_id *conn;
	const struct xc_msg *msg;
	const struct xc_data *data;
	struct xc_path path;
	uint64_t service_id;
	uint8_t qp_type;
	bool local;  /* the peer is this device */
	bool has_ip; /* the private data begins with the header of RDMA IP CM */
	struct xc_ip_header ip;
};

static uint8_t qp_type_of(enum xc_transport transport)
{
	switch (transport) {
	case XC_UC:
		return IBV_QPT_UC;
	case XC_XRC:
		return IBV_QPT_XRC_RECV;
	default:
		return IBV_QPT_RC;
	}
}

static void decode(struct xd_rdma_cm *cm, struct xc_id *conn, const struct xc_msg *msg,
		   struct listen_request *r)
{
	bool sidr = msg->kind == XC_SIDR_REQ;

	*r = (struct listen_request){ .conn = conn, .msg = msg };
	r->data = sidr ? &msg->sidr_req.data : &msg->req.data;
	r->path = sidr ? xc_info(conn)->path : msg->req.path;
	r->service_id = sidr ? msg->sidr_req.service_id : msg->req.service_id;
	r->qp_type = sidr ? IBV_QPT_UD : qp_type_of((enum xc_transport)msg->req.transport);
	r->local = xd_net_gid_index(cm->dev->net, &r->path.peer) >= 0;
	r->has_ip = r->data->len >= XC_IP_HEADER_LEN && xc_ip_header_get(r->data->data, &r->ip);
}

/* ---- which listener ------------------------------------------------------------- */

static bool is_loopback(const struct xr_addr *gid)
{
	union xd_cm_addr a;

	xd_cm_addr_from_gid(&a, gid, 0);
	return xd_cm_addr_is_loopback(&a);
}

/* Returns true if the request names an address of this device. */
static bool listen_is_ours(const struct xd_rdma_cm *cm, const struct listen_request *r)
{
	if (is_loopback(&r->ip.dst))
		return r->local;
	return xd_net_gid_index(cm->dev->net, &r->ip.dst) >= 0;
}

/* A listener on a loopback address gets requests of this device only. */
static bool matches(const struct xd_cm_id *l, const struct listen_request *r)
{
	bool any = xd_cm_addr_is_zero(&l->src);
	struct xr_addr gid = xd_cm_addr_gid(&l->src);

	if (xd_cm_addr_is_loopback(&l->src) && !r->local)
		return false;
	if (l->src.sa.sa_family == AF_IB)
		return any || xd_cm_addr_is_loopback(&l->src) || xr_gid_equal(&gid, &r->path.local);
	if (!r->has_ip)
		return false;
	if (any && !l->afonly)
		return true;
	if ((l->src.sa.sa_family == AF_INET) != (r->ip.ip_version == 4))
		return false;
	return any || xr_gid_equal(&gid, &r->ip.dst);
}

/* A client that ends gets no more ids: those it has are being freed. */
static bool listens(const struct xd_cm_id *id, const struct listen_request *r)
{
	return id->state == XD_CM_LISTEN && !id->obj.client->ending && matches(id, r);
}

static struct xd_cm_id *find_listener(struct xd_rdma_cm *cm, const struct listen_request *r)
{
	uint16_t ps = (uint16_t)(r->service_id >> 16), port = (uint16_t)r->service_id;
	struct xd_cm_id *l = NULL;

	if (r->service_id >> 32)
		return NULL;
	do
		l = xd_cm_port_next_exclusive(cm, ps, port, l);
	while (l && !listens(l, r));
	return l;
}

/* ---- refusals ------------------------------------------------------------------- */

static void listen_refuse(const struct listen_request *r, enum xc_reason reason,
			  enum xc_sidr_status status, struct xc_data ari)
{
	if (r->msg->kind == XC_SIDR_REQ)
		xc_sidr_reply(r->conn, &(struct xc_sidr_rep){ .status = (uint8_t)status });
	else
		xc_reject(r->conn, &(struct xc_rej){ .reason = (uint16_t)reason, .ari = ari });
	xc_destroy(r->conn);
}

/* Refuses requests that no listener can accept. The ARI of an MTU is the largest one that works. */
static bool acceptable(struct xd_rdma_cm *cm, const struct xd_cm_id *l,
		       const struct listen_request *r)
{
	static const struct xc_data nothing;
	uint8_t mtu[4] = { xd_cm_port_mtu(cm) };

	if (!l) {
		listen_refuse(r, XC_REJ_SERVICE_ID, XC_SIDR_UNSUPPORTED, nothing);
		return false;
	}
	if (xd_net_gid_index(cm->dev->net, &r->path.local) < 0) {
		listen_refuse(r, XC_REJ_GID, XC_SIDR_REJECTED, nothing);
		return false;
	}
	if ((l->qp_type && l->qp_type != r->qp_type) ||
	    (l->src.sa.sa_family != AF_IB && !listen_is_ours(cm, r))) {
		listen_refuse(r, XC_REJ_CONSUMER, XC_SIDR_REJECTED, nothing);
		return false;
	}
	if (r->msg->kind == XC_REQ && r->msg->req.mtu > mtu[0]) {
		listen_refuse(r, XC_REJ_MTU, XC_SIDR_REJECTED, (struct xc_data){ mtu, 1 });
		return false;
	}
	return true;
}

/* ---- new ids -------------------------------------------------------------------- */

static void set_addresses(struct xd_cm_id *id, const struct xd_cm_id *l,
			  const struct listen_request *r)
{
	uint32_t scope = xd_net_link(id->cm->dev->net)->ifindex;

	if (l->src.sa.sa_family != AF_IB) {
		xd_cm_addr_from_gid(&id->src, &r->ip.dst, scope);
		xd_cm_addr_from_gid(&id->dst, &r->ip.src, scope);
		xd_cm_addr_set_port(&id->src, (uint16_t)r->service_id);
		xd_cm_addr_set_port(&id->dst, r->ip.src_port);
		return;
	}
	id->src.ib = (struct xd_sockaddr_ib){
		.family = AF_IB,
		.pkey = htobe16(XR_DEFAULT_PKEY),
		.flowinfo = htobe32(r->path.flow_label),
		.gid = r->path.local,
		.sid = htobe64(r->service_id),
		.sid_mask = ~(uint64_t)0,
	};
	id->dst.ib = id->src.ib;
	id->dst.ib.gid = r->path.peer;
	id->dst.ib.sid = id->dst.ib.sid_mask = 0;
}

static void listen_set_path(struct xd_cm_id *id, const struct listen_request *r)
{
	const struct xc_req *req = &r->msg->req;
	struct xd_cm_path *p = &id->path;

	p->gids = r->path;
	p->pkey = XR_DEFAULT_PKEY;
	id->paths = 1;
	if (r->msg->kind == XC_SIDR_REQ) {
		p->mtu = xd_cm_port_mtu(id->cm);
		return;
	}
	p->mtu = req->mtu;
	p->rate = req->rate;
	p->life_time = req->ack_timeout ? req->ack_timeout - 1 : 0;
	id->qp.timeout = req->ack_timeout;
	id->qp.remote = req->qpn;
	id->qp.sq_psn = req->starting_psn;
	id->qp.responder_resources = req->initiator_depth;
	id->qp.initiator_depth = req->responder_resources;
	id->qp.retry_count = req->retry_count;
	id->qp.rnr_retry_count = req->rnr_retry_count;
}

/* Queues the event of the listener that reports the new id. */
static bool listen_report(struct xd_cm_id *l, struct xd_cm_id *id, const struct listen_request *r)
{
	struct xd_cm_event *ev = xd_cm_event_new(l, XD_CM_EVENT_CONNECT_REQUEST, 0);
	uint32_t skip = l->src.sa.sa_family == AF_IB ? 0 : XC_IP_HEADER_LEN;

	if (!ev)
		return false;
	ev->body.id = id->number;
	ev->request = id;
	id->request_event = ev;
	if (r->msg->kind == XC_REQ)
		xd_cm_event_set_req(ev, &r->msg->req);
	xd_cm_event_set_data(ev, id->qp_type, r->data, skip);
	l->backlog--;
	xd_cm_event_add(ev);
	return true;
}

/*
 * As in the kernel, a request for which there is no room gets no response: the peer sends it again.
 */
void xd_cm_request(struct xd_rdma_cm *cm, struct xc_id *conn, const struct xc_msg *msg)
{
	struct xd_cm_id *l, *id;
	struct listen_request r;

	decode(cm, conn, msg, &r);
	l = find_listener(cm, &r);
	if (!acceptable(cm, l, &r))
		return;
	if (!l->backlog || xd_cm_id_new(l->obj.client, l->ps, r.qp_type, &id)) {
		xc_ignore(conn);
		return;
	}
	id->state = XD_CM_CONNECT;
	id->device = true;
	id->tos = l->tos;
	set_addresses(id, l, &r);
	listen_set_path(id, &r);
	xd_cm_hold_gid(id, &id->path.gids.local);
	if (xd_cm_id_hold_gsi(id) || !listen_report(l, id, &r)) {
		xd_cm_id_destroy(id);
		xc_ignore(conn);
		return;
	}
	id->conn = conn;
	xc_set_owner(conn, id);
	xd_cm_faults_request(id);
}
