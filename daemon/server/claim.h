/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What direct programs claim: see CLAIM in control.h. */
#ifndef XD_CLAIM_H
#define XD_CLAIM_H

#include <stdint.h>

#include <xroce/control.h>

struct xd_client;

/* The client has got a slot: claims a small part of what is left. */
void xd_claims_begin(struct xd_client *c, uint32_t claims[XR_CLAIMS]);
/* The slot ends: gives back all claims. */
void xd_claims_end(struct xd_client *c);

#endif /* XD_CLAIM_H */
