/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shared by the parsers of rules of fault injection:
 *
 *   text.c      rules, and what is common to all of them
 *   select.c    the packets that a rule selects
 *   when.c      when it applies to them
 *   packets.c   faults of packets
 *   errors.c    errors and events of queue pairs, CQs, SRQs and the device
 *   requests.c  faults of verbs
 *   words.c     words and values
 */
#ifndef XD_FAULTS_PARSE_H
#define XD_FAULTS_PARSE_H

#include "daemon/faults/rule.h"
#include "words.h"

#define XD_FAULT_DELAY_MAX 10000000000ull /* ns: 10 s */

/* Parses the words that must follow a keyword. */
typedef bool xd_fault_set(struct xd_words *w, struct xd_fault_rule *r);

xd_fault_set xd_fault_set_qp, xd_fault_set_queue, xd_fault_set_pid, xd_fault_set_uid,
	xd_fault_set_command, xd_fault_set_peer, xd_fault_set_mads, xd_fault_set_rx,
	xd_fault_set_tx, xd_fault_set_opcode;
xd_fault_set xd_fault_set_prob, xd_fault_set_burst, xd_fault_set_after, xd_fault_set_every,
	xd_fault_set_times, xd_fault_set_period, xd_fault_set_length;
xd_fault_set xd_fault_set_jitter, xd_fault_set_late, xd_fault_set_bits, xd_fault_set_icrc,
	xd_fault_set_field, xd_fault_delay, xd_fault_reorder, xd_fault_rate;
xd_fault_set xd_fault_set_timer, xd_fault_set_status, xd_fault_nak, xd_fault_rnr, xd_fault_qp_error,
	xd_fault_cq_error, xd_fault_event, xd_fault_gid;
xd_fault_set xd_fault_fail, xd_fault_slow;

/* NAKs answer received requests: selects no other packets. Returns false if none is left. */
bool xd_fault_select_requests(struct xd_words *w, struct xd_fault_rule *r);

#endif /* XD_FAULTS_PARSE_H */
