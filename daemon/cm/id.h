/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Ids and their tables. */
#ifndef XC_ID_H
#define XC_ID_H

#include "engine.h"

/* Returns 0, -EMFILE if there are max_ids, or -ENOMEM. The id has state XC_IDLE. */
int xc_id_new(struct xc_cm *cm, const struct xc_path *path, struct xc_id **id);
void xc_id_free(struct xc_id *id);
/*
 * Keeps an orphan in the list of those that only repeat a response. Such ids are freed when their
 * timer expires, or earlier if there are too many ids.
 */
void xc_id_keep_answered(struct xc_id *id);

/*
 * Counts a new id as half-open for its peer, until xc_id_set_state() sets a state that is not
 * half-open. Returns false if there are too many, or no memory.
 */
bool xc_id_half_open(struct xc_id *id);
void xc_id_set_state(struct xc_id *id, enum xc_state state);

/* Enter an id into a table: remote_guid and remote_id, or remote_qpn, must be set. */
void xc_id_link_remote(struct xc_id *id);
void xc_id_link_qpn(struct xc_id *id);
void xc_id_unlink_remote(struct xc_id *id);
void xc_id_unlink_qpn(struct xc_id *id);

/* Return an id or NULL. */
struct xc_id *xc_id_by_local(const struct xc_cm *cm, uint32_t local_id);
struct xc_id *xc_id_by_remote(const struct xc_cm *cm, const struct xr_addr *peer, uint64_t guid,
			      uint32_t remote_id);
struct xc_id *xc_id_by_sidr(const struct xc_cm *cm, const struct xr_addr *peer,
			    uint32_t request_id);
struct xc_id *xc_id_by_qpn(const struct xc_cm *cm, const struct xr_addr *peer, uint64_t guid,
			   uint32_t qpn);

#endif /* XC_ID_H */
