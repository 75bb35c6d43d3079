/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Payload of early packets (early.h) that goes to its place in the program's memory at once, and is
 * not copied twice. Keys are checked then, and once more when the packet is executed in its turn.
 *
 * A packet is not placed if an earlier one that is missing or kept may write to the same bytes
 * later, as requests take effect in order. Bytes are compared by key and address: memory that a
 * program has mapped at two addresses of one region counts as two. Nothing is placed behind a READ
 * or an atomic operation. Of READ responses, those of the oldest READ are placed. The packet that
 * ends a message is not, as programs poll the last bytes of a message.
 */
#ifndef XT_PLACE_H
#define XT_PLACE_H

#include <stdbool.h>
#include <stdint.h>

struct xt_qp;
struct xt_rx;

/*
 * psn: 32 bits, behind the expected one. They return true if all bytes of the payload are in place.
 * Requests of XRC are not placed, as each names an SRQ, which is selected when it is executed.
 */
bool xt_place_request(struct xt_qp *qp, const struct xt_rx *rx, uint32_t psn);
/* A packet that may have been placed is not kept, so it will be written again in its turn. */
void xt_place_lose(struct xt_qp *qp);
/* No early requests are left. */
void xt_place_end(struct xt_qp *qp);
bool xt_place_response(struct xt_qp *qp, const struct xt_rx *rx, uint32_t psn);

#endif /* XT_PLACE_H */
