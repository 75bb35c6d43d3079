// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * QP states: IBTA 10.3.1 and table 91 (11.2.5.2). First the transition and its
 * attribute mask are checked against one table, then the values, and only then anything changes.
 */
#include <errno.h>

#include "internal.h"

#define STATES (XR_QPS_ERR + 1)

struct transition {
	bool valid;
	uint32_t required, optional;
};

#define ALT (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE)

/* States that every type may leave like this */
#define FROM_ANYWHERE [XR_QPS_RESET] = { .valid = true }, [XR_QPS_ERR] = { .valid = true }

static const struct transition rc_transitions[STATES][STATES] = {
	[XR_QPS_RESET] = {
		[XR_QPS_RESET] = { .valid = true },
		[XR_QPS_INIT] = {
			.valid = true,
			.required = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		},
	},
	[XR_QPS_INIT] = {
		FROM_ANYWHERE,
		[XR_QPS_INIT] = {
			.valid = true,
			.optional = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		},
		[XR_QPS_RTR] = {
			.valid = true,
			.required = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
			.optional = IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX,
		},
	},
	[XR_QPS_RTR] = {
		FROM_ANYWHERE,
		[XR_QPS_RTS] = {
			.valid = true,
			.required = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
			.optional = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS |
				    IBV_QP_MIN_RNR_TIMER | IBV_QP_RATE_LIMIT | ALT,
		},
	},
	[XR_QPS_RTS] = {
		FROM_ANYWHERE,
		[XR_QPS_RTS] = {
			.valid = true,
			.optional = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS |
				    IBV_QP_MIN_RNR_TIMER | IBV_QP_RATE_LIMIT | ALT,
		},
		[XR_QPS_SQD] = { .valid = true, .optional = IBV_QP_EN_SQD_ASYNC_NOTIFY },
	},
	[XR_QPS_SQD] = {
		FROM_ANYWHERE,
		[XR_QPS_RTS] = {
			.valid = true,
			.optional = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS |
				    IBV_QP_MIN_RNR_TIMER | IBV_QP_RATE_LIMIT | ALT,
		},
		[XR_QPS_SQD] = {
			.valid = true,
			.optional = IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				    IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC |
				    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ACCESS_FLAGS |
				    IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER | ALT,
		},
	},
	/* reached by UC and UD only, which may leave it to RTS */
	[XR_QPS_SQE] = { FROM_ANYWHERE },
	[XR_QPS_ERR] = { FROM_ANYWHERE },
};

static const struct transition uc_transitions[STATES][STATES] = {
	[XR_QPS_RESET] = {
		[XR_QPS_RESET] = { .valid = true },
		[XR_QPS_INIT] = {
			.valid = true,
			.required = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		},
	},
	[XR_QPS_INIT] = {
		FROM_ANYWHERE,
		[XR_QPS_INIT] = {
			.valid = true,
			.optional = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		},
		[XR_QPS_RTR] = {
			.valid = true,
			.required = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
			.optional = IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX,
		},
	},
	[XR_QPS_RTR] = {
		FROM_ANYWHERE,
		[XR_QPS_RTS] = {
			.valid = true,
			.required = IBV_QP_SQ_PSN,
			.optional = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS |
				    IBV_QP_RATE_LIMIT | ALT,
		},
	},
	[XR_QPS_RTS] = {
		FROM_ANYWHERE,
		[XR_QPS_RTS] = {
			.valid = true,
			.optional = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS |
				    IBV_QP_RATE_LIMIT | ALT,
		},
		[XR_QPS_SQD] = { .valid = true, .optional = IBV_QP_EN_SQD_ASYNC_NOTIFY },
	},
	[XR_QPS_SQD] = {
		FROM_ANYWHERE,
		[XR_QPS_RTS] = {
			.valid = true,
			.optional = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS |
				    IBV_QP_RATE_LIMIT | ALT,
		},
		[XR_QPS_SQD] = {
			.valid = true,
			.optional = IBV_QP_AV | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | ALT,
		},
	},
	[XR_QPS_SQE] = {
		FROM_ANYWHERE,
		[XR_QPS_RTS] = {
			.valid = true,
			.optional = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS,
		},
	},
	[XR_QPS_ERR] = { FROM_ANYWHERE },
};

static const struct transition ud_transitions[STATES][STATES] = {
	[XR_QPS_RESET] = {
		[XR_QPS_RESET] = { .valid = true },
		[XR_QPS_INIT] = {
			.valid = true,
			.required = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
		},
	},
	[XR_QPS_INIT] = {
		FROM_ANYWHERE,
		[XR_QPS_INIT] = {
			.valid = true,
			.optional = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
		},
		[XR_QPS_RTR] = { .valid = true, .optional = IBV_QP_PKEY_INDEX | IBV_QP_QKEY },
	},
	[XR_QPS_RTR] = {
		FROM_ANYWHERE,
		[XR_QPS_RTS] = {
			.valid = true,
			.required = IBV_QP_SQ_PSN,
			.optional = IBV_QP_CUR_STATE | IBV_QP_QKEY | IBV_QP_RATE_LIMIT,
		},
	},
	[XR_QPS_RTS] = {
		FROM_ANYWHERE,
		[XR_QPS_RTS] = {
			.valid = true,
			.optional = IBV_QP_CUR_STATE | IBV_QP_QKEY | IBV_QP_RATE_LIMIT,
		},
		[XR_QPS_SQD] = { .valid = true, .optional = IBV_QP_EN_SQD_ASYNC_NOTIFY },
	},
	[XR_QPS_SQD] = {
		FROM_ANYWHERE,
		[XR_QPS_RTS] = {
			.valid = true,
			.optional = IBV_QP_CUR_STATE | IBV_QP_QKEY | IBV_QP_RATE_LIMIT,
		},
		[XR_QPS_SQD] = { .valid = true, .optional = IBV_QP_PKEY_INDEX | IBV_QP_QKEY },
	},
	[XR_QPS_SQE] = {
		FROM_ANYWHERE,
		[XR_QPS_RTS] = {
			.valid = true,
			.optional = IBV_QP_CUR_STATE | IBV_QP_QKEY,
		},
	},
	[XR_QPS_ERR] = { FROM_ANYWHERE },
};

/*
 * XRC, IBTA annex A14: RC cut in two. The initiator has what concerns requests, the target what
 * concerns answers; the kernel's ib_modify_qp_is_ok() has the same masks.
 */
#define XRC_FROM_RESET                                                                             \
	[XR_QPS_RESET] = {                                                                         \
		[XR_QPS_RESET] = { .valid = true },                                                \
		[XR_QPS_INIT] = {                                                                  \
			.valid = true,                                                             \
			.required = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,         \
		},                                                                                 \
	}
#define INITIATOR_RTS (IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | ALT)
#define TARGET_RTS (INITIATOR_RTS | IBV_QP_MIN_RNR_TIMER)

static const struct transition xrc_send_transitions[STATES][STATES] = {
	XRC_FROM_RESET,
	[XR_QPS_INIT] = {
		FROM_ANYWHERE,
		[XR_QPS_INIT] = {
			.valid = true,
			.optional = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		},
		[XR_QPS_RTR] = {
			.valid = true,
			.required = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
			.optional = IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX,
		},
	},
	[XR_QPS_RTR] = {
		FROM_ANYWHERE,
		[XR_QPS_RTS] = {
			.valid = true,
			.required = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
			.optional = INITIATOR_RTS,
		},
	},
	[XR_QPS_RTS] = {
		FROM_ANYWHERE,
		[XR_QPS_RTS] = { .valid = true, .optional = INITIATOR_RTS },
		[XR_QPS_SQD] = { .valid = true, .optional = IBV_QP_EN_SQD_ASYNC_NOTIFY },
	},
	[XR_QPS_SQD] = {
		FROM_ANYWHERE,
		[XR_QPS_RTS] = { .valid = true, .optional = INITIATOR_RTS },
		[XR_QPS_SQD] = {
			.valid = true,
			.optional = IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				    IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC |
				    IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | ALT,
		},
	},
	[XR_QPS_ERR] = { FROM_ANYWHERE },
};

static const struct transition xrc_recv_transitions[STATES][STATES] = {
	XRC_FROM_RESET,
	[XR_QPS_INIT] = {
		FROM_ANYWHERE,
		[XR_QPS_INIT] = {
			.valid = true,
			.optional = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		},
		[XR_QPS_RTR] = {
			.valid = true,
			.required = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
			.optional = IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX,
		},
	},
	[XR_QPS_RTR] = {
		FROM_ANYWHERE,
		[XR_QPS_RTS] = {
			.valid = true,
			.required = IBV_QP_TIMEOUT | IBV_QP_SQ_PSN,
			.optional = TARGET_RTS,
		},
	},
	[XR_QPS_RTS] = {
		FROM_ANYWHERE,
		[XR_QPS_RTS] = { .valid = true, .optional = TARGET_RTS },
		[XR_QPS_SQD] = { .valid = true, .optional = IBV_QP_EN_SQD_ASYNC_NOTIFY },
	},
	[XR_QPS_SQD] = {
		FROM_ANYWHERE,
		[XR_QPS_RTS] = { .valid = true, .optional = TARGET_RTS },
		[XR_QPS_SQD] = {
			.valid = true,
			.optional = IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT |
				    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ACCESS_FLAGS |
				    IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER | ALT,
		},
	},
	[XR_QPS_ERR] = { FROM_ANYWHERE },
};

static const struct transition (*transitions(uint32_t type))[STATES]
{
	switch (type) {
	case XR_QPT_RC:
		return rc_transitions;
	case XR_QPT_UC:
		return uc_transitions;
	case XR_QPT_UD:
		return ud_transitions;
	case XR_QPT_XRC_SEND:
		return xrc_send_transitions;
	case XR_QPT_XRC_RECV:
		return xrc_recv_transitions;
	default:
		return NULL;
	}
}

/* ---- values --------------------------------------------------------------------------------- */

/*
 * Remote rights are all that counts. Programs give a QP the flags of their regions as well, and no
 * driver minds.
 */
#define QP_ACCESS                                                                                  \
	(XR_ACCESS_LOCAL_WRITE | XR_ACCESS_REMOTE | XR_ACCESS_MW_BIND | XR_ACCESS_ZERO_BASED |     \
	 XR_ACCESS_ON_DEMAND | XR_ACCESS_HUGETLB | XR_ACCESS_OPTIONAL)

static bool limits_sane(const struct xr_qp_attr *a, uint32_t mask)
{
	/* field, bit that announces it, highest value */
	const struct {
		uint32_t bit, value, max;
	} limits[] = {
		{ IBV_QP_PKEY_INDEX, a->pkey_index, 0 },
		{ IBV_QP_ACCESS_FLAGS, a->qp_access_flags & ~QP_ACCESS, 0 },
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
	if ((mask & IBV_QP_AV) && (!a->ah.is_global || a->ah.port_num != 1 ||
				   a->ah.sgid_index >= XR_GID_TABLE_LEN))
		return -EINVAL;
	/* there is one path, and it is never left */
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
	const struct transition (*table)[STATES] = transitions(qp->info.type);
	uint32_t to = target_state(qp, a, mask), given = mask & ~IBV_QP_STATE;
	const struct transition *t;

	if (!table || to >= STATES)
		return -EINVAL;
	t = &table[qp->info.state][to];
	if (!t->valid || (t->required & ~given) || (given & ~(t->required | t->optional)))
		return -EINVAL;
	return check_values(qp, a, mask);
}

/* ---- what changes ----------------------------------------------------------------------- */

static void apply_values(struct xt_qp *qp, const struct xr_qp_attr *a, uint32_t mask)
{
	struct xr_qp_attr *to = &qp->d.attr;

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

static void to_reset(struct xt_qp *qp)
{
	xt_qp_quiesce(qp);
	xt_unbind_all(qp);
	xt_sq_free(qp);
	memset(&qp->d, 0, sizeof(qp->d));
	empty_ring(qp->sq_ring);
	empty_ring(qp->rq_ring);
	xt_qp_store_psns(qp);
}

/* What goes on where the new state is reached */
static void enter(struct xt_qp *qp, uint32_t from, uint32_t to)
{
	if (to == XR_QPS_RTR && from == XR_QPS_INIT)
		xt_resp_reset(qp);
	if (to == XR_QPS_RTS && from == XR_QPS_RTR)
		xt_req_reset(qp);
	xt_qp_store_psns(qp);
	xt_qp_store_state(qp, to);
	if (to == XR_QPS_SQD && from == XR_QPS_RTS) {
		qp->d.drained = false;
		xt_req_check_drained(qp);
	}
	if (to == XR_QPS_RTS && xt_sq_look(qp))
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
	if (to == XR_QPS_RTS) {
		err = xt_sq_alloc(qp);
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
	if (qp->info.type == XR_QPT_UD)
		xt_qp_set_mtu(qp, max_mtu);
	if (mask & IBV_QP_AV)
		xt_qp_set_path(qp, path);
	enter(qp, from, to);
	return 0;
}

void xt_qp_set_mtu(struct xt_qp *qp, uint32_t mtu)
{
	qp->d.mtu = mtu;
	qp->d.mtu_shift = __builtin_ctz(mtu);
}

void xt_qp_set_burst(struct xt_qp *qp, uint32_t burst)
{
	xt_pace_set(qp, burst);
	/* it may be waiting for the old rate */
	if (xt_may_send(qp))
		xt_activate(qp);
}

void xt_qp_set_path(struct xt_qp *qp, const struct xt_path *path)
{
	bool moved = path->local != qp->d.path.local;

	qp->d.path = *path;
	xt_template_build(&qp->tmpl, path, qp->d.attr.dest_qp_num,
			  xt_source_port(path, qp->info.qpn, qp->d.attr.dest_qp_num));
	/* between wire and direct way: on from what is acknowledged */
	if (moved && xt_may_send(qp))
		xt_req_go_back(qp);
}

void xt_qp_query(const struct xt_qp *qp, struct xr_qp_attr *attr)
{
	const struct xt_durable *d = &qp->d;

	*attr = d->attr;
	attr->qp_state = attr->cur_qp_state = qp->info.state;
	attr->path_mig_state = IBV_MIG_MIGRATED;
	attr->sq_draining = qp->info.state == XR_QPS_SQD && !d->drained;
	/* the numbers as they stand now, not as they were set */
	if (qp->info.state >= XR_QPS_RTR)
		attr->rq_psn = d->resp.epsn & XR_PSN_MASK;
	if (qp->info.state >= XR_QPS_RTS)
		attr->sq_psn = d->req.load_psn & XR_PSN_MASK;
}
