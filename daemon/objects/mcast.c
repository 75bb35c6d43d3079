// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * While QPs are attached to a group, the interface is a member of the group and XDP redirects its
 * packets. The engines' table of groups contains the attached QPs.
 */
#include "mcast.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xroce/view.h>

#include "daemon/base/json.h"
#include "daemon/clients/request.h"
#include "daemon/datapath/grace.h"
#include "daemon/io/io.h"
#include "daemon/io/tables.h"
#include "daemon/netdev/net.h"
#include "objects.h"
#include "qp.h"

struct xd_group {
	struct xr_addr gid;
	int socket; /* while it is open, the interface is a member */
	uint32_t members;
	struct group_user *users; /* of the members */
	struct xd_group *next;
};

/* Members of a group that belong to one user */
struct group_user {
	struct xd_user *user;
	uint32_t members;
	struct group_user *next;
};

static struct xd_group **mcast_place_of(struct xd_objects *o, const struct xr_addr *gid)
{
	struct xd_group **at = &o->mcast.first;

	while (*at && memcmp(&(*at)->gid, gid, sizeof(*gid)))
		at = &(*at)->next;
	return at;
}

/* ---- membership of the interface ---------------------------------------------------- */

static int mcast_join(struct xd_objects *o, struct xd_group *g)
{
	int err = 0;

	if (!xd_fds_take(&o->clients.limits.fds, 1))
		return -EMFILE;
	g->socket = xd_net_join(o->clients.dev->net, &g->gid);
	if (g->socket < 0)
		err = g->socket;
	else
		err = xd_tables_set_addr(o->clients.dev->tables, &g->gid, XR_ADDR_GROUP);
	if (!err)
		return 0;
	if (g->socket >= 0)
		close(g->socket);
	xd_fds_put(&o->clients.limits.fds, 1);
	return err;
}

static int mcast_new_group(struct xd_client *c, const struct xr_addr *gid, struct xd_group **out)
{
	struct xd_objects *o = xd_objects_of(c);
	struct xd_group *g;
	int err;

	if (o->mcast.count >= XR_MAX_GROUPS)
		return xd_limit_reached(c, -ENOMEM, "number of multicast groups", XR_MAX_GROUPS);
	g = calloc(1, sizeof(*g));
	if (!g)
		return -ENOMEM;
	g->gid = *gid;
	err = mcast_join(o, g);
	if (err) {
		free(g);
		return err;
	}
	g->next = o->mcast.first;
	o->mcast.first = g;
	o->mcast.count++;
	*out = g;
	return 0;
}

static void mcast_end_if_empty(struct xd_objects *o, struct xd_group **at)
{
	struct xd_group *g = *at;

	if (g->members)
		return;
	xd_tables_del_addr(o->clients.dev->tables, &g->gid);
	close(g->socket);
	xd_fds_put(&o->clients.limits.fds, 1);
	*at = g->next;
	o->mcast.count--;
	free(g);
}

/* ---- attach and detach ------------------------------------------------------------- */

static struct group_user **mcast_user_of(struct xd_group *g, const struct xd_user *user)
{
	struct group_user **at = &g->users;

	while (*at && (*at)->user != user)
		at = &(*at)->next;
	return at;
}

/* Counts one more member for the client's user. -EDQUOT: the user is in too many groups. */
static int add_to_user(struct xd_client *c, struct xd_group *g)
{
	struct xd_user *user = c->user;
	struct group_user *u = *mcast_user_of(g, user);

	if (!u && !user->is_operator && user->groups >= XD_USER_GROUPS)
		return xd_limit_reached(c, -EDQUOT, "number of multicast groups of a user",
					XD_USER_GROUPS);
	if (!u) {
		u = calloc(1, sizeof(*u));
		if (!u)
			return -ENOMEM;
		u->user = user;
		u->next = g->users;
		g->users = u;
		user->groups++;
	}
	u->members++;
	return 0;
}

static void remove_from_user(struct xd_client *c, struct xd_group *g)
{
	struct group_user **at = mcast_user_of(g, c->user), *u = *at;

	if (--u->members)
		return;
	u->user->groups--;
	*at = u->next;
	free(u);
}

static int attach_in_engine(struct xd_qp *qp, struct xd_group *g)
{
	struct xd_client *c = qp->obj.client;
	int err = add_to_user(c, g);

	if (err)
		return err;
	err = xt_group_attach(c->dev->shared.groups, &g->gid, qp->xt);
	if (err) {
		remove_from_user(c, g);
		return err;
	}
	/* workers may use the group as it was in their rounds */
	xd_grace_synchronize(c->dev->workers);
	return 0;
}

static int mcast_attach(struct xd_qp *qp, const struct xr_addr *gid)
{
	struct xd_client *c = qp->obj.client;
	struct xd_objects *o = xd_objects_of(c);
	struct xd_group *g = *mcast_place_of(o, gid);
	int err;

	if (!g) {
		err = mcast_new_group(c, gid, &g);
		if (err)
			return err;
	}
	err = attach_in_engine(qp, g);
	if (err) {
		mcast_end_if_empty(o, mcast_place_of(o, gid));
		return err;
	}
	g->members++;
	qp->attached++;
	c->objects->attached++;
	return 0;
}

static void mcast_detach(struct xd_qp *qp, struct xd_group **at)
{
	struct xd_client *c = qp->obj.client;

	xt_group_detach(c->dev->shared.groups, &(*at)->gid, qp->xt);
	xd_grace_synchronize(c->dev->workers);
	remove_from_user(c, *at);
	(*at)->members--;
	qp->attached--;
	c->objects->attached--;
	mcast_end_if_empty(xd_objects_of(c), at);
}

void xd_mcast_leave(struct xd_qp *qp)
{
	struct xd_client *c = qp->obj.client;
	struct xd_group **at = &xd_objects_of(c)->mcast.first, *g;

	while (qp->attached && (g = *at)) {
		if (xt_group_has(c->dev->shared.groups, &g->gid, qp->xt))
			mcast_detach(qp, at);
		if (*at == g)
			at = &g->next;
	}
}

/* Only the control thread changes the table of groups, so it can read it while engines run. */
static bool mcast_is_attached(const struct xd_qp *qp, const struct xr_addr *gid)
{
	return xt_group_has(qp->obj.client->dev->shared.groups, gid, qp->xt);
}

int xd_do_attach_mcast(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_mcast_req *q = req->body;
	struct xd_qp *qp = xd_object_get(c, XD_QP, q->qp);

	if (!qp)
		return -ENOENT;
	if (qp->type != XR_QPT_UD || !xt_is_group(&q->gid))
		return xd_refuse(
			c, -EINVAL,
			qp->type == XR_QPT_UD
				? "the GID is no multicast group (ff00::/8 or ::ffff:224.0.0.0/100)"
				: "the QP is not of type UD");
	if (!xd_io_sends_to(c->dev->io, &q->gid))
		return xd_refuse(
			c, -EOPNOTSUPP,
			"by UDP sockets, groups of interface-local scope (ff01::/16) do not "
			"reach other hosts, and no group does with --bind address");
	if (mcast_is_attached(qp, &q->gid))
		return 0;
	if (c->objects->attached >= XD_CLIENT_ATTACHED)
		return xd_limit_reached(c, -EDQUOT, "number of attached QPs of a client",
					XD_CLIENT_ATTACHED);
	return mcast_attach(qp, &q->gid);
}

int xd_do_detach_mcast(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_mcast_req *q = req->body;
	struct xd_qp *qp = xd_object_get(c, XD_QP, q->qp);

	if (!qp)
		return -ENOENT;
	if (!mcast_is_attached(qp, &q->gid))
		return xd_refuse(c, -EINVAL, "the QP is not attached to the group");
	mcast_detach(qp, mcast_place_of(xd_objects_of(c), &q->gid));
	return 0;
}

/* ---- show ------------------------------------------------------------------------ */

void xd_mcast_each(const struct xd_objects *o, const struct xd_qp *qp,
		   void (*fn)(void *arg, const struct xd_qp *qp, const struct xr_addr *gid),
		   void *arg)
{
	const struct xd_group *g;

	for (g = qp->attached ? o->mcast.first : NULL; g; g = g->next)
		if (mcast_is_attached(qp, &g->gid))
			fn(arg, qp, &g->gid);
}

void xd_mcast_show(struct json *j, const struct xd_qp *qp, const struct xr_addr *gid)
{
	json_address(j, "group", gid);
	json_number(j, "client", qp->obj.client->id);
	json_number(j, "qpn", qp->qpn);
	json_text(j, "path", "daemon");
	xd_object_show_owner(j, &qp->obj, false);
}

void xd_mcast_show_view(struct json *j, const void *record, const struct xd_client *c, bool detail)
{
	const struct xr_view_member *r = record;

	(void)detail;
	json_address(j, "group", &r->group);
	json_number(j, "client", c->id);
	json_number(j, "qpn", r->qpn);
	json_text(j, "path", "direct");
}
