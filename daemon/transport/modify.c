// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * QP states: IBTA 10.3.1 and table 91 (11.2.5.2). The transition and its attribute mask are checked
 * against one table, then the values are checked. Nothing is changed before all checks have passed.
 */
#include <errno.h>

#include "engine.h"
#include "pace.h"
#include "packet.h"
#include "qp.h"
#include "requester.h"
#include "resend.h"
#include "responder.h"
#include "responses.h"
#include "sq.h"

/* ---- transitions --------------------------------------------------------------------------- */

#define RC (1u << XR_QPT_RC)
#define UC (1u << XR_QPT_UC)
#define UD (1u << XR_QPT_UD)
/* XRC (IBTA annex A14): an initiator is the requester of an RC QP, a target the responder */
#define INITIATOR (1u << XR_QPT_XRC_SEND)
#define TARGET (1u << XR_QPT_XRC_RECV)
#define REQUESTS (RC | INITIATOR)
#define ANSWERS (RC | TARGET)
#define RELIABLE (RC | INITIATOR | TARGET)
#define CONNECTED (RELIABLE | UC)
#define EVERY (CONNECTED | UD)

#define IN(state) (1u << XR_QPS_##state)
#define TO_RTS (IN(RTR) | IN(RTS) | IN(SQD))
#define ALT (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE)

/*
 * All rows of a transition together give the attributes that it requires and permits. A transition
 * without a row is not allowed, except to RESET from every state, and to ERR from every state but
 * RESET; these take no attributes. The kernel's ib_modify_qp_is_ok() has the same masks.
 */
static const struct rule {
	uint32_t from; /* IN() of each state */
	uint32_t to;
	uint32_t types;
	uint32_t required, optional; /* IBV_QP_* */
} rules[] = {
	{ IN(RESET), XR_QPS_INIT, EVERY, .required = IBV_QP_PKEY_INDEX | IBV_QP_PORT },
	{ IN(RESET), XR_QPS_INIT, CONNECTED, .required = IBV_QP_ACCESS_FLAGS },
	{ IN(RESET), XR_QPS_INIT, UD, .required = IBV_QP_QKEY },

	{ IN(INIT), XR_QPS_INIT, EVERY, .optional = IBV_QP_PKEY_INDEX | IBV_QP_PORT },
	{ IN(INIT), XR_QPS_INIT, CONNECTED, .optional = IBV_QP_ACCESS_FLAGS },
	{ IN(INIT), XR_QPS_INIT, UD, .optional = IBV_QP_QKEY },

	{ IN(INIT), XR_QPS_RTR, EVERY, .optional = IBV_QP_PKEY_INDEX },
	{ IN(INIT), XR_QPS_RTR, CONNECTED,
	  .required = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
	  .optional = IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS },
	{ IN(INIT), XR_QPS_RTR, ANSWERS,
	  .required = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER },
	{ IN(INIT), XR_QPS_RTR, UD, .optional = IBV_QP_QKEY },

	{ IN(RTR), XR_QPS_RTS, EVERY, .required = IBV_QP_SQ_PSN },
	{ IN(RTR), XR_QPS_RTS, RELIABLE, .required = IBV_QP_TIMEOUT },
	{ IN(RTR), XR_QPS_RTS, REQUESTS,
	  .required = IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC },

	{ TO_RTS, XR_QPS_RTS, EVERY, .optional = IBV_QP_CUR_STATE },
	{ TO_RTS, XR_QPS_RTS, CONNECTED, .optional = IBV_QP_ACCESS_FLAGS | ALT },
	{ TO_RTS, XR_QPS_RTS, ANSWERS, .optional = IBV_QP_MIN_RNR_TIMER },
	{ TO_RTS, XR_QPS_RTS, UD, .optional = IBV_QP_QKEY },
	{ TO_RTS, XR_QPS_RTS, RC | UC | UD, .optional = IBV_QP_RATE_LIMIT },

	{ IN(RTS), XR_QPS_SQD, EVERY, .optional = IBV_QP_EN_SQD_ASYNC_NOTIFY },

	{ IN(SQD), XR_QPS_SQD, EVERY, .optional = IBV_QP_PKEY_INDEX },
	{ IN(SQD), XR_QPS_SQD, CONNECTED, .optional = IBV_QP_AV | IBV_QP_ACCESS_FLAGS | ALT },
	{ IN(SQD), XR_QPS_SQD, RELIABLE, .optional = IBV_QP_PORT | IBV_QP_TIMEOUT },
	{ IN(SQD), XR_QPS_SQD, REQUESTS,
	  .optional = IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC },
	{ IN(SQD), XR_QPS_SQD, ANSWERS,
	  .optional = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER },
	{ IN(SQD), XR_QPS_SQD, UD, .optional = IBV_QP_QKEY },

	/* only UC and UD have SQE */
	{ IN(SQE), XR_QPS_RTS, UC, .optional = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS },
	{ IN(SQE), XR_QPS_RTS, UD, .optional = IBV_QP_CUR_STATE | IBV_QP_QKEY },
};

/* given: attribute mask without IBV_QP_STATE */
static bool transition_ok(uint32_t type, uint32_t from, uint32_t to, uint32_t given)
{
	uint32_t required = 0, optional = 0;
	const struct rule *r;
	bool valid = to == XR_QPS_RESET || (to == XR_QPS_ERR && from != XR_QPS_RESET);

	for (r = rules; r < rules + sizeof(rules) / sizeof(rules[0]); r++) {
		if (!(r->from & 1u << from) || r->to != to || !(r->types & 1u << type))
			continue;
		valid = true;
		required |= r->required;
		optional |= r->optional;
	}
	return valid && !(required & ~given) && !(given & ~(required | optional));
}

/* ---- values --------------------------------------------------------------------------------- */

static bool limits_sane(const struct xr_qp_attr *a, uint32_t mask)
{
	/* bit of the mask, value, highest value allowed */
	const struct {
		uint32_t bit, value, max;
	} limits[] = {
		{ IBV_QP_PKEY_INDEX, a->pkey_index, 0 },
		{ IBV_QP_ACCESS_FLAGS, a->qp_access_flags & ~XR_ACCESS_QP, 0 },
		{ IBV_QP_TIMEOUT, a->timeout, 31 },
		{ IBV_QP_RETRY_CNT, a->retry_cnt, 7 },
		{ IBV_QP_RNR_RETRY, a->rnr_retry, 7 },
		{ IBV_QP_MIN_RNR_TIMER, a->min_rnr_timer, 31 },
		{ IBV_QP_RQ_PSN, a->rq_psn, XR_PSN_MASK },
		{ IBV_QP_SQ_PSN, a->sq_psn, XR_PSN_MASK },
		{ IBV_QP_DEST_QPN, a->dest_qp_num, XR_QPN_MASK },
		{ IBV_QP_MAX_QP_RD_ATOMIC, a->max_rd_atomic, XT_MAX_RD_ATOMIC },
		{ IBV_QP_MAX_DEST_RD_ATOMIC, a->max_dest_rd_atomic, XT_MAX_RD_ATOMIC },
		{ IBV_QP_PATH_MTU, a->path_mtu, IBV_MTU_4096 },
		{ IBV_QP_EN_SQD_ASYNC_NOTIFY, a->en_sqd_async_notify, 1 },
		{ IBV_QP_RATE_LIMIT, a->rate_limit, XT_MAX_RATE },
	};
	unsigned i;

	for (i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		if ((mask & limits[i].bit) && limits[i].value > limits[i].max)
			return false;
	return true;
}

static int check_values(const struct xt_qp *qp, const struct xr_qp_attr *a, uint32_t mask)
{
	if (!limits_sane(a, mask))
		return -EINVAL;
	if ((mask & IBV_QP_PORT) && a->port_num != 1)
		return -EINVAL;
	if ((mask & IBV_QP_PATH_MTU) && a->path_mtu < IBV_MTU_256)
		return -EINVAL;
	if ((mask & IBV_QP_CUR_STATE) && a->cur_qp_state != qp->info.state)
		return -EINVAL;
	if ((mask & IBV_QP_AV) &&
	    (!a->ah.is_global || a->ah.port_num != 1 || a->ah.sgid_index >= XR_GID_TABLE_LEN))
		return -EINVAL;
	/* path migration is not supported */
	if ((mask & IBV_QP_ALT_PATH) ||
	    ((mask & IBV_QP_PATH_MIG_STATE) && a->path_mig_state != IBV_MIG_MIGRATED))
		return -EOPNOTSUPP;
	return 0;
}

static uint32_t target_state(const struct xt_qp *qp, const struct xr_qp_attr *a, uint32_t mask)
{
	return mask & IBV_QP_STATE ? a->qp_state : qp->info.state;
}

int xt_qp_modify_check(const struct xt_qp *qp, const struct xr_qp_attr *a, uint32_t mask)
{
	uint32_t to = target_state(qp, a, mask);

	if (to > XR_QPS_ERR ||
	    !transition_ok(qp->info.type, qp->info.state, to, mask & ~IBV_QP_STATE))
		return -EINVAL;
	return check_values(qp, a, mask);
}

/* Returns true if the responder needs room for more READs and atomics than each QP has. */
static bool wants_many_rd(const struct xr_qp_attr *a, uint32_t mask)
{
	return mask & IBV_QP_MAX_DEST_RD_ATOMIC && a->max_dest_rd_atomic > XT_FEW_RD_ATOMIC;
}

uint64_t xt_qp_more_bytes(const struct xt_qp *qp, const struct xr_qp_attr *a, uint32_t mask)
{
	bool has = qp->many_rd || qp->prepared_many;

	return wants_many_rd(a, mask) && !has ? sizeof(*qp->many_rd) : 0;
}

int xt_qp_prepare(struct xt_qp *qp, const struct xr_qp_attr *a, uint32_t mask)
{
	int err = 0;

	if (mask & IBV_QP_STATE && a->qp_state == XR_QPS_RTS)
		err = xt_sq_prepare(qp);
	if (!err && wants_many_rd(a, mask))
		err = xt_rd_prepare(qp);
	return err;
}

/* ---- changes ----------------------------------------------------------------------- */

static void apply_values(struct xt_qp *qp, const struct xr_qp_attr *a, uint32_t mask)
{
	struct xr_qp_attr *to = &qp->attr;

#define APPLY(bit, field)                                                                          \
	do {                                                                                       \
		if (mask & (bit))                                                                  \
			to->field = a->field;                                                      \
	} while (0)
	APPLY(IBV_QP_PKEY_INDEX, pkey_index);
	APPLY(IBV_QP_PORT, port_num);
	APPLY(IBV_QP_QKEY, qkey);
	APPLY(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	APPLY(IBV_QP_AV, ah);
	APPLY(IBV_QP_PATH_MTU, path_mtu);
	APPLY(IBV_QP_TIMEOUT, timeout);
	APPLY(IBV_QP_RETRY_CNT, retry_cnt);
	APPLY(IBV_QP_RNR_RETRY, rnr_retry);
	APPLY(IBV_QP_RQ_PSN, rq_psn);
	APPLY(IBV_QP_SQ_PSN, sq_psn);
	APPLY(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	APPLY(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	APPLY(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	APPLY(IBV_QP_DEST_QPN, dest_qp_num);
	APPLY(IBV_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify);
	APPLY(IBV_QP_RATE_LIMIT, rate_limit);
#undef APPLY
	if (mask & IBV_QP_PATH_MTU)
		xt_qp_set_mtu(qp, 128u << a->path_mtu);
	if (mask & IBV_QP_RATE_LIMIT)
		xt_qp_set_burst(qp, 0);
}

static void empty_ring(struct xr_queue *ring)
{
	if (!ring)
		return;
	__atomic_store_n(&ring->producer, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&ring->consumer, 0, __ATOMIC_RELEASE);
}

static void clear_state(struct xt_qp *qp)
{
	memset(&qp->req, 0, sizeof(qp->req));
	memset(&qp->rq, 0, sizeof(qp->rq));
	memset(&qp->resp, 0, sizeof(qp->resp));
	memset(&qp->attr, 0, sizeof(qp->attr));
	memset(&qp->path, 0, sizeof(qp->path));
	memset(&qp->pace, 0, sizeof(qp->pace));
	qp->mtu = 0;
	qp->mtu_shift = 0;
	qp->ring_bad = qp->drained = qp->no_windows = false;
}

static void to_reset(struct xt_qp *qp)
{
	xt_qp_stop(qp);
	xt_qp_unbind(qp, UINT32_MAX);
	clear_state(qp);
	empty_ring(qp->sq_ring);
	empty_ring(qp->rq_ring);
	xt_qp_store_psns(qp);
}

/* Performs the actions of entering a state. */
static void enter(struct xt_qp *qp, uint32_t from, uint32_t to)
{
	if (to == XR_QPS_RTR && from == XR_QPS_INIT)
		xt_resp_reset(qp);
	if (to == XR_QPS_RTS && from == XR_QPS_RTR)
		xt_req_reset(qp);
	xt_qp_store_psns(qp);
	xt_qp_store_state(qp, to);
	if (to == XR_QPS_SQD && from == XR_QPS_RTS) {
		qp->drained = false;
		if (xt_req_resend_ackreq(qp))
			xt_activate(qp);
		xt_req_check_drained(qp);
	}
	if (to == XR_QPS_RTS && xt_sq_poll(qp) && qp->req.producer != qp->req.retired)
		xt_activate(qp);
}

int xt_qp_modify(struct xt_qp *qp, const struct xr_qp_attr *attr, uint32_t mask,
		 const struct xt_path *path, uint32_t max_mtu, uint64_t now)
{
	uint32_t from = qp->info.state, to = target_state(qp, attr, mask);
	int err = xt_qp_modify_check(qp, attr, mask);

	if (err)
		return err;
	if ((mask & IBV_QP_AV) && !path)
		return -EINVAL;
	if ((mask & IBV_QP_PATH_MTU) && 128u << attr->path_mtu > max_mtu)
		return -EINVAL;
	/* what was posted in SQE and is not flushed yet must not be executed */
	if (from == XR_QPS_SQE && to == XR_QPS_RTS && qp->req.retired != qp->req.producer &&
	    xt_qp_flush(qp, XT_FLUSH_AT_ONCE))
		return -EAGAIN;
	if (to == XR_QPS_RTS) {
		err = xt_sq_alloc(qp);
		if (err)
			return err;
	}
	if (wants_many_rd(attr, mask)) {
		err = xt_rd_prepare(qp);
		if (err)
			return err;
	}
	qp->engine->now = now;
	switch (to) {
	case XR_QPS_RESET:
		to_reset(qp);
		xt_qp_store_state(qp, to);
		return 0;
	case XR_QPS_ERR:
		xt_qp_error(qp, false);
		return 0;
	}
	apply_values(qp, attr, mask);
	if (wants_many_rd(attr, mask))
		xt_rd_grow(qp);
	if (qp->info.type == XR_QPT_UD)
		xt_qp_set_mtu(qp, max_mtu);
	if (mask & IBV_QP_AV)
		xt_qp_set_path(qp, path);
	enter(qp, from, to);
	return 0;
}

void xt_qp_set_mtu(struct xt_qp *qp, uint32_t mtu)
{
	qp->mtu = mtu;
	qp->mtu_shift = __builtin_ctz(mtu);
}

void xt_qp_set_burst(struct xt_qp *qp, uint32_t burst)
{
	xt_pace_set(qp, burst);
	/* the old rate may have delayed the next packet */
	if (xt_may_send(qp))
		xt_activate(qp);
}

void xt_qp_set_path(struct xt_qp *qp, const struct xt_path *path)
{
	bool moved = path->loopback != qp->path.loopback;

	qp->path = *path;
	xt_template_build(&qp->tmpl, path, qp->attr.dest_qp_num,
			  xt_source_port(path, qp->info.qpn, qp->attr.dest_qp_num));
	/*
	 * the path changed between network and loopback: continue with the oldest PSN not
	 * acknowledged
	 */
	if (moved && xt_may_send(qp)) {
		xt_step_end(&qp->park.step[XT_STEP_SEND]);
		xt_req_go_back(qp);
	}
}

void xt_qp_query(const struct xt_qp *qp, struct xr_qp_attr *attr)
{
	*attr = qp->attr;
	attr->qp_state = attr->cur_qp_state = qp->info.state;
	attr->path_mig_state = IBV_MIG_MIGRATED;
	attr->sq_draining = qp->info.state == XR_QPS_SQD && !qp->drained;
	/* report the current PSNs, not those that the client set */
	if (qp->info.state >= XR_QPS_RTR)
		attr->rq_psn = qp->resp.epsn & XR_PSN_MASK;
	if (qp->info.state >= XR_QPS_RTS)
		attr->sq_psn = qp->req.load_psn & XR_PSN_MASK;
}
