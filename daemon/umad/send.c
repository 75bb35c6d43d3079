// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/base/loop.h"
#include "daemon/clients/load.h"
#include "daemon/gsi/gsi.h"
#include "daemon/netdev/net.h"
#include "internal.h"

#define RMPP_ACTIVE 1 /* bit of the flags */
#define METHOD_RESPONSE 0x80
#define METHOD_TRAP_REPRESS 0x07
#define CLASS_BASEBOARD 0x05
#define BASEBOARD_RESPONSE 1 /* bit of the attribute modifier */
#define CLASS_DEVICE_ADMINISTRATION 0x10
#define CLASS_DEVICE_MANAGEMENT 0x06
#define CLASS_BIS 0x12

bool umad_is_response(const uint8_t *mad)
{
	return mad[UMAD_METHOD] & METHOD_RESPONSE || mad[UMAD_METHOD] == METHOD_TRAP_REPRESS ||
	       (mad[UMAD_CLASS] == CLASS_BASEBOARD && mad[UMAD_MODIFIER + 3] & BASEBOARD_RESPONSE);
}

bool umad_has_rmpp(uint8_t class)
{
	return class == UMAD_CLASS_SA || class == CLASS_DEVICE_MANAGEMENT ||
	       class == CLASS_DEVICE_ADMINISTRATION || class == CLASS_BIS || umad_is_vendor(class);
}

bool umad_is_rmpp(const uint8_t *mad)
{
	return umad_has_rmpp(mad[UMAD_CLASS]) && mad[UMAD_RMPP_FLAGS] & RMPP_ACTIVE;
}

bool umad_has_own_rmpp(const struct umad_agent *a)
{
	return !a->init.rmpp_version || a->init.flags & IB_USER_MAD_USER_RMPP;
}

/* ---- the program's queue -------------------------------------------------------- */

bool umad_deliver(struct xd_umad *u, const struct umad_packet *p, size_t len)
{
	return send(u->received.fd, p, offsetof(struct umad_packet, mad) + len, MSG_NOSIGNAL) > 0;
}

/* ---- MADs that wait for responses ----------------------------------------------- */

static void send_arm(struct xd_umad *u)
{
	uint64_t first = UINT64_MAX, now = xd_now();

	for (unsigned int i = 0; i < XR_UMAD_SENDS; i++) {
		if (u->send[i].used && u->send[i].deadline < first)
			first = u->send[i].deadline;
	}
	if (first == UINT64_MAX)
		xd_timer_cancel(u->timer);
	else
		xd_timer_arm(u->timer, first > now ? first - now : 0);
}

static uint64_t deadline_of(const struct umad_packet *p)
{
	return xd_now() + p->hdr.timeout_ms * 1000000ull;
}

static int send_transmit(struct xd_umad *u, const struct xc_path *path, const struct umad_packet *p)
{
	return xd_gsi_send_to(u->client->dev->gsi, path, ntohl(p->hdr.qpn), XD_GSI_WAITING_PROGRAMS,
			      p->mad);
}

/* As in the kernel, the program gets the header of its request. */
static void time_out(struct xd_umad *u, struct umad_send *s)
{
	s->used = false;
	s->packet.hdr.status = ETIMEDOUT;
	s->packet.hdr.length = offsetof(struct umad_packet, mad) + UMAD_HEADER_LEN;
	umad_deliver(u, &s->packet, UMAD_HEADER_LEN);
}

void umad_on_timer(void *arg)
{
	struct xd_umad *u = arg;
	uint64_t now = xd_now();

	for (unsigned int i = 0; i < XR_UMAD_SENDS; i++) {
		struct umad_send *s = &u->send[i];

		if (!s->used || s->deadline > now)
			continue;
		if (!s->retries) {
			time_out(u, s);
			continue;
		}
		s->retries--;
		s->deadline = deadline_of(&s->packet);
		send_transmit(u, &s->path, &s->packet); /* an error is that of a lost MAD */
	}
	send_arm(u);
	xd_load_charge_lap(u->client);
}

static bool same_transaction(const struct umad_send *s, const uint8_t *mad)
{
	return s->used && s->packet.mad[UMAD_CLASS] == mad[UMAD_CLASS] &&
	       !memcmp(s->packet.mad + UMAD_TID, mad + UMAD_TID, sizeof(uint64_t));
}

struct umad_send *umad_send_find(struct xd_umad *u, const struct xc_path *path, const uint8_t *mad)
{
	struct umad_send *s, *found = NULL;

	for (s = u->send; s < u->send + XR_UMAD_SENDS; s++) {
		if (same_transaction(s, mad) && !umad_is_response(s->packet.mad) &&
		    xr_gid_equal(&s->path.peer, &path->peer) &&
		    xr_gid_equal(&s->path.local, &path->local) &&
		    (!found || s->deadline < found->deadline))
			found = s;
	}
	return found;
}

void umad_sends_drop(struct xd_umad *u, uint32_t id)
{
	for (unsigned int i = 0; i < XR_UMAD_SENDS; i++) {
		if (u->send[i].packet.hdr.id == id)
			u->send[i].used = false;
	}
}

static bool same_destination(const struct ib_user_mad_hdr *a, const struct ib_user_mad_hdr *b)
{
	if (a->grh_present && b->grh_present)
		return !memcmp(a->gid, b->gid, sizeof(a->gid));
	return !a->grh_present && !b->grh_present && a->lid == b->lid;
}

/*
 * As in is_duplicate() of the kernel's user_mad.c: a request has its transaction ID alone, and a
 * response among those to its destination.
 */
static bool is_duplicate(const struct xd_umad *u, const struct umad_packet *p)
{
	bool response = umad_is_response(p->mad);

	for (const struct umad_send *s = u->send; s < u->send + XR_UMAD_SENDS; s++) {
		if (same_transaction(s, p->mad) && umad_is_response(s->packet.mad) == response &&
		    (!response || same_destination(&p->hdr, &s->packet.hdr)))
			return true;
	}
	return false;
}

/* Finds an entry for a MAD that waits for a response. */
static int find_entry(struct xd_umad *u, struct umad_send **s)
{
	for (*s = u->send; *s < u->send + XR_UMAD_SENDS; ++*s) {
		if (!(*s)->used)
			return 0;
	}
	return xd_refuse(u->client, -ENOBUFS, "%u MADs wait for responses", XR_UMAD_SENDS);
}

/* ---- send ----------------------------------------------------------------------- */

static int check_header(struct xd_client *c, const struct ib_user_mad_hdr *h)
{
	uint32_t qpn = ntohl(h->qpn);

	if (!qpn || qpn > XR_QPN_MASK || ntohl(h->qkey) != XR_GSI_QKEY)
		return xd_refuse(c, -EINVAL, "QP %u with Q_Key 0x%x, instead of QP 1 with 0x%x",
				 qpn, ntohl(h->qkey), XR_GSI_QKEY);
	if (h->pkey_index)
		return xd_refuse(c, -EINVAL, "P_Key index %u", h->pkey_index);
	if (!h->grh_present && h->lid)
		return xd_refuse(c, -EINVAL, "LID %u without a GRH: RoCE has no LIDs",
				 ntohs(h->lid));
	return 0;
}

static int check_mad(struct xd_client *c, const struct umad_agent *a, const struct umad_packet *p)
{
	uint8_t class = p->mad[UMAD_CLASS];

	if (!a->init.qpn || class == UMAD_CLASS_SUBNET || class == UMAD_CLASS_DIRECTED)
		return xd_refuse(c, -EOPNOTSUPP, "RoCE has no subnet management");
	if (class == UMAD_CLASS_SA && !p->hdr.grh_present)
		return xd_refuse(c, -EINVAL, "RoCE has no subnet administrator");
	if (class == UMAD_CLASS_CM)
		return xd_refuse(c, -EINVAL, "xroced itself manages connections");
	if (!umad_has_own_rmpp(a) && umad_is_rmpp(p->mad))
		return xd_refuse(c, -EOPNOTSUPP, "MADs of more than 256 bytes (RMPP)");
	return 0;
}

/* A MAD without GRH is for the port itself, whose LID is 0. */
static int send_find_path(struct xd_client *c, const struct ib_user_mad_hdr *h,
			  struct xc_path *path)
{
	*path = (struct xc_path){
		.flow_label = ntohl(h->flow_label) & 0xfffff,
		.traffic_class = h->traffic_class,
		.hop_limit = h->hop_limit,
	};
	if (!xd_net_gid(c->dev->net, h->gid_index, &path->local))
		return xd_refuse(c, -EINVAL, "GID index %u is empty", h->gid_index);
	if (h->grh_present)
		memcpy(&path->peer, h->gid, sizeof(path->peer));
	else
		*path = (struct xc_path){ .local = path->local, .peer = path->local };
	return 0;
}

/*
 * The upper half of the transaction ID of a request names the agent, so that responses find it. The
 * segments of a MAD, their ACKs and so on have one transaction ID.
 */
static int set_transaction(struct xd_umad *u, const struct umad_agent *a, struct umad_packet *p)
{
	uint32_t upper = htonl(a->tid);

	if (!umad_is_response(p->mad))
		memcpy(p->mad + UMAD_TID, &upper, sizeof(upper));
	if (!umad_is_rmpp(p->mad) && is_duplicate(u, p))
		return xd_refuse(u->client, -EINVAL, "the transaction ID is in use");
	return 0;
}

int umad_send(struct xd_umad *u, struct umad_packet *p)
{
	struct xd_client *c = u->client;
	const struct umad_agent *a;
	struct umad_send *s = NULL;
	struct xc_path path;
	int err;

	if (p->hdr.id >= XR_UMAD_AGENTS || !u->agent[p->hdr.id].used)
		return xd_refuse(c, p->hdr.id < XR_UMAD_AGENTS ? -EIO : -EINVAL,
				 "the file has no agent %u", p->hdr.id);
	a = &u->agent[p->hdr.id];
	err = check_mad(c, a, p);
	if (!err)
		err = check_header(c, &p->hdr);
	if (!err)
		err = send_find_path(c, &p->hdr, &path);
	if (!err)
		err = set_transaction(u, a, p);
	if (!err && p->hdr.timeout_ms)
		err = find_entry(u, &s);
	if (!err)
		err = send_transmit(u, &path, p);
	if (!err && s) {
		*s = (struct umad_send){ true, p->hdr.retries, deadline_of(p), path, *p };
		send_arm(u);
	}
	return err;
}
