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
 * Brings pages into memory as the kernel does for a registration (pin_user_pages()): for writing,
 * private pages that are shared with a file or another process are copied. Absent pages are
 * allocated by the program, so they are charged to its memory cgroup. May wait for a thread that
 * handles a userfaultfd. Returns 0; -EFAULT if pages cannot be pinned, as behind the end of a file;
 * -ENOMEM.
 */
int xp_populate(uint64_t addr, uint64_t length, bool write);

/*
 * Lays out a range of the program's memory, whose pages are populated first unless it is on demand.
 * Returns an error of xp_populate(), also -EFAULT if part of the range is not mapped, or not
 * writable (if written) or readable (if not). On error the caller must still release l->refs and
 * free l->segment.
 * @uffd_device: /dev/userfaultfd from the daemon, or -1.
 */
int xp_lay_out(const struct xp_range *r, int uffd_device, struct xp_layout *l);

#endif /* XP_TIERS_H */
