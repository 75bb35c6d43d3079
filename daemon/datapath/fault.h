/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Fault injection: a list of rules, each with the packets that it selects, with when it applies to
 * them, and with a fault. It uses no socket and no clock, so the workers and the simulation share
 * it. A seed repeats a sequence of faults for the same sequence of packets.
 */
#ifndef XD_FAULT_H
#define XD_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/control.h>
#include <xroce/gid.h>

#include "daemon/transport/transport.h"

/* Directions of packets */
#define XD_FAULT_RX 1
#define XD_FAULT_TX 2

struct xd_fault_mads;

#define XD_FAULT_ANY UINT32_MAX
#define XD_FAULT_NAME 16	     /* bytes of a command's name with NUL, as in /proc/PID/comm */
#define XD_FAULT_TEXT 256	     /* bytes of the text of a rule with NUL */
#define XD_FAULT_CERTAIN 1000000000u /* a probability of 1; probabilities are in units of 1e-9 */

enum xd_fault_kind {
	XD_FAULT_DROP,
	XD_FAULT_DUPLICATE,
	XD_FAULT_DELAY,
	XD_FAULT_RATE,
	XD_FAULT_CORRUPT,
	XD_FAULT_INJECT, /* an error of the QP */
	XD_FAULT_VERB,	 /* requests of programs fail, or are delayed */
	/* faults of time alone: turns, which begin when the rule is set, are counted */
	XD_FAULT_PORT,	/* the port is down: all packets are lost */
	XD_FAULT_GID,	/* a GID is gone, and packets from and to it are lost */
	XD_FAULT_EVENT, /* an event of the device or port */
};

/* The packets that a rule selects: those that agree with all fields */
struct xd_fault_match {
	uint32_t direction; /* XD_FAULT_RX | XD_FAULT_TX */
	uint32_t qpn;	    /* number of the QP of this device, or XD_FAULT_ANY */
	uint32_t queue;	    /* where it arrived, or of the worker that sends it, or XD_FAULT_ANY */
	bool mads;	    /* only MADs of connection management */
	bool has_opcodes, has_peer;
	__u64 opcodes[4];    /* bit by opcode of the BTH */
	struct xr_addr gid;  /* GID: packets with this address of the device */
	struct xr_addr peer; /* address of the peer, IPv4-mapped if it is one of IPv4 */

	/* Packets of QPs of these programs. XD_FAULT_ANY and an empty string: of all. */
	uint32_t pid, uid;
	char command[XD_FAULT_NAME];
};

/* When a rule applies to a packet that it selects. Packets are counted from 0. */
struct xd_fault_when {
	uint64_t after, every; /* packets `after`, `after` + `every`, ... */
	uint64_t times;	       /* at most so often; 0: without limit */
	uint32_t probability;
	/* Gilbert-Elliott: from the good to the bad state and back. In the good state no fault. */
	uint32_t enter, leave;
	/* In ns: during the first `length` of each period; period 0: always */
	uint64_t period, length;
};

/* Bytes that a fault overwrites */
struct xd_fault_field {
	uint16_t offset; /* from the BTH */
	uint8_t width;	 /* bytes; 0: none */
	uint32_t value;
};

struct xd_fault_rule {
	enum xd_fault_kind kind;
	struct xd_fault_match match;
	struct xd_fault_when when;
	uint64_t delay, jitter; /* DELAY, and of the second copy of DUPLICATE; ns */
	uint64_t rate;		/* RATE: bit/s */
	uint32_t bits;		/* CORRUPT: number of bits to flip; 0: 1 to 3 */
	struct xd_fault_field field;
	bool seal; /* CORRUPT: the ICRC is right afterwards */
	struct xt_inject inject;
	uint64_t verbs; /* VERB: bit by enum xr_msg_type */
	int error;	/* VERB: negative errno; 0: only delayed */
	uint32_t event; /* EVENT: enum ibv_event_type */
	char text[XD_FAULT_TEXT];
};

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

#define XD_FAULT_NO_RULE UINT8_MAX

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

/* Rules in force */
struct xd_faults;

#define XD_FAULT_RULES 64	  /* of a device */
#define XD_FAULT_CLIENT_RULES 16  /* of one program */
#define XD_FAULT_USER_RULES 24	  /* of all programs of one user, unless that is an operator */
#define XD_FAULT_CLIENTS_RULES 48 /* of all programs together */

/* Faults of time are looked at this often; no turn is shorter. */
#define XD_FAULT_TICK_NS 1000000ull

struct xd_faults *xd_faults_new(void);
void xd_faults_free(struct xd_faults *f); /* NULL allowed */

/*
 * Replaces the rules of a program, which apply to QPs of that program only; NULL: those of the
 * operator. Returns -ENOSPC if there are too many rules. No other thread may use *f meanwhile.
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
/*
 * Threads that share the rules hold the lock while they call xd_faults_next(), for one packet or a
 * batch. xd_faults_refusal(), xd_faults_verb() and xd_faults_tick() take it themselves.
 */
void xd_faults_lock(struct xd_faults *f);
void xd_faults_unlock(struct xd_faults *f);
/* Returns the action for the next packet. */
struct xd_fault_action xd_faults_next(struct xd_faults *f, const struct xd_fault_packet *packet);
/*
 * Returns the NAK or RNR NAK for a received request that would be executed now. Only these requests
 * count for rules of NAKs: a responder does not refuse duplicates.
 */
struct xt_inject xd_faults_refusal(struct xd_faults *f, const struct xd_fault_packet *packet);
/* The faults of one request of a program */
struct xd_fault_verb {
	int error; /* negative errno, 0: none */
	uint64_t delay_ns;
};

/* Returns the faults of the next request. rules: those that select the program */
struct xd_fault_verb xd_faults_verb(struct xd_faults *f, uint32_t type, uint64_t rules,
				    uint64_t now);
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
/* Lets what is sent to this device, or to a multicast group, meet faults: as frames. */
void xd_path_to_self(struct xt_path *p);
/* Damages the first copy of a frame: overwrites a field, flips bits behind the addresses. */
void xd_fault_damage(const struct xd_fault_action *action, const struct xt_frame *frame);

/* Returns a rule, NULL behind the last one. *owner: the client whose rule it is, 0: the operator */
const struct xd_fault_rule *xd_faults_at(struct xd_faults *f, uint32_t index,
					 struct xd_fault_hits *hits, uint64_t *owner);
/* Adds packets that a direct program counted for a rule; they do not matter for when it applies. */
void xd_faults_add_hits(struct xd_faults *f, uint32_t index, uint64_t seen, uint64_t hits);
uint64_t xd_faults_seed(const struct xd_faults *f); /* of the operator's rules */

#endif /* XD_FAULT_H */
