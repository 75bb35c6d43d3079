// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * ibv_advise_mr: the daemon says whether the ranges may be fetched and where they lie; fetching
 * them is done here, by the kernel.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "provider/provider.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* since Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

/* Where each of up to XR_ADVISE_MAX ranges lies */
static int ask_ranges(struct ibv_pd *pd, bool write, const struct ibv_sge *sge, uint32_t n,
		      uint64_t *addr)
{
	struct {
		struct xr_advise_mr_req head;
		struct xr_sge range[XR_ADVISE_MAX];
	} req = { .head = { .pd = pd->handle, .write = write, .ranges = n } };
	struct {
		struct xr_advise_mr_rep head;
		uint64_t addr[XR_ADVISE_MAX];
	} rep;
	uint32_t i;
	int err;

	for (i = 0; i < n; i++)
		req.range[i] = (struct xr_sge){ sge[i].addr, sge[i].length, sge[i].lkey };
	err = xp_request(xp_ctx(pd->context), XR_MSG_ADVISE_MR, &req,
			 sizeof(req.head) + n * sizeof(req.range[0]), &rep, sizeof(rep));
	if (!err)
		memcpy(addr, rep.addr, n * sizeof(*addr));
	return err;
}

/* What the kernel cannot populate, for its age or the mapping's kind, comes when it is used. */
static int fetch(uint64_t addr, uint32_t length, bool write)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start = addr & -page;
	uint64_t end = (addr + length + page - 1) & -page;

	if (!length ||
	    !madvise((void *)start, end - start, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
		return 0;
	return errno == EINVAL || errno == EAGAIN ? 0 : -EFAULT;
}

/* Without IBV_ADVISE_MR_FLAG_FLUSH nobody waits for the result, so it is not told. */
static int fetch_all(const struct ibv_sge *sge, uint32_t n, const uint64_t *addr, bool write,
		     bool flush)
{
	uint32_t i;
	int err = 0;

	for (i = 0; i < n && !err; i++) {
		err = fetch(addr[i], sge[i].length, write);
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
		return EOPNOTSUPP;
	if (flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH || !n)
		return EINVAL;
	addr = calloc(n, sizeof(*addr));
	if (!addr)
		return ENOMEM;
	for (at = 0; at < n && !err; at += some) {
		some = n - at < XR_ADVISE_MAX ? n - at : XR_ADVISE_MAX;
		err = ask_ranges(pd, write, sge + at, some, addr + at);
	}
	/* The daemon reaches what is present by its address: there is nothing more to prepare. */
	if (!err && advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		err = fetch_all(sge, n, addr, write, flags & IBV_ADVISE_MR_FLAG_FLUSH);
	free(addr);
	return -err;
}
