// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Reads of steps, and reading ahead. */
#include <errno.h>

#include "guard.h"
#include "daemon/transport/base/bytes.h"
#include "daemon/transport/qp.h"
#include "step_io.h"

/* Most bytes that a QP reads for later messages, but for the last of these */
#define AHEAD_BYTES (3u * XT_MEM_IO_MAX)

/* ---- reading ahead ----------------------------------------------------------------------- */

/*
 * Takes over what was read ahead for a work request or READ. Gives up what was read for earlier
 * ones.
 */
static void take_over(struct xt_step *s, struct xt_step *ahead, uint32_t item)
{
	struct xt_list *l = ahead->io.next;
	struct xt_mem_io *io;

	while (l != &ahead->io) {
		io = XT_IO_OF(l);
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
	struct xt_step *ahead = xt_step_ahead_of(s);

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
		if (XT_IO_OF(l)->at + XT_IO_OF(l)->len >= s->read_end)
			return true;
	return false;
}

bool xt_step_may_fetch(const struct xt_step *ahead, uint32_t end)
{
	const struct xt_list *l;
	uint32_t bytes = 0;

	for (l = ahead->io.next; l != &ahead->io; l = l->next)
		bytes += XT_IO_OF(l)->len;
	return xt_diff(ahead->item, end) < 0 && bytes < AHEAD_BYTES;
}

/* ---- reading ----------------------------------------------------------------------------- */

/* Returns a read that has len bytes at an offset of a region. */
static struct xt_mem_io *find_read(struct xt_step *s, const struct xt_mem *mem, uint64_t at,
				   uint64_t len)
{
	struct xt_mem_io *io;
	struct xt_list *l;

	for (l = s->io.next; l != &s->io; l = l->next) {
		io = XT_IO_OF(l);
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
		io = XT_IO_OF(l);
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
	io = xt_io_try_new(s, mem, end - at < XT_MEM_IO_MAX ? end - at : XT_MEM_IO_MAX, &pool);
	if (!io)
		return;
	io->ahead = true;
	xt_list_add_tail(&s->io, &io->link);
	xt_io_submit(io, XT_MEM_READ, seg, at - seg->off);
}

bool xt_step_fetch_ahead(struct xt_step *ahead, uint32_t item, const struct xt_step_place *from,
			 uint32_t len)
{
	struct xt_mem_pool *pool;
	struct xt_mem_io *io = xt_io_try_new(ahead, from->mem, len, &pool);

	if (!io)
		return false;
	if (!xt_list_empty(&io->pool->waiting)) {
		xt_io_free(io);
		return false;
	}
	io->ahead = true;
	io->item = item;
	xt_list_add_tail(&ahead->io, &io->link);
	xt_io_submit(io, XT_MEM_READ, from->seg, from->off - from->seg->off);
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

struct xt_mem_io *xt_step_read_at(struct xt_step *s, const struct xt_step_place *p, size_t len,
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
	io = xt_io_new(s, p->mem, end < XT_MEM_IO_MAX ? end : XT_MEM_IO_MAX, err);
	if (!io)
		return NULL;
	xt_list_add_tail(&s->io, &io->link);
	xt_io_submit(io, XT_MEM_READ, p->seg, p->off - p->seg->off);
	return io;
}

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
		io = xt_step_read_at(s, &p, len, 1, &err);
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
			return XT_STEP_ABSENT;
		use_read(s, io);
		read_ahead(s, p.mem, p.seg, io->at + io->len);
	}
	return waiting ? xt_step_delays(s) : 0;
}

int xt_step_read(struct xt_step *s, const struct xt_step_place *from, void *dst, size_t len)
{
	return read_to(s, from, dst, len, false);
}

int xt_step_place_read(struct xt_step *s, const struct xt_step_place *from, void *dst, size_t len,
		       bool *src_failed)
{
	int err = read_to(s, from, dst, len, true);

	*src_failed = err != XT_STEP_ABSENT;
	return err == XT_STEP_ABSENT ? -EFAULT : err;
}
