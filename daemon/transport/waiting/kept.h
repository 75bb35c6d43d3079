/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Blocks of kept packets. */
#ifndef XT_KEPT_H
#define XT_KEPT_H

#include "daemon/transport/engine.h"
#include "waiting.h"
#include "daemon/transport/qp.h"

/* A packet of a connected QP */
struct xt_kept_rx {
	struct xt_kept head;
	uint32_t psn; /* of an early packet, 32 bits */
	struct xt_rx rx;
	struct xt_frame frame;
	uint8_t data[];
};

/* Returns NULL if the QP or its flow has too many blocks. */
struct xt_kept *xt_kept_take_block(struct xt_qp *qp, uint32_t len);
/* Copies the first len bytes of a packet, its headers at least, to a block of that size. */
void xt_kept_copy(struct xt_kept_rx *item, const struct xt_rx *rx, uint32_t len);

static inline void xt_kept_take_out(struct xt_qp *qp, struct xt_kept *item)
{
	xt_list_del(&item->link);
	qp->waiting.blocks[item->size]--;
}

static inline void xt_kept_put_in(struct xt_qp *qp, struct xt_list *before, struct xt_kept *item)
{
	xt_list_add_tail(before, &item->link);
	qp->waiting.blocks[item->size]++;
	qp->waiting.busy = true;
}

/* To be called when packets were taken out. */
static inline void xt_kept_update(struct xt_qp *qp)
{
	struct xt_waiting *p = &qp->waiting;

	p->busy = !xt_list_empty(&p->kept[XT_RESPONDER]) || !xt_list_empty(&p->kept[XT_REQUESTER]);
}

static inline void xt_kept_free(struct xt_qp *qp, struct xt_kept *item)
{
	qp->flow->kept[item->size]--;
	xt_kept_pool_put(&qp->engine->kept, item);
}

#endif /* XT_KEPT_H */
