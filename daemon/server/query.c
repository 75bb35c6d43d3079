// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* HELLO, QUERY_DEVICE, QUERY_PORT and QUERY_GIDS. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/options.h"
#include "daemon/clients/request.h"
#include "daemon/faults/faults.h"
#include "daemon/io/tables.h"
#include "daemon/netdev/net.h"
#include "daemon/objects/port.h"
#include "daemon/umad/umad.h"
#include "server.h"
#include "view.h"

/* An OUI that is not assigned, as rdma_rxe has. Programs treat 0 as an error. */
#define VENDOR_NONE 0xffffff

/* ---- HELLO ----------------------------------------------------------------------------- */

static int hello_fds(struct xd_client *c, struct xr_hello_rep *body, struct xd_reply *rep)
{
	int uffd_dev = xd_server_of(c)->uffd_dev, events;
	int err = xd_doorbells_open(c);

	if (err)
		return err;
	err = xd_client_events_open(c, &events);
	if (err) {
		xd_doorbells_close(c);
		return err;
	}
	xd_reply_fd(rep, events, false);
	xd_doorbells_reply(c, &body->doorbells, rep);
	if (uffd_dev >= 0) {
		xd_reply_fd(rep, uffd_dev, true);
		body->has_uffd = 1;
	}
	return 0;
}

/* HELLO of a channel of rdma_cm, or of a file of umad */
static int hello_channel(struct xd_client *c, struct xd_request *req, struct xr_hello_rep *body,
			 struct xd_reply *rep)
{
	const struct xr_hello_req *q = req->body;
	int err;

	if (req->nfds)
		return xd_refuse(c, -EINVAL, "descriptors");
	err = xd_connection_may_greet_channel(c);
	if (!err)
		err = q->flags == XR_HELLO_UMAD ? xd_umad_hello(c, rep)
						: xd_cm_channel_hello(c, body->token, rep);
	if (err)
		return err;
	xd_faults_hello(c);
	xd_connection_greet_channel(c);
	xd_client_close_process(c);
	return 0;
}

static int hello_verbs(struct xd_client *c, struct xd_request *req, struct xr_hello_rep *body,
		       struct xd_reply *rep)
{
	const uint8_t *token;
	int err = xd_import_hello(c, req, &token);

	if (!err)
		err = hello_fds(c, body, rep);
	if (err)
		return err;
	memcpy(body->token, token, sizeof(body->token));
	xd_faults_hello(c);
	xd_connection_greet(c, false);
	return 0;
}

int xd_do_hello(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xd_link *link = xd_net_link(c->dev->net);
	const struct xr_hello_req *q = req->body;
	struct xr_hello_rep *body;

	if (q->version != XR_PROTOCOL_VERSION)
		return xd_refuse(c, -EPROTO, "protocol version %u, the daemon has %u", q->version,
				 XR_PROTOCOL_VERSION);
	if (q->flags & ~(uint32_t)XR_HELLO_OBSERVER && q->flags != XR_HELLO_IMPORT &&
	    q->flags != XR_HELLO_CM && q->flags != XR_HELLO_UMAD)
		return xd_refuse(c, -EINVAL, "flags 0x%x", q->flags);
	body = XD_REPLY(rep, xr_hello_rep);
	body->version = XR_PROTOCOL_VERSION;
	body->workers = xd_workers_count(c->dev->workers);
	body->index = c->dev->index;
	body->guid = link->guid;
	body->no_reply = 1;
	snprintf(body->device, sizeof(body->device), "%s", c->dev->opt->name);
	snprintf(body->netdev, sizeof(body->netdev), "%s", link->ifname);
	if (q->flags & XR_HELLO_OBSERVER) {
		xd_connection_greet(c, true);
		return 0;
	}
	if (q->flags & (XR_HELLO_CM | XR_HELLO_UMAD))
		return hello_channel(c, req, body, rep);
	return hello_verbs(c, req, body, rep);
}

/* ---- device ------------------------------------------------------------------------------ */

int xd_do_query_device(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	struct xr_query_device_rep *d = XD_REPLY(rep, xr_query_device_rep);
	const struct xd_options *opt = c->dev->opt;

	d->guid = xd_net_link(c->dev->net)->guid;
	d->vendor_id = VENDOR_NONE;
	d->max_mr_size = opt->user_max_pinned;
	d->page_size_cap = ~((uint64_t)sysconf(_SC_PAGESIZE) - 1) & UINT32_MAX;
	d->device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
			      IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SYS_IMAGE_GUID |
			      IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR |
			      IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC | IBV_DEVICE_MEM_WINDOW |
			      IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS |
			      XR_DEVICE_CAPS_EX;
	d->odp_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
	d->odp_rc = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE |
		    IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV |
		    XR_ODP_FLUSH | XR_ODP_ATOMIC_WRITE;
	d->odp_uc = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE;
	d->odp_ud = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
	d->max_qp = xd_object_limit(c, XD_QP);
	d->max_qp_wr = XR_MAX_WR;
	d->max_sge = XR_MAX_SGE;
	d->max_cq = xd_object_limit(c, XD_CQ);
	d->max_cqe = XR_MAX_CQE;
	d->max_mr = xd_object_limit(c, XD_MR);
	d->max_mw = xd_object_limit(c, XD_MW);
	d->max_pd = xd_object_limit(c, XD_PD);
	d->max_dm_size = opt->client_max_dm & ~((uint64_t)sysconf(_SC_PAGESIZE) - 1);
	d->max_ah = xd_object_limit(c, XD_AH);
	d->max_srq = xd_object_limit(c, XD_SRQ);
	d->max_srq_wr = XR_MAX_WR;
	d->max_srq_sge = XR_MAX_SGE;
	d->max_qp_rd_atom = d->max_qp_init_rd_atom = XT_MAX_RD_ATOMIC;
	d->max_res_rd_atom = XT_MAX_RD_ATOMIC * d->max_qp;
	d->atomic_cap = IBV_ATOMIC_HCA;
	/* The client's limit counts each attachment of a QP to a group. */
	d->max_mcast_grp = XR_MAX_GROUPS < XD_CLIENT_ATTACHED ? XR_MAX_GROUPS : XD_CLIENT_ATTACHED;
	d->max_mcast_qp_attach = d->max_total_mcast_qp_attach = XD_CLIENT_ATTACHED;
	d->max_pkeys = 1;
	d->local_ca_ack_delay = XD_PORT_ACK_DELAY;
	d->max_inline = XR_MAX_INLINE;
	snprintf(d->fw_ver, sizeof(d->fw_ver), "%s", XR_VERSION);
	d->rate_min = XT_MIN_RATE;
	d->rate_max = XT_MAX_RATE;
	d->rate_qpts = 1u << IBV_QPT_RC | 1u << IBV_QPT_UC | 1u << IBV_QPT_UD;
	return 0;
}

/* ---- port ----------------------------------------------------------------------------------- */

struct speed {
	uint32_t mbps;
	uint32_t speed, width; /* as in struct ibv_port_attr */
};

/* Speed of a lane times width. The slowest row that is not slower than the link is reported. */
static const struct speed speeds[] = {
	{ 2500, 1, 1 },	  { 10000, 1, 2 },   { 20000, 2, 2 },	{ 25000, 32, 1 },   { 40000, 8, 2 },
	{ 50000, 64, 1 }, { 100000, 32, 2 }, { 200000, 64, 2 }, { 400000, 128, 2 },
};

static const struct speed *speed_of(uint32_t mbps)
{
	uint32_t i, last = sizeof(speeds) / sizeof(speeds[0]) - 1;

	for (i = 0; i < last && speeds[i].mbps < mbps; i++)
		;
	return &speeds[i];
}

/* Sum of packets dropped for a reason by XDP and by the engines, saturated at 32 bits */
static uint32_t violations(struct xd_device *dev, enum xr_reason reason, uint64_t by_engines)
{
	struct xr_stat stat;
	uint64_t sum;

	if (xd_tables_stat(dev->tables, reason, &stat))
		stat.packets = 0;
	sum = by_engines + stat.packets;
	return sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
}

static uint64_t qkey_errors(struct xd_device *dev)
{
	struct xt_counters sum = { 0 };

	xd_workers_sum(dev->workers, &sum, NULL);
	return sum.qkey_errors;
}

int xd_do_query_port(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	struct xr_query_port_rep *p = XD_REPLY(rep, xr_query_port_rep);
	const struct xd_link *link = xd_net_link(c->dev->net);
	const struct speed *speed = speed_of(link->speed_mbps);
	const bool up = link->up && !c->fault_port;
	struct xd_sums direct = { 0 };

	p->state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	p->phys_state = up ? 5 : 3; /* LinkUp, Disabled: IBTA 14.2.5.6 */
	p->max_mtu = xd_port_mtu_code(xd_port_max_mtu(c->dev));
	p->active_mtu = xd_port_mtu_code(xd_port_mtu(c->dev));
	p->gid_tbl_len = XR_GID_TABLE_LEN;
	p->pkey_tbl_len = 1;
	p->active_speed = speed->speed;
	p->active_width = speed->width;
	p->max_msg_sz = XR_MAX_MSG_SIZE;
	/* IBTA 14.2.5.6: P_KeyViolations, Q_KeyViolations */
	xd_views_sum(xd_server_of(c), &direct);
	p->bad_pkey_cntr = violations(c->dev, XR_PKEY, direct.reason[XR_PKEY].packets);
	p->qkey_viol_cntr = violations(c->dev, XR_QKEY,
				       direct.reason[XR_QKEY].packets +
					       direct.transport.qkey_errors + qkey_errors(c->dev));
	p->netdev_ifindex = link->ifindex;
	p->link_speed_mbps = link->speed_mbps;
	memcpy(p->mac, link->mac, sizeof(p->mac));
	return 0;
}

/* Leaves out the GIDs that an injected fault hides. Returns the number of those that are left. */
static uint32_t show_gids(const struct xd_client *c, struct xr_gid_entry *entry, uint32_t n)
{
	struct xd_faults *f = xd_workers_faults(c->dev->workers);
	uint32_t kept = 0;

	for (uint32_t i = 0; i < n; i++)
		if (!xd_faults_hide(f, c->fault_gids, &entry[i].gid))
			entry[kept++] = entry[i];
	return kept;
}

int xd_do_query_gids(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	struct xr_query_gids_rep *g = (void *)rep->body;

	xd_reply_body(rep, sizeof(*g));
	g->count = xd_net_gids(c->dev->net, g->entry, XR_GID_TABLE_LEN);
	if (c->fault_gids)
		g->count = show_gids(c, g->entry, g->count);
	rep->length = sizeof(*g) + g->count * sizeof(g->entry[0]);
	return 0;
}
