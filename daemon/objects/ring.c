// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ring.h"

#include <xroce/ring.h>

#include "daemon/datapath/grace.h"
#include "daemon/datapath/worker.h"
#include "daemon/transport/base/spinlock.h"

int xd_ring_alloc(struct xd_client *c, uint32_t depth, uint32_t stride, struct xd_piece *ring)
{
	int err = xd_shm_alloc(c, sizeof(struct xr_queue) + (uint64_t)depth * stride, ring);
	struct xr_queue *queue = ring->ptr;

	if (err)
		return err;
	queue->magic = XR_QUEUE_MAGIC;
	queue->depth = depth;
	queue->stride = stride;
	queue->entries_off = sizeof(*queue);
	return 0;
}

/* One that has used it without the lock may still do so in its round. */
static void begin_to_lock(struct xd_workers *ws, bool *locked)
{
	__atomic_store_n(locked, true, __ATOMIC_RELAXED);
	xd_grace_synchronize(ws);
}

void xd_queue_add_user(struct xd_workers *ws, uint32_t *user, uint32_t worker, bool *locked)
{
	if (*user == worker)
		return;
	if (*user == XD_WORKER_NONE && worker != XD_WORKER_SEVERAL) {
		*user = worker;
		return;
	}
	*user = XD_WORKER_SEVERAL;
	if (!*locked)
		begin_to_lock(ws, locked);
}

void xd_queue_hold(struct xd_workers *ws, uint32_t user, int *lock)
{
	if (user == XD_WORKER_SEVERAL)
		xt_spin_lock(lock);
	else if (user != XD_WORKER_NONE)
		xd_worker_pause(ws, user);
}

void xd_queue_release(struct xd_workers *ws, uint32_t user, int *lock)
{
	if (user == XD_WORKER_SEVERAL)
		xt_spin_unlock(lock);
	else if (user != XD_WORKER_NONE)
		xd_worker_resume_no_wake(ws, user);
}
