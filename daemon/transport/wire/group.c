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
	/* linked by `removed`; freed by the next xt_group_attach(), after a grace period */
	struct xt_group *removed;
};

struct xt_groups *xt_groups_new(void)
{
	return calloc(1, sizeof(struct xt_groups));
}

static void free_removed(struct xt_groups *t)
{
	struct xt_group *g;

	while ((g = t->removed)) {
		t->removed = g->removed;
		free(g);
	}
}

void xt_groups_free(struct xt_groups *t)
{
	struct xt_group *g;
	unsigned i;

	if (!t)
		return;
	for (i = 0; i < BUCKETS; i++) {
		while ((g = t->bucket[i])) {
			t->bucket[i] = g->next;
			free(g);
		}
	}
	free_removed(t);
	free(t);
}

bool xt_is_group(const struct xr_addr *gid)
{
	return xr_gid_is_multicast(gid);
}

static struct xt_group **group_bucket_of(struct xt_groups *t, const struct xr_addr *gid)
{
	return &t->bucket[(gid->raw[15] ^ gid->raw[14] * 7) % BUCKETS];
}

/* Each link is read once: groups may be replaced meanwhile. */
const struct xt_group *xt_group_find(struct xt_groups *t, const struct xr_addr *gid)
{
	const struct xt_group *g = t ? __atomic_load_n(group_bucket_of(t, gid), __ATOMIC_ACQUIRE)
				     : NULL;

	while (g && !xr_gid_equal(&g->gid, gid))
		g = __atomic_load_n(&g->next, __ATOMIC_ACQUIRE);
	return g;
}

/*
 * For the thread that changes the table: returns the link that points to the group, or the link at
 * the end of the list if there is none.
 */
static struct xt_group **group_place_of(struct xt_groups *t, const struct xr_addr *gid)
{
	struct xt_group **at = group_bucket_of(t, gid);

	while (*at && !xr_gid_equal(&(*at)->gid, gid))
		at = &(*at)->next;
	return at;
}

/* Returns the index of a member; that behind the last one if the QP is none. */
static uint32_t index_of(const struct xt_group *g, const struct xt_qp *qp)
{
	uint32_t i;

	for (i = 0; i < g->members; i++)
		if (g->member[i].qp == qp)
			break;
	return i;
}

bool xt_group_has(struct xt_groups *t, const struct xr_addr *gid, const struct xt_qp *qp)
{
	const struct xt_group *g = xt_group_find(t, gid);

	return g && index_of(g, qp) < g->members;
}

/* Inserts the QP behind the other members of its engine. */
static void group_insert(struct xt_group *g, struct xt_qp *qp)
{
	uint32_t i = g->members++;

	for (; i && g->member[i - 1].engine != qp->engine; i--)
		;
	if (!i)
		i = g->members - 1;
	memmove(&g->member[i + 1], &g->member[i], (g->members - 1 - i) * sizeof(*g->member));
	g->member[i] = (struct xt_member){ qp->engine, qp };
}

static void copy_members(struct xt_group *g, const struct xt_group *old)
{
	for (uint32_t i = 0; i < old->members; i++)
		if (old->member[i].qp)
			g->member[g->members++] = old->member[i];
}

/*
 * Puts a group, or NULL, in place of the one at *at. An engine that has the old one goes on to the
 * groups behind it.
 */
static void group_replace(struct xt_groups *t, struct xt_group **at, struct xt_group *g)
{
	struct xt_group *old = *at;

	if (g)
		g->next = old ? old->next : NULL;
	__atomic_store_n(at, g ? g : old->next, __ATOMIC_RELEASE);
	if (!old)
		return;
	old->removed = t->removed;
	t->removed = old;
}

int xt_group_attach(struct xt_groups *t, const struct xr_addr *gid, struct xt_qp *qp)
{
	struct xt_group **at = group_place_of(t, gid), *old = *at, *g;
	uint32_t members = old ? old->members : 0;

	free_removed(t);
	g = malloc(sizeof(*g) + (members + 1) * sizeof(g->member[0]));
	if (!g)
		return -ENOMEM;
	*g = (struct xt_group){ .gid = *gid };
	if (old)
		copy_members(g, old);
	group_insert(g, qp);
	group_replace(t, at, g);
	return 0;
}

/* Takes no memory: the entry stays empty until the next QP is attached. */
void xt_group_detach(struct xt_groups *t, const struct xr_addr *gid, const struct xt_qp *qp)
{
	struct xt_group **at = group_place_of(t, gid), *g = *at;
	uint32_t i = g ? index_of(g, qp) : 0;

	if (!g || i == g->members)
		return;
	__atomic_store_n(&g->member[i].qp, NULL, __ATOMIC_RELAXED);
	for (i = 0; i < g->members; i++)
		if (g->member[i].qp)
			return;
	group_replace(t, at, NULL);
}
