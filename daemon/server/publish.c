// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * PUBLISH: QPs and keys of a direct program in the tables by which the kernel checks the packets of
 * its slot. A program can only set entries of its own: QPNs of its slot, and keys, which are in the
 * tables by slot. It can say what it likes about these, as it can about its packets.
 */
#include <errno.h>
#include <stdlib.h>

#include "daemon/clients/request.h"
#include "daemon/io/io.h"
#include "server.h"

#define MAX_NUMBER 0xffffffu /* of QPNs and indices of keys */

/* What is in the tables, by place; 0: nothing */
struct xd_published {
	uint32_t qpn[XR_PUBLISH_QPS];
	uint32_t index[XR_PUBLISH_KEYS];
	uint32_t flags; /* XR_SLOT_* */
};

/* ---- checks ------------------------------------------------------------------------- */

static int check_qp(struct xd_client *c, const struct xd_slots_state *state,
		    const struct xr_publish_entry *e)
{
	uint32_t slot;

	if (e->place >= XR_PUBLISH_QPS)
		return xd_refuse(c, -EINVAL, "place %u of a QP, the tables hold %u of a client",
				 e->place, XR_PUBLISH_QPS);
	if (!e->number)
		return 0;
	if (e->number >= MAX_NUMBER || !xd_slot_of_qpn(state, e->number, &slot) ||
	    slot != c->slot - 1)
		return xd_refuse(c, -EINVAL, "QPN 0x%x is none of slot %u", e->number, c->slot - 1);
	if (e->qp.state > XR_QPS_ERR || e->qp.slot != XR_NO_PSNS)
		return xd_refuse(c, -EINVAL, "QP 0x%x: state %u, slot %u", e->number, e->qp.state,
				 e->qp.slot);
	return 0;
}

static int publish_check_key(struct xd_client *c, const struct xr_publish_entry *e)
{
	if (e->place >= XR_PUBLISH_KEYS)
		return xd_refuse(c, -EINVAL, "place %u of a key, the tables hold %u of a client",
				 e->place, XR_PUBLISH_KEYS);
	if (e->number > MAX_NUMBER)
		return xd_refuse(c, -EINVAL, "index 0x%x of a key, at most 0x%x", e->number,
				 MAX_NUMBER);
	if (e->number && (e->key.state > XR_KEY_INVALID ||
			  (e->key.type != XR_KEY_MR && e->key.type != XR_KEY_MW)))
		return xd_refuse(c, -EINVAL, "key with index 0x%x: state %u, type %u", e->number,
				 e->key.state, e->key.type);
	return 0;
}

static int check_entry(struct xd_client *c, const struct xd_slots_state *state,
		       const struct xr_publish_entry *e)
{
	if (e->reserved || (e->kind != XR_PUBLISH_QP && e->kind != XR_PUBLISH_KEY))
		return xd_refuse(c, -EINVAL, "kind %u, reserved %u of an entry", e->kind,
				 e->reserved);
	return e->kind == XR_PUBLISH_QP ? check_qp(c, state, e) : publish_check_key(c, e);
}

static int publish_check(struct xd_client *c, const struct xd_request *req)
{
	const struct xr_publish_req *q = req->body;
	struct xd_slots_state state;
	int err = 0;

	if (!c->slot || c->slot_ended)
		return xd_refuse(c, -EINVAL, "the connection has no slot");
	xd_io_slots(c->dev->io, &state);
	if (!state.checked)
		return xd_refuse(c, -EOPNOTSUPP,
				 "the kernel does not check packets of slots: "
				 "--direct-verdict program, or no CAP_BPF");
	if (q->flags & ~(uint32_t)(XR_PUBLISH_MORE_QPS | XR_PUBLISH_MORE_KEYS))
		return xd_refuse(c, -EINVAL, "flags 0x%x", q->flags);
	if (q->entries > XR_PUBLISH_MAX ||
	    req->length < sizeof(*q) + q->entries * sizeof(q->entry[0]))
		return xd_refuse(c, -EINVAL, "%u entries in %u bytes, at most %u entries",
				 q->entries, req->length, XR_PUBLISH_MAX);
	for (uint32_t i = 0; i < q->entries && !err; i++)
		err = check_entry(c, &state, &q->entry[i]);
	return err;
}

/* ---- entries ------------------------------------------------------------------------ */

static uint32_t *publish_place_of(struct xd_published *p, const struct xr_publish_entry *e)
{
	return e->kind == XR_PUBLISH_QP ? &p->qpn[e->place] : &p->index[e->place];
}

static void empty(struct xd_client *c, enum xr_publish_kind kind, uint32_t *place)
{
	if (*place)
		xd_io_publish(c->dev->io, c->slot - 1, kind, *place, NULL);
	*place = 0;
}

static int publish_set(struct xd_client *c, const struct xr_publish_entry *e)
{
	uint32_t *place = publish_place_of(c->published, e);
	int err;

	if (*place != e->number)
		empty(c, e->kind, place);
	if (!e->number)
		return 0;
	err = xd_io_publish(c->dev->io, c->slot - 1, e->kind, e->number, &e->qp);
	if (err)
		return xd_refuse(c, -ENOMEM, "the tables of the kernel: %s", strerror(-err));
	*place = e->number;
	return 0;
}

static int publish_set_flags(struct xd_client *c, uint32_t flags)
{
	int err;

	flags |= c->published->flags;
	if (flags == c->published->flags)
		return 0;
	err = xd_io_publish_more(c->dev->io, c->slot - 1, flags);
	if (err)
		return xd_refuse(c, -ENOMEM, "the tables of the kernel: %s", strerror(-err));
	c->published->flags = flags;
	return 0;
}

int xd_do_publish(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_publish_req *q = req->body;
	int err = publish_check(c, req);

	(void)rep;
	if (err)
		return err;
	if (!c->published)
		c->published = calloc(1, sizeof(*c->published));
	if (!c->published)
		return -ENOMEM;
	err = publish_set_flags(c, q->flags);
	for (uint32_t i = 0; i < q->entries && !err; i++)
		err = publish_set(c, &q->entry[i]);
	/* The client has objects already that the tables do not know. */
	if (err && req->no_reply)
		publish_set_flags(c, XR_PUBLISH_MORE_QPS | XR_PUBLISH_MORE_KEYS);
	return err;
}

void xd_publish_end(struct xd_client *c)
{
	struct xd_published *p = c->published;

	if (!p)
		return;
	for (uint32_t i = 0; i < XR_PUBLISH_QPS; i++)
		empty(c, XR_PUBLISH_QP, &p->qpn[i]);
	for (uint32_t i = 0; i < XR_PUBLISH_KEYS; i++)
		empty(c, XR_PUBLISH_KEY, &p->index[i]);
	if (p->flags)
		xd_io_publish_more(c->dev->io, c->slot - 1, 0);
	free(p);
	c->published = NULL;
}
