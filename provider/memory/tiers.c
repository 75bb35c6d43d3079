// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Chooses the tier for each part of a region. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "provider/memory/adopt.h"
#include "provider/memory/convert.h"
#include "provider/memory/tiers.h"

/* Adds a segment of the private tier. Neighbours with the same protection are merged. */
static int add_private(struct xp_layout *l, uint64_t start, uint64_t end,
		       const struct xp_mapping *m)
{
	struct xr_mr_segment seg = {
		.kind = XR_SEG_PRIVATE,
		.addr = start,
		.length = end - start,
		.flags = m->writable ? 0 : XR_SEGF_READONLY,
	};

	return xp_layout_add(l, &seg);
}

enum tiers { ALL_TIERS, PRIVATE_TIER };

static int lay_out_mappings(const struct xp_range *r, enum tiers tiers,
			    const struct xp_mappings *maps, int uffd_device, struct xp_layout *l)
{
	uint64_t at = r->addr, end = at + r->length, stop;
	const struct xp_mapping *m = maps->at;
	int err = 0;
	size_t i;

	l->segments = 0;
	for (i = 0; !err && i < maps->count; i++) {
		if (m[i].start > at || !(r->written ? m[i].writable : m[i].readable))
			return -EFAULT;
		stop = m[i].end < end ? m[i].end : end;
		if (tiers == PRIVATE_TIER)
			err = add_private(l, at, stop, &m[i]);
		else
			err = xp_adopt(&m[i], at, stop, uffd_device, l);
		at = stop;
	}
	return !err && at < end ? -EFAULT : err;
}

/*
 * The first pass only checks the range, so that nothing is adopted for a registration that fails. A
 * range with more segments than a message can hold falls back to the private tier as a whole.
 */
static int lay_out_tiers(const struct xp_range *r, const struct xp_mappings *maps, int uffd_device,
			 struct xp_layout *l)
{
	int err = lay_out_mappings(r, PRIVATE_TIER, maps, uffd_device, l);

	if (!err)
		err = lay_out_mappings(r, ALL_TIERS, maps, uffd_device, l);
	if (err == -E2BIG) {
		xp_page_refs_release_locked(&l->refs);
		l->nfds = 0;
		err = lay_out_mappings(r, PRIVATE_TIER, maps, uffd_device, l);
	}
	return err;
}

/* Excludes the parts that the daemon writes through /proc/self/mem from adoption. */
static int exclude(const struct xp_range *r, struct xp_layout *l)
{
	const struct xr_mr_segment *s = l->segment;
	unsigned int i;
	int err = 0;

	if (!r->written)
		return 0;
	if (r->on_demand)
		return xp_adopt_exclude(r->addr, r->addr + r->length, l);
	for (i = 0; i < l->segments && !err; i++)
		if (s[i].kind == XR_SEG_PRIVATE)
			err = xp_adopt_exclude(s[i].addr, s[i].addr + s[i].length, l);
	return err;
}

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

int xp_populate(uint64_t addr, uint64_t length, bool write)
{
	uint64_t start = addr & ~(xp_page_size() - 1), end = addr + length;
	int advice = write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;

	if (!length || !madvise((void *)(uintptr_t)start, end - start, advice))
		return 0;
	/* EINVAL: VM_IO, VM_PFNMAP, memfd_secret(2). EHWPOISON: a broken page. */
	return errno == ENOMEM ? -ENOMEM : -EFAULT;
}

static bool has_hole(const struct xp_range *r)
{
	struct xp_mappings maps;
	struct xp_layout l = { 0 };
	int err = xp_mappings_read(r->addr, r->addr + r->length, &maps);

	if (!err)
		err = lay_out_mappings(r, PRIVATE_TIER, &maps, -1, &l);
	free(l.segment);
	free(maps.at);
	return err == -EFAULT;
}

/*
 * Brings the pages into memory, as the kernel does for other devices. That may wait for a thread of
 * the program that handles a userfaultfd, so no lock is held.
 */
static int tiers_touch(const struct xp_range *r)
{
	int err = xp_populate(r->addr, r->length, r->written);

	/* madvise() has one error for both. */
	return err == -ENOMEM && has_hole(r) ? -EFAULT : err;
}

int xp_lay_out(const struct xp_range *r, int uffd_device, struct xp_layout *l)
{
	struct xp_mappings maps = { 0 };
	int err = r->on_demand ? 0 : tiers_touch(r);

	if (err)
		return err;
	xp_adopt_lock();
	if (!r->on_demand) {
		err = xp_mappings_read(r->addr, r->addr + r->length, &maps);
		if (!err)
			err = lay_out_tiers(r, &maps, uffd_device, l);
	}
	if (!err)
		err = exclude(r, l);
	xp_adopt_unlock();
	free(maps.at);
	return err;
}
