// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Address handles: a path and the headers that follow from it, found by a number. */
#include <errno.h>
#include <stdlib.h>

#include "ah.h"
#include "packet.h"

struct xt_ahs {
	struct xt_ah *ah; /* by handle */
	uint32_t room;
};

struct xt_ahs *xt_ahs_new(void)
{
	return calloc(1, sizeof(struct xt_ahs));
}

void xt_ahs_free(struct xt_ahs *t)
{
	if (!t)
		return;
	free(t->ah);
	free(t);
}

static int make_room(struct xt_ahs *t, uint32_t handle)
{
	uint32_t room = t->room ? t->room : 16;
	struct xt_ah *ah;

	if (handle < t->room)
		return 0;
	while (room <= handle)
		room *= 2;
	ah = realloc(t->ah, room * sizeof(*ah));
	if (!ah)
		return -ENOMEM;
	memset(ah + t->room, 0, (room - t->room) * sizeof(*ah));
	t->ah = ah;
	t->room = room;
	return 0;
}

int xt_ahs_set(struct xt_ahs *t, uint32_t handle, uint32_t pd, const struct xt_path *path)
{
	int err = make_room(t, handle);
	struct xt_ah *ah;

	if (err)
		return err;
	ah = &t->ah[handle];
	ah->used = true;
	ah->pd = pd;
	ah->path = *path;
	ah->group = xt_is_group(&path->dgid);
	xt_template_build(&ah->tmpl, path, 0, 0);
	return 0;
}

void xt_ahs_del(struct xt_ahs *t, uint32_t handle)
{
	if (handle < t->room)
		t->ah[handle].used = false;
}

const struct xt_ah *xt_ah_get(const struct xt_ahs *t, uint32_t handle)
{
	return handle < t->room && t->ah[handle].used ? &t->ah[handle] : NULL;
}

const struct xt_path *xt_ahs_path(const struct xt_ahs *t, uint32_t handle)
{
	const struct xt_ah *ah = xt_ah_get(t, handle);

	return ah ? &ah->path : NULL;
}
