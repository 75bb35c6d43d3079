// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Writes, copies and atomics of steps, and posted writes. */
#include <errno.h>
#include <string.h>

#include "guard.h"
#include "daemon/transport/qp.h"
#include "step_io.h"
#include "daemon/transport/queue/wr_kind.h"

/* Returns an access of this step that was not used in this pass. */
static struct xt_mem_io *find(struct xt_step *s, enum xt_mem_op op, const struct xt_mem *mem,
			      uint64_t at, uint32_t len)
{
	struct xt_mem_io *io;
	struct xt_list *l;

	for (l = s->io.next; l != &s->io; l = l->next) {
		io = XT_IO_OF(l);
		if (io->op == op && io->mem == mem && io->at == at && io->len == len &&
		    io->pass != s->pass)
			return io;
	}
	return NULL;
}

static int result(struct xt_step *s, struct xt_mem_io *io)
{
	io->pass = s->pass;
	return io->done ? io->err : xt_step_waits(s);
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
		io = XT_IO_OF(l);
		if (io->psn != psn_of_post(post))
			return NULL;
		if (io->mem == to->mem && io->at == to->off && io->len == len)
			return io;
	}
	return NULL;
}

/* Returns the step whose posted writes those of a step become, NULL if the step waits for them. */
static struct xt_step *post_of(struct xt_step *s)
{
	if (s->no_post)
		return NULL;
	return s->role == XT_STEP_POST || s->role == XT_STEP_PLACE_POST ? s : s->post;
}

/* Returns true if a write was started by an earlier pass. Then *err is its result. */
static bool was_started(struct xt_step *s, const struct xt_step_place *to, uint32_t len, int *err)
{
	struct xt_step *post = post_of(s);
	struct xt_mem_io *io = post ? NULL : find(s, XT_MEM_WRITE, to->mem, to->off, len);

	*err = io ? result(s, io) : 0;
	return io || (post && post != s && find_posted(post, to, len));
}

/* Starts a write whose data is at io->data. */
static int start_write(struct xt_step *s, struct xt_mem_io *io, const struct xt_step_place *to)
{
	struct xt_step *post = post_of(s);

	if (post) {
		io->step = post;
		add_posted(post->qp, io);
	} else {
		xt_list_add_tail(&s->io, &io->link);
	}
	xt_io_submit(io, XT_MEM_WRITE, to->seg, to->off - to->seg->off);
	return post ? 0 : xt_step_waits(s);
}

/* The end of a message is not written before a part that could not be started yet. */
static bool must_delay(const struct xt_step *s)
{
	return s->last && s->delayed;
}

static int write_chunk(struct xt_step *s, const struct xt_step_place *to, const struct xt_seg *from,
		       uint64_t skip, uint32_t len)
{
	struct xt_mem_io *io;
	int err;

	if (was_started(s, to, len, &err))
		return err;
	if (must_delay(s))
		return xt_step_delays(s);
	io = xt_io_new(s, to->mem, len, &err);
	if (!io)
		return err;
	if (xt_guard_copy_segs(io->data, from, skip, len)) {
		xt_io_free(io);
		return XT_STEP_ABSENT;
	}
	return start_write(s, io, to);
}

int xt_step_write(struct xt_step *s, const struct xt_step_place *to, const struct xt_seg *from,
		  uint64_t skip, size_t len)
{
	struct xt_step_place p = *to;
	bool waiting = false;
	size_t n;
	int err;

	for (; len; p.off += n, skip += n, len -= n) {
		n = len < XT_MEM_IO_MAX ? len : XT_MEM_IO_MAX;
		err = write_chunk(s, &p, from, skip, n);
		if (err && err != -EINPROGRESS)
			return err;
		waiting |= err;
	}
	return waiting ? -EINPROGRESS : 0;
}

bool xt_posted_before(const struct xt_qp *qp)
{
	const struct xt_list *posted = &qp->park.posted[XT_PARK_RESPONDER];

	return !xt_list_empty(posted) && XT_IO_OF(posted->next)->psn != qp->resp.epsn;
}

/* Returns true if writes are under way that are posted where those of a step are posted. */
static bool has_posted(const struct xt_step *s)
{
	const struct xt_step *post = s->post ? s->post : s;
	bool responder = post->role == XT_STEP_POST || post->role == XT_STEP_EXECUTE;

	return xt_posted(&post->qp->park, responder ? XT_PARK_RESPONDER : XT_PARK_REQUESTER);
}

static bool is_writing(const struct xt_step *s)
{
	const struct xt_list *l;

	for (l = s->io.next; l != &s->io; l = l->next)
		if (XT_IO_OF(l)->op == XT_MEM_WRITE && !XT_IO_OF(l)->done)
			return true;
	return false;
}

/*
 * The bytes of one packet have no order, except that the end of a message comes last. If it waits
 * for posted writes, some may be of the same packet. That packet is written once more when they
 * have finished, and waits for all of its writes then.
 */
int xt_step_fence(struct xt_step *s)
{
	if (s->last && has_posted(s)) {
		s->no_post = true;
		return xt_step_delays(s);
	}
	if (s->last && is_writing(s))
		return xt_step_delays(s);
	if (!s->fenced || (s->role == XT_STEP_POST && !xt_posted_before(s->qp)))
		return 0;
	return xt_step_delays(s);
}

/*
 * The staging memory of the source is released as soon as its bytes are in that of the target,
 * which may belong to another client: it must not wait for that client's memory.
 */
int xt_step_copy(struct xt_step *s, const struct xt_step_place *to,
		 const struct xt_step_place *from, uint32_t len, bool *src_failed)
{
	struct xt_mem_io *io, *src;
	int err;

	if (was_started(s, to, len, &err))
		return err;
	src = xt_step_read_at(s, from, len, len, &err);
	*src_failed = !src || (src->done && src->err);
	if (!src)
		return err;
	if (!src->done)
		return xt_step_delays(s);
	if (src->err)
		return src->err;
	if (must_delay(s))
		return xt_step_delays(s);
	io = xt_io_new(s, to->mem, len, &err);
	if (!io)
		return err;
	memcpy(io->data, src->data + (from->off - src->at), len);
	/* a piece whose writes are posted may be executed again */
	if (!s->post && src->at == from->off && src->len == len)
		xt_io_free(src);
	return start_write(s, io, to);
}

/* ---- atomics ----------------------------------------------------------------------------- */

int xt_step_atomic(struct xt_step *s, const struct xt_step_place *p, const struct xt_step_atomic *a)
{
	struct xt_mem_io *io;
	int err;

	io = xt_io_new(s, p->mem, sizeof(uint64_t), &err);
	if (!io)
		return err;
	io->compare = a->compare;
	io->value = a->value;
	xt_list_add_tail(&s->io, &io->link);
	xt_io_submit(io, a->op, p->seg, p->off - p->seg->off);
	s->settled = true;
	return xt_step_waits(s);
}

void xt_step_executed(struct xt_step *s, uint64_t old)
{
	s->used = s->atomic_done = true;
	s->atomic_old = old;
}
