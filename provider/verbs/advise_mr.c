// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * ibv_advise_mr(): the daemon checks the ranges and returns their addresses. The provider then lets
 * the kernel populate the pages.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "provider/base/debug.h"
#include "provider/verbs/mr.h"
#include "provider/verbs/pd.h"
#include "provider/verbs/request.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

/* Gets the addresses of at most XR_ADVISE_MAX ranges. */
static int query_ranges(struct ibv_pd *pd, bool write, const struct ibv_sge *sge, uint32_t n,
			uint64_t *addr)
{
	struct {
		struct xr_advise_mr_req head;
		struct xr_sge range[XR_ADVISE_MAX];
	} req = { .head = { .pd = xp_own_pd(pd)->ibpd.handle, .write = write, .ranges = n } };
	struct {
		struct xr_advise_mr_rep head;
		uint64_t addr[XR_ADVISE_MAX];
	} rep;
	uint32_t i;
	int err;

	for (i = 0; i < n; i++)
		req.range[i] = (struct xr_sge){ sge[i].addr, sge[i].length, sge[i].lkey };
	err = xp_request(xp_own_pd(pd)->ctx, XR_MSG_ADVISE_MR, &req,
			 sizeof(req.head) + n * sizeof(req.range[0]), &rep, sizeof(rep));
	if (!err)
		memcpy(addr, rep.addr, n * sizeof(*addr));
	return err;
}

/*
 * Populates a range. An old kernel and some kinds of mappings do not support that; then pages are
 * fetched when they are used.
 */
static int prefetch(uint64_t addr, uint32_t length, bool write)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start = addr & -page;
	uint64_t end = (addr + length + page - 1) & -page;

	if (!length ||
	    !madvise((void *)start, end - start, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
		return 0;
	if (errno == EINVAL || errno == EAGAIN)
		return 0;
	return xp_refuse("ibv_advise_mr", EFAULT, "memory at 0x%llx, length %u: %s",
			 (unsigned long long)addr, length, strerror(errno));
}

/* Errors are returned only with IBV_ADVISE_MR_FLAG_FLUSH: without it programs do not wait. */
static int prefetch_all(const struct ibv_sge *sge, uint32_t n, const uint64_t *addr, bool write,
			bool flush)
{
	uint32_t i;
	int err = 0;

	for (i = 0; i < n && !err; i++) {
		err = prefetch(addr[i], sge[i].length, write);
		if (!flush)
			err = 0;
	}
	return err;
}

int xp_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		 struct ibv_sge *sge, uint32_t n)
{
	bool write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	uint32_t at, some;
	uint64_t *addr;
	int err = 0;

	if (advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return -xp_refuse("ibv_advise_mr", EOPNOTSUPP, "advice %d", (int)advice);
	if (flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH || !n)
		return -xp_refuse("ibv_advise_mr", EINVAL, "flags 0x%x, %u ranges; known 0x%x",
				  flags, n, IBV_ADVISE_MR_FLAG_FLUSH);
	addr = calloc(n, sizeof(*addr));
	if (!addr)
		return -xp_refuse_memory("ibv_advise_mr");
	for (at = 0; at < n && !err; at += some) {
		some = n - at < XR_ADVISE_MAX ? n - at : XR_ADVISE_MAX;
		err = query_ranges(pd, write, sge + at, some, addr + at);
	}
	/* PREFETCH_NO_FAULT: pages that are present need no preparation. */
	if (!err && advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		err = prefetch_all(sge, n, addr, write, flags & IBV_ADVISE_MR_FLAG_FLUSH);
	free(addr);
	return -err;
}
