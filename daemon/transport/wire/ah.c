// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Address handles: a path and the headers that follow from it, found by a number. */
#include <errno.h>
#include <stdlib.h>

#include "ah.h"
#include "packet.h"

#define FEWEST 64

/*
 * Engines use the table while it grows and changes, so an index is replaced by one of twice the
 * size, and a handle by a new one.
 */
struct index {
	struct index *older; /* freed with the table */
	uint32_t handles;
	struct xt_ah *ah[]; /* by handle; may be NULL; atomic */
};

struct xt_ahs {
	struct index *index; /* NULL: empty; atomic */
	/* by the last change. The next one, after a grace period, uses its memory or frees it. */
	struct xt_ah *removed;
};

struct xt_ahs *xt_ahs_new(void)
{
	return calloc(1, sizeof(struct xt_ahs));
}

void xt_ahs_free(struct xt_ahs *t)
{
	struct index *x, *older;
	uint32_t i;

	if (!t)
		return;
	for (i = 0; t->index && i < t->index->handles; i++)
		free(t->index->ah[i]);
	for (x = t->index; x; x = older) {
		older = x->older;
		free(x);
	}
	free(t->removed);
	free(t);
}

static int ah_grow(struct xt_ahs *t, uint32_t handles)
{
	struct index *old = t->index, *new;
	uint32_t n = old ? old->handles : FEWEST;

	if (old && handles <= n)
		return 0;
	while (n < handles)
		n *= 2;
	new = calloc(1, sizeof(*new) + n * sizeof(new->ah[0]));
	if (!new)
		return -ENOMEM;
	new->older = old;
	new->handles = n;
	if (old)
		memcpy(new->ah, old->ah, old->handles * sizeof(old->ah[0]));
	__atomic_store_n(&t->index, new, __ATOMIC_RELEASE);
	return 0;
}

int xt_ahs_set(struct xt_ahs *t, uint32_t handle, uint32_t pd, const struct xt_path *path)
{
	struct xt_ah *ah;

	if (ah_grow(t, handle + 1))
		return -ENOMEM;
	ah = t->removed ? t->removed : malloc(sizeof(*ah));
	if (!ah)
		return -ENOMEM;
	*ah = (struct xt_ah){ .pd = pd, .path = *path, .group = xt_is_group(&path->dgid) };
	xt_template_build(&ah->tmpl, path, 0, 0);
	t->removed = t->index->ah[handle];
	__atomic_store_n(&t->index->ah[handle], ah, __ATOMIC_RELEASE);
	return 0;
}

void xt_ahs_del(struct xt_ahs *t, uint32_t handle)
{
	if (!xt_ah_get(t, handle))
		return;
	free(t->removed);
	t->removed = t->index->ah[handle];
	__atomic_store_n(&t->index->ah[handle], NULL, __ATOMIC_RELEASE);
}

const struct xt_ah *xt_ah_get(const struct xt_ahs *t, uint32_t handle)
{
	struct index *x = __atomic_load_n(&t->index, __ATOMIC_ACQUIRE);

	if (!x || handle >= x->handles)
		return NULL;
	return __atomic_load_n(&x->ah[handle], __ATOMIC_ACQUIRE);
}

const struct xt_path *xt_ahs_path(const struct xt_ahs *t, uint32_t handle)
{
	const struct xt_ah *ah = xt_ah_get(t, handle);

	return ah ? &ah->path : NULL;
}
