// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Accesses of the workers to memory by movers, and their results. */
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/transport/memory/ending.h"
#include "daemon/transport/transport.h"
#include "mover.h"
#include "mover_internal.h"

#define LOOK_NS 100000000u /* at a mover that does not make progress: does it still run? */

/* ---- channels -------------------------------------------------------------------- */

static struct channel *channel_of(struct xd_mover *m, const void *engine_ctx)
{
	uint32_t i = 0;

	while (m->all->worker[i].worker.engine_ctx != engine_ctx)
		i++;
	return &m->channel[i];
}

static void list_channel(struct channel *c)
{
	struct worker *w = &c->mover->all->worker[c->worker];

	if (c->pprev)
		return;
	c->next = w->first;
	c->pprev = &w->first;
	if (c->next)
		c->next->pprev = &c->next;
	w->first = c;
	w->news = true;
	xd_mover_ref(c->mover);
}

static void unlist_channel(struct channel *c)
{
	*c->pprev = c->next;
	if (c->next)
		c->next->pprev = c->pprev;
	c->pprev = NULL;
	xd_mover_unref(c->mover);
}

static void set_waiting(struct channel *c, bool waiting)
{
	if (c->waiting == waiting)
		return;
	c->waiting = waiting;
	__atomic_add_fetch(&c->mover->starving, waiting ? 1 : -1, __ATOMIC_SEQ_CST);
}

/* ---- accesses -------------------------------------------------------------------- */

/* Announces that this channel waits, and tries again. */
static uint16_t mover_io_wait_for_room(struct channel *c, uint32_t len)
{
	uint16_t i;

	__atomic_store_n(&c->room, false, __ATOMIC_RELAXED);
	set_waiting(c, true);
	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* pairs with xd_staging_put() */
	i = xd_staging_take(c->mover, len);
	if (i == NO_PIECE)
		list_channel(c);
	else
		set_waiting(c, !xt_list_empty(&c->pool.rooms));
	return i;
}

struct xt_mem_io *xd_mover_io_new(struct xd_mover *m, void *engine_ctx, uint32_t len,
				  struct xt_mem_pool **pool)
{
	struct channel *c = channel_of(m, engine_ctx);
	struct piece *p;
	uint16_t i;

	*pool = NULL;
	if (__atomic_load_n(&m->ended, __ATOMIC_ACQUIRE))
		return NULL;
	*pool = &c->pool;
	i = xd_staging_take(m, len);
	if (i == NO_PIECE)
		i = mover_io_wait_for_room(c, len);
	if (i == NO_PIECE)
		return NULL;
	xd_mover_ref(m);
	p = &m->piece[i];
	p->channel = c;
	p->state = PIECE_NEW;
	memset(&p->io, 0, sizeof(p->io));
	p->io.pool = &c->pool;
	p->io.data = xd_staging_data(m, i);
	p->io.len = len;
	return &p->io;
}

static void wake_mover(struct xd_mover *m)
{
	uint32_t *asleep = &m->area->asleep;

	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* pairs with sleep_until_submitted() */
	if (__atomic_load_n(asleep, __ATOMIC_RELAXED) &&
	    __atomic_exchange_n(asleep, 0, __ATOMIC_ACQ_REL))
		syscall(SYS_futex, asleep, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void begin_use(struct xd_mover *m, const struct piece *p)
{
	struct use *u = &m->use[p - m->piece];
	uint32_t mark = __atomic_fetch_add(&m->marks, 1, __ATOMIC_RELAXED);

	__atomic_store_n(&u->mark, mark, __ATOMIC_RELAXED);
	__atomic_store_n(&u->through, p->io.through, __ATOMIC_RELAXED);
	__atomic_store_n(&u->mem, p->io.mem, __ATOMIC_RELEASE);
}

static void mover_io_end_use(struct xd_mover *m, const struct piece *p)
{
	__atomic_store_n(&m->use[p - m->piece].mem, NULL, __ATOMIC_RELEASE);
}

uint32_t xd_mover_mark(const struct xd_mover *m)
{
	return m ? __atomic_load_n(&m->marks, __ATOMIC_RELAXED) : 0;
}

static bool mover_io_concerns(const struct use *u, const struct xt_mem *mem, uint32_t mark)
{
	const struct xt_mem *used = __atomic_load_n(&u->mem, __ATOMIC_ACQUIRE);
	const struct xt_integrity *through = __atomic_load_n(&u->through, __ATOMIC_RELAXED);

	if (!used || (int32_t)(__atomic_load_n(&u->mark, __ATOMIC_RELAXED) - mark) >= 0)
		return false;
	return !mem || used == mem || (through && through == mem->integrity);
}

/* Returns true if no access has ended for a long time, although some are under way. */
static bool hangs(const struct xd_mover *m)
{
	uint64_t last = 0, since;

	for (uint32_t i = 0; i < m->all->workers; i++) {
		since = __atomic_load_n(&m->channel[i].since, __ATOMIC_RELAXED);
		if (since > last)
			last = since;
	}
	return xd_now() > last + XT_ENDING_NS;
}

bool xd_mover_in_use(const struct xd_mover *m, const struct xt_mem *mem, uint32_t mark)
{
	for (uint32_t i = 0; m && i < XD_STAGING_PIECES; i++)
		if (mover_io_concerns(&m->use[i], mem, mark))
			return !hangs(m);
	return false;
}

static void mover_io_submit(struct xt_mem_io *io, uint64_t addr, uint32_t parts, bool check)
{
	struct piece *p = (struct piece *)io; /* io is its first member */
	struct channel *c = p->channel;
	struct xd_mover *m = c->mover;
	uint32_t at = c->submitted % XD_MOVER_RING;
	uint64_t now = c->submitted == c->collected ? xd_now() : 0;

	begin_use(m, p);
	p->at = at;
	p->state = PIECE_SUBMITTED;
	c->piece[at] = (uint16_t)(p - m->piece);
	c->ring->move[at] = (struct xd_move){
		.op = io->op,
		.check = check,
		.last = io->last,
		.parts = (uint16_t)parts,
		.len = io->len,
		.addr = addr,
		.data = (uint64_t)(io->data - (uint8_t *)m->area),
		.compare = io->compare,
		.value = io->value,
	};
	if (now) {
		__atomic_store_n(&c->since, now, __ATOMIC_RELAXED);
		c->look = now + LOOK_NS;
	}
	__atomic_store_n(&c->submitted, c->submitted + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&c->ring->submitted, c->submitted, __ATOMIC_RELEASE);
	list_channel(c);
	if (m->all->worker[c->worker].in_round)
		c->unwoken = true;
	else
		wake_mover(m);
}

void xd_mover_io_submit(struct xt_mem_io *io, uint64_t addr, bool check)
{
	mover_io_submit(io, addr, 0, check);
}

void xd_mover_io_submit_parts(struct xt_mem_io *io, const struct xt_mem_piece *part, uint32_t n,
			      bool check)
{
	uint64_t *list = (uint64_t *)(io->data + XD_PARTS);
	uint32_t i;

	for (i = 0; i < n; i++)
		list[i] = xd_part(part[i].addr, part[i].len);
	mover_io_submit(io, 0, n, check);
}

void xd_movers_begin_round(struct xd_movers *ms, uint32_t worker)
{
	ms->worker[worker].in_round = true;
	ms->worker[worker].news = false;
}

bool xd_movers_end_round(struct xd_movers *ms, uint32_t worker)
{
	ms->worker[worker].in_round = false;
	for (struct channel *c = ms->worker[worker].first; c; c = c->next) {
		if (!c->unwoken)
			continue;
		c->unwoken = false;
		wake_mover(c->mover);
	}
	return ms->worker[worker].news;
}

/* A mover that has ended executes nothing, but its process may still be in an access. */
bool xd_mover_io_cancel(struct xt_mem_io *io)
{
	struct piece *p = (struct piece *)io;
	uint8_t waiting = XD_MOVE_WAITS;

	return __atomic_compare_exchange_n(&p->channel->ring->move[p->at].state, &waiting,
					   XD_MOVE_CANCELLED, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_RELAXED) ||
	       waiting == XD_MOVE_CANCELLED;
}

void xd_mover_io_free(struct xt_mem_io *io)
{
	struct piece *p = (struct piece *)io;

	if (p->state != PIECE_SUBMITTED) {
		xd_staging_put(p);
		return;
	}
	p->state = PIECE_DROPPED;
	xd_mover_io_cancel(io);
}

/* ---- results --------------------------------------------------------------------- */

static void mover_io_finish(struct channel *c, uint32_t at, int err)
{
	struct piece *p = &c->mover->piece[c->piece[at]];

	mover_io_end_use(c->mover, p);
	if (p->state == PIECE_DROPPED) {
		xd_staging_put(p);
		return;
	}
	p->state = PIECE_DONE;
	p->io.old = c->ring->move[at].old;
	xt_mem_io_done(c->mover->all->worker[c->worker].worker.engine, &p->io, err);
}

/*
 * Returns the index behind the last access that was executed. Ends the mover if the index is
 * invalid.
 */
static uint32_t mover_io_executed(struct channel *c, bool *ended)
{
	uint32_t n = __atomic_load_n(&c->ring->executed, __ATOMIC_ACQUIRE);

	*ended = __atomic_load_n(&c->mover->ended, __ATOMIC_ACQUIRE);
	if (!*ended && n - c->collected > c->submitted - c->collected) {
		xd_log(XD_ERR, "the mover %d reports results of no access", c->mover->pid);
		xd_mover_end(c->mover);
		*ended = true;
	}
	return *ended ? c->submitted : n;
}

/* The kernel may have killed the mover for lack of memory. */
static void look_at_process(struct channel *c, uint64_t now)
{
	struct pollfd p = { .fd = c->mover->pidfd, .events = POLLIN };

	c->look = now + LOOK_NS;
	if (poll(&p, 1, 0) <= 0)
		return;
	xd_log(XD_WARN, "the mover %d was killed: its client's private memory is lost",
	       c->mover->pid);
	xd_mover_end(c->mover);
}

/* Returns true if there was a result. */
static bool collect_results(struct channel *c, uint64_t now)
{
	bool ended;
	uint32_t end = mover_io_executed(c, &ended), at;

	if (c->collected == end) {
		if (c->collected != c->submitted && c->look <= now)
			look_at_process(c, now);
		return false;
	}
	__atomic_store_n(&c->since, now, __ATOMIC_RELAXED);
	c->look = now + LOOK_NS;
	while (c->collected != end) {
		at = c->collected % XD_MOVER_RING;
		__atomic_store_n(&c->collected, c->collected + 1, __ATOMIC_RELEASE);
		mover_io_finish(c, at, ended || c->ring->move[at].err ? -EFAULT : 0);
	}
	return true;
}

static bool offer_room(struct channel *c)
{
	struct xd_mover *m = c->mover;

	if (!c->waiting || (!__atomic_load_n(&m->ended, __ATOMIC_ACQUIRE) &&
			    !__atomic_exchange_n(&c->room, false, __ATOMIC_SEQ_CST)))
		return false;
	set_waiting(c, false);
	xt_mem_io_room(m->all->worker[c->worker].worker.engine, &c->pool);
	return true;
}

bool xd_movers_collect(struct xd_movers *ms, uint32_t worker, uint64_t now, uint64_t *next)
{
	struct channel *c, *following;
	bool worked = false;

	*next = XT_NEVER;
	for (c = ms->worker[worker].first; c; c = following) {
		worked |= collect_results(c, now);
		worked |= offer_room(c);
		following = c->next;
		if (c->collected != c->submitted && c->look < *next)
			*next = c->look;
		if (c->collected == c->submitted && !c->waiting)
			unlist_channel(c);
	}
	return worked;
}

bool xd_movers_arm(struct xd_movers *ms, uint32_t worker)
{
	bool quiet = true;

	for (struct channel *c = ms->worker[worker].first; c; c = c->next)
		__atomic_store_n(&c->ring->want_wake, 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* pairs with wake_worker() of the mover */
	for (struct channel *c = ms->worker[worker].first; c; c = c->next) {
		quiet &= __atomic_load_n(&c->ring->executed, __ATOMIC_ACQUIRE) == c->collected;
		quiet &= !__atomic_load_n(&c->mover->ended, __ATOMIC_ACQUIRE);
		quiet &= !c->waiting || !__atomic_load_n(&c->room, __ATOMIC_SEQ_CST);
	}
	return quiet;
}

void xd_movers_disarm(struct xd_movers *ms, uint32_t worker)
{
	for (struct channel *c = ms->worker[worker].first; c; c = c->next)
		__atomic_store_n(&c->ring->want_wake, 0, __ATOMIC_RELAXED);
}
