// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Lists of SHOW, in pieces. A piece ends after a millisecond or PIECE bytes of text, and the client
 * asks for the next one when it has read this one. So a list needs no state in the daemon: its
 * place is the number of a client and the handle of an object. Clients are listed from the newest
 * to the oldest, and new ones are in front, so none appears twice.
 */
#include <errno.h>
#include <stdio.h>

#include <xroce/show.h>

#include "daemon/base/loop.h"
#include "daemon/clients/request.h"
#include "daemon/objects/mcast.h"
#include "daemon/objects/objects.h"
#include "daemon/objects/qp.h"
#include "select.h"
#include "server.h"
#include "show.h"
#include "view.h"

#define PIECE (256 << 10)
/* Empty slots of a table that are passed before the time is looked at */
#define SLOTS 64

/* ---- places ------------------------------------------------------------------------------- */

/* Behind the records of direct programs come the objects of the next client. */
#define IN_VIEW (1ull << 31)

static uint64_t show_list_place(const struct xd_client *c, uint64_t index)
{
	return (uint64_t)c->id << 32 | index;
}

struct show_list_walk {
	struct json *j;
	const struct xd_clients *cs;
	struct xd_select select;
	const char *key; /* member with the number or handle of the object; "": none */
	size_t key_length;
	uint32_t kind;
	const struct xd_kind_ops *ops; /* NULL: the rows are no objects */
	enum xr_view_list view;	       /* XR_VIEW_LIST_COUNT: none */
	bool detail;
	bool pieces;
	bool by_handle; /* only the object with this handle is shown */
	uint64_t handle;
	bool indexed;  /* a table has told which object the daemon has */
	bool progress; /* something was done in this piece */
	uint64_t *next;
	const struct xd_client *client; /* whose records are read */
};

/* Each piece does something, however long it took to find its place. */
static bool must_end(const struct show_list_walk *w)
{
	long length = ftell(w->j->f);

	if (!w->pieces)
		return length > (long)XR_SHOW_WHOLE_MAX;
	return w->progress && (length >= PIECE || xd_loop_must_yield(w->cs->dev->loop));
}

static bool end_piece(struct show_list_walk *w, const struct xd_client *c, uint64_t index)
{
	*w->next = show_list_place(c, index);
	return false;
}

static bool is_excluded(const struct show_list_walk *w, uint32_t number)
{
	return xd_select_excludes(&w->select, w->key, w->key_length, number);
}

/* ---- objects of the daemon ---------------------------------------------------------------- */

static void put_group(void *arg, const struct xd_qp *qp, const struct xr_addr *gid)
{
	struct show_list_walk *w = arg;

	xd_select_begin(&w->select, w->j);
	xd_mcast_show(w->j, qp, gid);
	xd_select_end(&w->select, w->j);
}

static void put_object(struct show_list_walk *w, struct xd_object *obj)
{
	const struct xd_kind_ops *ops = w->ops;

	if (!ops) {
		xd_mcast_each(xd_objects_of(obj->client), container_of(obj, struct xd_qp, obj),
			      put_group, w);
		return;
	}
	if (is_excluded(w, ops->number ? ops->number(obj) : obj->handle))
		return;
	xd_select_begin(&w->select, w->j);
	(w->detail ? ops->show_detail : ops->show)(w->j, obj);
	xd_object_show_owner(w->j, obj, w->detail);
	xd_select_end(&w->select, w->j);
}

/* Shows the next object behind a handle. Returns its handle, or that of an empty slot. */
static uint32_t put_next(struct show_list_walk *w, const struct xd_client *c, uint32_t handle,
			 uint32_t last)
{
	uint32_t end = last - handle > SLOTS ? handle + SLOTS : last;
	struct xd_object *obj;

	while (handle < end) {
		obj = xd_object_get(c, w->kind, ++handle);
		if (obj) {
			put_object(w, obj);
			break;
		}
	}
	w->progress = true;
	return handle;
}

/* Shows the objects behind a handle. Returns false if the piece ends. */
static bool show_list_put_objects(struct show_list_walk *w, const struct xd_client *c,
				  uint32_t handle)
{
	uint32_t last = xd_object_last(c, w->kind);

	if (w->indexed || xd_select_excludes_text(&w->select, "path", "daemon"))
		return true;
	if (w->by_handle && w->handle > last)
		return true;
	if (w->by_handle) {
		last = (uint32_t)w->handle;
		handle = last && handle < last ? last - 1 : last;
	}
	while (handle < last) {
		if (must_end(w))
			return end_piece(w, c, handle);
		handle = put_next(w, c, handle, last);
	}
	return true;
}

/* ---- objects of direct programs ----------------------------------------------------------- */

static void put_record(void *arg, uint32_t index, const void *record)
{
	struct show_list_walk *w = arg;

	(void)index;
	if (is_excluded(w, xd_view_number(record)))
		return;
	xd_select_begin(&w->select, w->j);
	if (w->ops)
		w->ops->show_view(w->j, record, w->client, w->detail);
	else
		xd_mcast_show_view(w->j, record, w->client, w->detail);
	xd_show_owner(w->j, w->client, xd_view_created(w->view, record), w->detail);
	xd_select_end(&w->select, w->j);
}

static bool put_records(struct show_list_walk *w, const struct xd_client *c, uint32_t index)
{
	if (!c->view || w->view == XR_VIEW_LIST_COUNT ||
	    xd_select_excludes_text(&w->select, "path", "direct"))
		return true;
	w->client = c;
	for (;;) {
		if (must_end(w))
			return end_piece(w, c, IN_VIEW | index);
		if (!xd_view_piece(c->view, w->view, &index, put_record, w))
			return true;
		w->progress = true;
	}
}

/* ---- clients ------------------------------------------------------------------------------ */

uint64_t xd_registered(const struct xd_clients *cs, const struct xd_user *u)
{
	return u->bytes.pinned + xd_views_objects(cs, u, XR_CLAIM_PAGES) * XR_CLAIM_PAGE;
}

static void put_count(struct json *j, const struct xd_client *c, uint32_t kind)
{
	json_number(j, c->clients->kinds.ops[kind]->name,
		    xd_object_count(c, kind) + xd_view_objects(c, kind));
}

static void put_client(struct show_list_walk *w, const struct xd_client *c)
{
	const struct xd_clients *cs = c->clients;
	struct json *j = w->j;

	xd_select_begin(&w->select, j);
	json_number(j, "client", c->id);
	json_number(j, "pid", (uint64_t)c->identity.pid);
	json_number(j, "uid", c->identity.uid);
	json_text(j, "comm", c->identity.comm);
	json_number(j, "age_ns", xd_now() - c->created);
	json_boolean(j, "observer", c->connection.observer);
	json_boolean(j, "direct", c->slot);
	for (uint32_t kind = 0; kind < cs->kinds.n; kind++)
		put_count(j, c, kind);
	json_number(j, "user_bytes", xd_registered(cs, c->user) + c->user->bytes.memory);
	json_number(j, "delays", c->connection.delays);
	xd_client_memory_show(j, c);
	json_boolean(j, "ending", c->ending);
	xd_select_end(&w->select, j);
}

/* Rows of objects have these members of their clients as well. */
static bool is_client_excluded(const struct xd_select *s, const struct xd_client *c)
{
	return xd_select_excludes(s, "client", 6, c->id) ||
	       xd_select_excludes(s, "pid", 3, (uint64_t)c->identity.pid) ||
	       xd_select_excludes(s, "uid", 3, c->identity.uid) ||
	       xd_select_excludes_text(s, "comm", c->identity.comm);
}

/* index: the place among the rows of the client. Returns false if the piece ends. */
static bool put_rows(struct show_list_walk *w, const struct xd_client *c, uint64_t index)
{
	if (must_end(w))
		return end_piece(w, c, index);
	if (is_client_excluded(&w->select, c))
		return true;
	if (w->kind == XD_MAX_KINDS) {
		put_client(w, c);
		return true;
	}
	if (!(index & IN_VIEW) && !show_list_put_objects(w, c, (uint32_t)index))
		return false;
	return put_records(w, c, index & IN_VIEW ? (uint32_t)(index & ~IN_VIEW) : 0);
}

/* ---- the list ----------------------------------------------------------------------------- */

/* Shows the object that the selection names, if a table has it. Returns true if that was all. */
static bool put_only(struct show_list_walk *w)
{
	struct xd_object *obj = NULL;
	uint64_t number;

	if (!w->ops || !xd_select_only(&w->select, w->key, w->key_length, &number))
		return false;
	w->handle = number;
	w->by_handle = !w->ops->find;
	if (w->by_handle)
		return false;
	w->indexed = number > UINT32_MAX || w->ops->find(w->cs, (uint32_t)number, &obj);
	if (w->indexed && obj)
		put_object(w, obj);
	return w->indexed && obj;
}

/* from: the place of the first row; 0: the beginning */
static void put_list(struct show_list_walk *w, uint64_t from)
{
	const uint32_t first = (uint32_t)(from >> 32);
	const struct xd_client *c;

	if (put_only(w))
		return;
	for (c = w->cs->first; c; c = c->next) {
		if (from && c->id > first)
			continue;
		if (!put_rows(w, c, from && c->id == first ? (uint32_t)from : 0))
			return;
		w->progress = true;
	}
}

static enum xr_view_list view_of(uint32_t kind)
{
	static const struct {
		uint32_t kind;
		enum xr_view_list list;
	} lists[] = {
		{ XR_KIND_QP, XR_VIEW_QP }, { XR_KIND_MR, XR_VIEW_MR },
		{ XR_KIND_CQ, XR_VIEW_CQ }, { XR_KIND_SRQ, XR_VIEW_SRQ },
		{ XR_KIND_MW, XR_VIEW_MW }, { XR_KIND_AH, XR_VIEW_AH },
		{ XR_KIND_DM, XR_VIEW_DM }, { XR_KIND_XRCD, XR_VIEW_XRCD },
	};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		if (lists[i].kind == kind)
			return lists[i].list;
	return XR_VIEW_LIST_COUNT;
}

static void choose_kind(struct show_list_walk *w, uint32_t what)
{
	const struct xd_kind_ops *ops;

	w->view = XR_VIEW_LIST_COUNT;
	w->kind = XD_MAX_KINDS;
	if (what == XR_SHOW_GROUPS) {
		w->kind = XD_QP;
		w->view = XR_VIEW_MEMBER;
	}
	for (uint32_t kind = 0; kind < w->cs->kinds.n; kind++) {
		ops = w->cs->kinds.ops[kind];
		if (ops->list != what && ops->detail_list != what)
			continue;
		w->kind = kind;
		w->ops = ops;
		w->view = view_of(kind);
		w->detail = ops->detail_list == what;
	}
}

int xd_show_list(struct json *j, struct xd_client *c, const struct xr_show_req *q, uint64_t *next)
{
	const struct xr_list *list = xr_list_of(q->what);
	const char *names = list->names;
	struct show_list_walk w = {
		.j = j,
		.cs = c->clients,
		.pieces = q->flags & XR_SHOW_PIECES,
		.next = next,
	};
	int err = xd_select_parse(&w.select, c, list, q);

	if (err)
		return err;
	choose_kind(&w, q->what);
	w.key = xr_next_member(&names, &w.key_length);
	if (xr_type_of_member(w.key, w.key_length) != XR_NUMBER) {
		w.key = "";
		w.key_length = 0;
	}
	if (w.detail && w.ops->before_details)
		w.ops->before_details(w.cs);
	json_begin(j, NULL, '[');
	put_list(&w, q->from);
	json_end(j, ']');
	if (*next && !w.pieces)
		return xd_refuse(c, -EFBIG, "the list is longer than %u MiB: ask for pieces",
				 XR_SHOW_WHOLE_MAX >> 20);
	return 0;
}
