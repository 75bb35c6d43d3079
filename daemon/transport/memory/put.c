// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "put.h"

#include <errno.h>

#include "daemon/transport/qp.h"
#include "guard.h"

void xt_put_begin(struct xt_put *put, struct xt_qp *qp, enum xt_qp_side side, uint32_t psn)
{
	*put = (struct xt_put){
		.qp = qp,
		.side = side,
		.psn = psn,
		.room = &qp->accesses.room[side],
	};
	xt_list_init(&put->io);
}

void xt_put_commit(struct xt_put *put)
{
	struct xt_accesses *p = &put->qp->accesses;
	struct xt_mem_io *io;

	while (!xt_put_is_empty(put)) {
		io = XT_IO_OF(put->io.next);
		xt_list_del(&io->link);
		if (xt_list_empty(&p->posted[put->side]))
			p->posted_to[put->side] = io->mem;
		else if (p->posted_to[put->side] != io->mem)
			p->posted_to[put->side] = NULL;
		xt_list_add_tail(&p->posted[put->side], &io->link);
		p->posted_mapped[put->side] += io->mapped;
		p->busy = true;
		io->psn = put->psn;
		io->msn = put->msn;
		io->kind = put->kind;
		io->side = put->side;
		xt_io_submit(io, io->op, io->seg, io->off);
	}
}

void xt_put_drop(struct xt_put *put)
{
	struct xt_mem_io *io;

	while (!xt_put_is_empty(put)) {
		io = XT_IO_OF(put->io.next);
		xt_list_del(&io->link);
		io->ops->io_free(io);
	}
}

bool xt_put_has_posted(const struct xt_put *put)
{
	return !xt_list_empty(&put->qp->accesses.posted[put->side]);
}

bool xt_put_posts_mapped(const struct xt_put *put, const struct xt_mem_place *to)
{
	const struct xt_accesses *p = &put->qp->accesses;

	if (__builtin_expect(!p->busy, true) && xt_put_is_empty(put))
		return false;
	if (!to->seg->addressed || !to->mem->ops->io_new)
		return false;
	if (!xt_put_has_posted(put))
		return put->last && !xt_put_is_empty(put);
	return put->last || p->posted_mapped[put->side] || p->posted_to[put->side] != to->mem;
}

/* Adds an access that is not started yet. Returns NULL with *err set if there is none. */
static struct xt_mem_io *put_add(struct xt_put *put, const struct xt_mem_place *to,
				 enum xt_mem_op op, uint32_t len, int *err)
{
	struct xt_mem_io *io = NULL;

	*err = -EINPROGRESS;
	if (!put->waits)
		io = xt_io_new(put->room, put->qp, put->reads, to->mem, len, err);
	if (!io) {
		put->waits |= *err == -EINPROGRESS;
		if (put->waits)
			*err = 0;
		else if (to->seg->ptr)
			*err = XT_PUT_UNREACHED;
		return NULL;
	}
	io->op = (uint8_t)op;
	io->seg = to->seg;
	io->off = to->off - to->seg->off;
	io->last = put->last;
	io->through = put->through;
	io->mapped = to->seg->ptr;
	xt_list_add_tail(&put->io, &io->link);
	return io;
}

static int write_chunk(struct xt_put *put, const struct xt_mem_place *to, const struct xt_seg *from,
		       uint64_t skip, uint32_t len)
{
	int err;
	struct xt_mem_io *io = put_add(put, to, XT_MEM_WRITE, len, &err);

	if (!io)
		return err;
	return xt_guard_copy_segs(io->data, from, skip, len) ? XT_PUT_ABSENT : 0;
}

int xt_put_write(struct xt_put *put, const struct xt_mem_place *to, const struct xt_seg *from,
		 uint64_t skip, size_t len)
{
	struct xt_mem_place p = *to;
	int err = 0;
	size_t n;

	for (; len && !err; p.off += n, skip += n, len -= n) {
		n = len < XT_MEM_IO_MAX ? len : XT_MEM_IO_MAX;
		err = write_chunk(put, &p, from, skip, (uint32_t)n);
	}
	return err;
}

int xt_put_atomic(struct xt_put *put, const struct xt_mem_place *p, const struct xt_put_atomic *a)
{
	int err;
	struct xt_mem_io *io = put_add(put, p, a->op, sizeof(uint64_t), &err);

	if (!io)
		return err;
	io->compare = a->compare;
	io->value = a->value;
	return 0;
}
