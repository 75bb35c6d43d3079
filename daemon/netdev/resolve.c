// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Resolves a GID to the MAC of the next hop, with the kernel's routes and neighbours. */
#include <errno.h>
#include <linux/neighbour.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <xroce/gid.h>

#include "net_internal.h"

#define FIRST_RETRY_NS 250000000ull
#define LAST_RETRY_NS 1000000000ull
#define WAIT_NS 3000000000ull /* as long as the kernel itself tries */
#define DEFAULT_HOP_LIMIT 64
#define NUD_USABLE (NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY)

/*
 * An unknown next hop, for which all resolves wait that come before it is looked up again. Later
 * ones get an entry of their own for the same address, so that each waits for the same time.
 */
struct hop {
	struct xt_list link; /* first; in xd_net.hops or xd_net.known */
	struct xd_net *net;
	struct xd_ip ip;
	struct xt_list resolves;
	struct xd_timer *timer;
	uint64_t until, retry_ns;
	bool retried;
	int err; /* when it is known */
	uint8_t mac[6];
};

struct xd_resolve {
	struct xt_list link; /* first; in hop.resolves, or in no list */
	struct xt_path path;
	struct xd_net *net;
	struct xd_gid_hold hold;
	xd_resolve_fn done;
	void *arg;
};

/* ---- routes ------------------------------------------------------------------------ */

static bool is_link_local(const struct xd_ip *ip)
{
	return ip->family == AF_INET6 && ip->bytes[0] == 0xfe && (ip->bytes[1] & 0xc0) == 0x80;
}

struct route {
	const struct xd_net *net;
	struct xd_ip hop; /* in: the destination */
	bool usable;
};

static int on_route(const struct nlmsghdr *nlh, void *arg)
{
	const struct rtmsg *rtm = mnl_nlmsg_get_payload(nlh);
	struct route *r = arg;
	const struct nlattr *a;

	r->usable = rtm->rtm_type == RTN_UNICAST;
	mnl_attr_for_each(a, nlh, sizeof(*rtm))
	{
		if (mnl_attr_get_type(a) == RTA_OIF && !r->net->link.routed &&
		    mnl_attr_get_u32(a) != r->net->link.ifindex)
			r->usable = false;
		if (mnl_attr_get_type(a) == RTA_GATEWAY &&
		    mnl_attr_get_payload_len(a) == r->hop.len)
			memcpy(r->hop.bytes, mnl_attr_get_payload(a), r->hop.len);
		if (mnl_attr_get_type(a) == RTA_VIA) { /* an IPv4 route with an IPv6 next hop */
			const struct rtvia *via = mnl_attr_get_payload(a);
			uint32_t len = mnl_attr_get_payload_len(a) - (uint32_t)sizeof(*via);

			if (len != 4 && len != 16)
				continue;
			r->hop.family = via->rtvia_family;
			r->hop.len = len;
			memcpy(r->hop.bytes, via->rtvia_addr, len);
		}
	}
	return MNL_CB_OK;
}

/* Begins a request for the route to an address. buf: for the message */
static struct nlmsghdr *route_request(char *buf, const struct xd_ip *dst, struct rtmsg **rtm)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);

	nlh->nlmsg_type = RTM_GETROUTE;
	nlh->nlmsg_flags = NLM_F_REQUEST;
	*rtm = mnl_nlmsg_put_extra_header(nlh, sizeof(**rtm));
	(*rtm)->rtm_family = (unsigned char)dst->family;
	(*rtm)->rtm_dst_len = (unsigned char)(dst->len * 8);
	mnl_attr_put(nlh, RTA_DST, dst->len, dst->bytes);
	return nlh;
}

static int request_route(struct xd_net *net, struct route *r, const struct xd_ip *from,
			 uint32_t flags)
{
	char buf[512];
	struct rtmsg *rtm;
	struct nlmsghdr *nlh = route_request(buf, &r->hop, &rtm);

	rtm->rtm_src_len = (unsigned char)(from->len * 8);
	rtm->rtm_flags = flags;
	mnl_attr_put(nlh, RTA_SRC, from->len, from->bytes);
	if (!net->link.routed)
		mnl_attr_put_u32(nlh, RTA_OIF, net->link.ifindex);
	return xd_net_request(net, nlh, on_route, r);
}

/* Replaces the destination in *ip by the next hop. */
static int route_by_interface(struct xd_net *net, struct xd_ip *ip, const struct xd_ip *from)
{
	struct route r = { .net = net, .hop = *ip };

	/* a link-local address needs a link */
	if (net->link.routed && is_link_local(ip))
		return -ENETUNREACH;
	if (request_route(net, &r, from, 0) || !r.usable)
		return -ENETUNREACH;
	/* with RTA_OIF, IPv4 treats destinations without a route as neighbours: check the FIB */
	if (r.hop.family == AF_INET && !memcmp(r.hop.bytes, ip->bytes, ip->len)) {
		struct route check = { .net = net, .hop = *ip };

		if (request_route(net, &check, from, RTM_F_FIB_MATCH) || !check.usable)
			return -ENETUNREACH;
	}
	*ip = r.hop;
	return 0;
}

/* ---- source addresses ---------------------------------------------------------------- */

struct resolve_source {
	unsigned int ifindex; /* 0: no route; with `local` and RTM_F_FIB_MATCH: of that address */
	struct xd_ip ip;
	bool local; /* the destination is an address of the host */
};

static int on_source(const struct nlmsghdr *nlh, void *arg)
{
	const struct rtmsg *rtm = mnl_nlmsg_get_payload(nlh);
	struct resolve_source *s = arg;
	const struct nlattr *a;

	s->local = rtm->rtm_type == RTN_LOCAL;
	if (rtm->rtm_type != RTN_UNICAST && rtm->rtm_type != RTN_MULTICAST && !s->local)
		return MNL_CB_OK;
	mnl_attr_for_each(a, nlh, sizeof(*rtm))
	{
		if (mnl_attr_get_type(a) == RTA_OIF)
			s->ifindex = mnl_attr_get_u32(a);
		if (mnl_attr_get_type(a) == RTA_PREFSRC && mnl_attr_get_payload_len(a) == s->ip.len)
			memcpy(s->ip.bytes, mnl_attr_get_payload(a), s->ip.len);
	}
	return MNL_CB_OK;
}

/* The scope of a link-local address is this interface. */
static int request_source(struct xd_net *net, const struct xd_ip *dst, uint32_t flags,
			  struct resolve_source *s)
{
	char buf[512];
	struct rtmsg *rtm;
	struct nlmsghdr *nlh = route_request(buf, dst, &rtm);

	rtm->rtm_flags = flags;
	s->ip.family = dst->family;
	s->ip.len = dst->len;
	if (is_link_local(dst))
		mnl_attr_put_u32(nlh, RTA_OIF, net->link.ifindex);
	return xd_net_request(net, nlh, on_source, s);
}

int xd_net_source(struct xd_net *net, const struct xr_addr *dst, struct xr_addr *src)
{
	struct xd_ip ip = xd_ip_of(dst);
	struct resolve_source s = { 0 };

	if (xd_net_gid_index(net, dst) >= 0) {
		*src = *dst;
		return 0;
	}
	if (request_source(net, &ip, 0, &s))
		return -ENETUNREACH;
	if (s.ip.len == 4)
		xr_gid_set_ipv4(src, *(uint32_t *)s.ip.bytes);
	else
		memcpy(src->raw, s.ip.bytes, 16);
	return !s.local && (net->link.routed || s.ifindex == net->link.ifindex) &&
			       xd_net_gid_index(net, src) >= 0
		       ? 0
		       : -ENODEV;
}

static bool is_local(struct xd_net *net, const struct xd_ip *ip)
{
	struct resolve_source s = { 0 };

	return !request_source(net, ip, 0, &s) && s.local;
}

/* Finds the MAC of the other interface of this host that has an address. */
static bool owner_mac(struct xd_net *net, const struct xd_ip *ip, uint8_t mac[6])
{
	struct resolve_source s = { 0 };

	return !request_source(net, ip, RTM_F_FIB_MATCH, &s) && s.local &&
	       !xd_net_mac_of(net, s.ifindex, mac);
}

bool xd_net_is_local(struct xd_net *net, const struct xr_addr *addr)
{
	struct xd_ip ip = xd_ip_of(addr);

	return is_local(net, &ip);
}

/* The next hop to another interface of this host is that interface. */
static int find_route(struct xd_net *net, struct xd_ip *ip, const struct xd_ip *from)
{
	int err = route_by_interface(net, ip, from);

	return err && is_local(net, ip) ? 0 : err;
}

/* ---- neighbours ---------------------------------------------------------------------- */

static struct nlmsghdr *neighbour_request(char *buf, const struct xd_net *net,
					  const struct xd_ip *ip)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct ndmsg *ndm;

	nlh->nlmsg_type = RTM_GETNEIGH;
	nlh->nlmsg_flags = NLM_F_REQUEST;
	ndm = mnl_nlmsg_put_extra_header(nlh, sizeof(*ndm));
	ndm->ndm_family = (uint8_t)ip->family;
	ndm->ndm_ifindex = (int)net->link.ifindex;
	mnl_attr_put(nlh, NDA_DST, ip->len, ip->bytes);
	return nlh;
}

bool xd_neighbour_parse(const struct nlmsghdr *nlh, struct xd_neighbour *n)
{
	const struct ndmsg *ndm = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *a;
	bool has_ip = false, has_mac = false;

	n->ifindex = (unsigned int)ndm->ndm_ifindex;
	n->ip = (struct xd_ip){ .family = ndm->ndm_family,
				.len = ndm->ndm_family == AF_INET ? 4 : 16 };
	mnl_attr_for_each(a, nlh, sizeof(*ndm))
	{
		uint32_t len = mnl_attr_get_payload_len(a);

		if (mnl_attr_get_type(a) == NDA_DST && len == n->ip.len) {
			memcpy(n->ip.bytes, mnl_attr_get_payload(a), len);
			has_ip = true;
		}
		if (mnl_attr_get_type(a) == NDA_LLADDR && len == 6) {
			memcpy(n->mac, mnl_attr_get_payload(a), 6);
			has_mac = true;
		}
	}
	return has_ip && has_mac && ndm->ndm_state & NUD_USABLE;
}

static void resolve_solicit(struct xd_net *net, const struct xd_ip *ip)
{
	uint8_t mac[6];
	bool local = owner_mac(net, ip, mac);

	net->events->solicit(net->ctx, net->link.ifindex, ip->family, ip->bytes,
			     local ? mac : NULL);
}

struct lookup {
	struct xd_neighbour neighbour;
	bool usable, stale;
};

static int on_neighbour(const struct nlmsghdr *nlh, void *arg)
{
	const struct ndmsg *ndm = mnl_nlmsg_get_payload(nlh);
	struct lookup *l = arg;

	l->usable = xd_neighbour_parse(nlh, &l->neighbour);
	l->stale = ndm->ndm_state & NUD_STALE;
	return MNL_CB_OK;
}

static bool look_up_neighbour(struct xd_net *net, const struct xd_ip *ip, uint8_t mac[6])
{
	char buf[512];
	struct lookup l = { .usable = false };
	struct nlmsghdr *nlh = neighbour_request(buf, net, ip);

	if (xd_net_request(net, nlh, on_neighbour, &l) || !l.usable)
		return false;
	/* packets through AF_XDP do not make the kernel verify a stale neighbour */
	if (l.stale && !net->datagrams)
		resolve_solicit(net, ip);
	memcpy(mac, l.neighbour.mac, 6);
	return true;
}

/* ---- waiting ----------------------------------------------------------------------------- */

static struct xt_list *resolve_bucket_of(struct xd_net *net, const struct xd_ip *ip)
{
	uint64_t h = net->hop_seed;

	for (uint32_t i = 0; i < ip->len; i++)
		h = (h ^ ip->bytes[i]) * 0x9e3779b97f4a7c15ull;
	return &net->hops[h >> 32 & (XD_HOP_BUCKETS - 1)];
}

static bool is_hop(const struct hop *h, const struct xd_ip *ip)
{
	return h->ip.family == ip->family && !memcmp(h->ip.bytes, ip->bytes, ip->len);
}

static void free_hop(struct hop *h)
{
	xt_list_del(&h->link);
	xd_timer_free(h->timer);
	free(h);
}

/* The entry of a next hop without resolves ends with its next retry. */
void xd_net_resolve_cancel(struct xd_resolve *r)
{
	if (!r)
		return;
	xt_list_del(&r->link);
	xd_net_gid_release(r->net, &r->hold);
	free(r);
}

static void resolve_finish(struct xd_resolve *r, int err)
{
	struct xd_gid_hold hold = r->hold; /* until the object that has the path holds it */
	struct xd_net *net = r->net;
	xd_resolve_fn done = r->done;
	struct xt_path path = r->path;
	void *arg = r->arg;

	r->hold.next = 0;
	xd_net_resolve_cancel(r);
	done(arg, err, err ? NULL : &path);
	xd_net_gid_release(net, &hold);
}

/*
 * done() may end a client and cancel other resolves. A next hop may have as many resolves as there
 * are objects, so this takes several turns.
 */
static void resolve_complete(void *arg)
{
	struct xd_net *net = arg;
	struct xd_resolve *r;
	struct hop *h;

	while (!xt_list_empty(&net->known)) {
		if (xd_loop_must_yield(net->loop)) {
			xd_timer_arm(net->complete, 0);
			return;
		}
		h = (struct hop *)net->known.next;
		if (xt_list_empty(&h->resolves)) {
			free_hop(h);
			continue;
		}
		r = (struct xd_resolve *)h->resolves.next;
		memcpy(r->path.dmac, h->mac, 6);
		resolve_finish(r, h->err);
	}
}

/* mac: NULL if err is not 0 */
static void hop_known(struct hop *h, int err, const uint8_t *mac)
{
	h->err = err;
	if (!err)
		memcpy(h->mac, mac, 6);
	xd_timer_cancel(h->timer);
	xt_list_del(&h->link);
	xt_list_add_tail(&h->net->known, &h->link);
	xd_timer_arm(h->net->complete, 0);
}

static void retry(void *arg)
{
	struct hop *h = arg;
	uint8_t mac[6];

	if (xt_list_empty(&h->resolves)) {
		free_hop(h);
	} else if (look_up_neighbour(h->net, &h->ip, mac)) {
		hop_known(h, 0, mac);
	} else if (xd_now() >= h->until) {
		hop_known(h, -EHOSTUNREACH, NULL);
	} else {
		h->retried = true;
		if (h->retry_ns < LAST_RETRY_NS)
			h->retry_ns *= 2;
		resolve_solicit(h->net, &h->ip);
		xd_timer_arm(h->timer, h->retry_ns);
	}
}

void xd_resolve_complete(struct xd_net *net, const struct xd_ip *ip, const uint8_t mac[6])
{
	struct xt_list *bucket = resolve_bucket_of(net, ip), *next;

	for (struct xt_list *l = bucket->next; l != bucket; l = next) {
		next = l->next;
		if (is_hop((struct hop *)l, ip))
			hop_known((struct hop *)l, 0, mac);
	}
}

static struct hop *find_hop(struct xd_net *net, const struct xd_ip *ip)
{
	struct xt_list *bucket = resolve_bucket_of(net, ip);

	for (struct xt_list *l = bucket->next; l != bucket; l = l->next) {
		if (is_hop((struct hop *)l, ip) && !((struct hop *)l)->retried)
			return (struct hop *)l;
	}
	return NULL;
}

static struct hop *new_hop(struct xd_net *net, const struct xd_ip *ip)
{
	struct hop *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->timer = xd_timer_new(net->loop, retry, h);
	if (!h->timer) {
		free(h);
		return NULL;
	}
	h->net = net;
	h->ip = *ip;
	h->until = xd_now() + WAIT_NS;
	h->retry_ns = FIRST_RETRY_NS;
	xt_list_init(&h->resolves);
	xt_list_add_tail(resolve_bucket_of(net, ip), &h->link);
	resolve_solicit(net, ip);
	xd_timer_arm(h->timer, h->retry_ns);
	return h;
}

int xd_resolve_start(struct xd_net *net)
{
	xt_list_init(&net->known);
	for (uint32_t i = 0; i < XD_HOP_BUCKETS; i++)
		xt_list_init(&net->hops[i]);
	if (getrandom(&net->hop_seed, sizeof(net->hop_seed), 0) != sizeof(net->hop_seed))
		return -EIO;
	net->complete = xd_timer_new(net->loop, resolve_complete, net);
	return net->complete ? 0 : -ENOMEM;
}

static void fail_all(struct xt_list *hops)
{
	while (!xt_list_empty(hops)) {
		struct hop *h = (struct hop *)hops->next;

		while (!xt_list_empty(&h->resolves))
			resolve_finish((struct xd_resolve *)h->resolves.next, -ENODEV);
		free_hop(h);
	}
}

void xd_resolve_stop(struct xd_net *net)
{
	for (uint32_t i = 0; i < XD_HOP_BUCKETS; i++)
		fail_all(&net->hops[i]);
	fail_all(&net->known);
	xd_timer_free(net->complete);
}

/* ---- paths --------------------------------------------------------------------------------- */

static bool is_multicast(const struct xd_ip *ip)
{
	return ip->family == AF_INET ? (ip->bytes[0] & 0xf0) == 0xe0 : ip->bytes[0] == 0xff;
}

/* RFC 1112 6.4, RFC 2464 7 */
static void multicast_mac(const struct xd_ip *ip, uint8_t mac[6])
{
	static const uint8_t v4[3] = { 0x01, 0x00, 0x5e }, v6[2] = { 0x33, 0x33 };

	if (ip->family == AF_INET) {
		memcpy(mac, v4, 3);
		memcpy(mac + 3, ip->bytes + 1, 3);
		mac[3] &= 0x7f;
	} else {
		memcpy(mac, v6, 2);
		memcpy(mac + 2, ip->bytes + 12, 4);
	}
}

/* Fills in everything but the MAC of the next hop. Returns 1 if the path is complete without it. */
static int begin_path(struct xd_net *net, const struct xr_ah_attr *attr, struct xt_path *path,
		      struct xd_ip *hop)
{
	struct xd_ip from;

	memset(path, 0, sizeof(*path));
	if (!attr->is_global || !xd_net_gid_use(net, attr->sgid_index, &path->sgid))
		return -EINVAL;
	path->dgid = attr->dgid;
	*hop = xd_ip_of(&path->dgid);
	from = xd_ip_of(&path->sgid);
	if (hop->family != from.family)
		return -EINVAL;
	path->ip_version = hop->family == AF_INET ? 4 : 6;
	path->flow_label = attr->flow_label & 0xfffff;
	path->hop_limit = attr->hop_limit ? attr->hop_limit : DEFAULT_HOP_LIMIT;
	path->traffic_class = attr->traffic_class;
	memcpy(path->smac, net->link.mac, 6);
	path->loopback = xd_net_gid_index(net, &path->dgid) >= 0;
	if (path->loopback)
		return 1;
	if (is_multicast(hop)) {
		multicast_mac(hop, path->dmac);
		return 1;
	}
	return find_route(net, hop, &from);
}

/* Frames always do; the kernel sends datagrams without one where there are no neighbours. */
static bool needs_mac(const struct xd_net *net)
{
	return !net->datagrams || (net->link.has_neighbours && !net->link.routed);
}

struct xd_resolve *xd_net_resolve(struct xd_net *net, const struct xr_ah_attr *attr,
				  xd_resolve_fn done, void *arg)
{
	struct xd_resolve *r = calloc(1, sizeof(*r));
	struct xd_ip ip;
	struct hop *h;
	int ret;

	if (!r) {
		done(arg, -ENOMEM, NULL);
		return NULL;
	}
	*r = (struct xd_resolve){ .net = net, .done = done, .arg = arg };
	xt_list_init(&r->link);
	ret = begin_path(net, attr, &r->path, &ip);
	xd_net_gid_hold(net, &r->hold, attr->sgid_index);
	if (!ret && (!needs_mac(net) || look_up_neighbour(net, &ip, r->path.dmac)))
		ret = 1;
	if (ret) {
		resolve_finish(r, ret > 0 ? 0 : ret);
		return NULL;
	}
	h = find_hop(net, &ip);
	if (!h)
		h = new_hop(net, &ip);
	if (!h) {
		resolve_finish(r, -ENOMEM);
		return NULL;
	}
	xt_list_add_tail(&h->resolves, &r->link);
	return r;
}
