/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Handlers of received messages and of expired timers. path: of the received MAD. */
#ifndef XC_HANDLERS_H
#define XC_HANDLERS_H

#include "engine.h"

/* active.c */
void xc_rep_received(struct xc_cm *cm, const struct xc_path *path, const struct xc_msg *msg);
void xc_req_expired(struct xc_id *id);
/* passive.c */
void xc_req_received(struct xc_cm *cm, const struct xc_path *path, const struct xc_msg *msg);
void xc_rtu_received(struct xc_cm *cm, const struct xc_path *path, const struct xc_msg *msg);
void xc_rep_expired(struct xc_id *id);
/* mra.c */
void xc_mra_received(struct xc_cm *cm, const struct xc_path *path, const struct xc_msg *msg);
/* Sends an MRA for a duplicate of a message that the user has not responded to. */
void xc_mra_duplicate(struct xc_id *id);
/* disconnect.c */
void xc_dreq_received(struct xc_cm *cm, const struct xc_path *path, const struct xc_msg *msg);
void xc_drep_received(struct xc_cm *cm, const struct xc_path *path, const struct xc_msg *msg);
void xc_dreq_expired(struct xc_id *id);
/* Disconnects after a REJ that followed a REP; the peer may have established the connection. */
void xc_linger(struct xc_id *id);
/* reject.c */
void xc_rej_received(struct xc_cm *cm, const struct xc_path *path, const struct xc_msg *msg);
/* Sends the REJ of an id again, as the response to a REQ. */
void xc_repeat_rej(struct xc_id *id);
/* Sends a REJ as xc_reject(), for a reason of the engine. */
void xc_reject_for(struct xc_id *id, enum xc_reason reason);
/* Sends a REJ in response to a message without an id. ari: NULL: none */
void xc_reject_message(struct xc_cm *cm, const struct xc_path *path, const struct xc_msg *msg,
		       enum xc_reason reason, const struct xr_addr *ari);
/* sidr.c */
void xc_sidr_req_received(struct xc_cm *cm, const struct xc_path *path, const struct xc_msg *msg);
void xc_sidr_rep_received(struct xc_cm *cm, const struct xc_path *path, const struct xc_msg *msg);
void xc_sidr_expired(struct xc_id *id);

#endif /* XC_HANDLERS_H */
