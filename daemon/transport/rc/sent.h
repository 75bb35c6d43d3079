/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The log of what a requester has sent, by which it infers losses as RACK does (RFC 8985): what was
 * sent before something that is answered, and is not answered itself, is lost.
 *
 * Packets are new in the order of their PSNs, so only those that are sent again need a record:
 * packets of SENDs and WRITEs, READ requests for missing responses, atomics, probes. The records
 * are in the order in which they were sent, and each has the PSN of the first packet that was not
 * sent then. So the log has the order of all packets that were sent:
 *
 * - A response to what was sent again passes the records before it. Packets that were new before it
 *   are lost as well; of these, an ACK names the first one only.
 * - A response to a packet that was new passes the records of what was sent again before.
 *
 * What has been passed is lost again. The response to a probe passes nothing if it covers more than
 * the probe, as it is likely to be a late one to the packet that was sent first.
 */
#ifndef XT_SENT_H
#define XT_SENT_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/transport/rc/part.h"

/* What an ACK says of the packets behind those that were sent again */
struct xt_acked {
	uint32_t horizon; /* those before this PSN were sent earlier, so the next one is lost */
	bool kept;	  /* the peer has kept some of them */
	bool dropped;	  /* the next one is missing */
};

/* Returns the latest record of PSNs in [psn, end), NULL: none. */
struct xt_sent *xt_sent_find(struct xt_sent_log *l, uint32_t psn, uint32_t end);
/*
 * Adds a record, which continues the latest one if possible. old: record of the same READ request,
 * which the new one replaces; else NULL. If the log is full, the oldest record is dropped: the
 * packets of it are taken for such as were sent once.
 */
void xt_sent_add(struct xt_sent_log *l, struct xt_sent *old, const struct xt_sent *s,
		 uint32_t unacked);
/* A response names a PSN: passes what was sent before. */
void xt_sent_answered(struct xt_sent_log *l, uint32_t psn);
/* All packets before @unacked are answered: drops their records. */
struct xt_acked xt_sent_acked(struct xt_sent_log *l, uint32_t unacked);

#endif /* XT_SENT_H */
