// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "faults.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/faults/delay_queue.h"
#include "daemon/faults/faults.h"
#include "daemon/faults/text/text.h"
#include "daemon/transport/wire/frame_copy.h"
#include "internal.h"

/* The rules of the program itself; the daemon has selected both lists, so the number is any. */
static const struct xd_fault_program own = { .client = 1, .command = "", .is_operator = true };

/* ---- rules -------------------------------------------------------------------------------- */

static bool faults_prepare(struct xp_faults *f)
{
	if (!f->rules)
		f->rules = xd_faults_new();
	if (!f->delay)
		f->delay = xd_delay_new();
	if (!f->known)
		f->known = calloc(1, sizeof(*f->known));
	return f->rules && f->delay && f->known;
}

static const char *faults_text_of(const struct xr_direct_page *r, int i)
{
	return r->text + (i ? r->list[0].length : 0);
}

/* Rules that are still the same keep their counts. */
static bool faults_is_same(const struct xr_direct_page *a, const struct xr_direct_page *b, int i)
{
	return a->list[i].seed == b->list[i].seed && a->list[i].length == b->list[i].length &&
	       a->list[i].set == b->list[i].set &&
	       !memcmp(faults_text_of(a, i), faults_text_of(b, i), a->list[i].length);
}

static void faults_set_list(struct xp_faults *f, const struct xr_direct_page *r, int i)
{
	struct xd_fault_list *list = calloc(1, sizeof(*list));
	char why[XR_WHY_MAX];

	if (list &&
	    !xd_fault_parse(faults_text_of(r, i), r->list[i].length, list, why, sizeof(why)))
		xd_faults_set(f->rules, i ? &own : NULL, r->list[i].seed, list->rule, list->n);
	free(list);
}

/* Turns of faults of time began when the rules were set. */
static void faults_tick(struct xp_faults *f, uint64_t now)
{
	struct xd_fault_turns turns;

	f->tick_at = xd_faults_tick(f->rules, now, &turns);
}

static bool is_valid(const struct xr_direct_page *p)
{
	return p->list[0].length <= XR_DIRECT_RULES_TEXT &&
	       p->list[1].length <= XR_DIRECT_RULES_TEXT - p->list[0].length;
}

bool xp_faults_load(struct xp_host *h, const struct xr_direct_page *present)
{
	struct xp_faults *f = &h->faults;

	if (!is_valid(present) || !faults_prepare(f))
		return false;
	for (int i = 0; i < 2; i++)
		if (!faults_is_same(f->known, present, i))
			faults_set_list(f, present, i);
	*f->known = *present;
	f->any = present->list[0].length || present->list[1].length;
	faults_tick(f, present->set_at < h->now ? present->set_at : h->now);
	faults_tick(f, h->now);
	return true;
}

static bool is_on(struct xp_host *h, uint32_t direction)
{
	struct xp_faults *f = &h->faults;

	if (f->any && h->now >= f->tick_at)
		faults_tick(f, h->now);
	return f->any && xd_faults_on(f->rules, direction);
}

/* ---- frames ------------------------------------------------------------------------------- */

/*
 * Returns true if a damaged frame goes on. The kernel writes the IP and UDP headers: a packet in
 * which they are damaged cannot be sent, as it would go to another host.
 */
static bool faults_damage(uint32_t direction, const struct xd_fault_action *a,
			  const struct xt_frame *f)
{
	uint8_t before[XT_MAX_HEADERS];
	uint32_t n = f->meta.bth_off;

	if (direction == XD_FAULT_RX) {
		xd_fault_damage(a, f);
		return true;
	}
	memcpy(before, f->seg[0].data, n);
	xd_fault_damage(a, f);
	return !memcmp(before, f->seg[0].data, n);
}

/* An engine that is sending must not be called: the error is injected before it runs again. */
static void faults_remember(struct xp_faults *f, uint32_t qpn, struct xt_inject inject)
{
	if (f->injections == XP_INJECTIONS)
		return;
	f->injection[f->injections].qpn = qpn;
	f->injection[f->injections++].inject = inject;
}

static void faults_inject_received(const struct xd_fault_action *a, struct xt_frame *f)
{
	f->inject = a->inject;
	f->refusal = (struct xt_inject){ a->refusal ? XT_INJECT_ASK : XT_INJECT_NONE, 0 };
}

static struct xd_fault_packet packet_of(const struct xp_host *h, uint32_t direction,
					const struct xt_frame *frame)
{
	return (struct xd_fault_packet){
		.direction = direction,
		.queue = XD_FAULT_ANY - 1, /* it is no worker's */
		.frame = frame,
		.now = h->now,
		.rules = UINT64_MAX, /* the daemon has selected them */
	};
}

/* Returns true if the frame continues now, unchanged or damaged. The rules are locked. */
static bool faults_apply(struct xp_host *h, uint32_t direction, struct xt_frame *frame)
{
	const struct xd_fault_packet packet = packet_of(h, direction, frame);
	struct xp_faults *f = &h->faults;
	struct xd_fault_action a = xd_faults_next(f->rules, &packet);

	f->injected += a.hit;
	if (direction == XD_FAULT_RX)
		faults_inject_received(&a, frame);
	else if (a.inject.kind != XT_INJECT_NONE)
		faults_remember(f, frame->meta.qpn, a.inject);
	for (uint32_t i = 1; i < a.copies; i++)
		xd_delay_add(f->delay, direction, h->now + a.delay_ns[i], a.delayed_by, frame);
	if ((a.flips || a.field.width) && !faults_damage(direction, &a, frame))
		return false;
	if (a.copies && a.delay_ns[0])
		xd_delay_add(f->delay, direction, h->now + a.delay_ns[0], a.delayed_by, frame);
	return a.copies && !a.delay_ns[0];
}

unsigned int xp_faults_rx(struct xp_host *h, unsigned int n)
{
	unsigned int kept = 0;

	if (!is_on(h, XD_FAULT_RX))
		return n;
	xd_faults_lock(h->faults.rules);
	for (unsigned int i = 0; i < n; i++) {
		if (!faults_apply(h, XD_FAULT_RX, &h->frames[i]))
			continue;
		if (kept != i)
			h->frames[kept] = h->frames[i];
		kept++;
	}
	xd_faults_unlock(h->faults.rules);
	return kept;
}

bool xp_faults_tx(struct xp_host *h, struct xt_frame *frame)
{
	bool goes_on;

	if (!is_on(h, XD_FAULT_TX))
		return true;
	xd_faults_lock(h->faults.rules);
	goes_on = faults_apply(h, XD_FAULT_TX, frame);
	xd_faults_unlock(h->faults.rules);
	return goes_on;
}

struct xt_inject xp_faults_refusal(void *ctx, const struct xt_frame *frame)
{
	struct xp_host *h = ctx;
	const struct xd_fault_packet packet = packet_of(h, XD_FAULT_RX, frame);
	struct xt_inject refusal;

	xd_faults_lock(h->faults.rules);
	refusal = xd_faults_refusal(h->faults.rules, &packet);
	xd_faults_unlock(h->faults.rules);
	h->faults.injected += refusal.kind != XT_INJECT_NONE;
	return refusal;
}

/* ---- later -------------------------------------------------------------------------------- */

static void faults_send_copy(struct xp_host *h, const struct xt_frame *from)
{
	struct xt_frame to = { .meta = from->meta };

	if (!xd_socket_tx_get(h->socket, from->len, &to))
		return;
	xt_frame_fill(&to, from->seg[0].data);
	if (h->captures.taps)
		xp_captures_tx(h, &to);
	xd_socket_tx_put(h->socket, &to);
}

static void inject(struct xp_host *h)
{
	struct xp_faults *f = &h->faults;
	struct xt_qp *qp;

	for (uint32_t i = 0; i < f->injections; i++) {
		qp = xt_qp_by_num(h->shared.qps, f->injection[i].qpn);
		if (qp)
			xt_qp_inject(qp, f->injection[i].inject, false);
	}
	f->injections = 0;
}

void xp_faults_due(struct xp_host *h)
{
	struct xp_faults *f = &h->faults;
	struct xt_frame frame;

	if (!f->delay)
		return;
	inject(h);
	while (xd_delay_due(f->delay, XD_FAULT_RX, h->now, &frame))
		xt_engine_rx(h->engine, &frame, 1, h->now);
	while (xd_delay_due(f->delay, XD_FAULT_TX, h->now, &frame))
		faults_send_copy(h, &frame);
}

uint64_t xp_faults_next(const struct xp_host *h, uint64_t next)
{
	const struct xp_faults *f = &h->faults;
	uint64_t at;

	if (!f->delay)
		return next;
	at = f->injections ? h->now : xd_delay_next(f->delay);
	return at < next ? at : next;
}

/* ---- hits, close ------------------------------------------------------------------------ */

void xp_faults_hits(struct xp_host *h, struct xr_view_sums *sums)
{
	struct xp_faults *f = &h->faults;
	struct xd_fault_hits hits;
	uint64_t owner;

	sums->faults = f->injected;
	if (!f->known)
		return;
	sums->fault_seq = h->page.seq;
	/* The operator's rules precede those of the program, as on the page. */
	for (int pass = 0, n = 0; pass < 2; pass++) {
		for (uint32_t i = 0; xd_faults_at(f->rules, i, &hits, &owner); i++) {
			if ((owner != 0) != pass || n == XR_DIRECT_RULES)
				continue;
			sums->fault[n].seen = hits.seen;
			sums->fault[n++].hits = hits.hits;
		}
	}
}

void xp_faults_close(struct xp_host *h)
{
	struct xp_faults *f = &h->faults;

	xd_faults_free(f->rules);
	if (f->delay)
		xd_delay_free(f->delay);
	free(f->known);
}
