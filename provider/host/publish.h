/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * QPs and keys of the context in the tables by which the kernel checks its packets (PUBLISH), if it
 * does. A QP that begins to receive is waited for, so a peer that learns of it can use it at once;
 * the kernel then knows all keys that were published before. Keys are not waited for: the daemon
 * usually has the request before a peer can learn of the key, and packets of reliable QPs that come
 * earlier pass the kernel, as they may need a NAK. What ends is reported with the next request: the
 * engine refuses it at once, and an entry that is too old only lets a packet come as far as the
 * engine.
 *
 * All functions are for requests of the program, without the engine: they ask the daemon. place:
 * where the object is in the tables, plus 1; 0: it is not. If the tables are full, it stays 0, and
 * the kernel lets the packets pass.
 */
#ifndef XP_HOST_PUBLISH_H
#define XP_HOST_PUBLISH_H

#include <stdint.h>

#include <xroce/tables.h>

struct xp_host;

int xp_publish_open(struct xp_host *h); /* after the loan */
void xp_publish_close(struct xp_host *h);

/*
 * Publishes an entry, or changes it. If the kernel lets the same packets pass as with the last one
 * of the QP, it is reported with the next request, too. entry->slot is not used.
 * last: of the QP; at first all 0
 */
int xp_publish_qp(struct xp_host *h, uint32_t *place, uint32_t qpn, const struct xr_qp_entry *entry,
		  struct xr_qp_entry *last);
/* flags: XR_KEYF_PROGRAM or 0, beside those of the entry */
int xp_publish_key(struct xp_host *h, uint32_t *place, uint32_t index,
		   const struct xr_key_entry *entry, uint8_t flags);
void xp_unpublish_qp(struct xp_host *h, uint32_t *place);
void xp_unpublish_key(struct xp_host *h, uint32_t *place);

#endif /* XP_HOST_PUBLISH_H */
