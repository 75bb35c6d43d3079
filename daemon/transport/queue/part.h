/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The part of a QP that is its receive queue */
#ifndef XT_QUEUE_PART_H
#define XT_QUEUE_PART_H

#include <stdbool.h>
#include <stdint.h>

/* Status and vendor error of a work request that cannot succeed */
struct xt_wc_error {
	uint32_t status; /* enum ibv_wc_status */
	uint32_t verr;	 /* enum xr_vendor_err */
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
	uint32_t num_sge;
	uint64_t wr_id;
	uint64_t length;	    /* bytes of its SGEs */
	struct xt_wc_error failure; /* of `completed`, until the QP is flushed; status 0: none */
};

#endif /* XT_QUEUE_PART_H */
