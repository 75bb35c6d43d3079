// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Writes, copies and atomics of steps, and posted writes. */
#include <errno.h>
#include <string.h>

#include "bytes.h"
#include "qp.h"
#include "step_io.h"
#include "wr_kind.h"

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

/* A write of a piece over loopback; its data is at io->data. */
static void post_piece(struct xt_step *post, struct xt_mem_io *io, const struct xt_step_place *to)
{
	io->step = post;
	add_posted(post->qp, io);
	xt_io_submit(io, XT_MEM_WRITE, to->seg, to->off - to->seg->off);
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
	io = xt_io_new(s, to->mem, len, &err);
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
	xt_io_submit(io, XT_MEM_WRITE, to->seg, to->off - to->seg->off);
	return posts ? 0 : xt_step_waits(s);
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

bool xt_posted_before(const struct xt_qp *qp)
{
	const struct xt_list *posted = &qp->park.posted[XT_PARK_RESPONDER];

	return !xt_list_empty(posted) && XT_IO_OF(posted->next)->psn != qp->resp.epsn;
}

int xt_step_fence(struct xt_step *s)
{
	/* the bytes of one packet have no order */
	if (s->role == XT_STEP_POST && !xt_posted_before(s->qp))
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
	struct xt_mem_io *io = find(s, XT_MEM_WRITE, to->mem, to->off, len), *src;
	int err;

	if (io)
		return result(s, io);
	if (s->post && find_posted(s->post, to, len))
		return 0;
	src = xt_step_read_at(s, from, len, len, &err);
	*src_failed = !src || (src->done && src->err);
	if (!src)
		return err;
	if (!src->done)
		return xt_step_delays(s);
	if (src->err)
		return src->err;
	io = xt_io_new(s, to->mem, len, &err);
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
	xt_io_submit(io, XT_MEM_WRITE, to->seg, to->off - to->seg->off);
	return xt_step_waits(s);
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
