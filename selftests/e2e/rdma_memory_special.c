/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Regions that are not simply memory that is there: on demand and what else verbs has */
#include "rdma_memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEMAND (SIDE_ACCESS | IBV_ACCESS_ON_DEMAND)

/* ---- on demand ------------------------ */

static bool odp_has(struct owner *o, uint64_t caps)
{
	struct ibv_device_attr_ex attr = { 0 };

	return !ibv_query_device_ex(o->s.ctx, NULL, &attr) &&
	       (attr.odp_caps.general_caps & caps) == caps;
}

/* An access that cannot be: the request ends with its status, and so does the queue pair. */
static bool faults(struct owner *o, const char *step, int result, int wanted)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = { 0 };

	return expect(o, step, result, wanted) &&
	       (!ibv_query_qp(o->s.qp, &attr, IBV_QP_STATE, &init) || wrong(o, "query QP")) &&
	       (attr.qp_state == IBV_QPS_ERR || wrong(o, "%s: the QP lives on", step)) &&
	       reconnect(o);
}

/* p: a MiB that nobody may touch */
static bool untouchable(struct owner *o, struct ibv_mr *mr, uint8_t *p)
{
	return faults(o, "partner's WRITE", remote(o, ASK_WRITE, mr, p, MIB),
		      IBV_WC_REM_OP_ERR) &&
	       faults(o, "partner's READ", remote(o, ASK_READ, mr, p, MIB), IBV_WC_REM_OP_ERR) &&
	       faults(o, "own WRITE", local(o, IBV_WR_RDMA_WRITE, mr, p, MIB),
		      IBV_WC_LOC_PROT_ERR) &&
	       faults(o, "own READ", local(o, IBV_WR_RDMA_READ, mr, p, MIB), IBV_WC_LOC_PROT_ERR);
}

/* Memory that comes, goes read-only, goes away and comes again, all under one region */
static bool comes_and_goes(struct owner *o, struct ibv_mr *mr, uint8_t *p)
{
	bool ok;

	ok = untouchable(o, mr, p) && !mprotect(p, MIB, RW) && four_ways(o, mr, p, MIB) &&
	     !mprotect(p, MIB, PROT_READ) && remote_read(o, mr, p, MIB, 4) &&
	     faults(o, "WRITE to a read-only page", remote(o, ASK_WRITE, mr, p, MIB),
		    IBV_WC_REM_OP_ERR) &&
	     (holds(p, MIB, 4, 0) || wrong(o, "a read-only page changed"));
	munmap(p, MIB);
	ok = ok && untouchable(o, mr, p);
	return mmap(p, MIB, RW, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == p && ok &&
	       four_ways(o, mr, p, MIB);
}

static bool on_demand(struct owner *o, void *addr, size_t length, uint8_t *p)
{
	struct ibv_mr *mr = reg(o, addr, length, DEMAND);
	bool ok = mr && comes_and_goes(o, mr, p);

	return mr && dereg(o, mr) && ok;
}

static bool test_on_demand(struct owner *o)
{
	uint8_t *p = mmap(NULL, MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool ok;

	if (!odp_has(o, IBV_ODP_SUPPORT))
		return skip(o, "no on-demand paging");
	ok = p != MAP_FAILED && on_demand(o, p, MIB, p);
	munmap(p, MIB);
	return ok;
}

static bool test_implicit(struct owner *o)
{
	uint8_t *p = mmap(NULL, MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), here[5000];
	struct ibv_mr *mr;
	bool ok;

	if (!odp_has(o, IBV_ODP_SUPPORT_IMPLICIT))
		return skip(o, "no implicit on-demand paging");
	ok = p != MAP_FAILED && on_demand(o, NULL, SIZE_MAX, p);
	munmap(p, MIB);
	mr = reg(o, NULL, SIZE_MAX, DEMAND);
	/* whatever else there is: the stack, memory of another region */
	return ok && mr && four_ways(o, mr, here, sizeof(here)) &&
	       four_ways(o, mr, o->s.buf, 100000) && dereg(o, mr);
}

/* ---- the list ------------------------ */

const struct test memory_special[] = {
	{ "on-demand", test_on_demand, "a region on demand, whose memory comes and goes" },
	{ "implicit", test_implicit, "the whole address space on demand" },
	{ 0 },
};
