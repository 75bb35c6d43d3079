// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Steps: their accesses to memory that may wait, and the staging memory of these. */
#include <errno.h>

#include <xroce/probes.h>

#include "daemon/transport/engine.h"
#include "daemon/transport/scheduling/flow.h"
#include "guard.h"
#include "daemon/transport/qp.h"
#include "step_io.h"
#include "daemon/transport/queue/wr_kind.h"

#define KEPT_OF(l) ((struct xt_mem_io *)((char *)(l)-offsetof(struct xt_mem_io, kept_link)))

void xt_step_init(struct xt_step *s, struct xt_qp *qp, enum xt_step_role role)
{
	s->qp = qp;
	s->role = role;
	xt_list_init(&s->io);
	xt_list_init(&s->room_link);
}

static struct xt_step *ending_of(const struct xt_step *s)
{
	return &s->qp->park.step[XT_STEP_ENDING];
}

/*
 * An access is given up. Returns true if it is a write that is being executed: the QP keeps it
 * until it has ended.
 */
static bool goes_on(struct xt_mem_io *io)
{
	struct xt_step *ending = ending_of(io->step);

	/* it is a read until it is submitted */
	if (__builtin_expect(io->done || io->op == XT_MEM_READ, true) || io->ops->io_cancel(io))
		return false;
	io->step = ending;
	io->ahead = false;
	xt_list_add_tail(&ending->io, &io->link);
	__atomic_store_n(&ending->used, true, __ATOMIC_RELAXED);
	return true;
}

/* Such a write has ended, or the QP forgets it. */
static void end_write(struct xt_mem_io *io)
{
	struct xt_step *ending = io->step;

	xt_list_del(&io->link);
	io->ops->io_free(io);
	if (xt_list_empty(&ending->io))
		__atomic_store_n(&ending->used, false, __ATOMIC_RELAXED);
}

void xt_step_forget(struct xt_qp *qp)
{
	struct xt_step *ending = &qp->park.step[XT_STEP_ENDING];

	while (!xt_list_empty(&ending->io))
		end_write(XT_IO_OF(ending->io.next));
}

void xt_io_free(struct xt_mem_io *io)
{
	xt_list_del(&io->link);
	xt_list_del(&io->kept_link);
	if (!goes_on(io))
		io->ops->io_free(io);
}

static void free_all(struct xt_step *s)
{
	while (!xt_list_empty(&s->io))
		xt_io_free(XT_IO_OF(s->io.next));
}

void xt_step_clear(struct xt_step *s)
{
	free_all(s);
	xt_list_del(&s->room_link);
	s->used = s->waiting = s->atomic_done = s->settled = s->delayed = s->no_post = false;
}

int xt_step_waits(struct xt_step *s)
{
	if (!s->waiting)
		XR_PROBE2(memory_wait, s->qp->info.qpn, s->role);
	s->used = s->waiting = true;
	return -EINPROGRESS;
}

void xt_step_park(struct xt_step *s)
{
	xt_step_waits(s);
	s->delayed = false;
	s->pass++;
}

int xt_step_delays(struct xt_step *s)
{
	s->delayed = true;
	return xt_step_waits(s);
}

/* ---- settled steps ----------------------------------------------------------------------- */

void xt_step_written(struct xt_step *s)
{
	s->settled = !s->delayed;
}

int xt_step_result(struct xt_step *s)
{
	const struct xt_mem_io *io;
	const struct xt_list *l;
	bool waiting = false;

	for (l = s->io.next; l != &s->io; l = l->next) {
		io = XT_IO_OF(l);
		if (io->op == XT_MEM_READ)
			continue;
		if (io->done && io->err)
			return io->err;
		waiting |= !io->done;
	}
	return waiting ? xt_step_waits(s) : 0;
}

/* A settled step has no other access than its atomic, and reads that are finished. */
int xt_step_atomic_result(struct xt_step *s)
{
	struct xt_mem_io *io = XT_IO_OF(s->io.prev);
	int err = io->err;

	if (!io->done)
		return xt_step_waits(s);
	s->settled = false;
	s->atomic_done = true;
	s->atomic_old = io->old;
	xt_io_free(io);
	return err;
}

/* ---- staging memory ---------------------------------------------------------------------- */

static void keep(struct xt_mem_io *io)
{
	xt_list_del(&io->kept_link);
	xt_list_add_tail(&io->pool->kept, &io->kept_link);
}

void xt_step_idle(struct xt_step *s)
{
	struct xt_list *l;

	if (s->waiting)
		return;
	for (l = s->io.next; l != &s->io; l = l->next) {
		XT_IO_OF(l)->ahead = true;
		if (XT_IO_OF(l)->done)
			keep(XT_IO_OF(l));
	}
}

/*
 * Gives up the oldest read that another step keeps, and what was read ahead behind it: a READ must
 * not be executed before an earlier one.
 */
static bool evict(struct xt_mem_pool *pool, const struct xt_step *s)
{
	struct xt_mem_io *io;
	struct xt_step *ahead;
	struct xt_list *l;

	for (l = pool->kept.next; l != &pool->kept; l = l->next) {
		io = KEPT_OF(l);
		if (io->step == s)
			continue;
		ahead = xt_step_ahead_of(io->step);
		if (io->step != ahead)
			xt_io_free(io);
		xt_step_end(ahead);
		return true;
	}
	return false;
}

/* A step that waits for staging memory has none itself, so steps cannot wait for each other. */
static void wait_for_room(struct xt_step *s, struct xt_mem_pool *pool)
{
	free_all(s);
	xt_step_end(&s->qp->park.step[XT_STEP_AHEAD]);
	xt_step_end(&s->qp->park.step[XT_STEP_RESPOND_AHEAD]);
	xt_step_delays(s);
	xt_list_add_tail(&pool->waiting, &s->room_link);
}

struct xt_mem_io *xt_io_try_new(struct xt_step *s, struct xt_mem *mem, uint32_t len,
				struct xt_mem_pool **pool)
{
	struct xt_mem_io *io;

	*pool = NULL;
	io = mem->ops->io_new(mem, s->qp->engine->ctx, len, pool);
	if (!io)
		return NULL;
	xt_list_init(&io->link);
	xt_list_init(&io->kept_link);
	io->mem = mem;
	io->last = s->last;
	io->through = s->through;
	io->op = XT_MEM_READ;
	io->done = io->ahead = io->receives = false;
	io->err = 0;
	io->step = s;
	io->pass = s->pass;
	return io;
}

struct xt_mem_io *xt_io_new(struct xt_step *s, struct xt_mem *mem, uint32_t len, int *err)
{
	struct xt_mem_pool *pool;
	struct xt_mem_io *io;

	*err = -EINPROGRESS;
	if (!xt_list_empty(&s->room_link)) {
		xt_step_delays(s);
		return NULL;
	}
	while (!(io = xt_io_try_new(s, mem, len, &pool))) {
		if (!pool) {
			*err = -EFAULT;
			return NULL;
		}
		if (!evict(pool, s)) {
			wait_for_room(s, pool);
			return NULL;
		}
	}
	return io;
}

void xt_io_submit(struct xt_mem_io *io, enum xt_mem_op op, const struct xt_mem_seg *seg,
		  uint64_t off)
{
	io->op = op;
	io->seg = seg;
	io->off = off;
	io->at = seg->off + off;
	io->step->used = true;
	if (__builtin_expect(seg->pieces, 0))
		xt_flow_charge(io->step->qp->flow, seg->pieces * XT_PIECE_COST);
	io->ops->io_submit(io);
}

/* ---- the host ----------------------------------------------------------------------- */

void xt_resume_later(struct xt_qp *qp)
{
	if (xt_list_empty(&qp->park.resume_link))
		xt_list_add_tail(&qp->engine->resumed, &qp->park.resume_link);
}

void xt_mem_io_done(struct xt_engine *e, struct xt_mem_io *io, int err)
{
	bool later = io->step->role == XT_STEP_AHEAD || io->step->role == XT_STEP_RESPOND_AHEAD;
	struct xt_qp *qp;

	(void)e;
	io->done = true;
	/* -EINPROGRESS has another meaning here */
	io->err = err == -EINPROGRESS ? -EFAULT : err;
	if (io->step->role == XT_STEP_ENDING) {
		qp = io->step->qp;
		end_write(io);
		if (qp->ending.hold_until)
			xt_resume_later(qp);
		return;
	}
	if (io->ahead)
		keep(io);
	if (later && !xt_list_empty(&io->pool->waiting))
		xt_step_end(io->step);
	if (later)
		return;
	io->step->waiting = false;
	xt_resume_later(io->step->qp);
}

void xt_mem_io_room(struct xt_engine *e, struct xt_mem_pool *pool)
{
	struct xt_step *s;

	(void)e;
	while (!xt_list_empty(&pool->waiting)) {
		s = (struct xt_step *)((char *)pool->waiting.next -
				       offsetof(struct xt_step, room_link));
		xt_list_del(&s->room_link);
		s->waiting = false;
		xt_resume_later(s->qp);
	}
}
