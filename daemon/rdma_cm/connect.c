// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Connections and SIDR exchanges of ids, and the events of the CM engine. */
#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>
#include <sys/random.h>

#include "daemon/base/loop.h"
#include "daemon/gsi/gsi.h"
#include "daemon/helper/dreqs.h"
#include "daemon/objects/port.h"
#include "id.h"

/* Timeout of responses, 4.096 us * 2^20, and number of retries: as in the kernel's cma.c */
#define RESPONSE_TIMEOUT 20
#define CM_RETRIES 15
#define MAX_RETRY 7

#define LOCAL_ID 24 /* offset in a MAD */

_Static_assert(XD_NO_DREQ == XC_NO_NUMBER, "numbers of peers");

static int set_qkey(struct xd_cm_id *id, uint32_t qkey)
{
	if (!qkey || (id->qp.qkey && id->qp.qkey != qkey))
		return -EINVAL;
	id->qp.qkey = qkey;
	return 0;
}

/* ---- active side ---------------------------------------------------------------- */

static void put_header(const struct xd_cm_id *id, uint8_t *at)
{
	struct xc_ip_header h = {
		.ip_version = id->src.sa.sa_family == AF_INET ? 4 : 6,
		.src_port = xd_cm_addr_port(&id->src),
		.src = xd_cm_addr_gid(&id->src),
		.dst = xd_cm_addr_gid(&id->dst),
	};

	xc_ip_header_put(at, &h);
}

/* Private data of REQ and SIDR_REQ. Returns -EINVAL if it is longer than `room`. */
static int connect_build_data(const struct xd_cm_id *id, const struct rdma_ucm_conn_param *param,
			      uint8_t *buf, uint32_t room, struct xc_data *data)
{
	uint32_t skip = id->src.sa.sa_family == AF_IB ? 0 : XC_IP_HEADER_LEN;

	if (skip + param->private_data_len > room)
		return -EINVAL;
	if (skip)
		put_header(id, buf);
	memcpy(buf + skip, param->private_data, param->private_data_len);
	*data = (struct xc_data){ buf, (uint8_t)(skip + param->private_data_len) };
	return 0;
}

static int connect_sidr(struct xd_cm_id *id, const struct rdma_ucm_conn_param *param)
{
	uint8_t buf[XC_SIDR_REQ_DATA];
	struct xc_sidr_param p = {
		.path = id->path.gids,
		.response_timeout = RESPONSE_TIMEOUT,
		.max_cm_retries = CM_RETRIES,
		.req = {
			.service_id = xd_cm_service_id(id->ps, &id->dst),
			.pkey = id->path.pkey,
		},
	};
	int err = connect_build_data(id, param, buf, sizeof(buf), &p.req.data);

	if (err)
		return err;
	id->cm->starting = id;
	err = xc_sidr_request(id->cm->engine, &p, id, &id->conn);
	id->cm->starting = NULL;
	return err;
}

/*
 * Returns the local ACK timeout for a packet life time and the delay of the peer, all as exponents:
 * cm_ack_timeout() of the kernel's cm.c.
 */
static uint8_t ack_timeout(uint8_t delay, uint8_t life_time)
{
	int timeout = life_time + 1;

	if (timeout >= delay)
		timeout += delay >= timeout - 1;
	else
		timeout = delay + (timeout >= delay - 1);
	return (uint8_t)(timeout < 31 ? timeout : 31);
}

static uint8_t at_most(uint8_t n, uint8_t max)
{
	return n < max ? n : max;
}

static enum xc_transport transport_of(uint8_t qp_type)
{
	switch (qp_type) {
	case IBV_QPT_UC:
		return XC_UC;
	case IBV_QPT_XRC_SEND:
		return XC_XRC;
	default:
		return XC_RC;
	}
}

static void fill_req(const struct xd_cm_id *id, struct xc_req *req)
{
	*req = (struct xc_req){
		.path = id->path.gids,
		.service_id = xd_cm_service_id(id->ps, &id->dst),
		.transport = (uint8_t)transport_of(id->qp_type),
		.qpn = id->qp.number,
		.starting_psn = id->qp.rq_psn,
		.responder_resources = id->qp.responder_resources,
		.initiator_depth = id->qp.initiator_depth,
		.remote_response_timeout = RESPONSE_TIMEOUT,
		.local_response_timeout = RESPONSE_TIMEOUT,
		.max_cm_retries = CM_RETRIES,
		.retry_count = id->qp.retry_count,
		.rnr_retry_count = id->qp.rnr_retry_count,
		.ack_timeout = ack_timeout(XD_PORT_ACK_DELAY, id->path.life_time),
		.mtu = id->path.mtu,
		.rate = id->path.rate,
		.pkey = id->path.pkey,
		.srq = id->qp.srq,
		.vendor_id = id->ece.vendor_id,
		.ece_options = id->ece.attr_mod,
	};
}

/* The requester of XRC has no responder and no SRQ (IBTA A14). */
static void clear_responder(struct xc_req *req)
{
	req->responder_resources = 0;
	req->retry_count = 0;
	req->rnr_retry_count = 0;
	req->srq = false;
}

static int connect_qp(struct xd_cm_id *id, const struct rdma_ucm_conn_param *param)
{
	uint8_t buf[XC_REQ_DATA];
	struct xc_req req;
	int err = xd_cm_take_qp(id, param);

	if (err)
		return err;
	id->qp.responder_resources = param->responder_resources;
	id->qp.initiator_depth = param->initiator_depth;
	id->qp.retry_count = at_most(param->retry_count, MAX_RETRY);
	id->qp.rnr_retry_count = at_most(param->rnr_retry_count, MAX_RETRY);
	id->qp.timeout = id->path.life_time + 1;
	fill_req(id, &req);
	req.flow_control = param->flow_control;
	if (id->qp_type == IBV_QPT_XRC_SEND)
		clear_responder(&req);
	err = connect_build_data(id, param, buf, sizeof(buf), &req.data);
	if (err)
		return err;
	id->cm->starting = id;
	err = xc_connect(id->cm->engine, &req, id, &id->conn);
	id->cm->starting = NULL;
	return err;
}

int xd_cm_connect(struct xd_cm_id *id, const struct rdma_ucm_conn_param *param)
{
	int err;

	if (id->state != XD_CM_ROUTE_RESOLVED)
		return -EINVAL;
	err = xd_cm_id_hold_gsi(id);
	if (err)
		return err;
	id->state = XD_CM_CONNECT;
	err = id->qp_type == IBV_QPT_UD ? connect_sidr(id, param) : connect_qp(id, param);
	if (err)
		id->state = XD_CM_ROUTE_RESOLVED;
	return err;
}

/* ---- accept and reject ---------------------------------------------------------- */

static int accept_sidr(struct xd_cm_id *id, const struct rdma_ucm_conn_param *param)
{
	struct xc_sidr_rep rep = {
		.status = XC_SIDR_OK,
		.vendor_id = id->ece.vendor_id,
		.ece_options = id->ece.attr_mod,
	};
	int err = param ? xd_cm_take_qp(id, param) : 0;

	/* Programs choose a Q_Key by AF_IB addresses only. */
	if (!err && param && param->qkey && id->src.sa.sa_family == AF_IB)
		err = set_qkey(id, param->qkey);
	if (err)
		return err;
	xd_cm_default_qkey(id);
	rep.qpn = id->qp.number;
	rep.qkey = id->qp.qkey;
	if (param)
		rep.data = (struct xc_data){ param->private_data, param->private_data_len };
	return xc_sidr_reply(id->conn, &rep);
}

static int accept_req(struct xd_cm_id *id, const struct rdma_ucm_conn_param *param)
{
	struct xc_rep rep = {
		.starting_psn = id->qp.rq_psn,
		.responder_resources = param->responder_resources,
		.initiator_depth = param->initiator_depth,
		.target_ack_delay = XD_PORT_ACK_DELAY,
		.rnr_retry_count = at_most(param->rnr_retry_count, MAX_RETRY),
		.flow_control = param->flow_control,
		.vendor_id = id->ece.vendor_id,
		.ece_options = id->ece.attr_mod,
		.data = { param->private_data, param->private_data_len },
	};
	int err = xd_cm_take_qp(id, param);

	if (err)
		return err;
	rep.qpn = id->qp.number;
	rep.srq = id->qp.srq;
	if (id->qp_type == IBV_QPT_XRC_RECV) {
		/* The target of XRC has no requester and receives through SRQs (IBTA A14). */
		rep.initiator_depth = 0;
		rep.flow_control = false;
		rep.srq = true;
	}
	id->qp.responder_resources = param->responder_resources;
	id->qp.initiator_depth = param->initiator_depth;
	return xc_accept(id->conn, &rep);
}

int xd_cm_accept(struct xd_cm_id *id, const struct rdma_ucm_conn_param *param)
{
	static const struct xc_data nothing;
	int err;

	if (id->state != XD_CM_CONNECT || !id->conn)
		return -EINVAL;
	if (id->qp_type == IBV_QPT_UD)
		err = accept_sidr(id, param);
	else
		err = param ? accept_req(id, param) : xc_establish(id->conn, &nothing);
	if (err)
		xd_cm_reject(id, NULL, 0, XC_REJ_CONSUMER);
	return err;
}

int xd_cm_reject(struct xd_cm_id *id, const void *data, uint8_t len, uint8_t reason)
{
	struct xc_data private = { data, len };

	if (!id->conn)
		return -EINVAL;
	if (id->qp_type == IBV_QPT_UD)
		return xc_sidr_reply(id->conn, &(struct xc_sidr_rep){
						       .status = XC_SIDR_REJECTED,
						       .data = private,
					       });
	return xc_reject(id->conn, &(struct xc_rej){ .reason = reason, .data = private });
}

/* ---- end ------------------------------------------------------------------------ */

int xd_cm_disconnect(struct xd_cm_id *id)
{
	static const struct xc_data nothing;

	if (!id->conn)
		return -EINVAL;
	xd_cm_send_posted(id);
	/* As in the kernel, other states are no error. */
	if (xc_disconnect(id->conn, &nothing))
		xc_reply_disconnect(id->conn, &nothing);
	return 0;
}

int xd_cm_notify(struct xd_cm_id *id, uint32_t event)
{
	if (!id->conn || event != IBV_EVENT_COMM_EST)
		return -EINVAL;
	return xc_notify_established(id->conn);
}

/* ---- events --------------------------------------------------------------------- */

static void on_rep(struct xd_cm_id *id, const struct xc_rep *rep)
{
	struct xd_cm_event *ev = xd_cm_event_new(id, XD_CM_EVENT_CONNECT_RESPONSE, 0);
	struct rdma_ucm_conn_param *p;

	id->qp.remote = rep->qpn;
	id->qp.sq_psn = rep->starting_psn;
	id->qp.responder_resources = rep->initiator_depth;
	id->qp.initiator_depth = rep->responder_resources;
	id->qp.rnr_retry_count = rep->rnr_retry_count;
	id->qp.timeout = ack_timeout(rep->target_ack_delay, id->qp.timeout - 1);
	if (!ev)
		return;
	p = &ev->body.param.conn;
	p->responder_resources = rep->initiator_depth;
	p->initiator_depth = rep->responder_resources;
	p->flow_control = rep->flow_control;
	p->rnr_retry_count = rep->rnr_retry_count;
	p->srq = rep->srq;
	p->qp_num = rep->qpn;
	ev->body.ece = (struct rdma_ucm_ece){ rep->vendor_id, rep->ece_options };
	xd_cm_event_set_data(ev, id->qp_type, &rep->data, 0);
	xd_cm_event_add(ev);
}

static void on_sidr_rep(struct xd_cm_id *id, const struct xc_sidr_rep *rep)
{
	bool ok = rep->status == XC_SIDR_OK;
	struct rdma_ucm_ud_param *p;
	struct xd_cm_event *ev;
	int err;

	err = ok ? set_qkey(id, rep->qkey) : 0;
	if (err) {
		xd_cm_event_raise(id, XD_CM_EVENT_ADDR_ERROR, err);
		return;
	}
	ev = xd_cm_event_new(id, ok ? XD_CM_EVENT_ESTABLISHED : XD_CM_EVENT_UNREACHABLE,
			     rep->status);
	if (!ev)
		return;
	p = &ev->body.param.ud;
	xd_cm_event_set_data(ev, IBV_QPT_UD, &rep->data, 0);
	if (ok) {
		id->qp.remote = rep->qpn;
		p->qp_num = rep->qpn;
		p->qkey = rep->qkey;
		xd_cm_ah_attr(id, &p->ah_attr);
		ev->body.ece = (struct rdma_ucm_ece){ rep->vendor_id, rep->ece_options };
	}
	xd_cm_event_add(ev);
}

static void on_rejected(struct xd_cm_id *id, const struct xc_rej *rej)
{
	struct xd_cm_event *ev = xd_cm_event_new(id, XD_CM_EVENT_REJECTED, rej->reason);

	if (!ev)
		return;
	xd_cm_event_set_data(ev, id->qp_type, &rej->data, 0);
	xd_cm_event_add(ev);
}

static void on_disconnected(struct xd_cm_id *id, int status)
{
	id->state = XD_CM_DISCONNECT;
	xd_cm_event_raise(id, XD_CM_EVENT_DISCONNECTED, status);
}

static void connection_event(struct xd_cm_id *id, const struct xc_event *e)
{
	switch (e->type) {
	case XC_EVENT_REP:
		on_rep(id, &e->msg->rep);
		break;
	case XC_EVENT_ESTABLISHED:
		xd_cm_event_raise(id, XD_CM_EVENT_ESTABLISHED, 0);
		break;
	case XC_EVENT_REJECTED:
		on_rejected(id, &e->msg->rej);
		break;
	case XC_EVENT_UNREACHABLE:
		xd_cm_event_raise(id, XD_CM_EVENT_UNREACHABLE, e->status);
		break;
	case XC_EVENT_DREQ:
	case XC_EVENT_DISCONNECTED:
		on_disconnected(id, e->status);
		break;
	case XC_EVENT_SIDR_REP:
		on_sidr_rep(id, &e->msg->sidr_rep);
		break;
	default:
		break;
	}
}

static void connect_on_event(void *ctx, struct xc_id *conn, const struct xc_event *e)
{
	struct xd_rdma_cm *cm = ctx;
	struct xd_cm_id *id = xc_info(conn)->owner;

	if (e->type == XC_EVENT_REQ || e->type == XC_EVENT_SIDR_REQ)
		xd_cm_request(cm, conn, e->msg);
	else if (e->type == XC_EVENT_TIMEWAIT_EXIT && id->state == XD_CM_DISCONNECT)
		xd_cm_event_raise(id, XD_CM_EVENT_TIMEWAIT_EXIT, 0);
	else if (e->type != XC_EVENT_TIMEWAIT_EXIT && id->state == XD_CM_CONNECT)
		connection_event(id, e);
}

/* ---- the engine's other callbacks ----------------------------------------------- */

/* Returns the communication ID, or the request ID, of the sender of a MAD. */
static uint32_t local_id(const uint8_t *mad)
{
	uint32_t id;

	memcpy(&id, mad + LOCAL_ID, sizeof(id));
	return be32toh(id);
}

static void send_mad(void *ctx, const struct xc_path *path, const uint8_t *mad)
{
	struct xd_rdma_cm *cm = ctx;

	if (cm->starting)
		xd_cm_faults_connection(cm->starting, local_id(mad));
	/* A MAD that is not sent is repeated later. */
	if (cm->dev->gsi)
		xd_gsi_send(cm->dev->gsi, path, mad);
}

static uint64_t connect_now(void *ctx)
{
	return xd_now();
}

static void fill_random(void *ctx, void *buf, size_t len)
{
	while (getrandom(buf, len, 0) != (ssize_t)len)
		;
}

/*
 * Only a peer to which MADs were sent has a known path: one that gets the first REP after its next
 * hop was resolved is entered when it sends the RTU. A peer at this device ends with it.
 */
static uint32_t peer_connected(void *ctx, const struct xc_info *info, uint64_t dreq_tid,
			       uint32_t number)
{
	struct xd_dreq d = {
		.local_id = info->local_id,
		.remote_id = info->remote_id,
		.remote_qpn = info->remote_qpn,
		.tid = dreq_tid,
	};
	struct xd_rdma_cm *cm = ctx;

	if (number != XD_NO_DREQ || !cm->dreqs || !cm->dev->gsi ||
	    !xd_gsi_last_path(cm->dev->gsi, &info->path, &d.path) || d.path.loopback)
		return number;
	return xd_dreqs_add(cm->dreqs, &d);
}

static void peer_gone(void *ctx, uint32_t number)
{
	struct xd_rdma_cm *cm = ctx;

	if (cm->dreqs && number != XD_NO_DREQ)
		xd_dreqs_del(cm->dreqs, number);
}

const struct xc_ops xd_cm_engine_ops = {
	.send = send_mad,
	.event = connect_on_event,
	.now = connect_now,
	.random = fill_random,
	.peer_connected = peer_connected,
	.peer_gone = peer_gone,
	.orphan_gone = xd_cm_orphan_gone,
};
