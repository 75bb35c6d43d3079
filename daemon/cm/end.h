/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The ends of exchanges, and events. */
#ifndef XC_END_H
#define XC_END_H

#include "engine.h"

/*
 * Ends an exchange without TIMEWAIT. With `repeats` the last message is sent again for each
 * duplicate of the message that it responds to.
 */
void xc_end(struct xc_id *id, bool repeats);
/* Packets of the connection may still be in the network: keeps the id in XC_TIMEWAIT. */
void xc_timewait(struct xc_id *id);
void xc_timewait_expired(struct xc_id *id);
/*
 * Reports an event to the user; the last action on an id, as the user may destroy it. An orphan
 * whose exchange has ended is freed or kept for duplicates instead.
 */
void xc_report(struct xc_id *id, enum xc_event_type type, int status, const struct xc_msg *msg);
/* Makes an id an orphan. */
void xc_abandon(struct xc_id *id);

#endif /* XC_END_H */
