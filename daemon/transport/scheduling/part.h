/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The parts of a QP that say when it may send */
#ifndef XT_SCHEDULING_PART_H
#define XT_SCHEDULING_PART_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/transport/base/list.h"

/* State of a rate limit (pace.h), in ns of the engine's clock */
struct xt_pace {
	uint64_t paid_until; /* when all packets sent would have passed at that rate */
	uint64_t ahead;	     /* how far paid_until may be ahead of now */
	uint64_t pause;	     /* for which a QP waits at least, so that packets go in batches */
	uint32_t rate;	     /* kbit/s; 0: no limit */
};

/* Of struct xt_flow */
struct xt_turn {
	struct xt_list link; /* in flow->active or flow->capped */
	uint32_t charged;    /* packets counted in flow->inflight */
	bool capped;	     /* link is in flow->capped */
	bool lifted;	     /* has waited there and has sent nothing since */
};

#endif /* XT_SCHEDULING_PART_H */
