/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Rate limits of QPs (IBV_QP_RATE_LIMIT), and that of all UC QPs of an engine together. Lengths are
 * bytes of whole frames.
 *
 * Nothing tells the sender of a UC message how much its peer has room for. A fast sender fills any
 * receive ring while the peer's worker waits for a processor, which takes some milliseconds, and
 * one lost packet costs the message.
 */
#ifndef XT_PACE_H
#define XT_PACE_H

#include "daemon/transport/engine.h"
#include "daemon/transport/qp.h"

/* To be called when the rate limit was set. burst: bytes; 0: the engine chooses */
void xt_pace_set(struct xt_qp *qp, uint32_t burst);
/* Sets the rate of the UC QPs of an engine in kbit/s; 0: no limit. */
void xt_pace_set_uc(struct xt_engine *e, uint32_t rate);
bool xt_pace_limited_open(struct xt_qp *qp, const struct xt_pace *p);
void xt_pace_limited_spend(struct xt_pace *p, uint32_t bytes, uint64_t now);
bool xt_pace_limited_last(const struct xt_qp *qp, uint32_t bytes);

/* Returns true if a packet may be sent now; else sets the timer that activates the QP again. */
static inline bool xt_pace_open(struct xt_qp *qp)
{
	return !qp->pace.rate || xt_pace_limited_open(qp, &qp->pace);
}

static inline bool xt_pace_uc_open(struct xt_qp *qp)
{
	const struct xt_pace *p = &qp->engine->uc_pace;

	return xt_pace_open(qp) && (!p->rate || xt_pace_limited_open(qp, p));
}

/* Accounts for frames that were sent. */
static inline void xt_pace_spend(struct xt_qp *qp, uint32_t bytes)
{
	if (qp->pace.rate)
		xt_pace_limited_spend(&qp->pace, bytes, qp->engine->now);
}

static inline void xt_pace_uc_spend(struct xt_qp *qp, uint32_t bytes)
{
	struct xt_pace *p = &qp->engine->uc_pace;

	xt_pace_spend(qp, bytes);
	if (p->rate)
		xt_pace_limited_spend(p, bytes, qp->engine->now);
}

/* Returns true if the QP will have to wait after a frame of this length. */
static inline bool xt_pace_last(const struct xt_qp *qp, uint32_t bytes)
{
	return qp->pace.rate && xt_pace_limited_last(qp, bytes);
}

/* The QP has no rate limit any more. */
static inline void xt_pace_clear(struct xt_qp *qp)
{
	qp->pace = (struct xt_pace){ 0 };
}

#endif /* XT_PACE_H */
