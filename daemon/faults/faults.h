/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Fault injection: the rules in force, and what they do to packets, to requests of programs and to
 * the device. They use no socket and no clock, so the workers, direct programs and the simulation
 * share them. A seed repeats a sequence of faults for the same sequence of packets.
 */
#ifndef XD_FAULTS_H
#define XD_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "rule.h"

struct xd_fault_mads;

/* Counters of a rule */
struct xd_fault_hits {
	uint64_t seen; /* packets that it selected */
	uint64_t hits; /* those that it applied to */
};

struct xd_fault_program {
	uint64_t client; /* number of the connection, not 0 */
	uint32_t pid, uid;
	const char *command;
	bool is_channel; /* of rdma_cm: the rules of other connections of its process are its own */
	bool is_operator;
};

/* Rules in force */
struct xd_faults;

#define XD_FAULT_CLIENT_RULES 16  /* of one program */
#define XD_FAULT_USER_RULES 24	  /* of all programs of one user, unless that is an operator */
#define XD_FAULT_CLIENTS_RULES 48 /* of all programs together */

/* ---- rules.c ---- */

struct xd_faults *xd_faults_new(void);
void xd_faults_free(struct xd_faults *f); /* NULL allowed */

/*
 * Replaces the rules of a program, which apply to QPs of that program only; NULL: those of the
 * operator. Returns -ENOSPC if there are too many rules. The numbers of rules change, so the caller
 * holds the lock, also while it calls xd_faults_of() for all programs.
 */
int xd_faults_set(struct xd_faults *f, const struct xd_fault_program *owner, uint64_t seed,
		  const struct xd_fault_rule *rules, uint32_t n);

/* Returns false if packets of this direction (XD_FAULT_RX or XD_FAULT_TX) have no faults. */
bool xd_faults_on(const struct xd_faults *f, uint32_t direction);
/* Returns true if the rules of an operator, or those of a user's programs, select packets. */
bool xd_faults_of_user(const struct xd_faults *f, uint32_t uid);
/* Returns the rules that select packets of QPs of the program; NULL: of QPs of no program. */
uint64_t xd_faults_of(const struct xd_faults *f, const struct xd_fault_program *program);
/*
 * Returns those of some rules that may select MADs of the daemon's QP 1: no errors of QPs, because
 * all programs use it, and no rules of programs by which one could forge a MAD for another.
 * self: to this device, which ports that are down and GIDs that are gone do not prevent.
 */
uint64_t xd_faults_of_mads(const struct xd_faults *f, uint64_t rules, bool self);
/* Returns the table of programs that MADs belong to. */
struct xd_fault_mads *xd_faults_mads(struct xd_faults *f);
/* Returns true if the rules depend on the program of a QP. */
bool xd_faults_by_program(const struct xd_faults *f);
/* Returns a rule, NULL behind the last one. *owner: the client whose rule it is, 0: the operator */
const struct xd_fault_rule *xd_faults_at(struct xd_faults *f, uint32_t index,
					 struct xd_fault_hits *hits, uint64_t *owner);
/* Adds packets that a direct program counted for a rule; they do not matter for when it applies. */
void xd_faults_add_hits(struct xd_faults *f, uint32_t index, uint64_t seen, uint64_t hits);
uint64_t xd_faults_seed(const struct xd_faults *f); /* of the operator's rules */
/*
 * Threads that share the rules hold the lock while they find the rules that select the program of a
 * packet and call xd_faults_next() or xd_faults_refusal(), for one packet or a batch.
 * xd_faults_verb() and xd_faults_tick() take it themselves.
 */
void xd_faults_lock(struct xd_faults *f);
void xd_faults_unlock(struct xd_faults *f);

/* ---- packets.c ---- */

/* A packet to which rules are applied */
struct xd_fault_packet {
	uint32_t direction; /* XD_FAULT_RX or XD_FAULT_TX */
	uint32_t queue;
	const struct xt_frame *frame; /* meta.qpn: QP of this device */
	uint64_t now;		      /* ns, any clock that does not go back */
	uint64_t rules;		      /* rules that select the program of the packet's QP */
};

/* The faults to apply to one packet */
struct xd_fault_action {
	bool hit;		     /* any fault */
	uint8_t copies;		     /* 0: drop, 2: duplicate */
	uint8_t flips;		     /* bits to flip in the first copy */
	bool seal;		     /* the ICRC of the first copy is computed again */
	uint64_t flip_seed;	     /* selects those bits */
	struct xd_fault_field field; /* bytes to overwrite in the first copy */
	struct xt_inject inject;     /* into the QP; the first one of all rules */
	bool refusal;		     /* rules of NAKs select it, see xd_faults_refusal() */
	uint8_t delayed_by;   /* the last rule of a program that delays it; XD_FAULT_NO_RULE */
	uint64_t delay_ns[2]; /* of each copy; 0: send or receive at once, in order */
};

/* Returns the action for the next packet. */
struct xd_fault_action xd_faults_next(struct xd_faults *f, const struct xd_fault_packet *packet);
/*
 * Returns the NAK or RNR NAK for a received request that would be executed now. Only these requests
 * count for rules of NAKs: a responder does not refuse duplicates.
 */
struct xt_inject xd_faults_refusal(struct xd_faults *f, const struct xd_fault_packet *packet);
/* Lets what is sent to this device, or to a multicast group, meet faults: as frames. */
void xd_path_to_self(struct xt_path *p);

/* ---- damage.c ---- */

/* Damages the first copy of a frame: overwrites a field, flips bits behind the addresses. */
void xd_fault_damage(const struct xd_fault_action *action, const struct xt_frame *frame);

/* ---- requests.c ---- */

/* The faults of one request of a program */
struct xd_fault_verb {
	int error; /* negative errno, 0: none */
	uint64_t delay_ns;
};

/* Returns the faults of the next request. rules: those that select the program */
struct xd_fault_verb xd_faults_verb(struct xd_faults *f, uint32_t type, uint64_t rules,
				    uint64_t now);

/* ---- turns.c ---- */

/* Rules of faults of time, by bits */
struct xd_fault_turns {
	uint64_t raised;  /* events that are due */
	uint64_t changed; /* a turn has begun or ended */
};

/*
 * Begins and ends the turns of faults of time. Returns when it must be called again, XT_NEVER: only
 * after xd_faults_set().
 */
uint64_t xd_faults_tick(struct xd_faults *f, uint64_t now, struct xd_fault_turns *turns);
/* Returns the rules of a kind whose turn it is. */
uint64_t xd_faults_active(struct xd_faults *f, enum xd_fault_kind kind);
/* Returns true if a rule among `rules` lets a GID be gone now. */
bool xd_faults_hide(struct xd_faults *f, uint64_t rules, const struct xr_addr *gid);

#endif /* XD_FAULTS_H */
