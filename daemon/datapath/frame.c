// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "frame.h"

#include <string.h>

void xd_frame_copy(struct xd_frame_copy *to, const struct xt_frame *from)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < from->nseg; i++) {
		memcpy(to->bytes + at, from->seg[i].data, from->seg[i].len);
		at += from->seg[i].len;
	}
	to->len = at;
	to->meta = from->meta;
}

struct xt_frame xd_frame_of(struct xd_frame_copy *copy)
{
	return (struct xt_frame){
		.seg[0] = { .data = copy->bytes, .len = copy->len },
		.nseg = 1,
		.len = copy->len,
		.meta = copy->meta,
	};
}

void xd_frame_fill(const struct xt_frame *to, const uint8_t *bytes)
{
	for (uint32_t i = 0; i < to->nseg; i++) {
		memcpy(to->seg[i].data, bytes, to->seg[i].len);
		bytes += to->seg[i].len;
	}
}
