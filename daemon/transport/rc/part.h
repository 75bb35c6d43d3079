/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The parts of a QP that are the requester and the responder, with the round-trip time of the
 * requester's packets. UC and loopback use them as well.
 */
#ifndef XT_RC_PART_H
#define XT_RC_PART_H

#include "daemon/transport/queue/part.h"
#include "daemon/transport/transport.h"

/* ACKs are requested at least this often, so that a full window always has one outstanding. */
#define XT_ACK_EVERY 16

enum xt_wait {
	XT_WAIT_NONE,
	XT_WAIT_ACK,	     /* packets are in flight */
	XT_WAIT_RNR,	     /* an RNR NAK was received; loopback: the peer has no receive */
	XT_WAIT_UNREACHABLE, /* loopback: the peer does not exist or cannot receive */
};

/* As many READ requests may be sent again before one is answered, or more packets of messages. */
#define XT_SENT 16

/* Packets that were sent again, and are not answered; see sent.h */
struct xt_sent_log {
	uint32_t count;
	struct xt_sent {
		uint32_t psn, end; /* PSNs; of a READ: of the responses that were requested */
		uint32_t next;	   /* xt_requester.next then */
		bool read;	   /* READ request or atomic */
		bool probe;	   /* without a sign of loss */
		bool passed;	   /* something that was sent later is answered */
		uint64_t at;	   /* time */
	} sent[XT_SENT];	   /* in this order */
};

/* The requester, see requester.c */
struct xt_requester {
	/* PSNs: unacked <= next <= max */
	uint32_t unacked; /* oldest not acknowledged */
	uint32_t next;	  /* to be sent next; goes back for retries */
	uint32_t max;	  /* one beyond the highest ever sent */

	uint32_t lsn;	       /* last message that the peer has a receive for */
	uint32_t rd_inflight;  /* requests in [unacked, next) that count against max_rd_atomic */
	uint32_t window;       /* packets that may be in flight now */
	uint32_t most;	       /* largest window */
	uint32_t since_ackreq; /* packets sent since the last one that requests a response */
	uint32_t ackreq_psn;   /* PSN of that packet */
	bool credits;	       /* lsn is valid */
	uint32_t takes_end;    /* PSN behind the last packet sent that takes a receive */

	/* What is lost, see lost.h: unacked <= executed <= lost */
	uint32_t executed;   /* the peer has executed the requests before this PSN */
	uint32_t lost;	     /* requests from `executed` to this PSN are lost */
	bool resend;	     /* there may be something to be sent again */
	bool probe;	     /* the oldest one is to be sent again, without a sign of loss */
	uint32_t horizon;    /* packets before it arrive before those sent again do, or are lost */
	uint32_t run;	     /* packets that are sent again for the next loss */
	bool dropped;	     /* the packet behind those that were sent again is missing */
	uint32_t shrunk_psn; /* losses before it have shrunk the window already */
	struct xt_sent_log sent;

	uint64_t ack_deadline, probe_at, stall_at; /* see resend.c; ns */
	bool stalled; /* no response for a long time: its packets do not count in the window */
	/*
	 * Loopback: the writes of the next piece are posted, and the rest of it is executed when
	 * they have ended. Bytes of full pieces; 0: no
	 */
	uint32_t posted;
	uint32_t peer_stops; /* loopback: xt_waiting.stops of the peer when writes were posted */
	uint8_t retry_left;
	uint8_t rnr_left;
	uint8_t wait;	/* enum xt_wait */
	uint8_t probes; /* sent since the last progress */
	uint8_t looks;	/* of a loopback peer for a receive, since the last progress */
};

/* Round-trip time of packets that request a response, see rtt.c; ns */
struct xt_rtt {
	bool timed;		   /* a packet is being timed: */
	bool asked;		   /* its response was asked for */
	uint32_t psn;		   /* its PSN */
	uint64_t sent_at;	   /* when it was sent */
	uint32_t least;		   /* shortest time, rises slowly; 0: no packet was timed yet */
	uint32_t recent;	   /* of the last few packets */
	uint32_t usual, deviation; /* smoothed time, and smoothed difference from it */
	uint32_t doubts;	   /* responses that were asked for, without a sample since */
	uint32_t backoff;	   /* a response that was asked for took so long; 0: see rtt.c */
	bool again;		   /* the packet that is timed was sent again */
	uint32_t again_usual, again_deviation; /* the same of packets that were sent again */
	struct xt_rtt_history {
		uint64_t sum;
		uint32_t bucket[XT_RTT_BUCKETS];
	} history; /* since the QP was created */
};

/* A request with a response other than an ACK, kept so that the response can be repeated */
struct xt_rd {
	uint64_t va;
	uint64_t value; /* atomics: the value before */
	uint32_t rkey;
	uint32_t pd;
	uint32_t len;
	uint32_t psn;
	uint32_t npsn;
	uint8_t kind; /* enum xt_wr_kind */
};

/* Response packets to be sent again: [next, end) of those of an entry */
struct xt_repeat {
	uint32_t index; /* of the entry, see xt_responder.rd */
	uint32_t first, next, end;
};

/* The ACK or NAK to be sent behind the READ responses */
enum xt_ack_due {
	XT_ACK_DUE_NONE,
	XT_ACK_DUE_ACK,
	XT_ACK_DUE_SEQ_NAK,
	XT_ACK_DUE_RNR_NAK,
	XT_ACK_DUE_NAK, /* last packet of a QP in ERR */
};

struct xt_responder {
	uint32_t epsn; /* expected; UD: number of datagrams received */
	uint32_t seen; /* one beyond the highest PSN received out of sequence */
	uint32_t msn;
	uint32_t acked;	   /* PSN behind the last one that an ACK has covered */
	uint32_t unacked;  /* packets accepted since the last ACK */
	uint8_t kind;	   /* enum xt_wr_kind of the message being received */
	uint8_t ack_due;   /* enum xt_ack_due */
	uint8_t nak_code;  /* XT_ACK_DUE_NAK: enum xr_nak */
	bool also_ack;	   /* an ACK is due before the NAK that is due */
	bool nak_sent;	   /* a NAK for the present gap was sent */
	bool rnr_sent;	   /* an RNR NAK was sent: the peer sends all that follows again */
	uint16_t ahead;	   /* packets received ahead of sequence since that NAK */
	uint32_t nak_psn;  /* XT_ACK_DUE_NAK */
	bool comm_est;	   /* IBV_EVENT_COMM_EST was raised */
	uint8_t rnr_timer; /* XT_ACK_DUE_RNR_NAK */
	uint32_t pd;	   /* PD of the request being executed: the QP's, or its SRQ's (XRC) */
	bool invalidated;  /* that request has invalidated its key, and is not complete */
	bool write_failed; /* a posted write has failed. UC: and with it a message that is held */
	uint64_t answer;   /* loopback: result of the atomic that was posted last */

	/* message being received */
	uint32_t length; /* WRITE: from the RETH */
	uint32_t done;	 /* bytes placed */
	uint32_t rkey;
	uint64_t va;

	/*
	 * READs and atomics: entries [rd_tail - rd_kept, rd_tail) are kept. Responses to entries
	 * from rd_cur on are still to be sent for the first time, after all that are repeated.
	 */
	uint32_t rd_tail, rd_kept, rd_cur;
	uint32_t rd_pos; /* next response packet of rd_cur */
	uint32_t repeat_head, repeat_tail;
	/* not used if the QP has a struct xt_many_rd */
	struct xt_repeat repeat[XT_FEW_RD_ATOMIC];
	struct xt_rd rd[XT_FEW_RD_ATOMIC];
};

/* For QPs with max_dest_rd_atomic above XT_FEW_RD_ATOMIC */
struct xt_many_rd {
	struct xt_repeat repeat[XT_MAX_RD_ATOMIC];
	struct xt_rd rd[XT_MAX_RD_ATOMIC];
};

#endif /* XT_RC_PART_H */
