// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * QP states: all transitions with each attribute required, optional or not allowed, for each QP
 * type; limits of attribute values; QP numbers and their reuse.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/transport/transport.h"
#include "selftests/lib/tap.h"

#define DEPTH 4

static struct xr_psn_entry psns[2048];
static uint32_t qp_type = XR_QPT_RC; /* of new QPs */
static struct xt_ahs *ahs;
static struct xt_shared shared;
static struct xt_engine *engine;
static struct xt_cq cq;
static unsigned events[32], state_calls;

static bool tx_get(void *ctx, uint32_t len, struct xt_frame *frame)
{
	return false;
}

static void tx_put(void *ctx, struct xt_frame *frame)
{
}

static void cq_event(void *ctx, struct xt_cq *c)
{
}

static void async_event(void *ctx, struct xt_qp *qp, struct xt_cq *c, uint32_t type)
{
	events[type]++;
}

static void qp_state(void *ctx, struct xt_qp *qp)
{
	state_calls++;
}

static const struct xt_ops ops = {
	.tx_get = tx_get,
	.tx_put = tx_put,
	.cq_event = cq_event,
	.async_event = async_event,
	.qp_state = qp_state,
};

static struct xr_queue *new_ring(uint32_t depth, uint32_t stride)
{
	return aligned_alloc(XR_CACHELINE,
			     (sizeof(struct xr_queue) + (size_t)depth * stride + 63) & ~63ul);
}

static struct xt_qp_init init_for(struct xr_queue *sq, struct xr_queue *rq)
{
	return (struct xt_qp_init){
		.type = qp_type,
		.pd = 1,
		.ahs = ahs,
		.send_cq = &cq,
		.recv_cq = &cq,
		.sq = sq,
		.rq = rq,
		.sq_depth = DEPTH,
		.rq_depth = DEPTH,
		.sq_stride = xr_send_stride(1, 0),
		.rq_stride = xr_recv_stride(1),
		.max_send_sge = 1,
		.max_recv_sge = 1,
		.psns = psns,
	};
}

static struct xr_queue *sq_ring, *rq_ring;

static struct xt_qp *new_qp(void)
{
	struct xt_qp_init init;
	struct xt_qp *qp;

	if (!sq_ring) {
		sq_ring = new_ring(DEPTH, xr_send_stride(1, 0));
		rq_ring = new_ring(DEPTH, xr_recv_stride(1));
	}
	memset(sq_ring, 0, sizeof(*sq_ring));
	memset(rq_ring, 0, sizeof(*rq_ring));
	init = init_for(sq_ring, rq_ring);
	return xt_qp_create(engine, &init, &qp) ? NULL : qp;
}

/* ---- transitions --------------------------------------------------------- */

/* In the order of enum ibv_qp_attr_mask, without IBV_QP_STATE */
static const struct {
	uint32_t bit;
	const char *name;
} attributes[] = {
	{ IBV_QP_CUR_STATE, "cur_state" },
	{ IBV_QP_EN_SQD_ASYNC_NOTIFY, "sqd_notify" },
	{ IBV_QP_ACCESS_FLAGS, "access" },
	{ IBV_QP_PKEY_INDEX, "pkey" },
	{ IBV_QP_PORT, "port" },
	{ IBV_QP_QKEY, "qkey" },
	{ IBV_QP_AV, "av" },
	{ IBV_QP_PATH_MTU, "mtu" },
	{ IBV_QP_TIMEOUT, "timeout" },
	{ IBV_QP_RETRY_CNT, "retry" },
	{ IBV_QP_RNR_RETRY, "rnr" },
	{ IBV_QP_RQ_PSN, "rq_psn" },
	{ IBV_QP_MAX_QP_RD_ATOMIC, "rd" },
	{ IBV_QP_ALT_PATH, "alt" },
	{ IBV_QP_MIN_RNR_TIMER, "min_rnr" },
	{ IBV_QP_SQ_PSN, "sq_psn" },
	{ IBV_QP_MAX_DEST_RD_ATOMIC, "dest_rd" },
	{ IBV_QP_PATH_MIG_STATE, "mig" },
	{ IBV_QP_CAP, "cap" },
	{ IBV_QP_DEST_QPN, "dest" },
	{ IBV_QP_RATE_LIMIT, "rate" },
};
#define ATTRIBUTES (sizeof(attributes) / sizeof(attributes[0]))

/* IBTA table 91, as implemented by Linux */
struct row {
	uint32_t from, to;
	const char *required, *optional;
};

static const struct row rc_rows[] = {
	{ XR_QPS_RESET, XR_QPS_RESET, "", "" },
	{ XR_QPS_RESET, XR_QPS_INIT, "pkey port access", "" },
	{ XR_QPS_INIT, XR_QPS_RESET, "", "" },
	{ XR_QPS_INIT, XR_QPS_INIT, "", "pkey port access" },
	{ XR_QPS_INIT, XR_QPS_RTR, "av mtu dest rq_psn dest_rd min_rnr", "alt access pkey" },
	{ XR_QPS_INIT, XR_QPS_ERR, "", "" },
	{ XR_QPS_RTR, XR_QPS_RESET, "", "" },
	{ XR_QPS_RTR, XR_QPS_RTS, "timeout retry rnr sq_psn rd",
	  "cur_state alt access min_rnr mig rate" },
	{ XR_QPS_RTR, XR_QPS_ERR, "", "" },
	{ XR_QPS_RTS, XR_QPS_RESET, "", "" },
	{ XR_QPS_RTS, XR_QPS_RTS, "", "cur_state alt access min_rnr mig rate" },
	{ XR_QPS_RTS, XR_QPS_SQD, "", "sqd_notify" },
	{ XR_QPS_RTS, XR_QPS_ERR, "", "" },
	{ XR_QPS_SQD, XR_QPS_RESET, "", "" },
	{ XR_QPS_SQD, XR_QPS_RTS, "", "cur_state alt access min_rnr mig rate" },
	{ XR_QPS_SQD, XR_QPS_SQD, "",
	  "port av timeout retry rnr rd dest_rd alt access pkey min_rnr mig" },
	{ XR_QPS_SQD, XR_QPS_ERR, "", "" },
	{ XR_QPS_ERR, XR_QPS_RESET, "", "" },
	{ XR_QPS_ERR, XR_QPS_ERR, "", "" },
	{ 0 },
};

static const struct row uc_rows[] = {
	{ XR_QPS_RESET, XR_QPS_RESET, "", "" },
	{ XR_QPS_RESET, XR_QPS_INIT, "pkey port access", "" },
	{ XR_QPS_INIT, XR_QPS_RESET, "", "" },
	{ XR_QPS_INIT, XR_QPS_INIT, "", "pkey port access" },
	{ XR_QPS_INIT, XR_QPS_RTR, "av mtu dest rq_psn", "alt access pkey" },
	{ XR_QPS_INIT, XR_QPS_ERR, "", "" },
	{ XR_QPS_RTR, XR_QPS_RESET, "", "" },
	{ XR_QPS_RTR, XR_QPS_RTS, "sq_psn", "cur_state alt access mig rate" },
	{ XR_QPS_RTR, XR_QPS_ERR, "", "" },
	{ XR_QPS_RTS, XR_QPS_RESET, "", "" },
	{ XR_QPS_RTS, XR_QPS_RTS, "", "cur_state alt access mig rate" },
	{ XR_QPS_RTS, XR_QPS_SQD, "", "sqd_notify" },
	{ XR_QPS_RTS, XR_QPS_ERR, "", "" },
	{ XR_QPS_SQD, XR_QPS_RESET, "", "" },
	{ XR_QPS_SQD, XR_QPS_RTS, "", "cur_state alt access mig rate" },
	{ XR_QPS_SQD, XR_QPS_SQD, "", "av alt access pkey mig" },
	{ XR_QPS_SQD, XR_QPS_ERR, "", "" },
	{ XR_QPS_SQE, XR_QPS_RESET, "", "" },
	{ XR_QPS_SQE, XR_QPS_RTS, "", "cur_state access" },
	{ XR_QPS_SQE, XR_QPS_ERR, "", "" },
	{ XR_QPS_ERR, XR_QPS_RESET, "", "" },
	{ XR_QPS_ERR, XR_QPS_ERR, "", "" },
	{ 0 },
};

static const struct row ud_rows[] = {
	{ XR_QPS_RESET, XR_QPS_RESET, "", "" },
	{ XR_QPS_RESET, XR_QPS_INIT, "pkey port qkey", "" },
	{ XR_QPS_INIT, XR_QPS_RESET, "", "" },
	{ XR_QPS_INIT, XR_QPS_INIT, "", "pkey port qkey" },
	{ XR_QPS_INIT, XR_QPS_RTR, "", "pkey qkey" },
	{ XR_QPS_INIT, XR_QPS_ERR, "", "" },
	{ XR_QPS_RTR, XR_QPS_RESET, "", "" },
	{ XR_QPS_RTR, XR_QPS_RTS, "sq_psn", "cur_state qkey rate" },
	{ XR_QPS_RTR, XR_QPS_ERR, "", "" },
	{ XR_QPS_RTS, XR_QPS_RESET, "", "" },
	{ XR_QPS_RTS, XR_QPS_RTS, "", "cur_state qkey rate" },
	{ XR_QPS_RTS, XR_QPS_SQD, "", "sqd_notify" },
	{ XR_QPS_RTS, XR_QPS_ERR, "", "" },
	{ XR_QPS_SQD, XR_QPS_RESET, "", "" },
	{ XR_QPS_SQD, XR_QPS_RTS, "", "cur_state qkey rate" },
	{ XR_QPS_SQD, XR_QPS_SQD, "", "pkey qkey" },
	{ XR_QPS_SQD, XR_QPS_ERR, "", "" },
	{ XR_QPS_SQE, XR_QPS_RESET, "", "" },
	{ XR_QPS_SQE, XR_QPS_RTS, "", "cur_state qkey" },
	{ XR_QPS_SQE, XR_QPS_ERR, "", "" },
	{ XR_QPS_ERR, XR_QPS_RESET, "", "" },
	{ XR_QPS_ERR, XR_QPS_ERR, "", "" },
	{ 0 },
};

static const struct row *find_row(uint32_t from, uint32_t to)
{
	const struct row *row = qp_type == XR_QPT_RC   ? rc_rows
				: qp_type == XR_QPT_UC ? uc_rows
						       : ud_rows;

	for (; row->required; row++)
		if (row->from == from && row->to == to)
			return row;
	return NULL;
}

static uint32_t mask_of(const char *names)
{
	uint32_t mask = 0;
	char list[128], *name, *rest = list;
	size_t i;

	snprintf(list, sizeof(list), "%s", names);
	while ((name = strsep(&rest, " ")))
		for (i = 0; i < ATTRIBUTES; i++)
			if (!strcmp(attributes[i].name, name))
				mask |= attributes[i].bit;
	return mask;
}

static struct xr_qp_attr good_attr(uint32_t to, uint32_t now)
{
	return (struct xr_qp_attr){
		.qp_state = to,
		.cur_qp_state = now,
		.path_mtu = IBV_MTU_1024,
		.path_mig_state = IBV_MIG_MIGRATED,
		.port_num = 1,
		.dest_qp_num = 5,
		.timeout = 14,
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.ah = { .is_global = 1, .port_num = 1 },
	};
}

static int modify(struct xt_qp *qp, const struct xr_qp_attr *attr, uint32_t mask)
{
	static const struct xt_path path = { .ip_version = 4, .hop_limit = 64 };

	return xt_qp_modify(qp, attr, mask, mask & IBV_QP_AV ? &path : NULL, 4096, 1);
}

static int move(struct xt_qp *qp, uint32_t to)
{
	uint32_t from = xt_qp_info(qp)->state;
	struct xr_qp_attr attr = good_attr(to, from);

	return modify(qp, &attr, IBV_QP_STATE | mask_of(find_row(from, to)->required));
}

/* An invalid opcode moves an unreliable QP to SQE. */
static void post_invalid(struct xt_qp *qp)
{
	struct xr_send_wqe *w = (struct xr_send_wqe *)(sq_ring + 1);

	cq.producer = cq.consumer = cq.queue->consumer = cq.queue->producer = 0;
	*w = (struct xr_send_wqe){ .opcode = 0x77 };
	sq_ring->producer++;
	xt_qp_doorbell(qp, 1);
	xt_engine_run(engine, 1);
}

/* Returns a new QP in @state. */
static struct xt_qp *qp_in(uint32_t state)
{
	static const uint32_t way[] = { XR_QPS_INIT, XR_QPS_RTR, XR_QPS_RTS, XR_QPS_SQD };
	struct xt_qp *qp = new_qp();
	size_t i;

	for (i = 0; i < 4 && xt_qp_info(qp)->state != state; i++) {
		if (state == XR_QPS_SQE && xt_qp_info(qp)->state == XR_QPS_RTS)
			post_invalid(qp);
		else if (state == XR_QPS_ERR && i)
			move(qp, XR_QPS_ERR);
		else
			move(qp, way[i]);
	}
	return qp;
}

static int attempt(uint32_t from, uint32_t to, uint32_t mask)
{
	struct xr_qp_attr attr = good_attr(to, from);
	struct xt_qp *qp = qp_in(from);
	int err;

	err = xt_qp_info(qp)->state == from ? modify(qp, &attr, IBV_QP_STATE | mask) : -ENODATA;
	if (!err && xt_qp_info(qp)->state != to)
		err = -EPROTO;
	if (err == -EINVAL && xt_qp_info(qp)->state != from)
		err = -EPROTO;
	if (!err && (sq_ring->word != to || rq_ring->word != to))
		err = -ESTALE;
	xt_qp_destroy(qp);
	return err;
}

/* Number of attributes that, toggled alone in the required mask, give a wrong result */
static unsigned wrong_attributes(const struct row *row)
{
	uint32_t required = mask_of(row->required), optional = mask_of(row->optional);
	unsigned wrong = 0;
	size_t i;

	for (i = 0; i < ATTRIBUTES; i++) {
		uint32_t bit = attributes[i].bit;
		int err = attempt(row->from, row->to, required ^ bit), want = -EINVAL;

		if (optional & bit)
			want = bit == IBV_QP_ALT_PATH ? -EOPNOTSUPP : 0;
		if (err != want) {
			wrong++;
			printf("# %u -> %u %s %s: %d\n", row->from, row->to,
			       required & bit ? "without" : "with", attributes[i].name, err);
		}
	}
	return wrong;
}

static void test_transitions(void)
{
	uint32_t from, to;

	for (from = XR_QPS_RESET; from <= XR_QPS_ERR; from++) {
		/* RC QPs are never in SQE. */
		if (from == XR_QPS_SQE && qp_type == XR_QPT_RC)
			continue;
		for (to = XR_QPS_RESET; to <= XR_QPS_ERR + 1; to++) {
			const struct row *row = find_row(from, to);

			if (!row) {
				TAP_OK(attempt(from, to, 0) == -EINVAL,
				       "type %u: %u -> %u is refused", qp_type, from, to);
				continue;
			}
			TAP_OK(!attempt(from, to, mask_of(row->required)) && !wrong_attributes(row),
			       "type %u: %u -> %u requires and allows the right attributes",
			       qp_type, from, to);
		}
	}
}

/* ---- values -------------------------------------------------------------- */

static void test_values(void)
{
	static const struct {
		const char *what;
		uint32_t from, to, bit;
		size_t field;
		uint32_t good, bad;
	} limits[] = {
#define FIELD(name) offsetof(struct xr_qp_attr, name)
		{ "pkey_index", 0, 1, IBV_QP_PKEY_INDEX, FIELD(pkey_index), 0, 1 },
		{ "port 0", 0, 1, IBV_QP_PORT, FIELD(port_num), 1, 0 },
		{ "port 2", 0, 1, IBV_QP_PORT, FIELD(port_num), 1, 2 },
		{ "access", 0, 1, IBV_QP_ACCESS_FLAGS, FIELD(qp_access_flags), 0x3ff000ff, 0x800 },
		{ "path_mtu 0", 1, 2, IBV_QP_PATH_MTU, FIELD(path_mtu), IBV_MTU_256, 0 },
		{ "path_mtu 6", 1, 2, IBV_QP_PATH_MTU, FIELD(path_mtu), IBV_MTU_4096, 6 },
		{ "dest_qp_num", 1, 2, IBV_QP_DEST_QPN, FIELD(dest_qp_num), 0xffffff, 1 << 24 },
		{ "rq_psn", 1, 2, IBV_QP_RQ_PSN, FIELD(rq_psn), 0xffffff, 1 << 24 },
		{ "max_dest_rd_atomic", 1, 2, IBV_QP_MAX_DEST_RD_ATOMIC, FIELD(max_dest_rd_atomic),
		  128, 129 },
		{ "min_rnr_timer", 1, 2, IBV_QP_MIN_RNR_TIMER, FIELD(min_rnr_timer), 31, 32 },
		{ "is_global", 1, 2, IBV_QP_AV, FIELD(ah.is_global), 1, 0 },
		{ "ah port", 1, 2, IBV_QP_AV, FIELD(ah.port_num), 1, 2 },
		{ "timeout", 2, 3, IBV_QP_TIMEOUT, FIELD(timeout), 31, 32 },
		{ "retry_cnt", 2, 3, IBV_QP_RETRY_CNT, FIELD(retry_cnt), 7, 8 },
		{ "rnr_retry", 2, 3, IBV_QP_RNR_RETRY, FIELD(rnr_retry), 7, 8 },
		{ "sq_psn", 2, 3, IBV_QP_SQ_PSN, FIELD(sq_psn), 0xffffff, 1 << 24 },
		{ "max_rd_atomic", 2, 3, IBV_QP_MAX_QP_RD_ATOMIC, FIELD(max_rd_atomic), 128, 129 },
		{ "cur_qp_state", 3, 3, IBV_QP_CUR_STATE, FIELD(cur_qp_state), 3, 2 },
#undef FIELD
	};
	size_t i;

	for (i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct xr_qp_attr attr = good_attr(limits[i].to, limits[i].from);
		uint32_t mask = IBV_QP_STATE | limits[i].bit |
				mask_of(find_row(limits[i].from, limits[i].to)->required);
		struct xt_qp *qp = qp_in(limits[i].from);
		/* Fields of the AH attributes are one byte wide; values are little-endian. */
		size_t size = limits[i].bit == IBV_QP_AV ? 1 : 4;
		int bad, good;

		memcpy((uint8_t *)&attr + limits[i].field, &limits[i].bad, size);
		bad = modify(qp, &attr, mask);
		memcpy((uint8_t *)&attr + limits[i].field, &limits[i].good, size);
		good = modify(qp, &attr, mask);
		TAP_OK(bad == -EINVAL && good == 0, "%s: %u is refused, %u accepted",
		       limits[i].what, limits[i].bad, limits[i].good);
		xt_qp_destroy(qp);
	}
}

static void test_path(void)
{
	struct xr_qp_attr attr = good_attr(XR_QPS_RTR, XR_QPS_INIT);
	uint32_t mask = IBV_QP_STATE | mask_of(find_row(XR_QPS_INIT, XR_QPS_RTR)->required);
	struct xt_path path = { .ip_version = 6, .hop_limit = 64 };
	struct xt_qp *qp = qp_in(XR_QPS_INIT);
	struct xr_qp_entry entry;

	TAP_OK(xt_qp_modify(qp, &attr, mask, NULL, 4096, 1) == -EINVAL,
	       "IBV_QP_AV without a path is refused");
	TAP_OK(xt_qp_modify(qp, &attr, mask, &path, 512, 1) == -EINVAL,
	       "a path MTU above the port's is refused");
	TAP_OK(!xt_qp_modify(qp, &attr, mask, &path, 1024, 1),
	       "a path MTU up to the port's is accepted");
	xt_qp_entry(qp, &entry);
	TAP_OK(entry.path_mtu == 1024 && entry.dest_qpn == 5 && entry.state == XR_QPS_RTR &&
		       entry.pd == 1 && entry.type == XR_QPT_RC,
	       "the QP entry for the XDP program has the attributes");
	xt_qp_destroy(qp);
}

/* ---- effects of states --------------------------------------------------- */

static void test_query_and_reset(void)
{
	struct xt_qp *qp = qp_in(XR_QPS_RTS);
	struct xr_qp_attr attr;

	xt_qp_query(qp, &attr);
	TAP_OK(attr.qp_state == XR_QPS_RTS && attr.timeout == 14 && attr.path_mtu == IBV_MTU_1024 &&
		       attr.dest_qp_num == 5,
	       "query returns the attributes that were set");
	sq_ring->producer = 1;
	rq_ring->producer = 2;
	move(qp, XR_QPS_RESET);
	xt_qp_query(qp, &attr);
	TAP_OK(attr.qp_state == XR_QPS_RESET && !attr.dest_qp_num && !attr.timeout,
	       "RESET clears the attributes");
	TAP_OK(!sq_ring->producer && !sq_ring->consumer && !rq_ring->producer && !rq_ring->consumer,
	       "RESET empties the rings");
	TAP_OK(!move(qp, XR_QPS_INIT) && !move(qp, XR_QPS_RTR) && !move(qp, XR_QPS_RTS),
	       "a QP can be brought up again after RESET");
	xt_qp_destroy(qp);
}

static void test_flush_and_corruption(void)
{
	struct xt_qp *qp = qp_in(XR_QPS_INIT);

	cq.producer = cq.consumer = cq.queue->consumer = cq.queue->producer = 0;
	rq_ring->producer = 3;
	move(qp, XR_QPS_ERR);
	TAP_OK(cq.queue->producer == 3 && rq_ring->consumer == 3, "ERR flushes receives");
	sq_ring->producer = 2;
	xt_qp_doorbell(qp, 2);
	TAP_OK(cq.queue->producer == 5 && sq_ring->consumer == 2,
	       "WRs posted in ERR are flushed when the doorbell rings");
	xt_qp_destroy(qp);

	qp = qp_in(XR_QPS_RTS);
	events[IBV_EVENT_QP_FATAL] = state_calls = 0;
	sq_ring->producer = DEPTH + 1;
	xt_qp_doorbell(qp, 3);
	xt_qp_doorbell(qp, 4);
	TAP_OK(xt_qp_info(qp)->state == XR_QPS_ERR && events[IBV_EVENT_QP_FATAL] == 1 &&
		       state_calls == 1,
	       "a producer index beyond the depth raises QP_FATAL once");
	xt_qp_destroy(qp);
}

static void test_drained(void)
{
	struct xt_qp *qp = qp_in(XR_QPS_RTS);
	struct xr_qp_attr attr = good_attr(XR_QPS_SQD, XR_QPS_RTS);

	events[IBV_EVENT_SQ_DRAINED] = 0;
	modify(qp, &attr, IBV_QP_STATE);
	TAP_OK(!events[IBV_EVENT_SQ_DRAINED], "SQD without en_sqd_async_notify raises no event");
	move(qp, XR_QPS_RTS);
	attr.en_sqd_async_notify = 1;
	modify(qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
	xt_qp_query(qp, &attr);
	TAP_OK(events[IBV_EVENT_SQ_DRAINED] == 1 && !attr.sq_draining,
	       "SQD of an idle queue raises SQ_DRAINED at once");
	xt_qp_destroy(qp);
}

/* Unreliable QPs continue to receive after an error of their send queue (IBTA 10.3.1). */
static void test_send_queue_error(void)
{
	struct xt_qp *qp = qp_in(XR_QPS_RTS);

	state_calls = 0;
	rq_ring->producer = 2;
	post_invalid(qp);
	TAP_OK(xt_qp_info(qp)->state == XR_QPS_SQE && state_calls == 1 && cq.queue->producer == 1,
	       "type %u: a failed send WR moves the QP to SQE", qp_type);
	sq_ring->producer += 2;
	xt_qp_doorbell(qp, 2);
	TAP_OK(cq.queue->producer == 3 && sq_ring->consumer == 3 && !rq_ring->consumer,
	       "type %u: SQE flushes send WRs, not receives", qp_type);
	TAP_OK(!move(qp, XR_QPS_RTS) && xt_qp_info(qp)->state == XR_QPS_RTS,
	       "type %u: SQE to RTS is allowed", qp_type);
	xt_qp_destroy(qp);

	qp = qp_in(XR_QPS_RTS);
	post_invalid(qp);
	sq_ring->producer += 1;
	xt_qp_doorbell(qp, 2);
	sq_ring->producer += DEPTH + 1;
	move(qp, XR_QPS_RTS);
	TAP_OK(xt_qp_info(qp)->state == XR_QPS_ERR,
	       "type %u: to ERR instead if the producer index is beyond the depth", qp_type);
	xt_qp_destroy(qp);
}

static void test_datagram_values(void)
{
	struct xt_qp *qp = qp_in(XR_QPS_RTS);
	struct xr_qp_attr attr = good_attr(XR_QPS_RTS, XR_QPS_RTS);
	struct xr_qp_entry entry;

	attr.qkey = 0x1234567;
	modify(qp, &attr, IBV_QP_QKEY);
	xt_qp_entry(qp, &entry);
	TAP_OK(entry.qkey == 0x1234567 && entry.type == XR_QPT_UD && !entry.path_mtu,
	       "the QP entry for the XDP program has the Q_Key and no path MTU");
	xt_qp_query(qp, &attr);
	TAP_OK(attr.qkey == 0x1234567, "query returns the Q_Key");
	xt_qp_destroy(qp);
}

static void test_creation(void)
{
	struct xt_qp_init good = init_for(sq_ring, rq_ring), init = good;
	struct xt_qp *qp;

	init.type = 8; /* IBV_QPT_RAW_PACKET */
	TAP_OK(xt_qp_create(engine, &init, &qp) == -EOPNOTSUPP, "unsupported QP types are refused");
	init = good;
	init.type = XR_QPT_UD;
	init.ahs = NULL;
	TAP_OK(xt_qp_create(engine, &init, &qp) == -EINVAL, "a UD QP requires an AH table");
	init = good;
	init.sq_depth = 3;
	TAP_OK(xt_qp_create(engine, &init, &qp) == -EINVAL,
	       "a depth that is no power of two is refused");
	init = good;
	init.max_send_sge = 5;
	TAP_OK(xt_qp_create(engine, &init, &qp) == -EINVAL,
	       "more SGEs than fit the stride are refused");
	init = good;
	init.max_inline = 65;
	TAP_OK(xt_qp_create(engine, &init, &qp) == -EINVAL,
	       "more inline data than fits the stride is refused");
	init = good;
	init.rq = NULL;
	TAP_OK(!xt_qp_create(engine, &init, &qp), "a QP without a receive queue is created");
	xt_qp_destroy(qp);
}

/* ---- numbers ------------------------------------------------------------- */

static void test_numbers(void)
{
	static uint8_t seen[1 << 24];
	struct xt_qp *qp, *qps[64];
	unsigned i, again = 0, wrong = 0;
	uint32_t qpn = 0;

	for (i = 0; i < 64; i++)
		qps[i] = new_qp();
	TAP_OK(qps[63] && !new_qp(), "creation fails when the table is full");
	for (i = 0; i < 64; i++) {
		qpn = xt_qp_info(qps[i])->qpn;
		wrong += xt_qp_by_num(shared.qps, qpn) != qps[i];
		wrong += xt_qp_by_num(shared.qps, qpn ^ 0x800000) != NULL;
		xt_qp_destroy(qps[i]);
		wrong += xt_qp_by_num(shared.qps, qpn) != NULL;
	}
	TAP_OK(!wrong, "lookup finds a QP by its number, and by no other");
	for (i = 0; i < 100000; i++) {
		qp = new_qp();
		qpn = xt_qp_info(qp)->qpn;
		again += seen[qpn];
		seen[qpn] = 1;
		wrong += qpn < 2 || qpn >= 0xffffff || xt_qp_info(qp)->slot >= 64;
		xt_qp_destroy(qp);
	}
	TAP_OK(!again, "100000 QPs get different numbers in a table of 64");
	TAP_OK(!wrong, "no QP gets number 0, 1 or 0xffffff");
}

/* Packets are steered to workers by their QPN. */
static void test_steered_numbers(void)
{
	struct xt_numbers *t = xt_numbers_new(1000, 3);
	unsigned wrong = 0, of[7] = { 0 };
	uint32_t slot, number;

	for (uint32_t i = 0; i < 700; i++) {
		wrong += !xt_numbers_add_of(t, t, 7, i % 7, &slot, &number) || number % 7 != i % 7;
		wrong += xt_numbers_get(t, number) != t;
		of[number % 7]++;
		if (i % 3 == 2)
			xt_numbers_del(t, number);
	}
	TAP_OK(!wrong && of[0] == 100 && of[6] == 100,
	       "QPNs have the remainder that was asked for");
	xt_numbers_free(t);
}

/*
 * In a large table a slot has few numbers, and many slots have none with the remainder. Adding one
 * ends all the same.
 */
static void test_steered_in_large_table(void)
{
	struct xt_numbers *t = xt_numbers_new(262145, 3);
	unsigned wrong = 0;
	uint32_t slot, number;

	for (uint32_t i = 0; i < 20000; i++) {
		wrong += !xt_numbers_add_of(t, t, XT_MAX_MODULUS, i % 7, &slot, &number) ||
			 number % XT_MAX_MODULUS != i % 7 || xt_numbers_get(t, number) != t;
		if (i % 3 == 2)
			xt_numbers_del(t, number);
	}
	TAP_OK(!wrong, "the same in a table of 262145, whose slots have 32 numbers each");
	xt_numbers_free(t);
}

/* Returns how many of n numbers are next to the one before, or the same as in the other table. */
static unsigned predictable(uint64_t seed, uint64_t other_seed, unsigned n)
{
	struct xt_numbers *t = xt_numbers_new(n, seed), *other = xt_numbers_new(n, other_seed);
	uint32_t slot, number = 0, before = 0, elsewhere = 0;
	unsigned count = 0;

	for (unsigned i = 0; i < n; i++, before = number) {
		xt_numbers_add(t, t, &slot, &number);
		xt_numbers_add(other, other, &slot, &elsewhere);
		count += number == elsewhere || number - before + 1 < 3;
	}
	xt_numbers_free(t);
	xt_numbers_free(other);
	return count;
}

static void test_random_order(void)
{
	TAP_OK(predictable(1, 2, 10000) < 100,
	       "numbers are not sequential, and others after a restart");
	TAP_OK(predictable(1, 1, 10000) == 10000, "the seed determines the numbers");
}

/* The GSI QP has number 1 and an ordinary slot. */
static void test_gsi(void)
{
	struct xt_qp_init init = init_for(sq_ring, rq_ring);
	struct xt_qp *gsi, *ud = NULL, *qp;
	uint32_t slot;

	init.gsi = true;
	init.type = XR_QPT_RC;
	TAP_OK(xt_qp_create(engine, &init, &qp) == -EINVAL, "GSI: types other than UD are refused");
	init.type = XR_QPT_UD;
	TAP_OK(!xt_qp_by_num(shared.qps, XR_GSI_QPN), "GSI: number 1 is free at first");
	TAP_OK(!xt_qp_create(engine, &init, &gsi) && xt_qp_info(gsi)->qpn == XR_GSI_QPN &&
		       xt_qp_by_num(shared.qps, XR_GSI_QPN) == gsi,
	       "GSI: the QP gets number 1");
	slot = xt_qp_info(gsi)->slot;
	TAP_OK(xt_qp_create(engine, &init, &qp) == -ENOMEM, "GSI: a second one is refused");
	init.gsi = false;
	TAP_OK(!xt_qp_create(engine, &init, &ud) && xt_qp_info(ud)->slot != slot &&
		       xt_qp_by_num(shared.qps, slot) != gsi,
	       "GSI: its slot is not shared, and it has no second number");
	xt_qp_destroy(gsi);
	TAP_OK(!xt_qp_by_num(shared.qps, XR_GSI_QPN), "GSI: number 1 is free after destroy");
	init.gsi = true;
	TAP_OK(!xt_qp_create(engine, &init, &gsi) && xt_qp_by_num(shared.qps, XR_GSI_QPN) == gsi &&
		       xt_qp_by_num(shared.qps, xt_qp_info(ud)->qpn) == ud,
	       "GSI: the QP can be created again");
	xt_qp_destroy(gsi);
	xt_qp_destroy(ud);
}

static void new_engine(uint32_t max)
{
	shared.keys = xt_keys_new(16, 11);
	shared.qps = xt_numbers_new(max, 11);
	engine = xt_engine_new(&ops, NULL, &shared);
}

static void end_engine(void)
{
	xt_engine_free(engine);
	xt_numbers_free(shared.qps);
	xt_keys_free(shared.keys);
}

int main(void)
{
	struct xr_queue *queue = new_ring(64, sizeof(struct xr_cqe));

	memset(queue, 0, sizeof(*queue));
	xt_cq_init(&cq, queue, 64);
	ahs = xt_ahs_new();
	new_engine(1024);
	test_transitions();
	for (qp_type = XR_QPT_UC; qp_type <= XR_QPT_UD; qp_type++) {
		test_transitions();
		test_send_queue_error();
	}
	qp_type = XR_QPT_UD;
	test_datagram_values();
	qp_type = XR_QPT_RC;
	test_values();
	test_path();
	test_query_and_reset();
	test_flush_and_corruption();
	test_drained();
	test_creation();
	end_engine();
	new_engine(64);
	test_numbers();
	test_steered_numbers();
	test_steered_in_large_table();
	test_random_order();
	test_gsi();
	end_engine();
	xt_ahs_free(ahs);
	free(queue);
	free(sq_ring);
	free(rq_ring);
	return tap_end();
}
