// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The GID table: the IP addresses of the interface. */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>

#include <xroce/gid.h>

#include "daemon/base/log.h"
#include "net_internal.h"

#define MAX_DUMPS 10

/* Index 0 may be a second index of an entry. */
static bool is_held(const struct xd_net *net, int i)
{
	return net->holds[i] || (i && i == net->zero && net->holds[0]);
}

static bool gids_is_free(const struct xd_net *net, int i)
{
	return !net->used[i] && !is_held(net, i);
}

/* Returns the index that the address had, if it is held, or else a free one. */
static int index_for(const struct xd_net *net, const struct xr_addr *gid)
{
	for (int i = 0; i < XR_GID_TABLE_LEN; i++)
		if (!net->used[i] && !(!i && net->zero) && is_held(net, i) &&
		    xr_gid_equal(&net->gid[i], gid))
			return i;
	/* index 0 is reserved for the first link-local address, unless it is another GID already */
	if (xr_gid_is_link_local(gid) && gids_is_free(net, 0) && !net->zero)
		return 0;
	for (int i = 1; i < XR_GID_TABLE_LEN; i++)
		if (gids_is_free(net, i))
			return i;
	return -ENOSPC;
}

static bool add_gid(struct xd_net *net, const struct xr_addr *gid)
{
	int i;

	if (xd_net_gid_index(net, gid) >= 0)
		return false;
	i = index_for(net, gid);
	if (i < 0) {
		xd_log(XD_WARN,
		       "%s has more than %d addresses, or objects of programs hold the indices of "
		       "removed ones: some have no GID",
		       net->link.ifname, XR_GID_TABLE_LEN);
		return false;
	}
	net->gid[i] = *gid;
	net->used[i] = true;
	net->events->gid(net->ctx, (uint32_t)i, gid, true);
	return true;
}

static void del_gid(struct xd_net *net, int i)
{
	net->used[i] = false;
	if (net->zero == i && !net->holds[0])
		net->zero = 0;
	net->events->gid(net->ctx, (uint32_t)i, &net->gid[i], false);
}

/* Returns false if the message is not about a usable address of the interface. */
static bool parse_addr(const struct xd_net *net, const struct nlmsghdr *nlh, struct xr_addr *gid)
{
	const struct ifaddrmsg *ifa = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *a, *addr = NULL, *local = NULL;
	uint32_t flags = ifa->ifa_flags, len = ifa->ifa_family == AF_INET ? 4 : 16;

	if (ifa->ifa_index != net->link.ifindex ||
	    (ifa->ifa_family != AF_INET && ifa->ifa_family != AF_INET6))
		return false;
	mnl_attr_for_each(a, nlh, sizeof(*ifa))
	{
		if (mnl_attr_get_type(a) == IFA_ADDRESS)
			addr = a;
		else if (mnl_attr_get_type(a) == IFA_LOCAL)
			local = a;
		else if (mnl_attr_get_type(a) == IFA_FLAGS)
			flags = mnl_attr_get_u32(a);
	}
	if (local) /* on point-to-point interfaces IFA_ADDRESS is the peer's */
		addr = local;
	if (!addr || mnl_attr_get_payload_len(addr) != len)
		return false;
	if (len == 4)
		xr_gid_set_ipv4(gid, mnl_attr_get_u32(addr));
	else
		memcpy(gid->raw, mnl_attr_get_payload(addr), len);
	/* unusable until duplicate address detection has succeeded */
	return !(flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED));
}

static void log_gid(const struct xr_addr *gid, const char *what)
{
	struct xd_ip ip = xd_ip_of(gid);
	char text[INET6_ADDRSTRLEN];

	inet_ntop(ip.family, ip.bytes, text, sizeof(text));
	xd_log(XD_INFO, "address %s %s", text, what);
}

static void gid_changed(struct xd_net *net, const struct xr_addr *gid, const char *what)
{
	log_gid(gid, what);
	net->events->port(net->ctx, IBV_EVENT_GID_CHANGE);
}

struct dump {
	struct xd_net *net;
	bool changed;
	bool seen[XR_GID_TABLE_LEN];
};

static int on_addr(const struct nlmsghdr *nlh, void *arg)
{
	struct dump *d = arg;
	struct xr_addr gid;
	int i;

	if (!parse_addr(d->net, nlh, &gid))
		return MNL_CB_OK;
	if (add_gid(d->net, &gid)) {
		gid_changed(d->net, &gid, "added");
		d->changed = true;
	}
	i = xd_net_gid_index(d->net, &gid);
	if (i >= 0)
		d->seen[i] = true;
	return MNL_CB_OK;
}

static int dump_addrs(struct xd_net *net, struct dump *d)
{
	char buf[512];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct ifaddrmsg *ifa;

	*d = (struct dump){ .net = net };
	nlh->nlmsg_type = RTM_GETADDR;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	ifa = mnl_nlmsg_put_extra_header(nlh, sizeof(*ifa));
	ifa->ifa_family = AF_UNSPEC;
	return xd_net_request(net, nlh, on_addr, d);
}

int xd_gids_read(struct xd_net *net, bool *changed)
{
	struct dump d;
	int err;

	*changed = false;
	/* EINTR: the list changed during the dump */
	for (int i = 0; i < MAX_DUMPS; i++) {
		err = dump_addrs(net, &d);
		*changed |= d.changed;
		if (err != -EINTR)
			break;
	}
	for (int i = 0; !err && i < XR_GID_TABLE_LEN; i++)
		if (net->used[i] && !d.seen[i]) {
			del_gid(net, i);
			gid_changed(net, &net->gid[i], "removed");
			*changed = true;
		}
	return err;
}

/*
 * Returns the entry that an index refers to, or -1. Programs use index 0 by default. Without a
 * link-local address (IPv6 is off), it is the same GID as the first other one.
 */
static int gids_entry_of(const struct xd_net *net, uint32_t index)
{
	int i;

	if (index >= XR_GID_TABLE_LEN)
		return -1;
	if (net->used[index])
		return (int)index;
	if (!index && net->zero)
		return net->used[net->zero] ? net->zero : -1;
	if (net->holds[index])
		return -1;
	for (i = 1; !index && i < XR_GID_TABLE_LEN; i++)
		if (net->used[i])
			return i;
	return -1;
}

bool xd_net_gid(const struct xd_net *net, uint32_t index, struct xr_addr *gid)
{
	int i = gids_entry_of(net, index);

	if (i >= 0)
		*gid = net->gid[i];
	return i >= 0;
}

bool xd_net_gid_use(struct xd_net *net, uint32_t index, struct xr_addr *gid)
{
	int i = gids_entry_of(net, index);

	if (i > 0 && !index)
		net->zero = i;
	return xd_net_gid(net, index, gid);
}

void xd_net_gid_release(struct xd_net *net, struct xd_gid_hold *hold)
{
	int i = xd_gid_held(hold);

	hold->next = 0;
	if (i < 0)
		return;
	net->holds[i]--;
	if (!net->holds[0] && !net->used[net->zero])
		net->zero = 0;
}

void xd_net_gid_hold(struct xd_net *net, struct xd_gid_hold *hold, uint32_t index)
{
	if (index < XR_GID_TABLE_LEN)
		net->holds[index]++;
	xd_net_gid_release(net, hold);
	if (index < XR_GID_TABLE_LEN)
		hold->next = index + 1;
}

int xd_net_gid_index(const struct xd_net *net, const struct xr_addr *gid)
{
	for (int i = 0; i < XR_GID_TABLE_LEN; i++)
		if (net->used[i] && !memcmp(&net->gid[i], gid, sizeof(*gid)))
			return i;
	return -ENOENT;
}

uint32_t xd_net_gids(const struct xd_net *net, struct xr_gid_entry *entry, uint32_t max)
{
	uint32_t n = 0, index;
	int i;

	for (index = 0; index < XR_GID_TABLE_LEN && n < max; index++) {
		i = gids_entry_of(net, index);
		if (i < 0)
			continue;
		entry[n++] = (struct xr_gid_entry){
			.gid = net->gid[i],
			.index = index,
			.ifindex = net->link.ifindex,
		};
	}
	return n;
}
