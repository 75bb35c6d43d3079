// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Ids and their tables. */
#include <errno.h>
#include <stdlib.h>

#include "id.h"

/* Ids that only repeat a response */
#define MAX_ANSWERED 4096

#define ID_OF(node, member) ((struct xc_id *)((char *)(node)-offsetof(struct xc_id, member)))

/* ---- hashes ------------------------------------------------------------------ */

static uint64_t hash_gid(const struct xc_cm *cm, const struct xr_addr *gid)
{
	const __be32 *w = xr_gid_words(gid);
	uint64_t h = xc_hash(cm->seed, (uint64_t)w[0] << 32 | w[1]);

	return xc_hash(cm->seed ^ h, (uint64_t)w[2] << 32 | w[3]);
}

static uint64_t hash_peer(const struct xc_cm *cm, const struct xr_addr *peer, uint64_t guid,
			  uint32_t number)
{
	uint64_t h = xc_hash(cm->seed ^ hash_gid(cm, peer), guid);

	return xc_hash(cm->seed ^ h, number);
}

/* ---- lookup ------------------------------------------------------------------ */

struct xc_id *xc_id_by_local(const struct xc_cm *cm, uint32_t local_id)
{
	struct xc_node *n = xc_table_first(&cm->by_local, local_id);

	return n ? ID_OF(n, by_local) : NULL;
}

static struct xc_id *by_remote(const struct xc_cm *cm, const struct xc_info *key)
{
	uint64_t hash = hash_peer(cm, &key->path.peer, key->remote_guid, key->remote_id);
	struct xc_node *n;

	for (n = xc_table_first(&cm->by_remote, hash); n; n = xc_table_next(n)) {
		const struct xc_info *i = &ID_OF(n, by_remote)->info;

		if (i->remote_id == key->remote_id && i->remote_guid == key->remote_guid &&
		    i->sidr == key->sidr && xr_gid_equal(&i->path.peer, &key->path.peer))
			return ID_OF(n, by_remote);
	}
	return NULL;
}

struct xc_id *xc_id_by_remote(const struct xc_cm *cm, const struct xr_addr *peer, uint64_t guid,
			      uint32_t remote_id)
{
	return by_remote(cm, &(struct xc_info){ .path.peer = *peer,
						.remote_guid = guid,
						.remote_id = remote_id });
}

struct xc_id *xc_id_by_sidr(const struct xc_cm *cm, const struct xr_addr *peer, uint32_t request_id)
{
	return by_remote(
		cm, &(struct xc_info){ .path.peer = *peer, .sidr = true, .remote_id = request_id });
}

struct xc_id *xc_id_by_qpn(const struct xc_cm *cm, const struct xr_addr *peer, uint64_t guid,
			   uint32_t qpn)
{
	uint64_t hash = hash_peer(cm, peer, guid, qpn);
	struct xc_node *n;

	for (n = xc_table_first(&cm->by_qpn, hash); n; n = xc_table_next(n)) {
		const struct xc_info *i = &ID_OF(n, by_qpn)->info;

		if (i->remote_qpn == qpn && i->remote_guid == guid &&
		    xr_gid_equal(&i->path.peer, peer))
			return ID_OF(n, by_qpn);
	}
	return NULL;
}

void xc_id_link_remote(struct xc_id *id)
{
	const struct xc_info *i = &id->info;

	xc_table_add(&id->cm->by_remote, &id->by_remote,
		     hash_peer(id->cm, &i->path.peer, i->remote_guid, i->remote_id));
}

void xc_id_link_qpn(struct xc_id *id)
{
	const struct xc_info *i = &id->info;

	xc_table_add(&id->cm->by_qpn, &id->by_qpn,
		     hash_peer(id->cm, &i->path.peer, i->remote_guid, i->remote_qpn));
}

void xc_id_unlink_remote(struct xc_id *id)
{
	xc_table_del(&id->cm->by_remote, &id->by_remote);
}

void xc_id_unlink_qpn(struct xc_id *id)
{
	xc_table_del(&id->cm->by_qpn, &id->by_qpn);
}

/* ---- creation ---------------------------------------------------------------- */

/* Communication IDs are random, so that only hosts that see the packets can use them. */
static uint32_t new_local_id(struct xc_cm *cm)
{
	uint32_t n;

	do
		cm->ops->random(cm->ctx, &n, sizeof(n));
	while (!n || xc_id_by_local(cm, n));
	return n;
}

static bool free_oldest_answered(struct xc_cm *cm)
{
	if (xt_list_empty(&cm->answered))
		return false;
	xc_id_free(ID_OF(cm->answered.next, answered));
	return true;
}

static void end_payment(struct xc_id *id)
{
	void *payer = id->payer;

	id->payer = NULL;
	if (payer && id->cm->ops->orphan_gone)
		id->cm->ops->orphan_gone(id->cm->ctx, payer);
}

void xc_id_keep_answered(struct xc_id *id)
{
	struct xc_cm *cm = id->cm;

	end_payment(id);
	if (cm->answered_count == MAX_ANSWERED)
		free_oldest_answered(cm);
	xt_list_add_tail(&cm->answered, &id->answered);
	cm->answered_count++;
}

int xc_id_new(struct xc_cm *cm, const struct xc_path *path, struct xc_id **new)
{
	struct xc_id *id;

	if (cm->gauges.ids >= cm->config.max_ids && !free_oldest_answered(cm))
		return -EMFILE;
	if (xd_heap_reserve(&cm->timers, cm->gauges.ids + 1))
		return -ENOMEM;
	id = calloc(1, sizeof(*id));
	if (!id)
		return -ENOMEM;
	id->cm = cm;
	id->info.path = *path;
	id->info.local_id = new_local_id(cm);
	cm->ops->random(cm->ctx, &id->own_tid, sizeof(id->own_tid));
	xt_list_init(&id->answered);
	xt_list_add_tail(&cm->ids, &id->all);
	xc_table_add(&cm->by_local, &id->by_local, id->info.local_id);
	cm->gauges.ids++;
	*new = id;
	return 0;
}

void xc_id_free(struct xc_id *id)
{
	struct xc_cm *cm = id->cm;

	xc_id_set_state(id, XC_IDLE);
	xd_heap_clear(&cm->timers, &id->timer);
	xc_table_del(&cm->by_local, &id->by_local);
	xc_id_unlink_remote(id);
	xc_id_unlink_qpn(id);
	if (!xt_list_empty(&id->answered))
		cm->answered_count--;
	xt_list_del(&id->answered);
	xt_list_del(&id->all);
	cm->gauges.ids--;
	end_payment(id);
	free(id);
}

/* ---- half-open ids ------------------------------------------------------------- */

static struct xc_source *source_of(struct xc_cm *cm, const struct xr_addr *gid)
{
	uint64_t hash = hash_gid(cm, gid);
	struct xc_source *s;
	struct xc_node *n;

	for (n = xc_table_first(&cm->sources, hash); n; n = xc_table_next(n)) {
		s = (struct xc_source *)n;
		if (xr_gid_equal(&s->gid, gid))
			return s;
	}
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->gid = *gid;
	xc_table_add(&cm->sources, &s->node, hash);
	cm->gauges.sources++;
	return s;
}

bool xc_id_half_open(struct xc_id *id)
{
	struct xc_cm *cm = id->cm;
	struct xc_source *s;

	if (cm->gauges.half_open >= cm->config.max_half_open)
		return false;
	s = source_of(cm, &id->info.path.peer);
	if (!s || s->half_open >= cm->config.max_source_half_open)
		return false;
	s->half_open++;
	cm->gauges.half_open++;
	id->source = s;
	return true;
}

static void not_half_open(struct xc_id *id)
{
	struct xc_cm *cm = id->cm;
	struct xc_source *s = id->source;

	if (!s)
		return;
	id->source = NULL;
	cm->gauges.half_open--;
	if (--s->half_open)
		return;
	xc_table_del(&cm->sources, &s->node);
	cm->gauges.sources--;
	free(s);
}

static bool is_half_open(enum xc_state state)
{
	switch (state) {
	case XC_REQ_RCVD:
	case XC_MRA_REQ_SENT:
	case XC_REP_SENT:
	case XC_MRA_REP_RCVD:
	case XC_SIDR_REQ_RCVD:
		return true;
	default:
		return false;
	}
}

/* Returns true if the peer may have an established connection. */
static bool may_be_connected(enum xc_state state)
{
	switch (state) {
	case XC_REP_SENT:
	case XC_MRA_REP_RCVD:
	case XC_REP_RCVD:
	case XC_MRA_REP_SENT:
	case XC_ESTABLISHED:
	case XC_DREQ_SENT:
		return true;
	default:
		return false;
	}
}

static void report_peer(struct xc_id *id)
{
	const struct xc_ops *ops = id->cm->ops;
	bool connected = may_be_connected(id->info.state), before = id->peer_connected;

	if (!ops->peer_connected)
		return;
	id->peer_connected = connected;
	if (connected)
		id->peer_number = ops->peer_connected(id->cm->ctx, &id->info, id->own_tid,
						      before ? id->peer_number : XC_NO_NUMBER);
	else if (before)
		ops->peer_gone(id->cm->ctx, id->peer_number);
}

void xc_id_set_state(struct xc_id *id, enum xc_state state)
{
	id->info.state = state;
	if (!is_half_open(state))
		not_half_open(id);
	report_peer(id);
}

/* ---- information --------------------------------------------------------------- */

const struct xc_info *xc_info(const struct xc_id *id)
{
	return &id->info;
}

void xc_set_owner(struct xc_id *id, void *owner)
{
	id->info.owner = owner;
}

struct xc_id *xc_next(const struct xc_cm *cm, const struct xc_id *prev)
{
	const struct xt_list *next = prev ? prev->all.next : cm->ids.next;

	return next == &cm->ids ? NULL : ID_OF(next, all);
}
