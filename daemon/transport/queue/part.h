/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The parts of a QP that are its work queues */
#ifndef XT_QUEUE_PART_H
#define XT_QUEUE_PART_H

#include <stdbool.h>
#include <stdint.h>

/* Status and vendor error of a work request that cannot succeed */
struct xt_wc_error {
	uint32_t status; /* enum ibv_wc_status */
	uint32_t verr;	 /* enum xr_vendor_err */
};

/* The send queue, see sq.h */
struct xt_send_queue {
	/* Indices, free-running: completed <= retired <= cur <= loaded <= producer */
	uint32_t completed;   /* oldest without completion */
	uint32_t retired;     /* oldest that the peer has not answered; differs for posted READs */
	uint32_t cur;	      /* the one that is sent next, or is being sent */
	uint32_t loaded;      /* first one not copied from the ring */
	uint32_t producer;    /* as last read */
	uint32_t rd_last;     /* index behind the latest READ or atomic that was loaded */
	uint32_t load_psn;    /* first of the next work request that is loaded */
	uint32_t ssn;	      /* of the latest message loaded, IBTA 9.7.7.2 */
	uint8_t read_packets; /* longest READ request on the wire, in response packets */
	struct xt_wc_error failure; /* of `completed`, until the QP is flushed; status 0: none */
};

/* The receive queue and the receive being filled */
struct xt_receive {
	uint32_t consumer;  /* oldest not received; SRQ: index of the receive that was taken */
	uint32_t completed; /* oldest without completion: its writes may be posted */
	uint32_t producer;  /* as last read; not used with an SRQ */
	bool taken;	    /* entry `consumer` was copied: the fields below are valid */
	bool bad;	    /* its number of SGEs is invalid */
	uint32_t pd;	    /* PD of its L_Keys */
	uint32_t srqn;	    /* XRC: number of the SRQ that it was taken from */
	uint32_t next_srqn; /* XRC: number of the SRQ that the request being executed names */
	uint32_t num_sge;
	uint64_t wr_id;
	uint64_t length;	    /* bytes of its SGEs */
	struct xt_wc_error failure; /* of `completed`, until the QP is flushed; status 0: none */
};

#endif /* XT_QUEUE_PART_H */
