// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Accesses to memory that may wait, and their staging memory. */
#include <errno.h>

#include "access.h"
#include "daemon/transport/engine.h"
#include "daemon/transport/qp.h"
#include "daemon/transport/scheduling/flow.h"
#include "put.h"
#include "reads.h"

#define KEPT_OF(l) ((struct xt_mem_io *)((char *)(l)-offsetof(struct xt_mem_io, kept_link)))
#define ROOM_OF(l) ((struct xt_room *)((char *)(l)-offsetof(struct xt_room, link)))

/* ---- accesses that are given up ---------------------------------------------------------- */

/*
 * Returns true if an access that is given up is a write that is being executed: the QP keeps it
 * until it has ended.
 */
static bool staging_goes_on(struct xt_mem_io *io)
{
	if (__builtin_expect(io->done || io->reads, true) || io->ops->io_cancel(io))
		return false;
	io->given_up = true;
	xt_list_add_tail(&io->qp->accesses.given_up, &io->link);
	return true;
}

void xt_io_free(struct xt_mem_io *io)
{
	xt_list_del(&io->link);
	xt_list_del(&io->kept_link);
	if (!staging_goes_on(io))
		io->ops->io_free(io);
}

/* Such a write has ended, or the QP forgets it. */
static void end_given_up(struct xt_mem_io *io)
{
	xt_list_del(&io->link);
	io->ops->io_free(io);
}

void xt_io_forget(struct xt_qp *qp)
{
	struct xt_list *l = &qp->accesses.given_up;

	while (!xt_list_empty(l))
		end_given_up(XT_IO_OF(l->next));
}

void xt_accesses_init(struct xt_qp *qp)
{
	struct xt_accesses *a = &qp->accesses;
	unsigned i;

	xt_list_init(&a->resume_link);
	xt_list_init(&a->given_up);
	for (i = 0; i < XT_QP_SIDES; i++) {
		xt_list_init(&a->posted[i]);
		xt_list_init(&a->room[i].link);
		a->room[i].qp = qp;
	}
	for (i = 0; i < XT_READS; i++)
		xt_reads_init(&a->reads[i], qp, i);
}

void xt_accesses_stop(struct xt_qp *qp)
{
	struct xt_accesses *a = &qp->accesses;
	unsigned i;

	xt_list_del(&a->resume_link);
	for (i = 0; i < XT_READS; i++)
		xt_reads_end(&a->reads[i]);
	for (i = 0; i < XT_QP_SIDES; i++)
		xt_list_del(&a->room[i].link);
}

void xt_reads_init(struct xt_reads *r, struct xt_qp *qp, enum xt_reads_for what)
{
	r->qp = r->room.qp = qp;
	r->what = (uint8_t)what;
	xt_list_init(&r->io);
	xt_list_init(&r->room.link);
}

void xt_reads_clear(struct xt_reads *r)
{
	while (!xt_list_empty(&r->io))
		xt_io_free(XT_IO_OF(r->io.next));
	xt_list_del(&r->room.link);
	r->used = r->waits = false;
}

/* ---- staging memory ---------------------------------------------------------------------- */

static void staging_keep(struct xt_mem_io *io)
{
	xt_list_del(&io->kept_link);
	xt_list_add_tail(&io->pool->kept, &io->kept_link);
}

void xt_reads_idle(struct xt_reads *r)
{
	struct xt_list *l;

	if (r->waits)
		return;
	for (l = r->io.next; l != &r->io; l = l->next) {
		XT_IO_OF(l)->ahead = true;
		if (XT_IO_OF(l)->done)
			staging_keep(XT_IO_OF(l));
	}
}

struct xt_reads *xt_reads_ahead_of(const struct xt_reads *r)
{
	bool send = r->what == XT_READS_SEND || r->what == XT_READS_SEND_AHEAD;

	return &r->qp->accesses.reads[send ? XT_READS_SEND_AHEAD : XT_READS_RESPOND_AHEAD];
}

/*
 * Gives up the oldest read that others keep, and what was read ahead behind it: a READ must not be
 * executed before an earlier one.
 */
static bool evict(struct xt_mem_pool *pool, const struct xt_reads *own)
{
	struct xt_mem_io *io;
	struct xt_reads *ahead;
	struct xt_list *l;

	for (l = pool->kept.next; l != &pool->kept; l = l->next) {
		io = KEPT_OF(l);
		if (io->reads == own)
			continue;
		ahead = xt_reads_ahead_of(io->reads);
		if (io->reads != ahead)
			xt_io_free(io);
		xt_reads_end(ahead);
		return true;
	}
	return false;
}

/* Returns the reads whose room it is, NULL: that of a put of a packet. */
static struct xt_reads *reads_of(const struct xt_room *room)
{
	for (unsigned i = 0; i < XT_READS; i++)
		if (room == &room->qp->accesses.reads[i].room)
			return &room->qp->accesses.reads[i];
	return NULL;
}

static void staging_wait_for_room(struct xt_room *room, struct xt_reads *own,
				  struct xt_mem_pool *pool)
{
	struct xt_reads *reads = reads_of(room);
	struct xt_qp *qp = room->qp;

	if (own)
		xt_reads_clear(own);
	xt_reads_end(&qp->accesses.reads[XT_READS_SEND_AHEAD]);
	xt_reads_end(&qp->accesses.reads[XT_READS_RESPOND_AHEAD]);
	xt_list_add_tail(&pool->rooms, &room->link);
	if (reads)
		reads->used = true; /* until xt_reads_clear() */
}

struct xt_mem_io *xt_io_try_new(struct xt_qp *qp, struct xt_mem *mem, uint32_t len,
				struct xt_mem_pool **pool)
{
	struct xt_mem_io *io;

	*pool = NULL;
	io = mem->ops->io_new(mem, qp->engine->ctx, len, pool);
	if (!io)
		return NULL;
	xt_list_init(&io->link);
	xt_list_init(&io->kept_link);
	io->mem = mem;
	io->qp = qp;
	io->reads = NULL;
	io->through = NULL;
	io->last = io->done = io->ahead = io->receives = io->given_up = io->mapped = false;
	io->err = 0;
	return io;
}

struct xt_mem_io *xt_io_new(struct xt_room *room, struct xt_qp *qp, struct xt_reads *own,
			    struct xt_mem *mem, uint32_t len, int *err)
{
	struct xt_mem_pool *pool;
	struct xt_mem_io *io;

	*err = -EINPROGRESS;
	if (!xt_list_empty(&room->link))
		return NULL;
	while (!(io = xt_io_try_new(qp, mem, len, &pool))) {
		if (!pool) {
			*err = -EFAULT;
			return NULL;
		}
		if (!evict(pool, own)) {
			staging_wait_for_room(room, own, pool);
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
	if (__builtin_expect(seg->pieces, 0))
		xt_flow_charge(io->qp->flow, seg->pieces * XT_PIECE_COST);
	io->ops->io_submit(io);
}

/* ---- the host ----------------------------------------------------------------------- */

void xt_resume_later(struct xt_qp *qp)
{
	if (xt_list_empty(&qp->accesses.resume_link))
		xt_list_add_tail(&qp->engine->resumed, &qp->accesses.resume_link);
}

static void read_done(struct xt_mem_io *io)
{
	struct xt_reads *r = io->reads;

	if (io->ahead)
		staging_keep(io);
	if (r == xt_reads_ahead_of(r)) {
		if (!xt_list_empty(&io->pool->rooms))
			xt_reads_end(r);
		return;
	}
	r->waits = false;
	xt_resume_later(r->qp);
}

void xt_mem_io_done(struct xt_engine *e, struct xt_mem_io *io, int err)
{
	struct xt_qp *qp = io->qp;

	(void)e;
	io->done = true;
	/* -EINPROGRESS has another meaning here */
	io->err = err == -EINPROGRESS ? -EFAULT : err;
	if (io->given_up) {
		end_given_up(io);
		if (qp->ending.hold_until)
			xt_resume_later(qp);
	} else if (io->reads) {
		read_done(io);
	} else {
		xt_resume_later(qp);
	}
}

void xt_mem_io_room(struct xt_engine *e, struct xt_mem_pool *pool)
{
	struct xt_reads *reads;
	struct xt_room *room;

	(void)e;
	while (!xt_list_empty(&pool->rooms)) {
		room = ROOM_OF(pool->rooms.next);
		reads = reads_of(room);
		xt_list_del(&room->link);
		if (reads)
			reads->waits = false;
		xt_resume_later(room->qp);
	}
}
