/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A rule of fault injection: a fault, the packets or requests that it selects, and when it applies
 * to them. text/ parses rules, and faults.h applies them.
 */
#ifndef XD_FAULTS_RULE_H
#define XD_FAULTS_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/gid.h>

#include "daemon/transport/transport.h"

/* Directions of packets */
#define XD_FAULT_RX 1
#define XD_FAULT_TX 2

#define XD_FAULT_ANY UINT32_MAX
#define XD_FAULT_NAME 16	     /* bytes of a command's name with NUL, as in /proc/PID/comm */
#define XD_FAULT_TEXT 256	     /* bytes of the text of a rule with NUL */
#define XD_FAULT_CERTAIN 1000000000u /* a probability of 1; probabilities are in units of 1e-9 */
#define XD_FAULT_RULES 64	     /* of a device */
#define XD_FAULT_NO_RULE UINT8_MAX   /* in place of the index of a rule */

/* Faults of time are looked at this often; no turn is shorter. */
#define XD_FAULT_TICK_NS 1000000ull

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

#endif /* XD_FAULTS_RULE_H */
