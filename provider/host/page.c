// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "page.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/transport/wire/icrc.h"
#include "daemon/udp/udp.h"
#include "internal.h"

/* Returns false while the daemon stores something else. */
static bool copy_page(const struct xr_direct_page *p, struct xr_direct_page *copy)
{
	uint32_t seq = __atomic_load_n(&p->seq, __ATOMIC_ACQUIRE);

	memcpy(copy, p, sizeof(*copy));
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	copy->seq = seq;
	return !(seq & 1) && __atomic_load_n(&p->seq, __ATOMIC_RELAXED) == seq;
}

void xp_page_load(struct xp_host *h)
{
	struct xr_direct_page *present = malloc(sizeof(*present));
	bool acts;

	if (present && copy_page(h->page.p, present) && xp_faults_load(h, present)) {
		xp_captures_load(h, present);
		acts = h->faults.any || h->captures.any;
		__atomic_store_n(&h->page.acts, acts, __ATOMIC_RELAXED);
		xd_udp_of(h->socket)->splits = acts;
		__atomic_store_n(&h->page.seq, present->seq, __ATOMIC_RELEASE);
		xd_udp_complete(xd_udp_of(h->socket));
	}
	free(present);
}

/* What other contexts of the host send through memory has no ICRC. */
static void seal(struct xt_frame *frames, unsigned int n)
{
	for (struct xt_frame *f = frames; f < frames + n; f++) {
		if (!f->unsealed || !xt_frame_fits(f))
			continue;
		xt_icrc_seal(f->seg, f->nseg, f->meta.ip_off, f->meta.bth_off);
		f->unsealed = false;
	}
}

/* Captures see what was on the wire: in front of the rules here, behind them below. */
unsigned int xp_page_received(struct xp_host *h, unsigned int n)
{
	seal(h->frames, n);
	if (h->captures.taps)
		xp_captures_rx(h, n);
	return h->faults.any ? xp_faults_rx(h, n) : n;
}

bool xp_page_sends(struct xp_host *h, struct xt_frame *frame)
{
	if (h->faults.any && !xp_faults_tx(h, frame))
		return false;
	if (h->captures.taps)
		xp_captures_tx(h, frame);
	return true;
}

void xp_page_open(struct xp_host *h, int fd)
{
	void *p;

	if (fd < 0)
		return;
	p = mmap(NULL, sizeof(struct xr_direct_page), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (p != MAP_FAILED)
		h->page.p = p;
}

void xp_page_close(struct xp_host *h)
{
	if (h->page.p)
		munmap((void *)(uintptr_t)h->page.p, sizeof(*h->page.p));
	h->page.p = NULL;
}
