/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Kinds of send work requests. A row says what work requests of its kind have and need. A new kind
 * needs a value of enum xt_wr_kind, its row, a row for each opcode, and one for each operation on
 * the wire; a function that builds its packets (build.c), and one that executes them (execute.c).
 */
#ifndef XT_WR_KIND_H
#define XT_WR_KIND_H

#include "sq.h"

/* The response that completes a work request */
enum xt_wr_response {
	XT_RESPONSE_NONE,
	XT_RESPONSE_ACK,
	XT_RESPONSE_READ,   /* READ responses with the data */
	XT_RESPONSE_EMPTY,  /* one READ response without payload (IBTA annex A19) */
	XT_RESPONSE_ATOMIC, /* ATOMIC ACKNOWLEDGE */
};

struct xt_kind {
	/* Checks of the work request */
	uint32_t fixed_length; /* bytes of payload; 0: any up to XR_MAX_MSG_SIZE */
	uint32_t local_access; /* right that its SGEs need, XR_ACCESS_LOCAL_WRITE or 0 (read) */
	bool inline_ok;
	bool no_data;	  /* has no payload; an SGL is ignored */
	bool rd_atomic;	  /* counts against max_rd_atomic; completed by its own response only */
	uint8_t response; /* enum xt_wr_response */
	uint8_t use;	  /* enum xt_use of the peer's memory */
	/* Copies the fields that only this kind has from the ring's entry. NULL: none. */
	void (*load)(struct xt_swqe *w, const struct xr_send_wqe *wqe);
};

extern const struct xt_kind xt_kinds[XT_KIND_COUNT];

static inline const struct xt_kind *xt_kind_of(const struct xt_swqe *w)
{
	return &xt_kinds[w->kind];
}

/* By enum xr_op: kind of a request on the wire; XT_KIND_NONE: not a request */
extern const uint8_t xt_op_kinds[XR_OP_COUNT];

struct xt_wr_opcode {
	uint8_t kind;	   /* enum xt_wr_kind; XT_KIND_NONE: unknown opcode */
	uint8_t wc_opcode; /* enum ibv_wc_opcode */
	uint8_t op;	   /* enum xr_op, if it is always one packet */
	uint16_t qp_types; /* 1 << enum xr_qp_type of each that may post it (IBTA 9.8) */
};

extern const struct xt_wr_opcode xt_wr_opcodes[UINT8_MAX + 1];
/* opcode: enum xr_wr_opcode, or any other value */
static inline const struct xt_wr_opcode *xt_wr_opcode(uint8_t opcode)
{
	return &xt_wr_opcodes[opcode];
}

#endif /* XT_WR_KIND_H */
