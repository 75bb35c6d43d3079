// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "provider/base/debug.h"
#include "provider/cm/source.h"
#include "provider/control/visible.h"

#define CONNECT_MS 1000
#define HELLO_MS 5000

/* Commands that <rdma/rdma_user_cm.h> of Linux 6.1 does not have */
#define RESOLVE_IB_SERVICE 23
#define WRITE_CM_EVENT 24

#define ID(type)                                                                                   \
	{                                                                                          \
		offsetof(struct type, id), XP_CM_NOWHERE                                           \
	}
#define ID_AND_RESPONSE(type)                                                                      \
	{                                                                                          \
		offsetof(struct type, id), offsetof(struct type, response)                         \
	}
#define RESPONSE(type)                                                                             \
	{                                                                                          \
		XP_CM_NOWHERE, offsetof(struct type, response)                                     \
	}

/* clang-format off */
static const struct xp_cm_layout layouts[XR_CM_COMMANDS] = {
	[RDMA_USER_CM_CMD_CREATE_ID]     = RESPONSE(rdma_ucm_create_id),
	[RDMA_USER_CM_CMD_DESTROY_ID]    = ID_AND_RESPONSE(rdma_ucm_destroy_id),
	[RDMA_USER_CM_CMD_BIND_IP]       = ID(rdma_ucm_bind_ip),
	[RDMA_USER_CM_CMD_RESOLVE_IP]    = ID(rdma_ucm_resolve_ip),
	[RDMA_USER_CM_CMD_RESOLVE_ROUTE] = ID(rdma_ucm_resolve_route),
	[RDMA_USER_CM_CMD_QUERY_ROUTE]   = ID_AND_RESPONSE(rdma_ucm_query),
	[RDMA_USER_CM_CMD_CONNECT]       = ID(rdma_ucm_connect),
	[RDMA_USER_CM_CMD_LISTEN]        = ID(rdma_ucm_listen),
	[RDMA_USER_CM_CMD_ACCEPT]        = ID(rdma_ucm_accept),
	[RDMA_USER_CM_CMD_REJECT]        = ID(rdma_ucm_reject),
	[RDMA_USER_CM_CMD_DISCONNECT]    = ID(rdma_ucm_disconnect),
	[RDMA_USER_CM_CMD_INIT_QP_ATTR]  = ID_AND_RESPONSE(rdma_ucm_init_qp_attr),
	[RDMA_USER_CM_CMD_GET_EVENT]     = RESPONSE(rdma_ucm_get_event),
	[RDMA_USER_CM_CMD_GET_OPTION]    = { XP_CM_NOWHERE, XP_CM_NOWHERE },
	[RDMA_USER_CM_CMD_SET_OPTION]    = ID(rdma_ucm_set_option),
	[RDMA_USER_CM_CMD_NOTIFY]        = ID(rdma_ucm_notify),
	[RDMA_USER_CM_CMD_JOIN_IP_MCAST] = ID_AND_RESPONSE(rdma_ucm_join_ip_mcast),
	[RDMA_USER_CM_CMD_LEAVE_MCAST]   = ID_AND_RESPONSE(rdma_ucm_destroy_id),
	[RDMA_USER_CM_CMD_MIGRATE_ID]    = ID_AND_RESPONSE(rdma_ucm_migrate_id),
	[RDMA_USER_CM_CMD_QUERY]         = ID_AND_RESPONSE(rdma_ucm_query),
	[RDMA_USER_CM_CMD_BIND]          = ID(rdma_ucm_bind),
	[RDMA_USER_CM_CMD_RESOLVE_ADDR]  = ID(rdma_ucm_resolve_addr),
	[RDMA_USER_CM_CMD_JOIN_MCAST]    = ID_AND_RESPONSE(rdma_ucm_join_mcast),
	[RESOLVE_IB_SERVICE]             = { 0, XP_CM_NOWHERE },
	[WRITE_CM_EVENT]                 = { 0, XP_CM_NOWHERE },
};
/* clang-format on */

struct xp_cm_layout xp_cm_layout(uint32_t cmd)
{
	return cmd < XR_CM_COMMANDS ? layouts[cmd]
				    : (struct xp_cm_layout){ XP_CM_NOWHERE, XP_CM_NOWHERE };
}

/* ---- connection ----------------------------------------------------------------- */

static int hello(struct xp_cm_source *s, uint32_t flag, struct xr_hello_rep *rep, int *events)
{
	int fd = -1, err;
	struct xp_call call = {
		.rep = rep, .rep_len = sizeof(*rep), .rep_fds = &fd, .rep_room = 1
	};

	err = xp_conn_hello(&s->conn, flag, NULL, &call);
	if (err)
		return err;
	if (!call.rep_nfds || rep->doorbells.length || !memchr(rep->device, 0, sizeof(rep->device)))
		err = -EPROTO; /* a daemon without rdma_cm has opened the device */
	else if (!xp_device_is_visible(rep->device))
		err = -ENODEV;
	if (err)
		xp_close_fds(&fd, call.rep_nfds);
	else
		*events = fd;
	return err;
}

int xp_cm_source_connect(struct xp_cm_source *s, const char *path, uint32_t flag, int *events)
{
	struct xp_timeouts timeouts = { CONNECT_MS, HELLO_MS };
	struct xr_hello_rep rep;
	char text[256];
	int err;

	s->kernel = -1;
	snprintf(s->path, sizeof(s->path), "%s", path);
	err = xp_conn_open(&s->conn, path, timeouts);
	if (!err) {
		err = hello(s, flag, &rep, events);
		if (err)
			xp_conn_close(&s->conn);
	}
	if (err) {
		xp_conn_describe(&s->conn, path, err, text, sizeof(text));
		xp_debug("%s: %s: %s", flag == XR_HELLO_CM ? "rdma_cm" : "umad", path, text);
		return err;
	}
	memcpy(s->token, rep.token, sizeof(s->token));
	xp_conn_set_timeout(&s->conn, 0);
	return 0;
}

void xp_cm_source_close(struct xp_cm_source *s)
{
	if (s->kernel >= 0)
		close(s->kernel);
	else
		xp_conn_close(&s->conn);
	s->kernel = -1;
}

bool xp_cm_source_failed(const struct xp_cm_source *s)
{
	return s->kernel < 0 && (s->conn.broken || s->conn.fd < 0 || xp_conn_hung_up(&s->conn));
}

bool xp_cm_source_shared(const struct xp_cm_source *s)
{
	return s->kernel >= 0 || s->conn.shared;
}

/* ---- commands ------------------------------------------------------------------- */

static int call_daemon(struct xp_cm_source *s, const struct xp_cm_command *c, void *rep,
		       size_t room, bool wait)
{
	struct {
		struct xr_cm_req head;
		uint8_t data[XP_CM_COMMAND_MAX + XR_CM_OPTION_MAX];
	} req;
	struct xp_call call = {
		.type = XR_MSG_CM,
		.req = &req,
		.req_len = sizeof(req.head) + c->in + c->extra_len,
		.rep = rep,
		.rep_len = room,
	};
	int err;

	if (s->lost)
		return -EIO;
	req.head.cmd = c->cmd;
	req.head.in = c->in;
	req.head.out = wait ? room : XP_CM_REPLY_MAX;
	memcpy(req.data, c->u.bytes, c->in);
	if (c->extra_len)
		memcpy(req.data + c->in, c->extra, c->extra_len);
	err = wait ? xp_conn_call(&s->conn, &call) : xp_conn_tell(&s->conn, &call);
	if (err && s->conn.why[0])
		xp_debug("rdma_cm: command %u: %s: %s", c->cmd, strerror(-err), s->conn.why);
	if (s->conn.broken)
		err = -EIO;
	if (err && room)
		memset(rep, 0, room); /* has the text of the error */
	return err ? err : (int)call.rep_got;
}

static int call_kernel(struct xp_cm_source *s, const struct xp_cm_command *c, void *rep,
		       size_t room)
{
	int response = xp_cm_layout(c->cmd).response;
	struct {
		struct rdma_ucm_cmd_hdr head;
		uint8_t body[XP_CM_COMMAND_MAX];
	} req = { .head = { c->cmd, c->in, room } };
	uint64_t addr = (uintptr_t)rep, value = (uintptr_t)c->extra;

	if (room)
		memset(rep, 0, room);
	memcpy(req.body, c->u.bytes, c->in);
	if (response >= 0)
		memcpy(req.body + response, &addr, sizeof(addr));
	if (c->cmd == RDMA_USER_CM_CMD_SET_OPTION)
		memcpy(req.body + offsetof(struct rdma_ucm_set_option, optval), &value,
		       sizeof(value));
	return write(s->kernel, &req, sizeof(req.head) + c->in) < 0 ? -errno : (int)room;
}

int xp_cm_source_call(struct xp_cm_source *s, const struct xp_cm_command *c, void *rep, size_t room)
{
	return s->kernel >= 0 ? call_kernel(s, c, rep, room) : call_daemon(s, c, rep, room, true);
}

bool xp_cm_source_hears(const struct xp_cm_source *s)
{
	return !xp_cm_source_shared(s) && s->conn.no_reply && !s->lost;
}

int xp_cm_source_tell(struct xp_cm_source *s, const struct xp_cm_command *c)
{
	return call_daemon(s, c, NULL, 0, false);
}
