// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "objects.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/loop.h"
#include "daemon/base/options.h"
#include "absent.h"
#include "ah.h"
#include "cq.h"
#include "dm.h"
#include "mr.h"
#include "mw.h"
#include "pd.h"
#include "qp.h"
#include "queue_monitor.h"
#include "srq.h"
#include "xrc.h"

static const struct xd_kind_ops *const kinds[XD_KINDS] = {
	[XD_QP] = &xd_qp_ops,	  [XD_AH] = &xd_ah_ops, [XD_SRQ] = &xd_srq_ops,
	[XD_XRCD] = &xd_xrcd_ops, [XD_CQ] = &xd_cq_ops, [XD_CHANNEL] = &xd_channel_ops,
	[XD_MW] = &xd_mw_ops,	  [XD_MR] = &xd_mr_ops, [XD_DM] = &xd_dm_ops,
	[XD_PD] = &xd_pd_ops,
};
_Static_assert(XD_KINDS <= XD_MAX_KINDS, "kinds");

int xd_objects_open_client(struct xd_client *c)
{
	c->objects = calloc(1, sizeof(*c->objects));
	if (!c->objects)
		return -ENOMEM;
	xd_client_memory_init(&c->objects->memory);
	xd_absent_init_client(c);
	return 0;
}

void xd_objects_close_client(struct xd_client *c)
{
	xd_client_memory_close(&c->objects->memory);
	xt_ahs_free(c->objects->ahs);
	free(c->objects);
}

static bool refresh(struct xd_client *c, struct xd_place *at)
{
	const struct xd_kind_ops *const *ops = c->clients->kinds.ops;
	struct xd_object *o;

	for (; at->kind < XD_KINDS; at->kind++, at->handle = 0) {
		if (!ops[at->kind]->refresh)
			continue;
		while ((o = xd_object_next(c, at->kind, &at->handle))) {
			ops[at->kind]->refresh(o);
			if (xd_loop_must_yield(c->dev->loop))
				return false;
		}
	}
	return true;
}

int xd_objects_start(struct xd_objects *o, struct xd_device *dev, const struct xd_client_ops *ops,
		     const struct xd_kind_ops *cm_id_ops)
{
	int err;

	memcpy(o->kinds, kinds, sizeof(kinds));
	o->kinds[XD_CM_ID] = cm_id_ops;
	err = xd_clients_start(&o->clients, dev, ops, o->kinds, XD_KINDS);
	o->clients.walk[XD_WALK_REFRESH].piece = refresh;
	o->clients.walk[XD_WALK_PUBLISH].piece = xd_objects_publish;
	if (!err)
		err = xd_absent_start(o);
	if (!err)
		err = xd_group_by_name(dev->opt->reserved_lkey_group, &o->lkey_group);
	return err;
}

bool xd_objects_stop(struct xd_objects *o)
{
	if (!xd_clients_stop(&o->clients))
		return false;
	xd_absent_stop(o);
	xd_table_free(&o->pd_ids);
	xd_table_free(&o->xrc_domains);
	return true;
}
