// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Accesses of a QP to memory that may wait. */
#include <errno.h>

#include <xroce/probes.h>

#include "engine.h"
#include "flow.h"
#include "guard.h"
#include "qp.h"
#include "step.h"
#include "wr_kind.h"

#define IO_OF(l) ((struct xt_mem_io *)((char *)(l)-offsetof(struct xt_mem_io, link)))
#define KEPT_OF(l) ((struct xt_mem_io *)((char *)(l)-offsetof(struct xt_mem_io, kept_link)))

void xt_step_init(struct xt_step *s, struct xt_qp *qp, enum xt_step_role role)
{
	s->qp = qp;
	s->role = role;
	xt_list_init(&s->io);
	xt_list_init(&s->room_link);
}

void xt_io_free(struct xt_mem_io *io)
{
	xt_list_del(&io->link);
	xt_list_del(&io->kept_link);
	io->ops->io_free(io);
}

static void free_all(struct xt_step *s)
{
	while (!xt_list_empty(&s->io))
		xt_io_free(IO_OF(s->io.next));
}

void xt_step_clear(struct xt_step *s)
{
	free_all(s);
	xt_list_del(&s->room_link);
	s->used = s->waiting = s->atomic_done = s->settled = s->delayed = false;
}

static int waits(struct xt_step *s)
{
	if (!s->waiting)
		XR_PROBE2(memory_wait, s->qp->info.qpn, s->role);
	s->used = s->waiting = true;
	return -EINPROGRESS;
}

void xt_step_park(struct xt_step *s)
{
	waits(s);
	s->delayed = false;
	s->pass++;
}

/* Some access has to start later. */
static int delays(struct xt_step *s)
{
	s->delayed = true;
	return waits(s);
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
		io = IO_OF(l);
		if (io->op == XT_MEM_READ)
			continue;
		if (io->done && io->err)
			return io->err;
		waiting |= !io->done;
	}
	return waiting ? waits(s) : 0;
}

/* A settled step has no other access than its atomic, and reads that are finished. */
int xt_step_atomic_result(struct xt_step *s)
{
	struct xt_mem_io *io = IO_OF(s->io.prev);
	int err = io->err;

	if (!io->done)
		return waits(s);
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
		IO_OF(l)->ahead = true;
		if (IO_OF(l)->done)
			keep(IO_OF(l));
	}
}

/* The step that reads ahead for a step that builds packets; the same for itself */
static struct xt_step *ahead_of(const struct xt_step *s)
{
	bool send = s->role == XT_STEP_SEND || s->role == XT_STEP_AHEAD;

	return &s->qp->park.step[send ? XT_STEP_AHEAD : XT_STEP_RESPOND_AHEAD];
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
		ahead = ahead_of(io->step);
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
	delays(s);
	xt_list_add_tail(&pool->waiting, &s->room_link);
}

/* Returns NULL with *pool set if there is no room, and with *pool NULL if the memory is gone. */
static struct xt_mem_io *try_new(struct xt_step *s, struct xt_mem *mem, uint32_t len,
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
	io->through = s->through;
	io->op = XT_MEM_READ;
	io->done = io->ahead = io->receives = false;
	io->err = 0;
	io->step = s;
	io->pass = s->pass;
	return io;
}

/* Returns NULL with *err set; -EINPROGRESS: the step waits for room. */
static struct xt_mem_io *new_io(struct xt_step *s, struct xt_mem *mem, uint32_t len, int *err)
{
	struct xt_mem_pool *pool;
	struct xt_mem_io *io;

	*err = -EINPROGRESS;
	if (!xt_list_empty(&s->room_link)) {
		delays(s);
		return NULL;
	}
	while (!(io = try_new(s, mem, len, &pool))) {
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

/* off: from the start of the segment */
static void submit(struct xt_mem_io *io, enum xt_mem_op op, const struct xt_mem_seg *seg,
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

/* Most bytes that a QP reads for later messages, but for the last of these */
#define AHEAD_BYTES (3u * XT_MEM_IO_MAX)

/* ---- reading ----------------------------------------------------------------------------- */

/*
 * Takes over what was read ahead for a work request or READ. Gives up what was read for earlier
 * ones.
 */
static void take_over(struct xt_step *s, struct xt_step *ahead, uint32_t item)
{
	struct xt_list *l = ahead->io.next;
	struct xt_mem_io *io;

	while (l != &ahead->io) {
		io = IO_OF(l);
		l = l->next;
		if (xt_diff(io->item, item) > 0)
			continue;
		if (io->item != item) {
			xt_io_free(io);
			continue;
		}
		xt_list_del(&io->link);
		xt_list_del(&io->kept_link);
		xt_list_add_tail(&s->io, &io->link);
		io->step = s;
		/* the first use of a chunk starts to read the next one */
		io->ahead = s->read_end > io->at + io->len;
		s->used = true;
	}
}

static void begin_item(struct xt_step *s, uint32_t item, uint64_t read_end)
{
	struct xt_step *ahead = ahead_of(s);

	s->read_end = read_end;
	if (s->item == item)
		return;
	s->item = item;
	xt_step_end(s);
	if (ahead->used)
		take_over(s, ahead, item);
}

void xt_step_fetch(struct xt_step *s, uint32_t item, uint32_t psn, uint64_t read_end)
{
	begin_item(s, item, read_end);
	s->pass = psn;
}

void xt_step_take_over(struct xt_step *s, uint32_t item)
{
	begin_item(s, item, 0);
}

bool xt_step_look_ahead(struct xt_step *ahead, uint32_t item, uint32_t end)
{
	bool send = ahead->role == XT_STEP_AHEAD;

	if (!xt_list_empty(&ahead->qp->park.step[send ? XT_STEP_SEND : XT_STEP_RESPOND].room_link))
		return false;
	/* nothing was read yet or it was given up, or the QP went back for a retry or was reset */
	if (!ahead->used || xt_diff(ahead->item, item) <= 0 || xt_diff(ahead->item, end) > 0) {
		xt_step_end(ahead);
		ahead->item = item + 1;
	}
	return true;
}

bool xt_step_reads_all(const struct xt_step *s, uint32_t item)
{
	const struct xt_list *l;

	for (l = s->io.next; l != &s->io && s->item == item; l = l->next)
		if (IO_OF(l)->at + IO_OF(l)->len >= s->read_end)
			return true;
	return false;
}

bool xt_step_may_fetch(const struct xt_step *ahead, uint32_t end)
{
	const struct xt_list *l;
	uint32_t bytes = 0;

	for (l = ahead->io.next; l != &ahead->io; l = l->next)
		bytes += IO_OF(l)->len;
	return xt_diff(ahead->item, end) < 0 && bytes < AHEAD_BYTES;
}

/* Returns a read that has len bytes at an offset of a region. */
static struct xt_mem_io *find_read(struct xt_step *s, const struct xt_mem *mem, uint64_t at,
				   uint64_t len)
{
	struct xt_mem_io *io;
	struct xt_list *l;

	for (l = s->io.next; l != &s->io; l = l->next) {
		io = IO_OF(l);
		if (io->op == XT_MEM_READ && io->mem == mem && at >= io->at &&
		    at - io->at < io->len && len <= io->len - (at - io->at))
			return io;
	}
	return NULL;
}

/* Frees the chunks that no later packet needs: used before, but not by this packet. */
static void free_passed(struct xt_step *s)
{
	struct xt_list *l = s->io.next;
	struct xt_mem_io *io;

	while (l != &s->io) {
		io = IO_OF(l);
		l = l->next;
		if (s->read_end && io->done && !io->ahead && io->pass != s->pass)
			xt_io_free(io);
	}
}

/* Starts to read the next chunk, unless there is no room or it is being read. */
static void read_ahead(struct xt_step *s, struct xt_mem *mem, const struct xt_mem_seg *seg,
		       uint64_t at)
{
	uint64_t end = seg->off + seg->len < s->read_end ? seg->off + seg->len : s->read_end;
	struct xt_mem_pool *pool;
	struct xt_mem_io *io;

	if (at >= end || !xt_list_empty(&s->room_link) || find_read(s, mem, at, 1))
		return;
	free_passed(s);
	io = try_new(s, mem, end - at < XT_MEM_IO_MAX ? end - at : XT_MEM_IO_MAX, &pool);
	if (!io)
		return;
	io->ahead = true;
	xt_list_add_tail(&s->io, &io->link);
	submit(io, XT_MEM_READ, seg, at - seg->off);
}

bool xt_step_fetch_ahead(struct xt_step *ahead, uint32_t item, const struct xt_step_place *from,
			 uint32_t len)
{
	struct xt_mem_pool *pool;
	struct xt_mem_io *io = try_new(ahead, from->mem, len, &pool);

	if (!io)
		return false;
	if (!xt_list_empty(&io->pool->waiting)) {
		xt_io_free(io);
		return false;
	}
	io->ahead = true;
	io->item = item;
	xt_list_add_tail(&ahead->io, &io->link);
	submit(io, XT_MEM_READ, from->seg, from->off - from->seg->off);
	return true;
}

static void use_read(struct xt_step *s, struct xt_mem_io *io)
{
	io->pass = s->pass;
	io->ahead = false;
	/* others must not take it before the QP's turn ends */
	xt_list_del(&io->kept_link);
}

uint8_t *xt_step_peek(struct xt_step *s, const struct xt_mem *mem, uint64_t off, uint64_t len)
{
	struct xt_mem_io *io = find_read(s, mem, off, len);

	if (!io || !io->done || io->err || io->ahead)
		return NULL;
	use_read(s, io);
	return io->data + (off - io->at);
}

/*
 * Returns a read that has `least` bytes at an offset of a segment, which it starts if need be.
 * len: bytes that the caller needs.
 */
static struct xt_mem_io *read_at(struct xt_step *s, const struct xt_step_place *p, size_t len,
				 size_t least, int *err)
{
	struct xt_mem_io *io = find_read(s, p->mem, p->off, least);
	uint64_t end = p->off + len;

	if (io)
		return io;
	free_passed(s);
	if (s->read_end > end)
		end = p->seg->off + p->seg->len < s->read_end ? p->seg->off + p->seg->len
							      : s->read_end;
	end -= p->off;
	io = new_io(s, p->mem, end < XT_MEM_IO_MAX ? end : XT_MEM_IO_MAX, err);
	if (!io)
		return NULL;
	xt_list_add_tail(&s->io, &io->link);
	submit(io, XT_MEM_READ, p->seg, p->off - p->seg->off);
	return io;
}

/* Result of a read: the target is absent */
#define ABSENT (-ENXIO)

/*
 * Reads into memory of this process, or with place into mapped memory of a program. All chunks are
 * started before the first is waited for. Nothing is stored behind a chunk that has not been read,
 * so the last bytes are stored last.
 */
static int read_to(struct xt_step *s, const struct xt_step_place *from, uint8_t *dst, size_t len,
		   bool place)
{
	struct xt_step_place p = *from;
	bool waiting = place && s->delayed;
	struct xt_mem_io *io;
	uint64_t skip;
	int err = 0;
	size_t n;

	for (; len; p.off += n, dst += n, len -= n) {
		io = read_at(s, &p, len, 1, &err);
		if (!io)
			return err;
		skip = p.off - io->at;
		n = io->len - skip < len ? io->len - skip : len;
		if (io->done && io->err)
			return io->err;
		waiting |= !io->done;
		if (!waiting && !place)
			xt_copy(dst, io->data + skip, n);
		else if (!waiting && xt_guard_place(dst, io->data + skip, n))
			return ABSENT;
		use_read(s, io);
		read_ahead(s, p.mem, p.seg, io->at + io->len);
	}
	return waiting ? delays(s) : 0;
}

int xt_step_read(struct xt_step *s, const struct xt_step_place *from, void *dst, size_t len)
{
	return read_to(s, from, dst, len, false);
}

int xt_step_place_read(struct xt_step *s, const struct xt_step_place *from, void *dst, size_t len,
		       bool *src_failed)
{
	int err = read_to(s, from, dst, len, true);

	*src_failed = err != ABSENT;
	return err == ABSENT ? -EFAULT : err;
}

/* ---- writing ----------------------------------------------------------------------------- */

/* Returns an access of this step that was not used in this pass. */
static struct xt_mem_io *find(struct xt_step *s, enum xt_mem_op op, const struct xt_mem *mem,
			      uint64_t at, uint32_t len)
{
	struct xt_mem_io *io;
	struct xt_list *l;

	for (l = s->io.next; l != &s->io; l = l->next) {
		io = IO_OF(l);
		if (io->op == op && io->mem == mem && io->at == at && io->len == len &&
		    io->pass != s->pass)
			return io;
	}
	return NULL;
}

/* The result of an access of this step */
static int result(struct xt_step *s, struct xt_mem_io *io)
{
	io->pass = s->pass;
	return io->done ? io->err : waits(s);
}

/* A message that has begun without setting resp.kind took a receive if it is a SEND. */
static uint8_t kind_of_request(const struct xt_qp *qp)
{
	if (qp->resp.kind != XT_KIND_NONE)
		return qp->resp.kind;
	return qp->rq.taken ? XT_KIND_SEND : XT_KIND_WRITE;
}

/* The packet whose data is posted now */
static uint32_t psn_of_post(const struct xt_step *post)
{
	if (post->role == XT_STEP_POST)
		return post->qp->resp.epsn;
	return post->qp->path.loopback ? post->qp->req.next : post->qp->req.unacked;
}

static void add_posted(struct xt_qp *qp, struct xt_mem_io *io)
{
	struct xt_park *p = &qp->park;
	bool responder = io->step->role == XT_STEP_POST;

	io->psn = psn_of_post(io->step);
	if (responder) {
		if (xt_list_empty(&p->posted[XT_PARK_RESPONDER]))
			p->acked = qp->resp.epsn;
		io->msn = qp->resp.msn;
		io->kind = kind_of_request(qp);
		p->step[XT_STEP_EXECUTE].fenced = p->step[XT_STEP_POST].fenced = true;
	}
	xt_list_add_tail(&p->posted[responder ? XT_PARK_RESPONDER : XT_PARK_REQUESTER], &io->link);
	p->busy = true;
}

/* Returns the posted write of the piece that is moved, if an earlier pass has posted it. */
static struct xt_mem_io *find_posted(const struct xt_step *post, const struct xt_step_place *to,
				     uint32_t len)
{
	const struct xt_list *posted, *l;
	struct xt_mem_io *io;

	posted = &post->qp->park.posted[post->role == XT_STEP_POST ? XT_PARK_RESPONDER
								   : XT_PARK_REQUESTER];
	for (l = posted->prev; l != posted; l = l->prev) {
		io = IO_OF(l);
		if (io->psn != psn_of_post(post))
			return NULL;
		if (io->mem == to->mem && io->at == to->off && io->len == len)
			return io;
	}
	return NULL;
}

/* A write of a piece over loopback; its data is at io->data. */
static void post_piece(struct xt_step *post, struct xt_mem_io *io, const struct xt_step_place *to)
{
	io->step = post;
	add_posted(post->qp, io);
	submit(io, XT_MEM_WRITE, to->seg, to->off - to->seg->off);
}

static int write_chunk(struct xt_step *s, const struct xt_step_place *to, const void *src,
		       uint32_t len)
{
	bool posts = s->role == XT_STEP_POST || s->role == XT_STEP_PLACE_POST;
	struct xt_mem_io *io = posts ? NULL : find(s, XT_MEM_WRITE, to->mem, to->off, len);
	int err;

	if (io)
		return result(s, io);
	if (s->post && find_posted(s->post, to, len))
		return 0;
	io = new_io(s, to->mem, len, &err);
	if (!io)
		return err;
	xt_copy(io->data, src, len);
	if (s->post) {
		post_piece(s->post, io, to);
		return 0;
	}
	if (posts)
		add_posted(s->qp, io);
	else
		xt_list_add_tail(&s->io, &io->link);
	submit(io, XT_MEM_WRITE, to->seg, to->off - to->seg->off);
	return posts ? 0 : waits(s);
}

int xt_step_write(struct xt_step *s, const struct xt_step_place *to, const void *src, size_t len)
{
	struct xt_step_place p = *to;
	bool waiting = false;
	size_t n;
	int err;

	for (; len; p.off += n, src = (const uint8_t *)src + n, len -= n) {
		n = len < XT_MEM_IO_MAX ? len : XT_MEM_IO_MAX;
		err = write_chunk(s, &p, src, n);
		if (err && err != -EINPROGRESS)
			return err;
		waiting |= err;
	}
	return waiting ? -EINPROGRESS : 0;
}

/* Returns true if all posted writes are of the request that is being executed. */
static bool posted_by_this(const struct xt_qp *qp)
{
	const struct xt_list *posted = &qp->park.posted[XT_PARK_RESPONDER];

	return xt_list_empty(posted) || IO_OF(posted->next)->psn == qp->resp.epsn;
}

int xt_step_fence(struct xt_step *s)
{
	/* the bytes of one packet have no order */
	if (s->role == XT_STEP_POST && posted_by_this(s->qp))
		return 0;
	return delays(s);
}

/*
 * The staging memory of the source is released as soon as its bytes are in that of the target,
 * which may belong to another client: it must not wait for that client's memory.
 */
int xt_step_copy(struct xt_step *s, const struct xt_step_place *to,
		 const struct xt_step_place *from, uint32_t len, bool *src_failed)
{
	struct xt_mem_io *io = find(s, XT_MEM_WRITE, to->mem, to->off, len), *src;
	int err;

	if (io)
		return result(s, io);
	if (s->post && find_posted(s->post, to, len))
		return 0;
	src = read_at(s, from, len, len, &err);
	*src_failed = !src || (src->done && src->err);
	if (!src)
		return err;
	if (!src->done)
		return delays(s);
	if (src->err)
		return src->err;
	io = new_io(s, to->mem, len, &err);
	if (!io)
		return err;
	memcpy(io->data, src->data + (from->off - src->at), len);
	/* a piece whose writes are posted may be executed again */
	if (!s->post && src->at == from->off && src->len == len)
		xt_io_free(src);
	if (s->post) {
		post_piece(s->post, io, to);
		return 0;
	}
	xt_list_add_tail(&s->io, &io->link);
	submit(io, XT_MEM_WRITE, to->seg, to->off - to->seg->off);
	return waits(s);
}

/* ---- atomics ----------------------------------------------------------------------------- */

int xt_step_atomic(struct xt_step *s, const struct xt_step_place *p, const struct xt_step_atomic *a)
{
	struct xt_mem_io *io;
	int err;

	io = new_io(s, p->mem, sizeof(uint64_t), &err);
	if (!io)
		return err;
	io->compare = a->compare;
	io->value = a->value;
	xt_list_add_tail(&s->io, &io->link);
	submit(io, a->op, p->seg, p->off - p->seg->off);
	s->settled = true;
	return waits(s);
}

void xt_step_executed(struct xt_step *s, uint64_t old)
{
	s->used = s->atomic_done = true;
	s->atomic_old = old;
}

/* ---- the environment ----------------------------------------------------------------------- */

void xt_resume_later(struct xt_qp *qp)
{
	if (xt_list_empty(&qp->park.resume_link))
		xt_list_add_tail(&qp->engine->resumed, &qp->park.resume_link);
}

void xt_mem_io_done(struct xt_engine *e, struct xt_mem_io *io, int err)
{
	bool later = io->step->role == XT_STEP_AHEAD || io->step->role == XT_STEP_RESPOND_AHEAD;

	(void)e;
	io->done = true;
	/* -EINPROGRESS has another meaning here */
	io->err = err == -EINPROGRESS ? -EFAULT : err;
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
