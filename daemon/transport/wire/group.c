// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Multicast groups and the QPs that are attached to them, IBTA 10.5. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <xroce/gid.h>

#include "group.h"
#include "daemon/transport/qp.h"

#define BUCKETS 256

struct xt_groups {
	struct xt_group *bucket[BUCKETS];
	/* of the control thread */
	struct xt_group *prepared; /* what xt_group_commit() puts into the table */
	struct xt_group *removed;  /* freed by the next xt_group_prepare() */
};

struct xt_groups *xt_groups_new(void)
{
	return calloc(1, sizeof(struct xt_groups));
}

static void free_groups(struct xt_group **list)
{
	struct xt_group *g;

	while ((g = *list)) {
		*list = g->next;
		free(g);
	}
}

void xt_groups_free(struct xt_groups *t)
{
	unsigned i;

	if (!t)
		return;
	for (i = 0; i < BUCKETS; i++)
		free_groups(&t->bucket[i]);
	free_groups(&t->prepared);
	free_groups(&t->removed);
	free(t);
}

bool xt_is_group(const struct xr_addr *gid)
{
	return xr_gid_is_multicast(gid);
}

/*
 * Returns the link that points to the group, or the link at the end of the list if there is none.
 */
static struct xt_group **place_of(struct xt_groups *t, const struct xr_addr *gid)
{
	struct xt_group **at = &t->bucket[(gid->raw[15] ^ gid->raw[14] * 7) % BUCKETS];

	while (*at && !xr_gid_equal(&(*at)->gid, gid))
		at = &(*at)->next;
	return at;
}

const struct xt_group *xt_group_find(struct xt_groups *t, const struct xr_addr *gid)
{
	return t ? *place_of(t, gid) : NULL;
}

bool xt_group_has(struct xt_groups *t, const struct xr_addr *gid, const struct xt_qp *qp)
{
	const struct xt_group *g = xt_group_find(t, gid);
	uint32_t i;

	for (i = 0; g && i < g->members; i++)
		if (g->member[i] == qp)
			return true;
	return false;
}

/* Inserts the QP behind the other members of its engine. */
static void insert(struct xt_group *g, struct xt_qp *qp)
{
	uint32_t i = g->members++;

	for (; i && g->member[i - 1]->engine != qp->engine; i--)
		;
	if (!i)
		i = g->members - 1;
	memmove(&g->member[i + 1], &g->member[i], (g->members - 1 - i) * sizeof(*g->member));
	g->member[i] = qp;
}

int xt_group_prepare(struct xt_groups *t, const struct xr_addr *gid, struct xt_qp *qp)
{
	const struct xt_group *old = xt_group_find(t, gid);
	uint32_t members = old ? old->members : 0;
	struct xt_group *g = malloc(sizeof(*g) + (members + 1) * sizeof(g->member[0]));

	free_groups(&t->removed);
	free_groups(&t->prepared);
	if (!g)
		return -ENOMEM;
	*g = (struct xt_group){ .gid = *gid, .members = members };
	if (old)
		memcpy(g->member, old->member, members * sizeof(g->member[0]));
	insert(g, qp);
	t->prepared = g;
	return 0;
}

/* Puts a group, or NULL, in place of the one at *at. */
static void replace(struct xt_groups *t, struct xt_group **at, struct xt_group *g)
{
	struct xt_group *old = *at;

	if (g)
		g->next = old ? old->next : NULL;
	*at = g ? g : old->next;
	if (!old)
		return;
	old->next = t->removed;
	t->removed = old;
}

void xt_group_commit(struct xt_groups *t)
{
	struct xt_group *g = t->prepared;

	replace(t, place_of(t, &g->gid), g);
	t->prepared = NULL;
}

int xt_group_attach(struct xt_groups *t, const struct xr_addr *gid, struct xt_qp *qp)
{
	int err = xt_group_prepare(t, gid, qp);

	if (!err)
		xt_group_commit(t);
	return err;
}

void xt_group_detach(struct xt_groups *t, const struct xr_addr *gid, const struct xt_qp *qp)
{
	struct xt_group **at = place_of(t, gid), *g = *at;
	uint32_t i;

	for (i = 0; g && i < g->members; i++) {
		if (g->member[i] != qp)
			continue;
		g->members--;
		memmove(&g->member[i], &g->member[i + 1], (g->members - i) * sizeof(*g->member));
		break;
	}
	if (g && !g->members)
		replace(t, at, NULL);
}
