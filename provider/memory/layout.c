// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The layout of a region. */
#include <errno.h>
#include <stdlib.h>

#include "provider/memory/layout.h"

int xp_layout_add(struct xp_layout *l, const struct xr_mr_segment *seg)
{
	struct xr_mr_segment *last = l->segments ? &l->segment[l->segments - 1] : NULL, *more;

	if (last && last->kind == XR_SEG_PRIVATE && seg->kind == XR_SEG_PRIVATE &&
	    last->flags == seg->flags) {
		last->length += seg->length;
		return 0;
	}
	if (l->segments == XR_MR_SEGMENTS_MAX)
		return -E2BIG;
	if (l->segments == l->room) {
		more = realloc(l->segment, (l->room * 2 + 8) * sizeof(*more));
		if (!more)
			return -ENOMEM;
		l->segment = more;
		l->room = l->room * 2 + 8;
	}
	l->segment[l->segments++] = *seg;
	return 0;
}

int xp_layout_add_fd(struct xp_layout *l, int fd)
{
	unsigned int i;

	for (i = 0; i < l->nfds; i++) {
		if (l->fds[i] == fd)
			return i;
	}
	if (i == sizeof(l->fds) / sizeof(l->fds[0]))
		return -E2BIG;
	l->fds[l->nfds++] = fd;
	return i;
}

int xp_page_refs_reserve(struct xp_page_refs *refs)
{
	struct xp_page_ref *more;

	if (refs->count < refs->room)
		return 0;
	more = realloc(refs->at, (refs->room * 2 + 4) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	refs->at = more;
	refs->room = refs->room * 2 + 4;
	return 0;
}
