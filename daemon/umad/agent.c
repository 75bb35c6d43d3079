// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "daemon/gsi/gsi.h"
#include "daemon/netdev/net.h"
#include "internal.h"

#define CLASS_MAX 0x4f	 /* but for UMAD_CLASS_DIRECTED */
#define VERSION_MAX 0x82 /* of classes; both as in the kernel's ib_register_mad_agent() */

static bool is_subnet(uint8_t class)
{
	return class == UMAD_CLASS_SUBNET || class == UMAD_CLASS_DIRECTED;
}

/* ---- registration --------------------------------------------------------------- */

static int check_fields(struct xd_client *c, const struct xr_umad_register_req *q)
{
	static const uint8_t no_oui[3];
	uint8_t class = q->mgmt_class;

	if (q->qpn > 1 || (class && is_subnet(class) != !q->qpn))
		return xd_refuse(c, -EINVAL, "QP %u for MADs of class 0x%x", q->qpn, class);
	if (q->flags & ~(uint32_t)IB_USER_MAD_USER_RMPP)
		return xd_refuse(c, -EINVAL, "flags 0x%x", q->flags);
	if ((class > CLASS_MAX && class != UMAD_CLASS_DIRECTED) ||
	    q->mgmt_class_version > VERSION_MAX)
		return xd_refuse(c, -EINVAL, "class 0x%x, version %u", class,
				 q->mgmt_class_version);
	if (q->rmpp_version > 1 || (q->rmpp_version && !umad_has_rmpp(class)))
		return xd_refuse(c, -EINVAL, "RMPP version %u of class 0x%x", q->rmpp_version,
				 class);
	if (umad_is_vendor(class) && !memcmp(q->oui, no_oui, sizeof(no_oui)))
		return xd_refuse(c, -EINVAL, "class 0x%x needs an OUI", class);
	return 0;
}

static bool overlap(const struct xr_umad_register_req *a, const struct xr_umad_register_req *b)
{
	return a->mgmt_class == b->mgmt_class && a->mgmt_class_version == b->mgmt_class_version &&
	       (!umad_is_vendor(a->mgmt_class) || !memcmp(a->oui, b->oui, sizeof(a->oui))) &&
	       (a->methods[0] & b->methods[0] || a->methods[1] & b->methods[1]);
}

/* Requests go to one agent only. */
static int check_methods(struct xd_client *c, const struct xr_umad_register_req *q)
{
	const struct xd_umad *u;

	if (q->mgmt_class == UMAD_CLASS_CM)
		return xd_refuse(c, -EINVAL, "xroced itself manages connections");
	if (!q->methods[0] && !q->methods[1])
		return 0;
	if (!q->qpn)
		return xd_refuse(c, -EOPNOTSUPP, "RoCE has no QP 0 that gets requests");
	if (!q->mgmt_class || q->mgmt_class == UMAD_CLASS_PERFORMANCE)
		return xd_refuse(c, -EINVAL, "no requests of class 0x%x", q->mgmt_class);
	for (u = xd_objects_of(c)->umads; u; u = u->next) {
		for (unsigned int i = 0; i < XR_UMAD_AGENTS; i++) {
			if (u->agent[i].used && overlap(&u->agent[i].init, q))
				return xd_refuse(c, -EINVAL, "another agent gets these requests");
		}
	}
	return 0;
}

int umad_agent_new(struct xd_umad *u, const struct xr_umad_register_req *q, uint32_t *id)
{
	struct xd_client *c = u->client;
	int err = check_fields(c, q);
	uint32_t i;

	if (!err)
		err = check_methods(c, q);
	if (err)
		return err;
	for (i = 0; i < XR_UMAD_AGENTS && u->agent[i].used; i++)
		;
	if (i == XR_UMAD_AGENTS)
		return xd_refuse(c, -ENOMEM, "a file has at most %u agents", XR_UMAD_AGENTS);
	err = xd_gsi_hold(c->dev->gsi);
	if (err)
		return err == -EBUSY ? xd_refuse(c, err, "a program has QP 1") : err;
	u->agent[i] = (struct umad_agent){ true, *q, ++xd_objects_of(c)->umad_tid };
	*id = i;
	return 0;
}

void umad_agent_free(struct xd_umad *u, uint32_t id)
{
	umad_sends_drop(u, id);
	u->agent[id].used = false;
	xd_gsi_release(u->client->dev->gsi);
}

/* ---- received MADs -------------------------------------------------------------- */

#define RMPP_DATA 1
#define RMPP_WHOLE 7 /* flags: active, first and last segment */

/*
 * Only programs that do RMPP themselves get its MADs. Others would take a segment for the whole,
 * except the only one.
 */
static bool agent_takes(const struct umad_agent *a, const uint8_t *mad)
{
	return umad_has_own_rmpp(a) || !umad_is_rmpp(mad) ||
	       (mad[UMAD_RMPP_TYPE] == RMPP_DATA &&
		(mad[UMAD_RMPP_FLAGS] & RMPP_WHOLE) == RMPP_WHOLE);
}

static bool wants(const struct umad_agent *a, const uint8_t *mad)
{
	const struct xr_umad_register_req *q = &a->init;
	uint8_t method = mad[UMAD_METHOD];

	return a->used && q->mgmt_class == mad[UMAD_CLASS] &&
	       q->mgmt_class_version == mad[UMAD_CLASS_VERSION] &&
	       (!umad_is_vendor(q->mgmt_class) ||
		!memcmp(q->oui, mad + UMAD_OUI, sizeof(q->oui))) &&
	       q->methods[method / 64] >> method % 64 & 1 && agent_takes(a, mad);
}

/* Finds the agent that gets a request. */
static struct xd_umad *find_agent(struct xd_objects *o, const uint8_t *mad, uint32_t *id)
{
	struct xd_umad *u;

	for (u = o->umads; u; u = u->next) {
		for (*id = 0; *id < XR_UMAD_AGENTS; ++*id) {
			if (wants(&u->agent[*id], mad))
				return u;
		}
	}
	return NULL;
}

/*
 * Finds the agent of a response that belongs to no request which waits: a further segment, or an
 * ACK. The upper half of its transaction ID names the agent, as in ib_mad_complete_recv() of the
 * kernel's mad.c.
 */
static struct xd_umad *find_named(struct xd_objects *o, const uint8_t *mad, uint32_t *id)
{
	const struct umad_agent *a;
	struct xd_umad *u;
	uint32_t upper;

	memcpy(&upper, mad + UMAD_TID, sizeof(upper));
	for (u = o->umads; u; u = u->next) {
		for (*id = 0; *id < XR_UMAD_AGENTS; ++*id) {
			a = &u->agent[*id];
			if (a->used && a->tid == ntohl(upper) && umad_has_own_rmpp(a))
				return u;
		}
	}
	return NULL;
}

/* Finds the agent that gets a response, and takes its request as answered. */
static struct xd_umad *find_requester(struct xd_objects *o, const struct xc_path *path,
				      const uint8_t *mad, uint32_t *id)
{
	struct umad_send *s;
	struct xd_umad *u;

	for (u = o->umads; u; u = u->next) {
		s = umad_send_find(u, path, mad);
		if (!s)
			continue;
		*id = s->packet.hdr.id;
		if (!agent_takes(&u->agent[*id], mad))
			return NULL;
		s->used = false;
		return u;
	}
	return umad_is_rmpp(mad) ? find_named(o, mad, id) : NULL;
}

bool umad_received(void *ctx, const struct xc_path *path, uint32_t qpn, const uint8_t *mad)
{
	struct umad_packet p = { .hdr = { .length = sizeof(p),
					  .qpn = htonl(qpn),
					  .grh_present = 1,
					  .hop_limit = path->hop_limit,
					  .traffic_class = path->traffic_class,
					  .flow_label = htonl(path->flow_label) } };
	struct xd_objects *o = ctx;
	struct xd_umad *u;
	int gid_index;

	if (mad[UMAD_BASE_VERSION] != 1)
		return false;
	u = umad_is_response(mad) ? find_requester(o, path, mad, &p.hdr.id)
				  : find_agent(o, mad, &p.hdr.id);
	if (!u)
		return false;
	gid_index = xd_net_gid_index(o->clients.dev->net, &path->local);
	p.hdr.gid_index = gid_index < 0 ? 0 : (uint8_t)gid_index;
	memcpy(p.hdr.gid, &path->peer, sizeof(p.hdr.gid));
	memcpy(p.mad, mad, sizeof(p.mad));
	return umad_deliver(u, &p, sizeof(p.mad));
}
