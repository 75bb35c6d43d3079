// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Completion queues: order, arming, moderation, overrun, resizing. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/transport/queue/cq_event.h"
#include "daemon/transport/engine.h"
#include "selftests/lib/resize.h"
#include "selftests/lib/tap.h"

#define DEPTH 8

static unsigned notified, cq_errors;
static struct xt_engine *engine;

static void cq_event(void *ctx, struct xt_cq *cq)
{
	notified++;
}

static void async_event(void *ctx, struct xt_qp *qp, struct xt_cq *cq, uint32_t type)
{
	cq_errors += type == IBV_EVENT_CQ_ERR && cq && !qp;
}

static const struct xt_ops ops = { .cq_event = cq_event, .async_event = async_event };

static struct xr_queue *new_queue(uint32_t depth)
{
	size_t size = sizeof(struct xr_queue) + depth * sizeof(struct xr_cqe);

	return memset(aligned_alloc(XR_CACHELINE, size), 0, size);
}

static int push(struct xt_cq *cq, uint64_t wr_id, uint32_t status, bool solicited)
{
	struct xr_cqe cqe = { .wr_id = wr_id, .status = status };

	return xt_cq_push(&engine->flow, cq, &cqe, solicited);
}

static uint64_t poll_one(struct xr_queue *q, uint32_t depth)
{
	const struct xr_cqe *entries = (const struct xr_cqe *)(q + 1);

	return entries[q->consumer++ & (depth - 1)].wr_id;
}

static void test_order(struct xt_cq *cq, struct xr_queue *q)
{
	uint64_t in = 0, out = 0, wrong = 0;
	unsigned i;

	for (i = 0; i < 1000; i++) {
		wrong += push(cq, in++, IBV_WC_SUCCESS, false) != 0;
		if (q->producer - q->consumer == DEPTH || i % 3 == 0)
			wrong += poll_one(q, DEPTH) != out++;
	}
	while (q->consumer != q->producer)
		wrong += poll_one(q, DEPTH) != out++;
	TAP_OK(!wrong && in == out, "1000 completions pass through 8 entries in order");
}

static void test_arming(struct xt_cq *cq, struct xr_queue *q)
{
	static const struct {
		const char *what;
		uint32_t armed, status;
		bool solicited;
		unsigned events;
		uint32_t left;
	} rows[] = {
		{ "not armed", 0, IBV_WC_SUCCESS, true, 0, 0 },
		{ "any, success", XR_ARM_ANY, IBV_WC_SUCCESS, false, 1, 0 },
		{ "solicited, success", XR_ARM_SOLICITED, IBV_WC_SUCCESS, false, 0,
		  XR_ARM_SOLICITED },
		{ "solicited, solicited success", XR_ARM_SOLICITED, IBV_WC_SUCCESS, true, 1, 0 },
		{ "solicited, error", XR_ARM_SOLICITED, IBV_WC_LOC_LEN_ERR, false, 1, 0 },
		{ "any and solicited, success", XR_ARM_ANY | XR_ARM_SOLICITED, IBV_WC_SUCCESS,
		  false, 1, 0 },
	};
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		notified = 0;
		q->word = rows[i].armed;
		push(cq, 0, rows[i].status, rows[i].solicited);
		TAP_OK(notified == rows[i].events && q->word == rows[i].left, "arming: %s",
		       rows[i].what);
		push(cq, 0, rows[i].status, rows[i].solicited);
		TAP_OK(notified == rows[i].events, "a second event needs another arming");
		q->consumer = q->producer;
	}
	q->word = 0;
}

/* Adds a completion without publishing it. Returns false if there is no room. */
static bool add(struct xt_cq *cq, uint64_t wr_id)
{
	struct xr_cqe *cqe = xt_cq_begin(cq);

	if (!cqe)
		return false;
	*cqe = (struct xr_cqe){ .wr_id = wr_id };
	xt_cq_end(&engine->flow, cq, false);
	return true;
}

static void test_several(void)
{
	struct xr_queue *q = new_queue(DEPTH);
	struct xt_cq cq;
	unsigned n = 0;

	xt_cq_init(&cq, q, DEPTH);
	notified = 0;
	TAP_OK(add(&cq, 1) && add(&cq, 2) && !q->producer, "added completions are not published");
	xt_cq_publish(&cq);
	TAP_OK(q->producer == 2 && poll_one(q, DEPTH) == 1 && poll_one(q, DEPTH) == 2,
	       "they are published together, in order");
	add(&cq, 3);
	q->word = XR_ARM_ANY;
	add(&cq, 4);
	TAP_OK(notified == 1 && q->producer == 4 && !q->word,
	       "if the CQ is armed, the event follows the completions");
	q->consumer = q->producer;
	while (n <= DEPTH && add(&cq, n))
		n++;
	TAP_OK(n == DEPTH && !cq.overrun, "without room none is added");
	TAP_OK(push(&cq, n, IBV_WC_SUCCESS, false) && q->producer == 4 && cq.overrun,
	       "an overrun is found by the next completion");
	cq_errors = 0;
	free(q);
}

/* The CQ is armed while it holds completions. */
static void test_arming_late(void)
{
	/* clang-format off */
	static const struct {
		const char *what;
		uint32_t armed;
		/* numbers of completions, in this order */
		unsigned before, solicited, after, polled;
		unsigned events;
	} rows[] = {
		{ "one unpolled completion", XR_ARM_ANY, 0, 0, 1, 0, 1 },
		{ "some polled, one unpolled", XR_ARM_ANY, 2, 0, 1, 2, 1 },
		{ "all polled", XR_ARM_ANY, 2, 0, 1, 3, 0 },
		{ "none was added", XR_ARM_ANY, 0, 0, 0, 0, 0 },
		{ "not armed", 0, 0, 1, 1, 0, 0 },
		{ "solicited only, none is solicited", XR_ARM_SOLICITED, 3, 0, 3, 0, 0 },
		{ "solicited only, the first is", XR_ARM_SOLICITED, 0, 1, 4, 0, 1 },
		{ "solicited only, the last is", XR_ARM_SOLICITED, 4, 1, 0, 4, 1 },
		{ "solicited only, it was polled", XR_ARM_SOLICITED, 2, 1, 3, 3, 0 },
	};
	/* clang-format on */
	struct xr_queue *q = new_queue(DEPTH);
	struct xt_cq cq;
	unsigned n;
	size_t i;

	xt_cq_init(&cq, q, DEPTH);
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (n = 0; n < rows[i].before; n++)
			push(&cq, 0, IBV_WC_SUCCESS, false);
		for (n = 0; n < rows[i].solicited; n++)
			push(&cq, 0, i % 2 ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS, !(i % 2));
		for (n = 0; n < rows[i].after; n++)
			push(&cq, 0, IBV_WC_SUCCESS, false);
		q->consumer += rows[i].polled;
		q->word = rows[i].armed;
		notified = 0;
		xt_cq_check_armed(&engine->flow, &cq, engine->now);
		xt_cq_check_armed(&engine->flow, &cq, engine->now);
		TAP_OK(notified == rows[i].events && q->word == (notified ? 0 : rows[i].armed),
		       "armed with completions: %s", rows[i].what);
		q->consumer = q->producer;
		q->word = 0;
	}
	free(q);
}

#define US 1000ull

static void moderate(struct xt_cq *cq, uint32_t count, uint32_t period_us)
{
	xt_cq_moderate_off(cq);
	xt_cq_raise_waiting(engine, cq);
	xt_cq_moderate(cq, count, period_us);
}

/* A count of 3 and a period of 50 us */
static void test_moderation(void)
{
	struct xr_queue *q = new_queue(DEPTH);
	struct xt_cq cq;

	xt_cq_init(&cq, q, DEPTH);
	TAP_OK(!xt_cq_moderation_reserve(engine) && xt_engine_run(engine, US) == XT_NEVER,
	       "moderation: an idle CQ sets no timer");
	moderate(&cq, 3, 50);
	notified = 0;
	push(&cq, 0, IBV_WC_SUCCESS, false);
	TAP_OK(!notified && xt_engine_run(engine, 2 * US) == XT_NEVER,
	       "moderation: a CQ that is not armed sets no timer");
	q->consumer = q->producer;
	q->word = XR_ARM_ANY;
	push(&cq, 0, IBV_WC_SUCCESS, false);
	push(&cq, 0, IBV_WC_SUCCESS, false);
	TAP_OK(!notified, "moderation: two of three completions raise no event");
	push(&cq, 0, IBV_WC_SUCCESS, false);
	TAP_OK(notified == 1 && !q->word, "moderation: the third raises the event");
	TAP_OK(xt_engine_run(engine, 100 * US) == XT_NEVER && notified == 1,
	       "moderation: the end of the period raises no second one");

	q->consumer = q->producer;
	q->word = XR_ARM_SOLICITED;
	push(&cq, 0, IBV_WC_SUCCESS, false);
	TAP_OK(xt_engine_run(engine, 101 * US) == XT_NEVER,
	       "moderation: a completion that is not asked for is not counted");
	push(&cq, 0, IBV_WC_SUCCESS, true);
	TAP_OK(xt_engine_run(engine, 150 * US) == 151 * US && notified == 1,
	       "moderation: the period begins with the first completion");
	push(&cq, 0, IBV_WC_SUCCESS, true);
	TAP_OK(xt_engine_run(engine, 151 * US) == XT_NEVER && notified == 2,
	       "moderation: its end raises the event");

	q->consumer = q->producer;
	push(&cq, 0, IBV_WC_SUCCESS, false);
	q->word = XR_ARM_ANY;
	xt_cq_check_armed(&engine->flow, &cq, 155 * US);
	xt_cq_check_armed(&engine->flow, &cq, 156 * US);
	TAP_OK(notified == 2 && xt_engine_run(engine, 160 * US) == 205 * US,
	       "moderation: an unpolled completion begins the period when the CQ is armed");
	push(&cq, 0, IBV_WC_SUCCESS, false);
	push(&cq, 0, IBV_WC_SUCCESS, false);
	TAP_OK(notified == 3, "moderation: unpolled completions count");
	q->word = XR_ARM_ANY;
	xt_cq_check_armed(&engine->flow, &cq, engine->now);
	TAP_OK(notified == 4, "moderation: enough unpolled ones raise the event at once");

	q->consumer = q->producer;
	q->word = XR_ARM_ANY;
	push(&cq, 0, IBV_WC_SUCCESS, false);
	moderate(&cq, 0, 0);
	TAP_OK(notified == 5 && xt_engine_run(engine, 400 * US) == XT_NEVER,
	       "moderation: an event that is held is raised when moderation ends");
	q->word = XR_ARM_ANY;
	q->consumer = q->producer;
	push(&cq, 0, IBV_WC_SUCCESS, false);
	TAP_OK(notified == 6, "moderation: none with count and period 0");
	moderate(&cq, 2, 50);
	q->word = XR_ARM_ANY;
	push(&cq, 0, IBV_WC_SUCCESS, false);
	xt_cq_drop_waiting(engine, &cq);
	TAP_OK(xt_engine_run(engine, 500 * US) == XT_NEVER && notified == 6,
	       "moderation: a CQ that is destroyed leaves no timer");
	xt_cq_moderation_release(engine);
	free(q);
}

static void test_resize(struct xt_cq *cq, struct xr_queue *q)
{
	struct xr_queue *bigger = new_queue(16), *smaller = new_queue(4);
	unsigned i, wrong = 0;

	q->consumer = q->producer;
	for (i = 0; i < 7; i++)
		push(cq, 100 + i, IBV_WC_SUCCESS, false);
	q->word = XR_ARM_ANY;
	TAP_OK(cq_resize(cq, smaller, 4) == -EINVAL, "7 entries do not fit into 4");
	TAP_OK(!cq_resize(cq, bigger, 16), "7 entries fit into 16");
	notified = 0;
	for (; i < 16; i++)
		wrong += push(cq, 100 + i, IBV_WC_SUCCESS, false) != 0;
	TAP_OK(notified == 1, "a resized CQ remains armed");
	for (i = 0; i < 16; i++)
		wrong += poll_one(bigger, 16) != 100 + i;
	TAP_OK(!wrong && bigger->consumer == bigger->producer,
	       "resizing loses and reorders no entry");
	push(cq, 1, IBV_WC_SUCCESS, false);
	TAP_OK(!cq_resize(cq, smaller, 4) && poll_one(smaller, 4) == 1, "1 entry fits into 4");
	TAP_OK(!cq_resize(cq, q, DEPTH), "an empty ring can be resized");
	free(bigger);
	free(smaller);
}

static void test_overrun(struct xt_cq *cq, struct xr_queue *q)
{
	unsigned i, wrong = 0;

	for (i = 0; i < DEPTH; i++)
		wrong += push(cq, i, IBV_WC_SUCCESS, false) != 0;
	TAP_OK(!wrong && !cq->overrun && !cq_errors, "the ring can be filled completely");
	TAP_OK(push(cq, i, IBV_WC_SUCCESS, false) == -ENOSPC && cq->overrun && cq_errors == 1,
	       "one more completion is an overrun");
	q->consumer = q->producer;
	TAP_OK(push(cq, i, IBV_WC_SUCCESS, false) == -ENOSPC && cq_errors == 1,
	       "an overrun CQ stays in error and reports one event");
}

/* With ignore_overrun the oldest completions are overwritten and the CQ stays usable. */
static void test_ignored_overrun(void)
{
	struct xr_queue *q = new_queue(DEPTH), *bigger = new_queue(2 * DEPTH);
	struct xt_cq cq;
	unsigned i, wrong = 0;

	xt_cq_init(&cq, q, DEPTH);
	cq.ignore_overrun = true;
	cq_errors = 0;
	for (i = 0; i < 3 * DEPTH + 2; i++)
		wrong += push(&cq, i, IBV_WC_SUCCESS, false) != 0;
	TAP_OK(!wrong && !cq_errors && !cq.overrun && q->producer == i,
	       "ignore_overrun: an overrun is not an error");
	q->consumer = q->producer - DEPTH;
	for (i = 2 * DEPTH + 2; i < 3 * DEPTH + 2; i++)
		wrong += poll_one(q, DEPTH) != i;
	TAP_OK(!wrong, "ignore_overrun: the latest completions are kept");
	q->consumer = 0;
	TAP_OK(!cq_resize(&cq, bigger, 2 * DEPTH) && bigger->producer == DEPTH &&
		       poll_one(bigger, 2 * DEPTH) == 2 * DEPTH + 2,
	       "ignore_overrun: a larger ring receives the latest completions");
	free(q);
	free(bigger);
}

/* Completions and polls while entries are copied to another ring */
static void test_move(void)
{
	const uint32_t depth = 4096, many = 1500;
	struct xr_queue *from = new_queue(depth), *to = new_queue(2 * depth);
	uint64_t i, wrong = 0, in = 0;
	struct xt_cq_move m;
	struct xt_cq cq;

	xt_cq_init(&cq, from, depth);
	while (in < 20)
		push(&cq, in++, IBV_WC_SUCCESS, false);
	for (i = 0; i < 5; i++)
		wrong += poll_one(from, depth) != i;
	TAP_OK(!wrong && !xt_cq_move_begin(&cq, to, 2 * depth, &m), "a move begins");
	xt_cq_move_copy(&m);
	for (i = 0; i < many; i++)
		push(&cq, in++, IBV_WC_SUCCESS, false);
	wrong += poll_one(from, depth) != 5;
	TAP_OK(xt_cq_move_end(&cq, &m) == -EAGAIN && cq.queue == from,
	       "move_end returns -EAGAIN if too many entries were added since the copy");
	xt_cq_move_copy(&m);
	push(&cq, in++, IBV_WC_SUCCESS, false);
	wrong += poll_one(from, depth) != 6;
	TAP_OK(!xt_cq_move_end(&cq, &m) && cq.queue == to && to->producer - to->consumer == in - 7,
	       "move_end succeeds after another copy");
	push(&cq, in++, IBV_WC_SUCCESS, false);
	for (i = 7; i < in; i++)
		wrong += poll_one(to, 2 * depth) != i;
	TAP_OK(!wrong && to->consumer == to->producer,
	       "a move neither loses, duplicates nor reorders entries");

	TAP_OK(!xt_cq_move_begin(&cq, from, depth, &m), "a move to a smaller ring begins");
	for (i = 0; i < depth + 1; i++)
		push(&cq, in++, IBV_WC_SUCCESS, false);
	TAP_OK(xt_cq_move_end(&cq, &m) == -EINVAL && cq.queue == to,
	       "move_end fails if the entries do not fit");
	to->consumer -= 100;
	TAP_OK(xt_cq_move_end(&cq, &m) == -EINVAL && cq.queue == to,
	       "move_end fails if the consumer index went backwards");
	free(from);
	free(to);
}

static void test_invalid_consumer(void)
{
	struct xr_queue *q = new_queue(DEPTH);
	struct xt_cq cq;
	unsigned i;

	xt_cq_init(&cq, q, DEPTH);
	cq_errors = 0;
	for (i = 0; i < DEPTH; i++)
		push(&cq, i, IBV_WC_SUCCESS, false);
	q->consumer = q->producer + 1000;
	TAP_OK(push(&cq, i, IBV_WC_SUCCESS, false) == -ENOSPC && cq_errors == 1,
	       "a consumer index beyond the producer is an overrun");
	q->consumer = q->producer - 1000;
	TAP_OK(cq_resize(&cq, q, DEPTH) == -EINVAL,
	       "a consumer index too far back makes a resize fail");
	free(q);
}

static bool failed_with(const struct xt_cq *cq, enum xt_cause cause, uint32_t status, uint32_t qpn)
{
	return cq->failure.cause == cause && cq->failure.status == status &&
	       cq->failure.at == engine->now && cq->failed_qpn == qpn;
}

static void push_of(struct xt_cq *cq, uint32_t status, uint32_t qpn, bool is_recv)
{
	const struct xr_cqe cqe = { .status = status, .qpn = qpn, .is_recv = is_recv };

	xt_cq_push(&engine->flow, cq, &cqe, false);
}

/* The counters and the failure of a CQ, which tools show */
static void test_history(void)
{
	struct xr_queue *q = new_queue(DEPTH);
	struct xt_cq cq;

	xt_cq_init(&cq, q, DEPTH);
	engine->now++;
	push_of(&cq, IBV_WC_SUCCESS, 5, false);
	push_of(&cq, IBV_WC_WR_FLUSH_ERR, 6, false);
	TAP_OK(cq.completions == 2 && cq.errors == 1 && cq.failure.cause == XT_CAUSE_NONE,
	       "flushed work requests are counted as errors, and are not the last error");
	push_of(&cq, IBV_WC_LOC_LEN_ERR, 7, true);
	TAP_OK(failed_with(&cq, XT_CAUSE_RECEIVE, IBV_WC_LOC_LEN_ERR, 7), "a failed receive is");
	push_of(&cq, IBV_WC_REM_ACCESS_ERR, 8, false);
	TAP_OK(failed_with(&cq, XT_CAUSE_REQUEST, IBV_WC_REM_ACCESS_ERR, 8),
	       "a failed work request is");
	q->word = XR_ARM_ANY;
	push_of(&cq, IBV_WC_SUCCESS, 5, false);
	push_of(&cq, IBV_WC_SUCCESS, 5, false);
	TAP_OK(cq.events == 1, "events are counted once for each arming");
	while (!cq.overrun)
		push_of(&cq, IBV_WC_SUCCESS, 9, false);
	push_of(&cq, IBV_WC_LOC_PROT_ERR, 10, false);
	TAP_OK(cq.completions == DEPTH && cq.lost == 2 && cq.errors == 4 &&
		       cq.error.cause == XT_CAUSE_COMPLETION && cq.error.qpn == 9 &&
		       failed_with(&cq, XT_CAUSE_COMPLETION, IBV_WC_SUCCESS, 9),
	       "after an overrun, completions are lost, and the overrun stays the last error");
	q->consumer = q->producer;
	xt_cq_init(&cq, q, DEPTH);
	xt_cq_inject(&engine->flow, &cq, 10, false);
	TAP_OK(failed_with(&cq, XT_CAUSE_INJECTED, 0, 10) && cq.error.qpn == 10 && !cq.overrun,
	       "an injected event is noted, and the CQ works on");
	xt_cq_inject(&engine->flow, &cq, 11, true);
	TAP_OK(failed_with(&cq, XT_CAUSE_INJECTED, 0, 11) && !cq.lost && cq.overrun &&
		       cq.error.cause == XT_CAUSE_INJECTED,
	       "an injected error is told from an overrun");
	xt_cq_inject(&engine->flow, &cq, 12, true);
	TAP_OK(cq.error.qpn == 11, "a CQ that has failed does not fail again");
	free(q);
}

int main(void)
{
	struct xt_shared shared = { 0 };
	struct xr_queue *q = new_queue(DEPTH);
	struct xt_cq cq;

	engine = xt_engine_new(&ops, NULL, &shared);
	xt_cq_init(&cq, q, DEPTH);
	test_order(&cq, q);
	test_arming(&cq, q);
	test_several();
	test_arming_late();
	test_moderation();
	test_resize(&cq, q);
	q->consumer = q->producer;
	test_overrun(&cq, q);
	test_ignored_overrun();
	test_move();
	test_invalid_consumer();
	test_history();
	xt_engine_free(engine);
	free(q);
	return tap_end();
}
