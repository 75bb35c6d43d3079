// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Naps and yields of programs that poll an empty CQ. */
#include <errno.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#include "provider/base/cancel.h"
#include "provider/base/clock.h"
#include "provider/verbs/cq.h"
#include "provider/verbs/cq_members.h"
#include "provider/verbs/cq_pause.h"
#include "provider/verbs/others.h"

#define FEW_CPUS 4
#define SPINS 256
/*
 * Yields as short as this let no other thread work for long, so naps are not considered in the next
 * empty polls. Reading the clock twice takes a fifth of the time of such a poll.
 */
#define SHORT_YIELD_NS 5000u
#define UNTIMED_POLLS 7
#define NAP_QPS 32 /* whose outstanding send WRs are counted, so that a poll takes no longer */

/* Polls of this thread that have found completions */
static __thread uint32_t found;

static uint64_t cq_pause_ns_of(struct timeval tv)
{
	return tv.tv_sec * XP_NS_PER_S + tv.tv_usec * 1000ull;
}

static struct xp_usage thread_usage(void)
{
	struct rusage r;

	getrusage(RUSAGE_THREAD, &r);
	return (struct xp_usage){ cq_pause_ns_of(r.ru_utime) + cq_pause_ns_of(r.ru_stime),
				  (uint64_t)r.ru_nvcsw };
}

bool xp_few_cpus(void)
{
	static int few = -1;
	int result = __atomic_load_n(&few, __ATOMIC_RELAXED);
	cpu_set_t set;

	if (result < 0) {
		CPU_ZERO(&set);
		result = !sched_getaffinity(0, sizeof(set), &set) && CPU_COUNT(&set) <= FEW_CPUS;
		__atomic_store_n(&few, result, __ATOMIC_RELAXED);
	}
	return result;
}

static void count_sends(const struct xp_ring *sq, struct xp_nap_wrs *wrs)
{
	uint32_t left = xp_ring_left(sq), outstanding = xp_ring_outstanding(sq);

	left = left < outstanding ? left : outstanding;
	wrs->outstanding += outstanding;
	wrs->left += left;
	if (outstanding - left > wrs->executed)
		wrs->executed = outstanding - left;
}

/* Counts the outstanding send WRs of QPs that complete here. Needs cq->lock. */
static struct xp_nap_wrs outstanding_sends(struct xp_cq *cq)
{
	struct xp_nap_wrs wrs = { 0 };
	uint32_t i, qps = 0;
	struct xp_qp *qp;

	for (i = 0; cq->qps && i <= cq->qp_mask && qps < NAP_QPS; i++) {
		for (qp = cq->qps[i]; qp; qp = *xp_cq_chain(qp, cq)) {
			if (qp->ibqp.send_cq == &cq->ibcq)
				count_sends(&qp->sq, &wrs);
			qps++;
		}
	}
	return wrs;
}

static uint32_t send_nap(struct xp_cq *cq, uint64_t now, uint64_t last)
{
	struct xp_nap_wrs wrs;

	if (!xp_nap_possible(&cq->nap, now, last))
		return 0;
	wrs = outstanding_sends(cq);
	return xp_nap_due(&cq->nap, now, &wrs);
}

static void set_idle_polls(struct xp_cq *cq, unsigned int polls)
{
	__atomic_store_n(&cq->idle, polls, __ATOMIC_RELAXED);
}

/* Returns whether the poll may pause. */
static bool may_pause(struct xp_cq *cq)
{
	unsigned int idle = __atomic_load_n(&cq->idle, __ATOMIC_RELAXED) + 1;
	uint64_t until;

	set_idle_polls(cq, idle);
	if (idle <= SPINS && !xp_few_cpus())
		return false;
	if (xp_is_single_threaded())
		return true;
	xp_others_note();
	until = __atomic_load_n(&cq->no_pause_until, __ATOMIC_RELAXED);
	return !until || xp_clock() >= until;
}

struct xp_pause xp_pause_due(struct xp_cq *cq)
{
	unsigned int untimed = __atomic_load_n(&cq->untimed, __ATOMIC_RELAXED);
	struct xp_pause p = { .yield = may_pause(cq) };
	uint64_t last;

	if (!p.yield || cq->flushing || (!xp_few_cpus() && xp_is_single_threaded()))
		return p;
	if (untimed) {
		__atomic_store_n(&cq->untimed, untimed - 1, __ATOMIC_RELAXED);
		return p;
	}
	p.now = xp_clock();
	if (!xp_is_single_threaded())
		xp_others_before(p.now);
	if (!xp_few_cpus())
		return p;
	last = __atomic_load_n(&cq->polled, __ATOMIC_RELAXED);
	p.nap = send_nap(cq, p.now, last);
	if (!p.nap)
		p.nap = xp_recv_nap_due(&cq->recv_nap, p.now, last);
	if (!p.nap)
		p.nap = xp_wait_nap_due(&cq->wait, p.now, found, thread_usage);
	return p;
}

void xp_poll_found(struct xp_cq *cq)
{
	found++;
	set_idle_polls(cq, 0);
}

static void sleep_for_nap(uint32_t ns)
{
	struct timespec ts = { .tv_nsec = ns };
	int cancel = xp_cancel_off(), saved = errno;

	nanosleep(&ts, NULL); /* a signal ends it early */
	errno = saved;
	xp_cancel_restore(cancel);
}

void xp_pause(struct xp_cq *cq, const struct xp_pause *p)
{
	uint64_t end;

	if (!p->yield)
		return;
	if (p->nap)
		sleep_for_nap(p->nap);
	else
		sched_yield();
	if (!p->now)
		return;
	end = xp_clock();
	__atomic_store_n(&cq->polled, end, __ATOMIC_RELAXED);
	/* Beside other threads each pause is timed: one may last for many time slices. */
	if (!xp_is_single_threaded()) {
		if (xp_others_waited(end))
			__atomic_store_n(&cq->no_pause_until, end + XP_OTHERS_HOLD_NS,
					 __ATOMIC_RELAXED);
	} else if (end - p->now < SHORT_YIELD_NS) {
		__atomic_store_n(&cq->untimed, UNTIMED_POLLS, __ATOMIC_RELAXED);
	}
}
