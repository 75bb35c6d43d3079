// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "doorbells.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/base/loop.h"
#include "client.h"
#include "reply.h"

static int open_eventfds(struct xd_client *c)
{
	struct xd_doorbells *d = &c->doorbells;
	struct xr_doorbell *db = d->piece.ptr;
	uint32_t i;
	int fd;

	d->worker = calloc(xd_workers_count(c->dev->workers), sizeof(*d->worker));
	if (!d->worker)
		return -ENOMEM;
	for (i = 0; i < xd_workers_count(c->dev->workers); i++) {
		fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (fd < 0)
			return -errno;
		d->worker[i] = (struct xd_doorbell){ .shared = &db[i], .eventfd = fd };
		xt_flow_init(&d->worker[i].flow, xd_worker_engine(c->dev->workers, i));
		d->workers++;
	}
	return 0;
}

static void close_eventfds(struct xd_client *c)
{
	struct xd_doorbells *d = &c->doorbells;

	while (d->workers) {
		d->workers--;
		close(d->worker[d->workers].eventfd);
		free(d->worker[d->workers].qp);
		free(d->worker[d->workers].free_slot);
	}
	free(d->worker);
	d->worker = NULL;
	xd_shm_free(c, &d->piece);
}

int xd_doorbells_open(struct xd_client *c)
{
	struct xd_doorbells *d = &c->doorbells;
	int err;

	err = xd_shm_alloc(c, sizeof(struct xr_doorbell) * xd_workers_count(c->dev->workers),
			   &d->piece);
	if (err)
		return err;
	err = open_eventfds(c);
	if (err)
		close_eventfds(c);
	else
		xd_workers_programs_changed(c->dev->workers);
	return err;
}

/* Events that are raised in one pause of a worker. Each is a system call. */
#define RAISE_AT_ONCE 32

/* Returns true if more are left. */
static bool raise_some(struct xd_client *c, uint32_t worker)
{
	uint32_t left = RAISE_AT_ONCE;

	xd_worker_pause(c->dev->workers, worker);
	while (left && xt_cq_raise_late(&c->doorbells.worker[worker].flow))
		left--;
	xd_worker_resume(c->dev->workers, worker);
	return !left;
}

bool xd_doorbells_raise_late(struct xd_client *c)
{
	for (uint32_t i = 0; i < c->doorbells.workers; i++) {
		while (raise_some(c, i)) {
			if (xd_loop_must_yield(c->dev->loop))
				return false;
		}
	}
	return true;
}

static void end_flow(struct xd_client *c, uint32_t worker)
{
	struct xd_doorbell *d = &c->doorbells.worker[worker];

	xd_worker_pause(c->dev->workers, worker);
	xd_worker_unwatch_doorbell(c->dev->workers, worker, d);
	while (xt_cq_raise_late(&d->flow)) /* since xd_doorbells_raise_late() */
		;
	xt_flow_end(&d->flow);
	xd_worker_resume(c->dev->workers, worker);
}

void xd_doorbells_close(struct xd_client *c)
{
	struct xd_doorbells *d = &c->doorbells;
	uint32_t i;

	if (!d->workers)
		return;
	for (i = 0; i < d->workers; i++)
		end_flow(c, i);
	xd_workers_programs_changed(c->dev->workers);
	close_eventfds(c);
}

void xd_doorbells_reply(const struct xd_client *c, struct xr_shm_ref *ref, struct xd_reply *rep)
{
	const struct xd_doorbells *d = &c->doorbells;
	uint32_t i;

	for (i = 0; i < d->workers; i++)
		xd_reply_fd(rep, d->worker[i].eventfd, true);
	xd_shm_ref(&d->piece, ref, rep);
}

/* ---- slots ----------------------------------------------------------------------- */

/* Low slots are used first, so that doorbells of few QPs share few words. */
static void add_free_slots(struct xd_doorbell *d, uint32_t *stack, uint32_t slots)
{
	free(d->free_slot);
	d->free_slot = stack;
	for (uint32_t slot = slots; slot-- > d->slots;)
		d->free_slot[d->free_slots++] = slot;
}

/* All slots have QPs. */
static int doorbells_grow(struct xd_client *c, uint32_t worker)
{
	struct xd_doorbell *d = &c->doorbells.worker[worker];
	uint32_t slots = d->slots ? d->slots * 2 : 64;
	uint32_t *stack = calloc(slots, sizeof(*stack));
	struct xt_qp **qp = calloc(slots, sizeof(*qp)), **old = d->qp;

	if (!qp || !stack) {
		free(stack);
		free(qp);
		return -ENOMEM;
	}
	add_free_slots(d, stack, slots);
	if (old)
		memcpy(qp, old, d->slots * sizeof(*qp));
	xd_worker_pause(c->dev->workers, worker);
	d->qp = qp;
	d->slots = slots;
	xd_worker_resume_no_wake(c->dev->workers, worker);
	free(old);
	return 0;
}

int xd_doorbell_find(struct xd_client *c, uint32_t worker, uint32_t *slot)
{
	struct xd_doorbell *d = &c->doorbells.worker[worker];
	int err = 0;

	if (!d->free_slots)
		err = d->slots < XR_DB_SLOTS ? doorbells_grow(c, worker) : -ENOSPC;
	if (!err)
		*slot = d->free_slot[d->free_slots - 1];
	return err;
}

struct xt_flow *xd_client_flow(struct xd_client *c, uint32_t worker)
{
	return &c->doorbells.worker[worker].flow;
}

int xd_doorbell_set(struct xd_client *c, uint32_t worker, uint32_t slot, struct xt_qp *qp)
{
	struct xd_doorbell *d = &c->doorbells.worker[worker];
	int err = d->watched ? 0 : xd_worker_watch_doorbell(c->dev->workers, worker, d);

	if (err)
		return err;
	d->free_slots--;
	d->qp[slot] = qp;
	return 0;
}

void xd_doorbell_clear(struct xd_client *c, uint32_t worker, uint32_t slot)
{
	struct xd_doorbell *d = &c->doorbells.worker[worker];

	d->qp[slot] = NULL;
	d->free_slot[d->free_slots++] = slot;
	if (d->free_slots == d->slots)
		xd_worker_unwatch_doorbell(c->dev->workers, worker, d);
}
