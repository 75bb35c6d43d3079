// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Address handles: a path and the headers that follow from it, found by a number. */
#include <errno.h>
#include <stdlib.h>

#include "ah.h"
#include "packet.h"

#define PER_CHUNK 64

/*
 * Finds the chunks. Workers use the table while it grows, so chunks and indexes are never copied in
 * place or freed: an index is replaced by one of twice the size.
 */
struct index {
	struct index *older;
	uint32_t chunks;
	struct xt_ah *chunk[]; /* by handle / PER_CHUNK; may be NULL; atomic */
};

struct xt_ahs {
	struct index *index; /* NULL: empty; atomic */
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
	for (i = 0; t->index && i < t->index->chunks; i++)
		free(t->index->chunk[i]);
	for (x = t->index; x; x = older) {
		older = x->older;
		free(x);
	}
	free(t);
}

static struct xt_ah *find(const struct xt_ahs *t, uint32_t handle)
{
	struct index *x = __atomic_load_n(&t->index, __ATOMIC_ACQUIRE);
	uint32_t i = handle / PER_CHUNK;
	struct xt_ah *chunk;

	if (!x || i >= x->chunks)
		return NULL;
	chunk = __atomic_load_n(&x->chunk[i], __ATOMIC_ACQUIRE);
	return chunk ? &chunk[handle % PER_CHUNK] : NULL;
}

static int grow(struct xt_ahs *t, uint32_t chunks)
{
	struct index *old = t->index, *new;
	uint32_t n = old ? old->chunks : 1;

	if (old && chunks <= n)
		return 0;
	while (n < chunks)
		n *= 2;
	new = calloc(1, sizeof(*new) + n * sizeof(new->chunk[0]));
	if (!new)
		return -ENOMEM;
	new->older = old;
	new->chunks = n;
	if (old)
		memcpy(new->chunk, old->chunk, old->chunks * sizeof(old->chunk[0]));
	__atomic_store_n(&t->index, new, __ATOMIC_RELEASE);
	return 0;
}

int xt_ahs_prepare(struct xt_ahs *t, uint32_t handle)
{
	uint32_t i = handle / PER_CHUNK, k;
	int err = grow(t, i + 1);
	struct xt_ah *chunk;

	if (err || t->index->chunk[i])
		return err;
	chunk = malloc(PER_CHUNK * sizeof(*chunk));
	if (!chunk)
		return -ENOMEM;
	/* the first write to a page takes a page fault */
	for (k = 0; k < PER_CHUNK; k++)
		chunk[k] = (struct xt_ah){ 0 };
	__atomic_store_n(&t->index->chunk[i], chunk, __ATOMIC_RELEASE);
	return 0;
}

int xt_ahs_set(struct xt_ahs *t, uint32_t handle, uint32_t pd, const struct xt_path *path)
{
	int err = xt_ahs_prepare(t, handle);
	struct xt_ah *ah;

	if (err)
		return err;
	ah = find(t, handle);
	ah->used = true;
	ah->pd = pd;
	ah->path = *path;
	ah->group = xt_is_group(&path->dgid);
	xt_template_build(&ah->tmpl, path, 0, 0);
	return 0;
}

void xt_ahs_del(struct xt_ahs *t, uint32_t handle)
{
	struct xt_ah *ah = find(t, handle);

	if (ah)
		ah->used = false;
}

const struct xt_ah *xt_ah_get(const struct xt_ahs *t, uint32_t handle)
{
	const struct xt_ah *ah = find(t, handle);

	return ah && ah->used ? ah : NULL;
}

const struct xt_path *xt_ahs_path(const struct xt_ahs *t, uint32_t handle)
{
	const struct xt_ah *ah = xt_ah_get(t, handle);

	return ah ? &ah->path : NULL;
}
