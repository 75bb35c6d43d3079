/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Payload of early packets (early.h) that goes to its place in the program's memory at once, and is
 * not copied twice. Keys are checked then, and once more when the packet is executed in its turn.
 *
 * Only packets of the message that is being received are placed: a later message may write to the
 * same bytes, and must not be overwritten by a packet of the earlier one. The packet that ends a
 * message is not placed, as programs poll the last bytes of a message.
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
bool xt_place_response(struct xt_qp *qp, const struct xt_rx *rx, uint32_t psn);

#endif /* XT_PLACE_H */
