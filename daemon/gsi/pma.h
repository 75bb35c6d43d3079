/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The performance management agent (IBTA 16.1): responses to Get and Set of ClassPortInfo,
 * PortCounters and PortCountersExtended. It has no socket and no clock.
 */
#ifndef XD_PMA_H
#define XD_PMA_H

#include <stdbool.h>
#include <stdint.h>

struct xt_counters;

#define XD_PMA_CLASS 0x04

/* Counters of the port that have values. The others are of InfiniBand links, and 0. */
enum xd_pma_counter {
	XD_PMA_XMIT_DATA, /* words of 4 bytes */
	XD_PMA_RCV_DATA,
	XD_PMA_XMIT_PKTS,
	XD_PMA_RCV_PKTS,
	XD_PMA_RCV_ERRORS,
	XD_PMA_COUNTERS
};

/*
 * Set changes what the agent reports, and no counter of the engines. Zero-initialized: all counters
 * are those of the engines.
 */
struct xd_pma {
	/* subtracted from a counter: for PortCounters and for PortCountersExtended */
	uint64_t offset[2][XD_PMA_COUNTERS];
};

/*
 * Returns true if a MAD of XC_MAD_LEN bytes is a request that is to be responded to. Responses,
 * traps and other messages without a response are not, nor are MADs of another base version.
 */
bool xd_pma_is_request(const uint8_t *mad);

/*
 * Stores the response to a request, XC_MAD_LEN bytes as well. `now` has the sums of all engines. A
 * request that the agent does not support is responded to with a status and changes nothing.
 */
void xd_pma_respond(struct xd_pma *p, const struct xt_counters *now, const uint8_t *request,
		    uint8_t *response);

#endif /* XD_PMA_H */
