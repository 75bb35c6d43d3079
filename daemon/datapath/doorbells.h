/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The worker's side of doorbells (include/xroce/ring.h): finds the QPs whose doorbells rang. A
 * client can write anything into the shared words; bits of slots without a QP are ignored.
 */
#ifndef XD_DOORBELLS_H
#define XD_DOORBELLS_H

#include <stdbool.h>

#include "worker.h"

typedef void (*xd_ring_fn)(struct xt_qp *qp, void *arg);

/* Clears all bits and calls ring() for the QP of each; returns the number of calls. */
unsigned int xd_doorbell_scan(struct xd_doorbell *d, xd_ring_fn ring, void *arg);

/*
 * Announces that the worker will sleep: from now on a client that rings writes to the eventfd.
 * Returns false if a bit is set already.
 */
bool xd_doorbell_arm(struct xd_doorbell *d);
void xd_doorbell_disarm(struct xd_doorbell *d);

#endif /* XD_DOORBELLS_H */
