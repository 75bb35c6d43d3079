/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Messages to be sent. */
#ifndef XC_SEND_H
#define XC_SEND_H

#include "engine.h"

/* Returns a message with the communication IDs and the transaction ID of an id. */
struct xc_msg xc_msg_of(const struct xc_id *id, enum xc_kind kind);
/* Sends a message and keeps it for xc_resend(). */
void xc_send(struct xc_id *id, const struct xc_msg *msg);
/* Sends the last message again. */
void xc_resend(struct xc_id *id);

/* Sends a message that is not kept: the response to a MAD that was received on a path. */
void xc_respond(struct xc_cm *cm, const struct xc_path *path, const struct xc_msg *msg);
/*
 * Returns a response to a received message: its transaction ID, and its communication IDs
 * exchanged.
 */
struct xc_msg xc_response_to(const struct xc_msg *msg, enum xc_kind kind);

/* The last message needs a response: starts the timer, with all retries left. */
void xc_await(struct xc_id *id);
/* Sends the last message again and restarts the timer. Returns false if no retry is left. */
bool xc_retry(struct xc_id *id);
/* Restarts the timer for another message. Returns false if no retry is left. */
bool xc_count_retry(struct xc_id *id);
void xc_set_timer(struct xc_id *id, uint64_t ns);
void xc_clear_timer(struct xc_id *id);

#endif /* XC_SEND_H */
