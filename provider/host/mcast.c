// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Multicast groups. The interface is a member of a group while QPs are attached to it.
 * The kernel gives datagrams of this host's programs to all members on it, also to the socket that
 * belongs to the sender, so the engine delivers none by itself (xt_path.self).
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <xroce/gid.h>

#include "daemon/io/tables.h"
#include "requests.h"

#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif

struct xp_group {
	struct xr_addr gid;
	int socket; /* while it is open, the interface is a member */
	struct xp_member *members;
	struct xp_group *next;
};

static struct xp_group **host_place_of(struct xp_host *h, const struct xr_addr *gid)
{
	struct xp_group **at = &h->groups;

	while (*at && !xr_gid_equal(&(*at)->gid, gid))
		at = &(*at)->next;
	return at;
}

/*
 * Returns a socket that is a member while it is open. It ends with the program, unlike the lent
 * one, and the kernel limits the groups of one socket.
 */
static int host_join(const struct xp_host *h, const struct xr_addr *gid)
{
	struct ip_mreqn v4 = { .imr_ifindex = (int)h->ifindex };
	struct ipv6_mreq v6 = { .ipv6mr_interface = h->ifindex };
	bool ipv4 = xr_gid_is_ipv4(gid);
	int fd = socket(ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return -errno;
	memcpy(&v4.imr_multiaddr, gid->raw + XR_GID_IPV4_OFF, sizeof(v4.imr_multiaddr));
	memcpy(&v6.ipv6mr_multiaddr, gid->raw, sizeof(v6.ipv6mr_multiaddr));
	err = ipv4 ? setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &v4, sizeof(v4))
		   : setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &v6, sizeof(v6));
	if (!err)
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/*
 * The socket receives datagrams of all groups of the host or none; the verdict drops the others. Of
 * a socket in a ring, only the daemon can set options.
 */
static int mcast_receive_groups(struct xp_host *h, int on)
{
	const struct xr_lend_groups_req req = { .on = (uint32_t)on };

	if (h->ring)
		return h->closes ? 0
				 : h->env.request(h->env.arg, XR_MSG_LEND_GROUPS, &req, sizeof(req),
						  NULL, 0);
	setsockopt(h->socket->fd, IPPROTO_IP, IP_MULTICAST_ALL, &on, sizeof(on));
	if (h->env.lent.rep.ipv6)
		setsockopt(h->socket->fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, &on, sizeof(on));
	return 0;
}

static int host_new_group(struct xp_host *h, const struct xr_addr *gid, struct xp_group **out)
{
	struct xp_group *g;
	int err;

	if (h->n_groups >= h->env.attr->max_mcast_grp)
		return xp_host_refuse(h, -ENOMEM, "number of multicast groups is %u", h->n_groups);
	g = calloc(1, sizeof(*g));
	err = g ? xp_host_learn_port(h) : -ENOMEM;
	if (err) {
		free(g);
		return err;
	}
	g->socket = host_join(h, gid);
	err = g->socket < 0 ? g->socket : h->n_groups ? 0 : mcast_receive_groups(h, 1);
	if (!err)
		err = xd_tables_set_addr(h->tables, gid, XR_ADDR_GROUP);
	if (err) {
		if (g->socket >= 0)
			close(g->socket);
		free(g);
		return err;
	}
	h->n_groups++;
	g->gid = *gid;
	g->next = h->groups;
	h->groups = g;
	*out = g;
	return 0;
}

static void host_end_if_empty(struct xp_host *h, struct xp_group **at)
{
	struct xp_group *g = *at;

	if (g->members)
		return;
	xd_tables_del_addr(h->tables, &g->gid);
	close(g->socket);
	if (!--h->n_groups)
		mcast_receive_groups(h, 0);
	*at = g->next;
	free(g);
}

static int host_attach(struct xp_host *h, struct xp_qp_object *qp, const struct xr_addr *gid)
{
	struct xp_group *g = *host_place_of(h, gid);
	int err = g ? 0 : host_new_group(h, gid, &g);
	struct xp_member *m;

	if (err)
		return err;
	m = calloc(1, sizeof(*m));
	err = m ? 0 : -ENOMEM;
	if (!err) {
		*m = (struct xp_member){ .obj.kind = XP_KIND_MEMBER, .qp = qp, .gid = *gid };
		xp_host_enter(h);
		err = xt_group_attach(h->shared.groups, gid, qp->xt);
		if (!err)
			xp_view_add(h, &m->obj);
		xp_host_leave_quietly(h);
	}
	if (err) {
		free(m);
		host_end_if_empty(h, host_place_of(h, gid));
		return err;
	}
	m->next = g->members;
	g->members = m;
	qp->attached++;
	h->attached++;
	return 0;
}

static void host_detach(struct xp_host *h, struct xp_qp_object *qp, struct xp_group **at)
{
	struct xp_member **member = &(*at)->members, *m;

	while ((*member)->qp != qp)
		member = &(*member)->next;
	m = *member;
	*member = m->next;
	xp_host_enter(h);
	xp_view_remove(h, &m->obj);
	xt_group_detach(h->shared.groups, &(*at)->gid, qp->xt);
	xp_host_leave_quietly(h);
	free(m);
	qp->attached--;
	h->attached--;
	host_end_if_empty(h, at);
}

void xp_mcast_leave(struct xp_host *h, struct xp_qp_object *qp)
{
	struct xp_group **at = &h->groups, *g;

	while (qp->attached && (g = *at)) {
		if (xt_group_has(h->shared.groups, &g->gid, qp->xt))
			host_detach(h, qp, at);
		if (*at == g)
			at = &g->next;
	}
}

int xp_do_attach_mcast(struct xp_host *h, struct xp_call *call)
{
	const struct xr_mcast_req *q = call->req;
	struct xp_qp_object *qp = xp_object_get(&h->objects, XP_KIND_QP, q->qp);

	if (!qp)
		return -ENOENT;
	if (qp->type != XR_QPT_UD || !xt_is_group(&q->gid))
		return xp_host_refuse(
			h, -EINVAL,
			qp->type == XR_QPT_UD
				? "the GID is no multicast group (ff00::/8 or ::ffff:224.0.0.0/100)"
				: "the QP is not of type UD");
	if (!xr_gid_is_ipv4(&q->gid) && (q->gid.raw[1] & 0xf) == 1)
		return xp_host_refuse(h, -EOPNOTSUPP,
				      "groups of interface-local scope (ff01::/16) do not reach "
				      "other hosts by UDP sockets");
	if (xt_group_has(h->shared.groups, &q->gid, qp->xt))
		return 0;
	if (h->attached >= h->env.attr->max_total_mcast_qp_attach)
		return xp_host_refuse(h, -EDQUOT, "number of attached QPs of a client is %u",
				      h->attached);
	return host_attach(h, qp, &q->gid);
}

int xp_do_detach_mcast(struct xp_host *h, struct xp_call *call)
{
	const struct xr_mcast_req *q = call->req;
	struct xp_qp_object *qp = xp_object_get(&h->objects, XP_KIND_QP, q->qp);

	if (!qp)
		return -ENOENT;
	if (!xt_group_has(h->shared.groups, &q->gid, qp->xt))
		return xp_host_refuse(h, -EINVAL, "the QP is not attached to the group");
	host_detach(h, qp, host_place_of(h, &q->gid));
	return 0;
}
