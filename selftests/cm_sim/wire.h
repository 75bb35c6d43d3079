/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Fields of CM MADs by their offsets in IBTA 12.6 and 12.11. They are written down again here, so
 * that the simulation does not check the engine's encoding with the engine's own decoder.
 */
#ifndef CM_WIRE_H
#define CM_WIRE_H

#include <stdint.h>

#define MAD_LEN 256

enum mad_attr {
	MAD_REQ = 0x10,
	MAD_MRA,
	MAD_REJ,
	MAD_REP,
	MAD_RTU,
	MAD_DREQ,
	MAD_DREP,
	MAD_SIDR_REQ,
	MAD_SIDR_REP,
	MAD_LAP,
	MAD_APR,
	MAD_END,
};

static inline uint64_t be_at(const uint8_t *p, unsigned bytes)
{
	uint64_t v = 0;

	while (bytes--)
		v = v << 8 | *p++;
	return v;
}

static inline unsigned mad_attr(const uint8_t *mad)
{
	return (unsigned)be_at(mad + 16, 2);
}

static inline uint64_t mad_tid(const uint8_t *mad)
{
	return be_at(mad + 8, 8);
}

/* The first number after the header: the sender's communication ID, or the request ID of SIDR */
static inline uint32_t mad_local_id(const uint8_t *mad)
{
	return (uint32_t)be_at(mad + 24, 4);
}

/* The receiver's communication ID. REQ, SIDR_REQ and SIDR_REP have none. */
static inline uint32_t mad_remote_id(const uint8_t *mad)
{
	return (uint32_t)be_at(mad + 28, 4);
}

/* True for messages that answer another one, with its transaction ID */
static inline int mad_is_response(unsigned attr)
{
	return attr != MAD_REQ && attr != MAD_DREQ && attr != MAD_SIDR_REQ && attr != MAD_LAP;
}

#define REJ_REASON_AT (24 + 10)
#define REJ_STALE 10
#define REJ_TIMEOUT 4

#endif /* CM_WIRE_H */
