// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Memory that is not mapped. Its accesses finish in world_run(), or later if w->slow is set. */
#include "world.h"

#include <errno.h>

struct fuzz_io {
	struct xt_mem_io io;
	struct world *w;
	struct fuzz_io *next;
	uint8_t *target;
	uint8_t data[];
};

static struct xt_mem_io *io_new(struct xt_mem *mem, void *ctx, uint32_t len,
				struct xt_mem_pool **pool)
{
	struct world *w = ctx;
	struct fuzz_io *f;

	MUST(len && len <= XT_MEM_IO_MAX);
	*pool = &w->pool;
	if (w->no_staging)
		return NULL;
	f = calloc(1, sizeof(*f) + len);
	MUST(f);
	f->w = w;
	f->io.ops = mem->ops;
	f->io.pool = *pool;
	f->io.data = f->data;
	f->io.len = len;
	w->accesses++;
	return &f->io;
}

static void io_submit(struct xt_mem_io *io)
{
	struct fuzz_io *f = (struct fuzz_io *)io, **p = &f->w->io;

	MUST(!io->seg->ptr || io->seg->addressed);
	MUST(io->off <= io->seg->len && io->len <= io->seg->len - io->off);
	MUST(io->op == XT_MEM_READ || io->seg->writable);
	f->target = (uint8_t *)(uintptr_t)io->seg->addr + io->off;
	while (*p)
		p = &(*p)->next;
	*p = f;
}

static void unlink_io(struct fuzz_io *f)
{
	struct fuzz_io **p = &f->w->io;

	while (*p && *p != f)
		p = &(*p)->next;
	if (*p)
		*p = f->next;
}

static void io_free(struct xt_mem_io *io)
{
	struct fuzz_io *f = (struct fuzz_io *)io;

	unlink_io(f);
	f->w->accesses--;
	free(f);
}

/* Every other access is being executed. */
static bool io_cancel(struct xt_mem_io *io)
{
	return ((struct fuzz_io *)io)->w->accesses % 2;
}

const struct xt_mem_ops tier_ops = {
	.io_new = io_new,
	.io_submit = io_submit,
	.io_free = io_free,
	.io_cancel = io_cancel,
};

static void take_effect(struct fuzz_io *f)
{
	struct xt_mem_io *io = &f->io;
	uint64_t value;

	switch (io->op) {
	case XT_MEM_READ:
		memcpy(io->data, f->target, io->len);
		return;
	case XT_MEM_WRITE:
		memcpy(f->target, io->data, io->len);
		return;
	}
	memcpy(&io->old, f->target, sizeof(io->old));
	value = io->op == XT_MEM_FETCH_ADD ? io->old + io->value : io->value;
	if (io->op != XT_MEM_CMP_SWAP || io->old == io->compare)
		memcpy(f->target, &value, sizeof(value));
}

void world_finish(struct world *w, unsigned n, bool fail)
{
	struct fuzz_io *f;

	for (; n && (f = w->io); n--) {
		unlink_io(f);
		if (!fail && f->io.mem->length)
			take_effect(f);
		xt_mem_io_done(w->engine, &f->io, fail || !f->io.mem->length ? -EFAULT : 0);
	}
	if (!w->no_staging)
		xt_mem_io_room(w->engine, &w->pool);
}
