/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A client's doorbells: bitmaps in shared memory, and eventfds that wake sleeping workers. */
#ifndef XD_CLIENT_DOORBELLS_H
#define XD_CLIENT_DOORBELLS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/datapath/worker.h"
#include "shm.h"

struct xd_client;
struct xd_reply;
struct xr_shm_ref;
struct xt_qp;

struct xd_doorbells {
	struct xd_piece piece;
	struct xd_doorbell *worker;
	uint32_t workers;
};

/* Makes a doorbell for each worker. */
int xd_doorbells_open(struct xd_client *c);
/*
 * Raises events that the client still owes: those of CQs of other clients, with XRC SRQs. Returns
 * true if none is left.
 */
bool xd_doorbells_raise_late(struct xd_client *c);
void xd_doorbells_close(struct xd_client *c); /* after that */
/* Adds the eventfds, then the bitmaps, to a reply. */
void xd_doorbells_reply(const struct xd_client *c, struct xr_shm_ref *ref, struct xd_reply *rep);

/* Finds a free slot of a worker's doorbell, the next one to be set. -ENOSPC, -ENOMEM. */
int xd_doorbell_find(struct xd_client *c, uint32_t worker, uint32_t *slot);
/* Sets the QP of that slot. The worker is paused. -ENOSPC: it cannot watch one more doorbell. */
int xd_doorbell_set(struct xd_client *c, uint32_t worker, uint32_t slot, struct xt_qp *qp);
/* Frees a slot. The worker, which is paused, watches the doorbell until all slots are free. */
void xd_doorbell_clear(struct xd_client *c, uint32_t worker, uint32_t slot);

/* Returns the flow of the client's QPs at a worker. */
struct xt_flow *xd_client_flow(struct xd_client *c, uint32_t worker);

#endif /* XD_CLIENT_DOORBELLS_H */
