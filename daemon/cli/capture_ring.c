// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The indices of one ring */
#include "capture.h"

uint64_t capture_ring_end(struct capture_reader *d)
{
	uint64_t lap = (d->consumer | (d->size - 1)) + 1;
	uint64_t skip = __atomic_load_n(&d->shared->skip, __ATOMIC_RELAXED);

	if (skip == d->consumer && skip % d->size) {
		d->consumer = lap;
		lap += d->size;
	} else if (skip > d->consumer && skip < lap) {
		lap = skip;
	}
	return lap < d->producer ? lap : d->producer;
}
