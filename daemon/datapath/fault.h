/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Fault injection: a seeded generator decides what happens to each packet. It uses no socket and no
 * clock, so the workers and the simulation share it, and a seed repeats a sequence of faults.
 */
#ifndef XD_FAULT_H
#define XD_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/control.h>

#include "daemon/transport/transport.h"

struct xd_fault {
	struct xr_fault_config config;
	uint64_t state; /* of the generator */
};

/* The faults to apply to one packet */
struct xd_fault_action {
	uint8_t copies;	      /* 0: drop, 2: duplicate */
	uint8_t flips;	      /* bits to flip in the first copy */
	uint64_t flip_seed;   /* selects those bits */
	uint64_t delay_ns[2]; /* of each copy; 0: send or receive at once, in order */
};

/* Longest delay of a reordered packet */
#define XD_REORDER_NS 50000

/* config NULL: no faults. Returns -EINVAL for a rate above 1000 per mille or a wrong direction. */
int xd_fault_init(struct xd_fault *f, const struct xr_fault_config *config);
/* Returns false if packets of this direction (XR_FAULT_RX or XR_FAULT_TX) have no faults. */
bool xd_fault_on(const struct xd_fault *f, uint32_t direction);
/* Draws the action for the next packet. */
struct xd_fault_action xd_fault_next(struct xd_fault *f);
/* Flips the bits of an action, all behind the Ethernet addresses. */
void xd_fault_damage(const struct xd_fault_action *action, const struct xt_frame *frame);

#endif /* XD_FAULT_H */
