/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Chooses the tier for each part of a region: docs/provider.md. */
#ifndef XP_TIERS_H
#define XP_TIERS_H

#include <stdbool.h>
#include <stdint.h>

#include "provider/memory/layout.h"

struct xp_range {
	uint64_t addr, length;
	bool written;	/* the access flags allow writes */
	bool on_demand; /* need not be mapped yet: gets no segments */
};

/*
 * Allocates absent pages of mapped files, so that they are charged to the memory cgroup of the
 * program. Returns 0 or -errno: -EFAULT beyond the end of the file, -ENOMEM.
 */
int xp_populate(uint64_t addr, uint64_t length);

/*
 * Lays out a range of the program's memory and populates the parts that the daemon maps. Returns
 * -EFAULT if part of the range is not mapped, not readable, or written but not writable. On error
 * the caller must still release l->refs and free l->segment.
 * @uffd_device: /dev/userfaultfd from the daemon, or -1.
 */
int xp_lay_out(const struct xp_range *r, int uffd_device, struct xp_layout *l);

#endif /* XP_TIERS_H */
