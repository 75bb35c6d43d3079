// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Decodes commands, checks their ids, and replies. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>

#include "daemon/base/options.h"
#include "daemon/clients/request.h"
#include "daemon/clients/unload.h"
#include "id.h"

/* Commands and structures that the <rdma/rdma_user_cm.h> of Linux 6.17 has added */
#define CMD_RESOLVE_IB_SERVICE 23
#define CMD_WRITE_CM_EVENT 24
#define QUERY_IB_SERVICE 3

struct write_cm_event {
	uint32_t id, reserved, event, status;
	uint64_t arg;
};

union body {
	struct rdma_ucm_create_id create_id;
	struct rdma_ucm_destroy_id destroy_id;
	struct rdma_ucm_bind_ip bind_ip;
	struct rdma_ucm_bind bind;
	struct rdma_ucm_resolve_ip resolve_ip;
	struct rdma_ucm_resolve_addr resolve_addr;
	struct rdma_ucm_resolve_route resolve_route;
	struct rdma_ucm_query query;
	struct rdma_ucm_connect connect;
	struct rdma_ucm_listen listen;
	struct rdma_ucm_accept accept;
	struct rdma_ucm_reject reject;
	struct rdma_ucm_disconnect disconnect;
	struct rdma_ucm_init_qp_attr init_qp_attr;
	struct rdma_ucm_set_option set_option;
	struct rdma_ucm_notify notify;
	struct rdma_ucm_join_ip_mcast join_ip;
	struct rdma_ucm_join_mcast join;
	struct rdma_ucm_migrate_id migrate;
	struct write_cm_event write_event;
};

/* A command, decoded */
struct command {
	struct xd_client *client;
	union body b; /* zeros behind what the client sent */
	uint32_t in, out;
	const uint8_t *appended;
	uint32_t appended_len;
	struct xd_cm_id *id; /* which the command names */
	struct xd_reply *rep;
};

/* Returns room for a reply of exactly this type. NULL: the client has less. */
#define REPLY(c, type) ((struct type *)reply_body(c, sizeof(struct type)))
static void *reply_body(struct command *c, uint32_t size)
{
	return c->out < size ? NULL : xd_reply_body(c->rep, size);
}

/* ---- ids ------------------------------------------------------------------------ */

static int command_create_id(struct command *c)
{
	const struct rdma_ucm_create_id *q = &c->b.create_id;
	struct rdma_ucm_create_id_resp *r = REPLY(c, rdma_ucm_create_id_resp);
	uint8_t qp_type = IBV_QPT_UD;
	struct xd_cm_id *id;
	int err;

	if (!r)
		return -ENOSPC;
	if (q->ps == RDMA_PS_TCP)
		qp_type = IBV_QPT_RC;
	else if (q->ps == RDMA_PS_IB)
		qp_type = q->qp_type;
	else if (q->ps != RDMA_PS_UDP && q->ps != RDMA_PS_IPOIB)
		return -EINVAL;
	err = xd_cm_id_new(c->client, q->ps, qp_type, &id);
	if (err)
		return err;
	id->uid = q->uid;
	r->id = id->number;
	return 0;
}

static int command_unloaded(struct xd_object *obj, const void *request, struct xd_reply *rep)
{
	struct rdma_ucm_destroy_id_resp *r = xd_reply_body(rep, sizeof(*r));

	(void)request;
	r->events_reported = xd_cm_id_destroy(container_of(obj, struct xd_cm_id, obj));
	return 0;
}

static int destroy_id(struct command *c)
{
	if (c->out < sizeof(struct rdma_ucm_destroy_id_resp))
		return -ENOSPC;
	return xd_after_unload(&c->id->obj, NULL, 0, command_unloaded, c->rep);
}

static int command_set_option(struct command *c)
{
	const struct rdma_ucm_set_option *q = &c->b.set_option;

	if (q->optlen > XR_CM_OPTION_MAX || q->optlen > c->appended_len)
		return -EINVAL;
	return xd_cm_id_set_option(c->id, q->level, q->optname, c->appended, q->optlen);
}

/* The client has the other channel's token, so it has that channel too. */
static int command_migrate_id(struct command *c)
{
	struct rdma_ucm_migrate_resp *r = REPLY(c, rdma_ucm_migrate_resp);
	struct xd_client *from;
	struct xd_cm_id *id;
	int err;

	if (!r)
		return -ENOSPC;
	if (c->appended_len < XR_TOKEN_LEN)
		return -EINVAL;
	from = xd_cm_channel_by_token(c->client, c->appended);
	if (!from)
		return -EINVAL;
	err = xd_cm_id_get(from, c->b.migrate.id, &id);
	return err ? err : xd_cm_id_migrate(id, c->client, &r->events_reported);
}

/* ---- addresses and routes ------------------------------------------------------- */

#define READ_ADDR(to, from) xd_cm_addr_read(to, &(from), sizeof(from))

static int bind_ip(struct command *c)
{
	union xd_cm_addr a;

	if (!READ_ADDR(&a, c->b.bind_ip.addr))
		return -EINVAL;
	return xd_cm_bind(c->id, &a);
}

static int command_bind_any(struct command *c)
{
	const struct rdma_ucm_bind *q = &c->b.bind;
	union xd_cm_addr a;

	if (q->reserved || !q->addr_size || q->addr_size != READ_ADDR(&a, q->addr))
		return -EINVAL;
	return xd_cm_bind(c->id, &a);
}

/* The client says that no other daemon has the route. */
static bool is_last(const struct command *c)
{
	return c->appended_len && c->appended[0];
}

static int resolve_ip(struct command *c)
{
	const struct rdma_ucm_resolve_ip *q = &c->b.resolve_ip;
	union xd_cm_addr src, dst;

	if ((!READ_ADDR(&src, q->src_addr) && q->src_addr.sin6_family) ||
	    !READ_ADDR(&dst, q->dst_addr))
		return -EINVAL;
	return xd_cm_resolve_addr(c->id, &src, &dst, q->timeout_ms, is_last(c));
}

static int resolve_addr(struct command *c)
{
	const struct rdma_ucm_resolve_addr *q = &c->b.resolve_addr;
	union xd_cm_addr src, dst;
	uint32_t src_size = READ_ADDR(&src, q->src_addr), dst_size = READ_ADDR(&dst, q->dst_addr);

	if (q->reserved || (q->src_size && q->src_size != src_size) || !dst_size ||
	    q->dst_size != dst_size)
		return -EINVAL;
	return xd_cm_resolve_addr(c->id, &src, &dst, q->timeout_ms, is_last(c));
}

static int resolve_route(struct command *c)
{
	return xd_cm_resolve_route(c->id, c->b.resolve_route.timeout_ms);
}

static int query_route(struct command *c)
{
	return xd_cm_query_route(c->id, c->out, c->rep);
}

static int command_query(struct command *c)
{
	if (c->b.query.option == QUERY_IB_SERVICE) /* see resolve_ib_service() */
		return -EOPNOTSUPP;
	return xd_cm_query(c->id, c->b.query.option, c->out, c->rep);
}

static int init_qp_attr(struct command *c)
{
	struct ib_uverbs_qp_attr *r = REPLY(c, ib_uverbs_qp_attr);

	return r ? xd_cm_init_qp_attr(c->id, c->b.init_qp_attr.qp_state, r) : -ENOSPC;
}

/* There is no subnet administrator on RoCE that has records of services. */
static int resolve_ib_service(struct command *c)
{
	return -EOPNOTSUPP;
}

/* ---- connections ---------------------------------------------------------------- */

#define END_OF(type, field) (offsetof(struct type, field) + sizeof(((struct type *)0)->field))

static int connect_id(struct command *c)
{
	const struct rdma_ucm_connect *q = &c->b.connect;

	if (c->in < END_OF(rdma_ucm_connect, reserved) || !q->conn_param.valid)
		return -EINVAL;
	c->id->ece = q->ece;
	return xd_cm_connect(c->id, &q->conn_param);
}

static int command_listen_id(struct command *c)
{
	return xd_cm_listen(c->id, (int32_t)c->b.listen.backlog);
}

static int command_accept_id(struct command *c)
{
	const struct rdma_ucm_accept *q = &c->b.accept;
	int err;

	if (c->in < END_OF(rdma_ucm_accept, reserved))
		return -EINVAL;
	c->id->ece = q->ece;
	err = xd_cm_accept(c->id, q->conn_param.valid ? &q->conn_param : NULL);
	if (!err && q->conn_param.valid)
		c->id->uid = q->uid;
	return err;
}

static int reject_id(struct command *c)
{
	const struct rdma_ucm_reject *q = &c->b.reject;
	uint8_t reason = q->reason ? q->reason : XC_REJ_CONSUMER;

	if (reason != XC_REJ_CONSUMER && reason != XC_REJ_VENDOR)
		return -EINVAL;
	return xd_cm_reject(c->id, q->private_data, q->private_data_len, reason);
}

static int disconnect_id(struct command *c)
{
	return xd_cm_disconnect(c->id);
}

static int notify_id(struct command *c)
{
	return xd_cm_notify(c->id, c->b.notify.event);
}

/* ---- multicast ------------------------------------------------------------------ */

static int join_group(struct command *c, uint64_t uid, const union xd_cm_addr *addr, uint16_t flags)
{
	struct rdma_ucm_create_id_resp *r = REPLY(c, rdma_ucm_create_id_resp);

	return r ? xd_cm_join(c->id, uid, addr, flags, &r->id) : -ENOSPC;
}

static int join_ip(struct command *c)
{
	const struct rdma_ucm_join_ip_mcast *q = &c->b.join_ip;
	union xd_cm_addr a;

	if (!READ_ADDR(&a, q->addr))
		return -EINVAL;
	return join_group(c, q->uid, &a, RDMA_MC_JOIN_FLAG_FULLMEMBER);
}

static int command_join(struct command *c)
{
	const struct rdma_ucm_join_mcast *q = &c->b.join;
	union xd_cm_addr a;
	uint32_t size = READ_ADDR(&a, q->addr);

	if (!size || q->addr_size != size)
		return -EINVAL;
	return join_group(c, q->uid, &a, q->join_flags);
}

static int command_leave(struct command *c)
{
	struct rdma_ucm_destroy_id_resp *r = REPLY(c, rdma_ucm_destroy_id_resp);

	if (!r)
		return -ENOSPC;
	return xd_cm_leave(c->client, c->b.destroy_id.id, &r->events_reported);
}

/* ---- events --------------------------------------------------------------------- */

/* Old 32-bit clients have no room for the last two fields. */
#define LEAST_EVENT offsetof(struct rdma_ucm_event_resp, reserved)

static int get_event(struct command *c)
{
	uint32_t size = c->out < sizeof(struct rdma_ucm_event_resp)
				? c->out
				: (uint32_t)sizeof(struct rdma_ucm_event_resp);
	struct xd_cm_event *ev;

	if (c->out < LEAST_EVENT)
		return -ENOSPC;
	ev = xd_cm_channel_take_event(c->client->cm_channel);
	if (!ev)
		return -EAGAIN;
	memcpy(xd_reply_body(c->rep, size), &ev->body, size);
	ev->id->events_reported++;
	if (ev->join)
		ev->join->events_reported++;
	else if (c->out > size)
		xd_cm_add_early_replies(ev->request ? ev->request : ev->id, ev->body.event, c->out,
					c->rep);
	if (ev->request)
		ev->id->backlog++;
	xd_cm_event_free(ev);
	return 0;
}

/* The event of an address or route that is resolved at once comes with the reply. */
static int add_event(struct command *c)
{
	if (c->out < LEAST_EVENT || !xd_cm_channel_next_is(c->client->cm_channel, c->id))
		return 0;
	return get_event(c);
}

static int write_cm_event(struct command *c)
{
	const struct write_cm_event *q = &c->b.write_event;
	struct xd_cm_event *ev;

	if (q->event != XD_CM_EVENT_USER && q->event != XD_CM_EVENT_INTERNAL)
		return -EINVAL;
	/* as many as there may be of peers, since moving the id moves them */
	if (c->id->events_queued >= c->client->dev->opt->cm_backlog)
		return -ENOMEM;
	ev = xd_cm_event_new(c->id, q->event, (int)q->status);
	if (!ev)
		return -ENOMEM;
	memcpy(&ev->body.param, &q->arg, sizeof(q->arg));
	xd_cm_event_add(ev);
	return 0;
}

/* ---- dispatch ------------------------------------------------------------------- */

#define NO_ID UINT32_MAX
#define ID_AT(type) offsetof(struct type, id)
#define NEEDS_DEVICE 1 /* EINVAL while the id is not bound to the device */
#define MAKES_EVENT 2  /* which the reply may carry */

static const struct {
	int (*execute)(struct command *c);
	uint32_t id; /* offset of the id, or NO_ID */
	uint32_t flags;
} commands[XR_CM_COMMANDS] = {
	[RDMA_USER_CM_CMD_CREATE_ID] = { command_create_id, NO_ID, 0 },
	[RDMA_USER_CM_CMD_DESTROY_ID] = { destroy_id, ID_AT(rdma_ucm_destroy_id), 0 },
	[RDMA_USER_CM_CMD_BIND_IP] = { bind_ip, ID_AT(rdma_ucm_bind_ip), 0 },
	[RDMA_USER_CM_CMD_RESOLVE_IP] = { resolve_ip, ID_AT(rdma_ucm_resolve_ip), MAKES_EVENT },
	[RDMA_USER_CM_CMD_RESOLVE_ROUTE] = { resolve_route, ID_AT(rdma_ucm_resolve_route),
					     NEEDS_DEVICE | MAKES_EVENT },
	[RDMA_USER_CM_CMD_QUERY_ROUTE] = { query_route, ID_AT(rdma_ucm_query), 0 },
	[RDMA_USER_CM_CMD_CONNECT] = { connect_id, ID_AT(rdma_ucm_connect), NEEDS_DEVICE },
	[RDMA_USER_CM_CMD_LISTEN] = { command_listen_id, ID_AT(rdma_ucm_listen), 0 },
	[RDMA_USER_CM_CMD_ACCEPT] = { command_accept_id, ID_AT(rdma_ucm_accept), NEEDS_DEVICE },
	[RDMA_USER_CM_CMD_REJECT] = { reject_id, ID_AT(rdma_ucm_reject), NEEDS_DEVICE },
	[RDMA_USER_CM_CMD_DISCONNECT] = { disconnect_id, ID_AT(rdma_ucm_disconnect), NEEDS_DEVICE },
	[RDMA_USER_CM_CMD_INIT_QP_ATTR] = { init_qp_attr, ID_AT(rdma_ucm_init_qp_attr),
					    NEEDS_DEVICE },
	[RDMA_USER_CM_CMD_GET_EVENT] = { get_event, NO_ID, 0 },
	[RDMA_USER_CM_CMD_SET_OPTION] = { command_set_option, ID_AT(rdma_ucm_set_option), 0 },
	[RDMA_USER_CM_CMD_NOTIFY] = { notify_id, ID_AT(rdma_ucm_notify), NEEDS_DEVICE },
	[RDMA_USER_CM_CMD_JOIN_IP_MCAST] = { join_ip, ID_AT(rdma_ucm_join_ip_mcast), NEEDS_DEVICE },
	[RDMA_USER_CM_CMD_LEAVE_MCAST] = { command_leave, NO_ID, 0 },
	[RDMA_USER_CM_CMD_MIGRATE_ID] = { command_migrate_id, NO_ID, 0 },
	[RDMA_USER_CM_CMD_QUERY] = { command_query, ID_AT(rdma_ucm_query), 0 },
	[RDMA_USER_CM_CMD_BIND] = { command_bind_any, ID_AT(rdma_ucm_bind), 0 },
	[RDMA_USER_CM_CMD_RESOLVE_ADDR] = { resolve_addr, ID_AT(rdma_ucm_resolve_addr),
					    MAKES_EVENT },
	[RDMA_USER_CM_CMD_JOIN_MCAST] = { command_join, ID_AT(rdma_ucm_join_mcast), NEEDS_DEVICE },
	[CMD_RESOLVE_IB_SERVICE] = { resolve_ib_service, 0, NEEDS_DEVICE },
	[CMD_WRITE_CM_EVENT] = { write_cm_event, ID_AT(write_cm_event), 0 },
};

static int find_id(struct command *c, uint32_t cmd)
{
	uint32_t number;
	int err;

	if (commands[cmd].id == NO_ID)
		return 0;
	memcpy(&number, (const uint8_t *)&c->b + commands[cmd].id, sizeof(number));
	err = xd_cm_id_get(c->client, number, &c->id);
	if (!err && commands[cmd].flags & NEEDS_DEVICE && !c->id->device)
		err = -EINVAL;
	return err;
}

int xd_do_cm(struct xd_client *client, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_cm_req *q = req->body;
	uint32_t given = req->length - sizeof(*q);
	struct command c = {
		.client = client,
		.in = q->in,
		.out = q->out,
		.rep = rep,
	};
	int err;

	if (q->cmd >= XR_CM_COMMANDS || q->in > given)
		return -EINVAL;
	if (!commands[q->cmd].execute)
		return -ENOSYS;
	memcpy(&c.b, q->data, c.in < sizeof(c.b) ? c.in : sizeof(c.b));
	c.appended = q->data + c.in;
	c.appended_len = given - c.in;
	err = find_id(&c, q->cmd);
	if (!err)
		err = commands[q->cmd].execute(&c);
	if (!err && commands[q->cmd].flags & MAKES_EVENT)
		err = add_event(&c);
	xd_rdma_cm_arm(xd_rdma_cm_of(client));
	return err;
}
