// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "frame_copy.h"

#include <string.h>

void xt_frame_copy(struct xt_frame_copy *to, const struct xt_frame *from)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < from->nseg; i++) {
		memcpy(to->bytes + at, from->seg[i].data, from->seg[i].len);
		at += from->seg[i].len;
	}
	to->len = at;
	to->meta = from->meta;
	to->inject = from->inject;
	to->refusal = from->refusal;
	to->self = from->self;
	to->guessed_id = from->guessed_id;
}

struct xt_frame xt_frame_of(struct xt_frame_copy *copy)
{
	return (struct xt_frame){
		.seg[0] = { .data = copy->bytes, .len = copy->len },
		.nseg = 1,
		.len = copy->len,
		.meta = copy->meta,
		.inject = copy->inject,
		.refusal = copy->refusal,
		.self = copy->self,
		.guessed_id = copy->guessed_id,
	};
}

void xt_frame_fill(const struct xt_frame *to, const uint8_t *bytes)
{
	for (uint32_t i = 0; i < to->nseg; i++) {
		memcpy(to->seg[i].data, bytes, to->seg[i].len);
		bytes += to->seg[i].len;
	}
}
