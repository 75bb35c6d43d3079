/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Arming of CQs that may hold completions. */
#ifndef XP_CQ_ARM_H
#define XP_CQ_ARM_H

#include "provider/verbs/cq.h"

/*
 * For an armed CQ: if it holds completions, rings the doorbell of the QP of the first one, whose
 * worker raises the event if it is due. Returns true if that is a QP of another program (XRC): the
 * caller calls xp_cq_ask_for_event() without the lock. Needs cq->lock.
 *
 * A program that arms right after it has read an event polls next, in the order of
 * ibv_get_cq_event(3). An event would come although nothing is left to poll then, and perftest
 * takes each event for a completion.
 */
bool xp_cq_report_armed(struct xp_cq *cq);
/* Lets the daemon raise the event of an armed CQ if it is due. Returns 0 or an errno. */
int xp_cq_ask_for_event(struct xp_cq *cq);

#endif /* XP_CQ_ARM_H */
