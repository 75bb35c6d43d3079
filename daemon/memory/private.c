// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Private segments, accessed by the mover of the client's process; absent pages of mapped ones. */
#include <sys/eventfd.h>

#include <xroce/ring.h>

#include "mover.h"
#include "region.h"

struct xd_proc *xd_mem_proc(const struct xd_mem *mem)
{
	if (mem->proc || !mem->current)
		return mem->proc;
	return __atomic_load_n(mem->current, __ATOMIC_ACQUIRE);
}

static struct xd_mover *mover_of(const struct xt_mem *mem)
{
	return xd_proc_mover(xd_mem_proc((const struct xd_mem *)mem));
}

static struct xt_mem_io *private_io_new(struct xt_mem *mem, void *engine_ctx, uint32_t len,
					struct xt_mem_pool **pool)
{
	struct xd_mover *mover = mover_of(mem);
	struct xt_mem_io *io;

	*pool = NULL;
	if (!mover)
		return NULL;
	io = xd_mover_io_new(mover, engine_ctx, len, pool);
	if (io)
		io->ops = mem->ops;
	return io;
}

/* An atomic is within one piece. */
static void submit_parts(struct xt_mem_io *io, bool check)
{
	struct xt_mem_piece part[XR_GROUP_PIECES];
	uint32_t n = xt_mem_parts(io->seg, io->off, io->len, part);

	if (n == 1)
		xd_mover_io_submit(io, part[0].addr, check);
	else
		xd_mover_io_submit_parts(io, part, n, check);
}

static void private_io_submit(struct xt_mem_io *io)
{
	const struct xd_mem *mem = (const struct xd_mem *)io->mem;

	if (__builtin_expect(io->seg->pieces, 0))
		submit_parts(io, mem->checked);
	else
		xd_mover_io_submit(io, io->seg->addr + io->off, mem->checked);
}

static uint32_t private_mark(const struct xt_mem *mem)
{
	return xd_mover_mark(mover_of(mem));
}

static bool private_in_use(const struct xt_mem *mem, uint32_t mark)
{
	return xd_mover_in_use(mover_of(mem), mem, mark);
}

void xd_mem_absent(const struct xd_mem *mem)
{
	struct xd_absent *a = mem->absent;

	if (a && !__atomic_exchange_n(&a->seen, true, __ATOMIC_RELAXED))
		eventfd_write(a->wake_fd, 1);
}

static void private_absent(struct xt_mem *mem)
{
	xd_mem_absent((struct xd_mem *)mem);
}

const struct xt_mem_ops xd_private_ops = {
	.io_new = private_io_new,
	.io_submit = private_io_submit,
	.io_free = xd_mover_io_free,
	.io_cancel = xd_mover_io_cancel,
	.mark = private_mark,
	.in_use = private_in_use,
	.absent = private_absent,
};

/* An integrity region is accessed by its pieces in other regions, see integrity.h. */
const struct xt_mem_ops xd_integrity_ops = {
	.mark = private_mark,
	.in_use = private_in_use,
};
