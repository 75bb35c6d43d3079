// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "reads.h"

#include <errno.h>

#include <xroce/probes.h>

#include "daemon/transport/base/bytes.h"
#include "daemon/transport/qp.h"

/* Most bytes that a QP reads for later messages, but for the last of these */
#define AHEAD_BYTES (3u * XT_MEM_IO_MAX)

/* ---- reading ahead ----------------------------------------------------------------------- */

/*
 * Takes over what was read ahead for a work request or READ. Gives up what was read for earlier
 * ones.
 */
static void reads_take_over(struct xt_reads *r, struct xt_reads *ahead, uint32_t item)
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
		xt_list_add_tail(&r->io, &io->link);
		io->reads = r;
		/* the first use of a chunk starts to read the next one */
		io->ahead = r->read_end > io->at + io->len;
		r->used = true;
	}
}

static void begin_item(struct xt_reads *r, uint32_t item, uint64_t read_end)
{
	struct xt_reads *ahead = xt_reads_ahead_of(r);

	r->read_end = read_end;
	if (r->item == item)
		return;
	r->item = item;
	xt_reads_end(r);
	if (ahead->used)
		reads_take_over(r, ahead, item);
}

void xt_reads_fetch(struct xt_reads *r, uint32_t item, uint32_t psn, uint64_t read_end)
{
	begin_item(r, item, read_end);
	r->pass = psn;
}

void xt_reads_take_over(struct xt_reads *r, uint32_t item)
{
	begin_item(r, item, 0);
}

bool xt_reads_look_ahead(struct xt_reads *ahead, uint32_t item, uint32_t end)
{
	bool send = ahead->what == XT_READS_SEND_AHEAD;

	if (!xt_list_empty(
		    &ahead->qp->accesses.reads[send ? XT_READS_SEND : XT_READS_RESPOND].room.link))
		return false;
	/* nothing was read yet or it was given up, or the QP went back for a retry or was reset */
	if (!ahead->used || xt_diff(ahead->item, item) <= 0 || xt_diff(ahead->item, end) > 0) {
		xt_reads_end(ahead);
		ahead->item = item + 1;
	}
	return true;
}

bool xt_reads_all(const struct xt_reads *r, uint32_t item)
{
	const struct xt_list *l;

	for (l = r->io.next; l != &r->io && r->item == item; l = l->next)
		if (XT_IO_OF(l)->at + XT_IO_OF(l)->len >= r->read_end)
			return true;
	return false;
}

bool xt_reads_may_fetch(const struct xt_reads *ahead, uint32_t end)
{
	const struct xt_list *l;
	uint32_t bytes = 0;

	for (l = ahead->io.next; l != &ahead->io; l = l->next)
		bytes += XT_IO_OF(l)->len;
	return xt_diff(ahead->item, end) < 0 && bytes < AHEAD_BYTES;
}

/* ---- reading ----------------------------------------------------------------------------- */

/* Returns a read that has len bytes at an offset of a region. */
static struct xt_mem_io *find_read(struct xt_reads *r, const struct xt_mem *mem, uint64_t at,
				   uint64_t len)
{
	struct xt_mem_io *io;
	struct xt_list *l;

	for (l = r->io.next; l != &r->io; l = l->next) {
		io = XT_IO_OF(l);
		if (io->mem == mem && at >= io->at && at - io->at < io->len &&
		    len <= io->len - (at - io->at))
			return io;
	}
	return NULL;
}

/* Frees the chunks that no later packet needs: used before, but not by this packet. */
static void free_passed(struct xt_reads *r)
{
	struct xt_list *l = r->io.next;
	struct xt_mem_io *io;

	while (l != &r->io) {
		io = XT_IO_OF(l);
		l = l->next;
		if (r->read_end && io->done && !io->ahead && io->pass != r->pass)
			xt_io_free(io);
	}
}

/* Starts to read bytes of a segment. */
static void reads_start(struct xt_reads *r, struct xt_mem_io *io, const struct xt_mem_place *p)
{
	io->reads = r;
	io->pass = r->pass;
	r->used = true;
	xt_list_add_tail(&r->io, &io->link);
	xt_io_submit(io, XT_MEM_READ, p->seg, p->off - p->seg->off);
}

/* Returns the bytes from a place on that may be read at once. */
static uint32_t reads_chunk(const struct xt_reads *r, const struct xt_mem_place *p, uint64_t len)
{
	uint64_t end = p->off + len, seg_end = p->seg->off + p->seg->len;

	if (r->read_end > end)
		end = seg_end < r->read_end ? seg_end : r->read_end;
	return end - p->off < XT_MEM_IO_MAX ? (uint32_t)(end - p->off) : XT_MEM_IO_MAX;
}

/* Starts to read the next chunk, unless there is no room or it is being read. */
static void reads_read_ahead(struct xt_reads *r, const struct xt_mem_place *p)
{
	struct xt_mem_pool *pool;
	struct xt_mem_io *io;

	if (p->off >= r->read_end || p->off >= p->seg->off + p->seg->len ||
	    !xt_list_empty(&r->room.link) || find_read(r, p->mem, p->off, 1))
		return;
	free_passed(r);
	io = xt_io_try_new(r->qp, p->mem, reads_chunk(r, p, 0), &pool);
	if (!io)
		return;
	io->ahead = true;
	reads_start(r, io, p);
}

bool xt_reads_fetch_ahead(struct xt_reads *ahead, uint32_t item, const struct xt_mem_place *from,
			  uint32_t len)
{
	struct xt_mem_pool *pool;
	struct xt_mem_io *io = xt_io_try_new(ahead->qp, from->mem, len, &pool);

	if (!io)
		return false;
	if (!xt_list_empty(&io->pool->rooms)) {
		io->ops->io_free(io);
		return false;
	}
	io->ahead = true;
	io->item = item;
	reads_start(ahead, io, from);
	return true;
}

static void use_read(struct xt_reads *r, struct xt_mem_io *io)
{
	io->pass = r->pass;
	io->ahead = false;
	/* others must not take it before the QP's turn ends */
	xt_list_del(&io->kept_link);
}

uint8_t *xt_reads_peek(struct xt_reads *r, const struct xt_mem *mem, uint64_t off, uint64_t len)
{
	struct xt_mem_io *io = find_read(r, mem, off, len);

	if (!io || !io->done || io->err || io->ahead)
		return NULL;
	use_read(r, io);
	return io->data + (off - io->at);
}

int xt_reads_wait(struct xt_reads *r)
{
	if (!r->waits)
		XR_PROBE2(memory_wait, r->qp->info.qpn, r->what);
	r->used = r->waits = true;
	return -EINPROGRESS;
}

/*
 * Returns the read that has the byte at a place, which it starts if need be. len: bytes that the
 * caller needs.
 */
static struct xt_mem_io *reads_read_at(struct xt_reads *r, const struct xt_mem_place *p,
				       uint64_t len, int *err)
{
	struct xt_mem_io *io = find_read(r, p->mem, p->off, 1);

	if (!io) {
		free_passed(r);
		io = xt_io_new(&r->room, r->qp, r, p->mem, reads_chunk(r, p, len), err);
		if (!io) {
			if (*err == -EINPROGRESS)
				xt_reads_wait(r);
			return NULL;
		}
		reads_start(r, io, p);
	}
	use_read(r, io);
	return io;
}

const uint8_t *xt_reads_bytes(struct xt_reads *r, const struct xt_mem_place *from, uint64_t *len,
			      int *err)
{
	struct xt_mem_io *io = reads_read_at(r, from, *len, err);
	struct xt_mem_place next = *from;
	uint64_t skip;

	if (!io)
		return NULL;
	skip = from->off - io->at;
	if (io->len - skip < *len)
		*len = io->len - skip;
	next.off = io->at + io->len;
	reads_read_ahead(r, &next);
	*err = io->done ? io->err : xt_reads_wait(r);
	return *err ? NULL : io->data + skip;
}

/* All chunks are started before the first is waited for. */
int xt_reads_copy(struct xt_reads *r, const struct xt_mem_place *from, void *dst, size_t len)
{
	struct xt_mem_place p = *from;
	uint8_t *to = dst;
	const uint8_t *bytes;
	int err, result = 0;
	uint64_t n;

	for (; len; p.off += n, to += n, len -= n) {
		n = len;
		bytes = xt_reads_bytes(r, &p, &n, &err);
		if (bytes && !result)
			xt_copy(to, bytes, n);
		if (!bytes && err != -EINPROGRESS)
			return err;
		result = bytes ? result : err;
	}
	return result;
}
