/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Limits of timeouts in messages. The codes of 5 bits range from 4 us, too short for any network,
 * to 2.4 hours, in which a peer could occupy many ids.
 */
#ifndef XC_LIMITS_H
#define XC_LIMITS_H

#include "engine.h"

#define XC_MIN_RESPONSE 16 /* 0.27 s; rdma_cm of the kernel states 20 */
#define XC_MAX_RESPONSE 22 /* 17 s */
#define XC_MIN_TIMEWAIT 12 /* 17 ms */
#define XC_MAX_TIMEWAIT 21 /* 8.6 s; rdma_cm of the kernel states 17 to 19 */

static inline uint8_t xc_clamp(uint8_t code, uint8_t min, uint8_t max)
{
	return code < min ? min : code > max ? max : code;
}

/* ns of a CM response timeout */
static inline uint64_t xc_response_ns(uint8_t code)
{
	return xc_timeout_ns(xc_clamp(code, XC_MIN_RESPONSE, XC_MAX_RESPONSE));
}

/* ns of TIMEWAIT, from the local ACK timeout as in the kernel */
static inline uint64_t xc_timewait_ns(uint8_t ack_timeout)
{
	return xc_timeout_ns(xc_clamp(ack_timeout, XC_MIN_TIMEWAIT, XC_MAX_TIMEWAIT));
}

/*
 * Time in which a peer with these timeouts sends at least one duplicate of a message that it got no
 * response to. The kernel retries every 4.8 s (6.12) or 6.3 s (6.1).
 */
static inline uint64_t xc_hold_ns(uint8_t response_timeout, uint8_t ack_timeout)
{
	return 2 * (xc_response_ns(response_timeout) + xc_timewait_ns(ack_timeout));
}

#endif /* XC_LIMITS_H */
