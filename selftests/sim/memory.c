// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Memory that is not mapped: accessed at once, or by accesses that take an arbitrary time. Accesses
 * of one QP take effect in the order in which they are submitted, and are reported in any order. A
 * region may hang: its accesses never end.
 */
#include <errno.h>

#include "daemon/transport/qp.h"
#include "daemon/transport/memory/reads.h"
#include "sim.h"

struct sim_io {
	struct xt_mem_io io;
	struct sim_io *next;
	struct sim_engine *e;
	const struct xt_qp *qp;
	uint8_t *target;
	uint64_t when, report; /* of its effect, and of the report to the engine */
	bool submitted, took_effect, cancelled, given_up;
	int err;
	uint8_t data[];
};

/* ---- at once ------------------------------------------------------------------------------- */

static int tier_read(struct xt_mem *mem, const struct xt_mem_seg *seg, uint64_t off, void *dst,
		     size_t len)
{
	memcpy(dst, (void *)(uintptr_t)(seg->addr + off), len);
	return 0;
}

static int tier_write(struct xt_mem *mem, const struct xt_mem_seg *seg, uint64_t off,
		      const void *src, size_t len)
{
	memcpy((void *)(uintptr_t)(seg->addr + off), src, len);
	return 0;
}

static const struct xt_mem_ops sync_ops = { .read = tier_read, .write = tier_write };

/* ---- accesses ------------------------------------------------------------------------------ */

static bool is_read(const struct sim_io *s)
{
	return s->io.op == XT_MEM_READ;
}

static struct xt_mem_io *io_new(struct xt_mem *mem, void *engine_ctx, uint32_t len,
				struct xt_mem_pool **pool)
{
	struct sim_engine *e = engine_ctx;
	struct sim_io *s;

	*pool = &e->pool;
	CHECK(e->w, len && len <= XT_MEM_IO_MAX, "access of %u bytes", len);
	if (e->staged + len > e->w->staging ||
	    (!e->granted && rng_chance(&e->w->sched, e->w->no_staging))) {
		if (e->room_at == NEVER)
			e->room_at = e->w->now + rng_below(&e->w->sched, 20 * USEC);
		return NULL;
	}
	if (e->granted)
		e->granted--;
	s = calloc(1, sizeof(*s) + len);
	e->staged += len;
	s->e = e;
	s->io.ops = mem->ops;
	s->io.pool = &e->pool;
	s->io.data = s->data;
	s->io.len = len;
	return &s->io;
}

static void release(struct sim_io *s)
{
	struct sim_io **p = &s->e->w->io;

	while (*p && *p != s)
		p = &(*p)->next;
	if (*p)
		*p = s->next;
	s->e->staged -= s->io.len;
	free(s);
}

static uint64_t latency(struct world *w)
{
	uint64_t most = w->mem_latency;

	return rng_below(&w->sched, rng_chance(&w->sched, 1) ? 10 * most : most);
}

static struct sim_mr *region_of(struct world *w, const struct xt_mem *mem)
{
	unsigned i, k;

	for (i = 0; i < w->hosts; i++)
		for (k = 0; k < w->host[i].mrs; k++)
			if (mem == &w->host[i].mr[k].mem)
				return &w->host[i].mr[k];
	sim_fail(w, "access to unknown memory");
}

static void io_submit(struct xt_mem_io *io)
{
	struct sim_io *s = (struct sim_io *)io, **p;
	struct world *w = s->e->w;
	struct sim_mr *mr;

	CHECK(w, !s->submitted, "access submitted twice");
	CHECK(w, io->off + io->len <= io->seg->len && (!io->seg->ptr || io->seg->addressed),
	      "access beyond its segment");
	s->submitted = true;
	s->qp = io->qp;
	s->target = (uint8_t *)(uintptr_t)(io->seg->addr + io->off);
	mr = region_of(w, io->mem);
	w->posted_pieces += s->qp->path.loopback && io->op == XT_MEM_WRITE;
	s->when = mr->hung ? NEVER : w->now + latency(w);
	if (mr->failing && rng_chance(&w->sched, 30))
		s->err = -EFAULT;
	for (p = &w->io; *p; p = &(*p)->next)
		if ((*p)->qp == s->qp && !(*p)->took_effect && (*p)->when > s->when)
			s->when = (*p)->when;
	s->report = s->when == NEVER ? NEVER
				     : s->when + (rng_chance(&w->sched, 50) ? 0 : latency(w));
	*p = s;
}

/* Sometimes the access has begun and can no longer be prevented. */
static bool io_cancel(struct xt_mem_io *io)
{
	struct sim_io *s = (struct sim_io *)io;

	CHECK(s->e->w, s->submitted && !s->given_up, "wrong access cancelled");
	s->cancelled |= !s->took_effect && rng_chance(&s->e->w->sched, 50);
	return s->cancelled;
}

static void io_free(struct xt_mem_io *io)
{
	struct sim_io *s = (struct sim_io *)io;

	CHECK(s->e->w, !s->given_up, "access freed twice");
	if (!s->submitted || s->took_effect || s->cancelled || rng_chance(&s->e->w->sched, 50)) {
		release(s);
		return;
	}
	s->given_up = true;
	/* must not be used any more */
	io->qp = NULL;
	io->mem = NULL;
}

static const struct xt_mem_ops async_ops = {
	.read = tier_read,
	.write = tier_write,
	.io_new = io_new,
	.io_submit = io_submit,
	.io_free = io_free,
	.io_cancel = io_cancel,
};

const struct xt_mem_ops *memory_ops(const struct world *w)
{
	return w->async_tier ? &async_ops : &sync_ops;
}

static void take_effect(struct sim_io *s)
{
	struct xt_mem_io *io = &s->io;
	uint64_t value;

	s->took_effect = true;
	if (s->err)
		return;
	switch (io->op) {
	case XT_MEM_READ:
		memcpy(io->data, s->target, io->len);
		return;
	case XT_MEM_WRITE:
		memcpy(s->target, io->data, io->len);
		return;
	}
	memcpy(&io->old, s->target, 8);
	value = io->op == XT_MEM_FETCH_ADD ? io->old + io->value : io->value;
	if (io->op != XT_MEM_CMP_SWAP || io->old == io->compare)
		memcpy(s->target, &value, 8);
}

static void report(struct sim_io *s, int err)
{
	struct sim_engine *e = s->e;

	if (s->given_up) {
		release(s);
		return;
	}
	s->report = NEVER;
	e->w->accesses++;
	xt_mem_io_done(e->engine, &s->io, err);
	engine_wake(e, e->w->now + rng_below(&e->w->sched, 2 * USEC));
}

uint64_t memory_next(const struct world *w)
{
	uint64_t when = NEVER;
	const struct sim_io *s;
	unsigned i, k;

	for (s = w->io; s; s = s->next) {
		if (!s->took_effect && s->when < when)
			when = s->when;
		if (s->report < when)
			when = s->report;
	}
	for (i = 0; i < w->hosts; i++)
		for (k = 0; k < w->host[i].engines; k++)
			if (w->host[i].engine[k].room_at < when)
				when = w->host[i].engine[k].room_at;
	return when;
}

void memory_run(struct world *w)
{
	struct sim_io *s, *next;
	unsigned i, k;

	for (s = w->io; s; s = s->next)
		if (!s->took_effect && s->when <= w->now)
			take_effect(s);
	for (i = 0; i < w->hosts; i++)
		host_end_mrs(&w->host[i]);
	/* a report may give up other accesses */
	for (s = w->io; s; s = next) {
		next = s->next;
		if (s->report > w->now)
			continue;
		report(s, s->err);
		next = w->io;
	}
	for (i = 0; i < w->hosts; i++)
		for (k = 0; k < w->host[i].engines; k++) {
			struct sim_engine *e = &w->host[i].engine[k];

			if (e->room_at > w->now)
				continue;
			e->room_at = NEVER;
			/* a packet may need many accesses at once */
			e->granted = 256;
			xt_mem_io_room(e->engine, &e->pool);
			engine_wake(e, w->now);
		}
}

bool memory_writing(const struct host *h, const struct sim_mr *mr)
{
	const uint8_t *from = h->mem + mr->off;
	const struct sim_io *s;

	for (s = h->w->io; s; s = s->next)
		if (!s->took_effect && !is_read(s) && s->target >= from &&
		    s->target < from + mr->len)
			return true;
	return false;
}

/* The region broke: what has not happened must not happen any more. */
void memory_stop(struct world *w, const struct sim_mr *mr)
{
	const uint8_t *from = (uint8_t *)(uintptr_t)mr->mem.seg[0].addr;
	struct sim_io *s, *next;

	for (s = w->io; s; s = next) {
		next = s->next;
		if (s->took_effect || s->target < from || s->target >= from + mr->len ||
		    (!s->given_up && s->io.mem != &mr->mem))
			continue;
		s->took_effect = true;
		report(s, -EFAULT);
		next = w->io;
	}
}

/* From now on accesses to the region never end. */
void memory_hang(struct world *w, struct sim_mr *mr)
{
	struct sim_io *s;

	mr->hung = true;
	for (s = w->io; s; s = s->next)
		if (!s->took_effect && s->io.mem == &mr->mem)
			s->when = s->report = NEVER;
}

/* From now on some accesses to the region fail. */
void memory_fail(struct sim_mr *mr)
{
	mr->failing = true;
}

void memory_free(struct world *w)
{
	struct sim_io *s;

	for (s = w->io; s; s = w->io) {
		CHECK(w, s->given_up, "access of a QP that was destroyed (%s)",
		      is_read(s) ? "read" : "write");
		release(s);
	}
}
