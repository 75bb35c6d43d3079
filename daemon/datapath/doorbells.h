/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The daemon's side of doorbells (include/xroce/ring.h): which QPs rang. The words are
 * shared with a client that may write anything: a bit for a slot without a QP means nothing.
 */
#ifndef XD_DOORBELLS_H
#define XD_DOORBELLS_H

#include <stdbool.h>

#include "worker.h"

typedef void (*xd_ring_fn)(struct xt_qp *qp, void *arg);

/* Takes all bits that are set and calls ring() for each QP behind them; how many there were. */
unsigned int xd_doorbell_scan(struct xd_doorbell *bell, xd_ring_fn ring, void *arg);

/*
 * Around a sleep: after xd_doorbell_arm() returned true on every bell, a client that
 * rings writes to its eventfd. false: something rang already.
 */
bool xd_doorbell_arm(struct xd_doorbell *bell);
void xd_doorbell_disarm(struct xd_doorbell *bell);

#endif /* XD_DOORBELLS_H */
