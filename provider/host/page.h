/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The page by which the daemon tells the host of rules of fault injection and of captures (struct
 * xr_direct_page). Each round looks whether it has changed; the frames of the round go by that. All
 * functions but open, close and xp_page_acts() are for the holder of the engine's lock.
 */
#ifndef XP_HOST_PAGE_H
#define XP_HOST_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/view.h>

#include "daemon/transport/transport.h"

struct xp_host;

struct xp_page {
	const struct xr_direct_page *p; /* NULL: the daemon has given none */
	/* Stored by the holder of the lock, loaded by any thread, atomic. seq is stored last. */
	uint32_t seq; /* of the page when it was read */
	bool acts;    /* there are rules or captures */
};

/* Takes over the descriptor. */
void xp_page_open(struct xp_host *h, int fd);
void xp_page_close(struct xp_host *h);

void xp_page_load(struct xp_host *h);
unsigned int xp_page_received(struct xp_host *h, unsigned int n);
bool xp_page_sends(struct xp_host *h, struct xt_frame *frame);

static inline bool xp_page_changed(const struct xp_page *page)
{
	return page->p && __atomic_load_n(&page->p->seq, __ATOMIC_RELAXED) !=
				  __atomic_load_n(&page->seq, __ATOMIC_ACQUIRE);
}

/* Returns true if there are rules or captures, or the page has changed. Any thread */
static inline bool xp_page_acts(const struct xp_page *page)
{
	return xp_page_changed(page) || __atomic_load_n(&page->acts, __ATOMIC_RELAXED);
}

static inline void xp_page_look(struct xp_host *h, const struct xp_page *page)
{
	if (__builtin_expect(xp_page_changed(page), false))
		xp_page_load(h);
}

/* Captures received frames, and applies rules to them. Returns the number that is left. */
static inline unsigned int xp_page_rx(struct xp_host *h, const struct xp_page *page, unsigned int n)
{
	return __builtin_expect(page->acts, false) ? xp_page_received(h, n) : n;
}

/* Applies rules to a frame, and captures it. Returns false if it is not sent now. */
static inline bool xp_page_tx(struct xp_host *h, const struct xp_page *page, struct xt_frame *frame)
{
	return !__builtin_expect(page->acts, false) || xp_page_sends(h, frame);
}

#endif /* XP_HOST_PAGE_H */
