/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The layout of a region: its segments and their descriptors, as a registration sends them, and the
 * pages that the region references until it is deregistered.
 */
#ifndef XP_LAYOUT_H
#define XP_LAYOUT_H

#include <stdint.h>

#include <xroce/control.h>

/* Whole pages that a region references */
struct xp_page_ref {
	uint64_t start, end;
	/* Adopted pages, which must stay adopted. NULL: pages that must not become adopted. */
	struct xp_file *file;
	uint64_t offset; /* of start in the file */
};

struct xp_page_refs {
	struct xp_page_ref *at;
	unsigned int count, room;
};

struct xp_layout {
	struct xr_mr_segment *segment;
	unsigned int segments, room;
	int fds[XR_MSG_MAX_FDS - 2]; /* of page files; two are left for /proc/self/{mem,maps} */
	unsigned int nfds;
	struct xp_page_refs refs;
};

/* Appends a segment. Returns -E2BIG if there are XR_MR_SEGMENTS_MAX, or -ENOMEM. */
int xp_layout_add(struct xp_layout *l, const struct xr_mr_segment *seg);

/* Returns the index of the descriptor, which is added if it is new, or -E2BIG. */
int xp_layout_add_fd(struct xp_layout *l, int fd);

/* Makes room for one more reference. Returns 0 or -ENOMEM. */
int xp_page_refs_reserve(struct xp_page_refs *refs);

#endif /* XP_LAYOUT_H */
