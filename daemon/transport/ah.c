// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Address handles: a path and the headers that follow from it, found by a number. */
#include <errno.h>
#include <stdlib.h>

#include "ah.h"
#include "packet.h"

/* Workers are paused while the table grows, so handles are allocated in chunks and never copied. */
#define PER_CHUNK 64

struct xt_ahs {
	struct xt_ah **chunk; /* by handle / PER_CHUNK; may be NULL */
	uint32_t chunks;
};

struct xt_ahs *xt_ahs_new(void)
{
	return calloc(1, sizeof(struct xt_ahs));
}

void xt_ahs_free(struct xt_ahs *t)
{
	uint32_t i;

	if (!t)
		return;
	for (i = 0; i < t->chunks; i++)
		free(t->chunk[i]);
	free(t->chunk);
	free(t);
}

static struct xt_ah *find(const struct xt_ahs *t, uint32_t handle)
{
	struct xt_ah *chunk;

	chunk = handle / PER_CHUNK < t->chunks ? t->chunk[handle / PER_CHUNK] : NULL;
	return chunk ? &chunk[handle % PER_CHUNK] : NULL;
}

static int grow(struct xt_ahs *t, uint32_t chunks)
{
	struct xt_ah **chunk;

	if (chunks <= t->chunks)
		return 0;
	chunk = realloc(t->chunk, chunks * sizeof(*chunk));
	if (!chunk)
		return -ENOMEM;
	memset(chunk + t->chunks, 0, (chunks - t->chunks) * sizeof(*chunk));
	t->chunk = chunk;
	t->chunks = chunks;
	return 0;
}

static int make_room(struct xt_ahs *t, uint32_t handle)
{
	uint32_t i = handle / PER_CHUNK;
	int err = grow(t, i + 1);

	if (err)
		return err;
	if (!t->chunk[i])
		t->chunk[i] = calloc(PER_CHUNK, sizeof(*t->chunk[i]));
	return t->chunk[i] ? 0 : -ENOMEM;
}

int xt_ahs_set(struct xt_ahs *t, uint32_t handle, uint32_t pd, const struct xt_path *path)
{
	int err = make_room(t, handle);
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
