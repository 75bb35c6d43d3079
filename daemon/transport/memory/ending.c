// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ending.h"
#include "daemon/transport/engine.h"
#include "daemon/transport/qp.h"
#include "access.h"

#define POLLS 64 /* QPs that are resumed in one round */

#define OF_POLL(l) ((struct xt_qp *)((char *)(l)-offsetof(struct xt_qp, ending.poll_link)))

/* ---- polling ------------------------------------------------------------------------------- */

/* All wait for the same time, so the list is in the order of poll_at. */
void xt_ending_poll(struct xt_qp *qp)
{
	struct xt_engine *e = qp->engine;

	if (!xt_list_empty(&qp->ending.poll_link))
		return;
	qp->ending.poll_at = e->now + XT_ENDING_POLL_NS;
	xt_list_add_tail(&e->polls, &qp->ending.poll_link);
}

void xt_ending_run(struct xt_engine *e)
{
	struct xt_qp *qp;

	for (unsigned left = POLLS; left && !xt_list_empty(&e->polls); left--) {
		qp = OF_POLL(e->polls.next);
		if (qp->ending.poll_at > e->now)
			return;
		xt_list_del(&qp->ending.poll_link);
		xt_resume_later(qp);
	}
}

uint64_t xt_ending_next(const struct xt_engine *e)
{
	return xt_list_empty(&e->polls) ? XT_NEVER : OF_POLL(e->polls.next)->ending.poll_at;
}

void xt_ending_stop(struct xt_qp *qp)
{
	xt_list_del(&qp->ending.poll_link);
	qp->ending.key[XT_RESPONDER].region = 0;
	qp->ending.hold_until = 0;
}

/* ---- keys ---------------------------------------------------------------------------------- */

void xt_ending_key_begin(struct xt_ending_key *k, const struct xt_key *region)
{
	const struct xt_mem *mem = region ? region->mem : NULL;

	k->region = 0;
	if (!mem || !mem->ops || !mem->ops->in_use)
		return;
	k->mark = mem->ops->mark(mem);
	k->region = region->index;
}

/* If the region is gone, its deregistration has waited. */
bool xt_ending_key_waits(struct xt_ending_key *k, struct xt_engine *e)
{
	const struct xt_key *region;

	if (__builtin_expect(!k->region, true))
		return false;
	region = xt_keys_by_index(e->shared->keys, k->region);
	if (region && region->mem && region->mem->ops->in_use &&
	    region->mem->ops->in_use(region->mem, k->mark))
		return true;
	k->region = 0;
	return false;
}
