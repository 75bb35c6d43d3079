// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * QP states: IBTA 10.3.1 and table 91 (11.2.5.2). The transition and its attribute mask are checked
 * against one table, then the values are checked. Nothing is changed before all checks have passed.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "engine.h"
#include "flush.h"
#include "daemon/transport/scheduling/pace.h"
#include "daemon/transport/wire/packet.h"
#include "qp.h"
#include "daemon/transport/rc/rd.h"
#include "daemon/transport/rc/requester.h"
#include "daemon/transport/rc/resend.h"
#include "daemon/transport/rc/responder.h"
#include "daemon/transport/queue/sq.h"

/* ---- reasons ------------------------------------------------------------------------------- */

/* Sets the reason, unless why is NULL. Returns -EINVAL. */
__attribute__((format(printf, 2, 3))) static int invalid(struct xt_why *why, const char *fmt, ...)
{
	va_list ap;

	if (why) {
		va_start(ap, fmt);
		vsnprintf(why->text, sizeof(why->text), fmt, ap);
		va_end(ap);
	}
	return -EINVAL;
}

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

static const char *const state_names[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };

/* Names of enum ibv_qp_attr_mask, without IBV_QP_, by bit */
static const char *const bit_names[] = {
	"STATE",
	"CUR_STATE",
	"EN_SQD_ASYNC_NOTIFY",
	"ACCESS_FLAGS",
	"PKEY_INDEX",
	"PORT",
	"QKEY",
	"AV",
	"PATH_MTU",
	"TIMEOUT",
	"RETRY_CNT",
	"RNR_RETRY",
	"RQ_PSN",
	"MAX_QP_RD_ATOMIC",
	"ALT_PATH",
	"MIN_RNR_TIMER",
	"SQ_PSN",
	"MAX_DEST_RD_ATOMIC",
	"PATH_MIG_STATE",
	"CAP",
	"DEST_QPN",
	NULL,
	NULL,
	NULL,
	NULL,
	"RATE_LIMIT",
};

/* Sets the reason for attributes that a transition lacks, or does not permit. Returns -EINVAL. */
static int refuse_mask(struct xt_why *why, const char *transition, const char *verb, uint32_t mask)
{
	size_t n;
	uint32_t i;

	if (!why)
		return -EINVAL;
	n = (size_t)snprintf(why->text, sizeof(why->text), "%s: attr_mask %s", transition, verb);
	for (i = 0; i < 32 && n < sizeof(why->text); i++) {
		if (!(mask & 1u << i))
			continue;
		n += (size_t)snprintf(why->text + n, sizeof(why->text) - n, " IBV_QP_%s",
				      i < sizeof(bit_names) / sizeof(bit_names[0]) && bit_names[i]
					      ? bit_names[i]
					      : "?");
	}
	return -EINVAL;
}

/* given: attribute mask without IBV_QP_STATE */
static int check_transition(const struct xt_qp *qp, uint32_t to, uint32_t given, struct xt_why *why)
{
	const uint32_t type = qp->info.type, from = qp->info.state;
	char transition[24];
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
	if (valid && !(required & ~given) && !(given & ~(required | optional)))
		return 0;
	snprintf(transition, sizeof(transition), "%s to %s", state_names[from], state_names[to]);
	if (!valid)
		return invalid(why, "%s: no such transition; INIT, RTR, RTS follow each other",
			       transition);
	if (required & ~given)
		return refuse_mask(why, transition, "lacks", required & ~given);
	return refuse_mask(why, transition, "must not have", given & ~(required | optional));
}

/* ---- values --------------------------------------------------------------------------------- */

static int modify_check_limits(const struct xr_qp_attr *a, uint32_t mask, struct xt_why *why)
{
	const struct {
		uint32_t bit;
		const char *name;
		uint32_t value, max;
	} limits[] = {
		{ IBV_QP_PKEY_INDEX, "pkey_index", a->pkey_index, 0 },
		{ IBV_QP_TIMEOUT, "timeout", a->timeout, 31 },
		{ IBV_QP_RETRY_CNT, "retry_cnt", a->retry_cnt, 7 },
		{ IBV_QP_RNR_RETRY, "rnr_retry", a->rnr_retry, 7 },
		{ IBV_QP_MIN_RNR_TIMER, "min_rnr_timer", a->min_rnr_timer, 31 },
		{ IBV_QP_RQ_PSN, "rq_psn", a->rq_psn, XR_PSN_MASK },
		{ IBV_QP_SQ_PSN, "sq_psn", a->sq_psn, XR_PSN_MASK },
		{ IBV_QP_DEST_QPN, "dest_qp_num", a->dest_qp_num, XR_QPN_MASK },
		{ IBV_QP_MAX_QP_RD_ATOMIC, "max_rd_atomic", a->max_rd_atomic, XT_MAX_RD_ATOMIC },
		{ IBV_QP_MAX_DEST_RD_ATOMIC, "max_dest_rd_atomic", a->max_dest_rd_atomic,
		  XT_MAX_RD_ATOMIC },
		{ IBV_QP_PATH_MTU, "path_mtu", a->path_mtu, IBV_MTU_4096 },
		{ IBV_QP_EN_SQD_ASYNC_NOTIFY, "en_sqd_async_notify", a->en_sqd_async_notify, 1 },
		{ IBV_QP_RATE_LIMIT, "rate_limit", a->rate_limit, XT_MAX_RATE },
	};
	unsigned i;

	for (i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		if ((mask & limits[i].bit) && limits[i].value > limits[i].max)
			return invalid(why, "%s %u, limit %u", limits[i].name, limits[i].value,
				       limits[i].max);
	return 0;
}

static int modify_check_address(const struct xr_ah_attr *ah, struct xt_why *why)
{
	if (!ah->is_global)
		return invalid(why, "%s", XT_WHY_NO_GRH);
	if (ah->port_num != 1)
		return invalid(why, "ah_attr.port_num %u; the device has port 1 only",
			       ah->port_num);
	if (ah->sgid_index >= XR_GID_TABLE_LEN)
		return invalid(why, "ah_attr.grh.sgid_index %u, limit %u", ah->sgid_index,
			       XR_GID_TABLE_LEN - 1);
	return 0;
}

static int check_values(const struct xt_qp *qp, const struct xr_qp_attr *a, uint32_t mask,
			struct xt_why *why)
{
	int err = modify_check_limits(a, mask, why);

	if (!err && mask & IBV_QP_AV)
		err = modify_check_address(&a->ah, why);
	if (err)
		return err;
	if (mask & IBV_QP_ACCESS_FLAGS && a->qp_access_flags & ~XR_ACCESS_QP)
		return invalid(why, "qp_access_flags 0x%x, supported 0x%x", a->qp_access_flags,
			       XR_ACCESS_QP);
	if ((mask & IBV_QP_PORT) && a->port_num != 1)
		return invalid(why, "port_num %u; the device has port 1 only", a->port_num);
	if ((mask & IBV_QP_PATH_MTU) && a->path_mtu < IBV_MTU_256)
		return invalid(why, "path_mtu %u, from IBV_MTU_256 (1)", a->path_mtu);
	if ((mask & IBV_QP_CUR_STATE) && a->cur_qp_state != qp->info.state)
		return invalid(why, "cur_qp_state %u, the QP is in %s", a->cur_qp_state,
			       state_names[qp->info.state]);
	if ((mask & IBV_QP_ALT_PATH) ||
	    ((mask & IBV_QP_PATH_MIG_STATE) && a->path_mig_state != IBV_MIG_MIGRATED)) {
		invalid(why, "path migration (IBV_QP_ALT_PATH) is not supported");
		return -EOPNOTSUPP;
	}
	return 0;
}

static uint32_t target_state(const struct xt_qp *qp, const struct xr_qp_attr *a, uint32_t mask)
{
	return mask & IBV_QP_STATE ? a->qp_state : qp->info.state;
}

int xt_qp_modify_check(const struct xt_qp *qp, const struct xr_qp_attr *a, uint32_t mask,
		       struct xt_why *why)
{
	uint32_t to = target_state(qp, a, mask);
	int err;

	if (to > XR_QPS_ERR)
		return invalid(why, "qp_state %u", to);
	err = check_transition(qp, to, mask & ~IBV_QP_STATE, why);
	return err ? err : check_values(qp, a, mask, why);
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
	memset(&qp->sq, 0, sizeof(qp->sq));
	memset(&qp->req, 0, sizeof(qp->req));
	memset(&qp->rq, 0, sizeof(qp->rq));
	memset(&qp->resp, 0, sizeof(qp->resp));
	memset(&qp->attr, 0, sizeof(qp->attr));
	memset(&qp->path, 0, sizeof(qp->path));
	xt_pace_clear(qp);
	qp->mtu = 0;
	qp->mtu_shift = 0;
	qp->ring_bad = qp->drained = qp->no_windows = false;
	qp->ending.key[XT_REQUESTER].region = 0;
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
static void modify_enter(struct xt_qp *qp, uint32_t from, uint32_t to)
{
	if (to == XR_QPS_RTR && from == XR_QPS_INIT) {
		xt_resp_reset(qp);
		xt_waiting_begin(qp);
	}
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
	if (to == XR_QPS_RTS && xt_sq_poll(qp) && qp->sq.producer != qp->sq.retired)
		xt_activate(qp);
}

int xt_qp_modify(struct xt_qp *qp, const struct xr_qp_attr *attr, uint32_t mask,
		 const struct xt_path *path, uint32_t max_mtu, uint64_t now)
{
	uint32_t from, to;
	int err;

	qp->engine->now = now;
	xt_flush_if_failed(qp);
	from = qp->info.state;
	to = target_state(qp, attr, mask);
	err = xt_qp_modify_check(qp, attr, mask, NULL);
	if (err)
		return err;
	if ((mask & IBV_QP_AV) && !path)
		return -EINVAL;
	if ((mask & IBV_QP_PATH_MTU) && 128u << attr->path_mtu > max_mtu)
		return -EINVAL;
	/* what was posted in SQE and is not flushed yet must not be executed */
	if (from == XR_QPS_SQE && to == XR_QPS_RTS && qp->sq.retired != qp->sq.producer &&
	    xt_qp_flush(qp, XT_FLUSH_AT_ONCE))
		return -EAGAIN;
	/* the flush may have found corrupt indices */
	if (qp->info.state != from) {
		xt_flush_if_failed(qp);
		return -EINVAL;
	}
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
	switch (to) {
	case XR_QPS_RESET:
		to_reset(qp);
		xt_qp_store_state(qp, to);
		return 0;
	case XR_QPS_ERR:
		xt_qp_note(qp, XT_CAUSE_PROGRAM, 0, 0);
		xt_qp_error(qp, false);
		xt_flush_if_failed(qp);
		return 0;
	}
	apply_values(qp, attr, mask);
	if (wants_many_rd(attr, mask))
		xt_rd_grow(qp);
	if (qp->info.type == XR_QPT_UD)
		xt_qp_set_mtu(qp, max_mtu);
	if (mask & IBV_QP_AV)
		xt_qp_set_path(qp, path);
	modify_enter(qp, from, to);
	xt_flush_if_failed(qp);
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
	xt_template_build(
		&qp->tmpl, path, qp->attr.dest_qp_num,
		xt_source_port(&qp->engine->tuning, path, qp->info.qpn, qp->attr.dest_qp_num));
	/*
	 * the path changed between network and loopback: continue with the oldest PSN not
	 * acknowledged
	 */
	if (moved && xt_may_send(qp)) {
		xt_reads_end(&qp->accesses.reads[XT_READS_SEND]);
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
		attr->sq_psn = qp->sq.load_psn & XR_PSN_MASK;
}
