/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shared by the files of this folder: the rules in force, and their counters and states.
 *
 *   rules.c     the list of rules, and the programs whose packets they select
 *   when.c      when a rule applies to what it selects
 *   packets.c   faults of packets
 *   requests.c  faults of verbs
 *   turns.c     faults of time: ports that are down, GIDs that are gone, events
 */
#ifndef XD_FAULTS_INTERNAL_H
#define XD_FAULTS_INTERNAL_H

#include <pthread.h>

#include "faults.h"

/* The ICRC detects up to so many bit errors in a packet. */
#define XD_FAULT_FLIPS 3

struct xd_rule {
	struct xd_fault_rule rule;
	struct xd_fault_hits hits;
	struct xd_fault_hits elsewhere; /* of direct programs */
	uint64_t owner;			/* client, 0: the operator */
	uint32_t pid, uid;		/* of that client */
	uint64_t random;		/* state of the generator */
	uint64_t started;		/* time of the first packet, for periods; 0: none yet */
	uint64_t free_at;		/* RATE: when all packets before have left */
	bool bad;			/* state of the Gilbert-Elliott model */

	/* faults of time; 0: none was begun yet */
	uint64_t begins_at, ends_at; /* of the next turn, of the present one */
	bool active;		     /* it is the rule's turn */
};

struct xd_faults {
	pthread_mutex_t lock;
	struct xd_fault_mads *mads;
	uint32_t n;
	uint32_t directions; /* of all rules; atomic */
	uint64_t any;	     /* rules that select QPs of no program as well */
	uint64_t seed;
	struct xd_rule rule[XD_FAULT_RULES];
};

static inline bool xd_rule_is_timed(const struct xd_rule *r)
{
	return r->rule.kind >= XD_FAULT_PORT;
}

static inline bool xd_rule_is_injection(const struct xd_rule *r)
{
	return r->rule.kind == XD_FAULT_INJECT;
}

static inline bool xd_rule_is_refusal(const struct xd_rule *r)
{
	return xd_rule_is_injection(r) &&
	       (r->rule.inject.kind == XT_INJECT_NAK || r->rule.inject.kind == XT_INJECT_RNR);
}

/* ---- when.c ---- */

/* Counts what a rule selects. Returns true if the rule applies to it. */
bool xd_rule_applies(struct xd_rule *r, uint64_t now);
/* Returns the delay of a rule, with its jitter. */
uint64_t xd_rule_delay(struct xd_rule *r);

#endif /* XD_FAULTS_INTERNAL_H */
