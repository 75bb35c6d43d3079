/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Fault injection: a seeded generator decides the fate of each packet. It
 * knows nothing of sockets and clocks, so the workers and the simulation suffer
 * alike, and a seed gives the same fates again.
 */
#ifndef XD_FAULT_H
#define XD_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/control.h>

#include "daemon/transport/transport.h"

struct xd_fault {
	struct xr_fault_config config;
	uint64_t state;
};

/*
 * What happens to a packet: it goes on `copies` times, each after its own delay
 * (0: at once, in order). The first copy is damaged where flips is not 0.
 */
struct xd_fate {
	uint8_t copies; /* 0: dropped */
	uint8_t flips;	/* bits */
	uint64_t where; /* which */
	uint64_t delay_ns[2];
};

/* A reordered packet comes this much late at most. */
#define XD_REORDER_NS 50000

/* -EINVAL: a rate over 1000 per mille, or a direction that is none. config NULL: off. */
int xd_fault_init(struct xd_fault *f, const struct xr_fault_config *config);
/* direction: XR_FAULT_RX or XR_FAULT_TX. false: packets need not be asked about. */
bool xd_fault_on(const struct xd_fault *f, uint32_t direction);
struct xd_fate xd_fault_next(struct xd_fault *f);
/* Flips the bits of a fate somewhere behind the Ethernet addresses. */
void xd_fault_damage(const struct xd_fate *fate, const struct xt_frame *frame);

#endif /* XD_FAULT_H */
