/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Blocks of kept packets. */
#ifndef XT_PARKED_H
#define XT_PARKED_H

#include "daemon/transport/engine.h"
#include "park.h"
#include "daemon/transport/qp.h"

/* A packet of a connected QP */
struct xt_parked_rx {
	struct xt_parked head;
	uint32_t psn; /* of an early packet, 32 bits */
	struct xt_rx rx;
	struct xt_frame frame;
	uint8_t data[];
};

/* Returns NULL if the QP or its flow has too many blocks. */
struct xt_parked *xt_parked_take_block(struct xt_qp *qp, uint32_t len);
/* Copies the first len bytes of a packet, its headers at least, to a block of that size. */
void xt_parked_copy(struct xt_parked_rx *item, const struct xt_rx *rx, uint32_t len);

static inline void xt_parked_take_out(struct xt_qp *qp, struct xt_parked *item)
{
	xt_list_del(&item->link);
	qp->park.blocks[item->size]--;
}

static inline void xt_parked_put_in(struct xt_qp *qp, struct xt_list *before,
				    struct xt_parked *item)
{
	xt_list_add_tail(before, &item->link);
	qp->park.blocks[item->size]++;
	qp->park.busy = true;
}

static inline void xt_parked_free(struct xt_qp *qp, struct xt_parked *item)
{
	qp->flow->parked[item->size]--;
	xt_park_pool_put(&qp->engine->parked, item);
}

#endif /* XT_PARKED_H */
