// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "daemon/transport/engine.h"
#include "keys.h"
#include "use.h"

static uint32_t generation_of(const struct xt_key *region)
{
	return __atomic_load_n(&region->generation, __ATOMIC_RELAXED);
}

/* Other engines may add to the same totals. */
static void usage_settle(struct xt_usage_entry *entry)
{
	struct xt_use_count *to, *from;

	if (!entry->region || generation_of(entry->region) != entry->generation)
		return;
	for (uint32_t use = 0; use < XT_USES; use++) {
		to = &entry->region->usage.of[use];
		from = &entry->usage.of[use];
		if (!from->count)
			continue;
		__atomic_add_fetch(&to->count, from->count, __ATOMIC_RELAXED);
		__atomic_add_fetch(&to->bytes, from->bytes, __ATOMIC_RELAXED);
	}
}

static struct xt_usage_entry *usage_entry_of(struct xt_engine *e, struct xt_key *region)
{
	struct xt_usage_entry *entry = &e->usage[region->place % XT_USAGE_PLACES];

	if (entry->region == region && entry->generation == generation_of(region))
		return entry;
	usage_settle(entry);
	*entry = (struct xt_usage_entry){
		.region = region,
		.generation = generation_of(region),
	};
	return entry;
}

/*
 * Returns the region that a key stands for. Work requests change what a window is bound to, after
 * all engines have ended their rounds; until then its state is not VALID.
 */
static struct xt_key *region_of(struct xt_keys *keys, uint32_t key)
{
	struct xt_key *k = xt_keys_by_index(keys, XR_KEY_INDEX(key));

	if (!k || k->entry.type != XR_KEY_MW)
		return k;
	return xr_key_is_valid(&k->entry) ? k->parent : NULL;
}

struct xt_usage_entry *xt_usage_find(struct xt_qp *qp, enum xt_use use, uint32_t key)
{
	struct xt_key *region = region_of(qp->engine->shared->keys, key);
	struct xt_usage_entry *entry;

	if (!region)
		return NULL;
	entry = usage_entry_of(qp->engine, region);
	/* not that of a window, which may soon stand for another region */
	if (region->index == XR_KEY_INDEX(key))
		entry->key = key;
	qp->usage[use] = entry;
	return entry;
}

void xt_usage_settle(struct xt_engine *e)
{
	for (uint32_t i = 0; i < XT_USAGE_PLACES; i++) {
		if (!e->usage[i].region)
			continue;
		usage_settle(&e->usage[i]);
		e->usage[i].usage = (struct xt_usage){ 0 };
	}
}
