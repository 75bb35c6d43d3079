// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The objects of clients, as operators see them: lists by kind. docs/show.md has the names. */
#include <errno.h>
#include <string.h>

#include "daemon/memory/region.h"
#include "daemon/objects/objects.h"
#include "show.h"

static const char *state_name(uint32_t state)
{
	static const char *const names[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };

	return state < sizeof(names) / sizeof(names[0]) ? names[state] : "?";
}

static const char *type_name(uint32_t type)
{
	switch (type) {
	case XR_QPT_RC:
		return "RC";
	case XR_QPT_UC:
		return "UC";
	case XR_QPT_UD:
		return "UD";
	case XR_QPT_XRC_SEND:
		return "XRC_SEND";
	case XR_QPT_XRC_RECV:
		return "XRC_RECV";
	default:
		return "?";
	}
}

/* 0 for none, as requests have it */
static uint32_t handle_of(const void *object)
{
	return object ? ((const struct xd_object *)object)->handle : 0;
}

static void put_qp(struct json *j, struct xd_client *c, struct xd_object *obj)
{
	struct xd_qp *qp = (struct xd_qp *)obj;
	struct xr_qp_attr attr;
	struct xt_path path;

	xd_workers_pause(c->dev->workers);
	xt_qp_query(qp->xt, &attr);
	path = *xt_qp_path(qp->xt);
	xd_workers_resume_no_wake(c->dev->workers);
	json_number(j, "qpn", qp->qpn);
	json_text(j, "type", qp->gsi ? "GSI" : type_name(qp->type));
	json_text(j, "state", state_name(attr.qp_state));
	json_number(j, "client", c->id);
	json_number(j, "worker", qp->worker);
	json_address(j, "peer", &path.dgid);
	json_number(j, "dest_qpn", attr.dest_qp_num);
	json_number(j, "path_mtu", attr.path_mtu ? 128u << attr.path_mtu : 0);
	json_number(j, "send_cq", handle_of(qp->send_cq));
	json_number(j, "recv_cq", handle_of(qp->recv_cq));
	json_number(j, "srq", handle_of(qp->srq));
	json_boolean(j, "local", path.loopback);
}

static void put_access(struct json *j, uint32_t access)
{
	char s[40] = "";

	if (access & XR_ACCESS_LOCAL_WRITE)
		strcat(s, ",lw");
	if (access & XR_ACCESS_REMOTE_WRITE)
		strcat(s, ",rw");
	if (access & XR_ACCESS_REMOTE_READ)
		strcat(s, ",rr");
	if (access & XR_ACCESS_REMOTE_ATOMIC)
		strcat(s, ",ra");
	if (access & XR_ACCESS_MW_BIND)
		strcat(s, ",mw");
	if (access & XR_ACCESS_ON_DEMAND)
		strcat(s, ",od");
	json_text(j, "access", *s ? s + 1 : s);
}

static void put_tiers(struct json *j, uint32_t tiers)
{
	char s[40] = "";

	if (tiers & 1u << XR_SEG_MAPPING)
		strcat(s, ",shared");
	if (tiers & 1u << XR_SEG_FD)
		strcat(s, ",adopted");
	if (tiers & 1u << XR_SEG_PRIVATE)
		strcat(s, ",private");
	if (tiers & 1u << XR_SEG_DM)
		strcat(s, ",device");
	if (tiers & 1u << XR_SEG_NULL)
		strcat(s, ",null");
	json_text(j, "tier", *s ? s + 1 : s);
}

static void put_mr(struct json *j, struct xd_client *c, struct xd_object *obj)
{
	static const char *const states[] = { "free", "valid", "invalid" };
	struct xd_mr *mr = (struct xd_mr *)obj;

	json_number(j, "lkey", xt_key_value(mr->key));
	json_number(j, "client", c->id);
	json_number(j, "pd", mr->pd->id->number);
	json_hex(j, "addr", mr->addr);
	json_number(j, "length", mr->length);
	put_access(j, mr->access);
	json_text(j, "state", mr->mem->xt.broken ? "broken" : states[mr->key->entry.state]);
	put_tiers(j, mr->mem->tiers);
	json_boolean(j, "pinned", mr->mem->pinned);
	json_hex(j, "iova", mr->iova);
}

static void put_cq(struct json *j, struct xd_client *c, struct xd_object *obj)
{
	struct xd_cq *cq = (struct xd_cq *)obj;
	const struct xr_queue *queue = cq->ring.ptr;
	uint32_t used = __atomic_load_n(&cq->xt.producer, __ATOMIC_RELAXED) -
			__atomic_load_n(&queue->consumer, __ATOMIC_RELAXED);

	json_number(j, "cq", cq->obj.handle);
	json_number(j, "client", c->id);
	json_number(j, "depth", cq->depth);
	json_number(j, "used", used <= cq->depth ? used : cq->depth);
	json_boolean(j, "armed", __atomic_load_n(&queue->word, __ATOMIC_RELAXED));
	json_boolean(j, "overrun", cq->xt.overrun);
}

/* The address and size of a window whose key the engines change */
static void put_mw(struct json *j, struct xd_client *c, struct xd_object *obj)
{
	struct xd_mw *mw = (struct xd_mw *)obj;
	const struct xt_key *region = NULL;
	struct xt_key key;

	xd_workers_pause(c->dev->workers);
	key = *mw->key;
	if (key.parent)
		region = xt_keys_by_index(c->dev->shared.keys, key.parent);
	json_number(j, "rkey", xt_key_value(&key));
	json_number(j, "client", c->id);
	json_number(j, "pd", mw->pd->id->number);
	json_number(j, "type", key.entry.flags & XR_KEYF_TYPE_2 ? 2 : 1);
	json_boolean(j, "bound", region);
	json_number(j, "mr", region ? xt_key_value(region) : 0);
	xd_workers_resume_no_wake(c->dev->workers);
	json_hex(j, "addr", region ? key.entry.va : 0);
	json_number(j, "length", region ? key.entry.length : 0);
	put_access(j, region ? key.entry.access : 0);
	json_number(j, "qpn", key.entry.qpn);
}

static void put_dm(struct json *j, struct xd_client *c, struct xd_object *obj)
{
	struct xd_dm *dm = (struct xd_dm *)obj;

	json_number(j, "dm", dm->obj.handle);
	json_number(j, "client", c->id);
	json_number(j, "length", dm->length);
	json_number(j, "mrs", dm->obj.refs);
}

static void put_srq(struct json *j, struct xd_client *c, struct xd_object *obj)
{
	struct xd_srq *srq = (struct xd_srq *)obj;
	struct xt_srq xt;
	uint32_t used;

	xd_workers_pause(c->dev->workers);
	xt = srq->xt;
	xd_workers_resume_no_wake(c->dev->workers);
	used = __atomic_load_n(&xt.queue->producer, __ATOMIC_RELAXED) - xt.consumer;
	json_number(j, "srq", srq->obj.handle);
	json_number(j, "client", c->id);
	json_text(j, "type", srq->xrcd ? "XRC" : "basic");
	json_number(j, "pd", srq->pd->id->number);
	json_number(j, "depth", srq->max_wr);
	json_number(j, "used", used <= srq->max_wr ? used : srq->max_wr);
	json_number(j, "limit", xt.limit);
	json_number(j, "qps", srq->obj.refs);
	json_number(j, "number", xt.number);
	json_number(j, "xrcd", handle_of(srq->xrcd));
	json_number(j, "cq", handle_of(srq->cq));
	json_boolean(j, "dead", xt.dead);
}

static void put_xrcd(struct json *j, struct xd_client *c, struct xd_object *obj)
{
	struct xd_xrcd *xrcd = (struct xd_xrcd *)obj;

	json_number(j, "xrcd", xrcd->obj.handle);
	json_number(j, "client", c->id);
	json_number(j, "domain", xrcd->domain->number);
	json_number(j, "opened", xrcd->domain->refs);
	json_boolean(j, "file", xrcd->domain->fd >= 0);
	json_number(j, "inode", xrcd->domain->fd >= 0 ? xrcd->domain->inode : 0);
}

static void put_ah(struct json *j, struct xd_client *c, struct xd_object *obj)
{
	const struct xt_path *path = xt_ahs_path(c->ahs, obj->handle);
	struct xd_ah *ah = (struct xd_ah *)obj;
	const uint8_t *m = path->dmac;
	char mac[20];

	snprintf(mac, sizeof(mac), "%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4],
		 m[5]);
	json_number(j, "ah", obj->handle);
	json_number(j, "client", c->id);
	json_number(j, "pd", ah->pd->id->number);
	json_number(j, "gid_index", ah->attr.sgid_index);
	json_address(j, "peer", &path->dgid);
	json_text(j, "mac", mac);
	json_number(j, "vlan", path->vlan);
	json_number(j, "hop_limit", path->hop_limit);
	json_number(j, "traffic_class", path->traffic_class);
	json_number(j, "flow_label", path->flow_label);
	json_boolean(j, "local", path->loopback);
}

struct membership {
	struct json *j;
	const struct xd_qp *qp;
};

static void put_group(void *arg, const struct xr_addr *gid)
{
	const struct membership *m = arg;

	json_begin(m->j, NULL, '{');
	json_address(m->j, "group", gid);
	json_number(m->j, "client", m->qp->obj.client->id);
	json_number(m->j, "qpn", m->qp->qpn);
	json_end(m->j, '}');
}

/* ---- lists of them ----------------------------------------------------------------- */

static const struct list {
	enum xd_kind kind;
	void (*put)(struct json *j, struct xd_client *c, struct xd_object *obj);
} lists[] = {
	[XR_SHOW_QPS] = { XD_QP, put_qp },	 [XR_SHOW_MRS] = { XD_MR, put_mr },
	[XR_SHOW_CQS] = { XD_CQ, put_cq },	 [XR_SHOW_SRQS] = { XD_SRQ, put_srq },
	[XR_SHOW_XRCDS] = { XD_XRCD, put_xrcd }, [XR_SHOW_AHS] = { XD_AH, put_ah },
	[XR_SHOW_MWS] = { XD_MW, put_mw },	 [XR_SHOW_DMS] = { XD_DM, put_dm },
};

static void show_list(struct json *j, struct xd_server *s, const struct list *list)
{
	struct xd_client *c;
	uint32_t h;
	void *obj;

	for (c = s->clients; c; c = c->next) {
		for (h = 0; (obj = xd_table_next(&c->table[list->kind], &h));) {
			json_begin(j, NULL, '{');
			list->put(j, c, obj);
			json_end(j, '}');
		}
	}
}

/* An object for each QP of each group */
static void show_groups(struct json *j, struct xd_server *s)
{
	struct membership m = { .j = j };
	struct xd_client *c;
	uint32_t h;

	for (c = s->clients; c; c = c->next)
		for (h = 0; (m.qp = xd_table_next(&c->table[XD_QP], &h));)
			xd_mcast_each(m.qp, put_group, &m);
}

int xd_show_objects(struct json *j, struct xd_server *s, uint32_t what)
{
	bool listed = what < sizeof(lists) / sizeof(lists[0]) && lists[what].put;

	if (!listed && what != XR_SHOW_GROUPS)
		return -EINVAL;
	json_begin(j, NULL, '[');
	if (listed)
		show_list(j, s, &lists[what]);
	else
		show_groups(j, s);
	json_end(j, ']');
	return 0;
}
