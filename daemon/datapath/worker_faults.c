// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Applies injected faults to received and sent frames. */
#include <string.h>

#include "daemon/faults/delay_queue.h"
#include "daemon/faults/mads.h"
#include "worker_internal.h"

/*
 * Returns the rules that select the program of a frame's QP, or of the CM id of its MAD. The rules
 * are locked.
 */
static uint64_t rules_of(struct xd_worker *w, uint32_t direction, const struct xt_frame *f)
{
	const struct xd_workers *all = w->all;
	bool by_program = xd_faults_by_program(all->faults);
	const uint64_t *rules = NULL;
	const struct xt_qp *qp;
	uint64_t any;

	if (!by_program && f->meta.qpn != XR_GSI_QPN)
		return UINT64_MAX;
	qp = xt_qp_by_num(all->config.shared->qps, f->meta.qpn);
	if (qp)
		rules = all->config.events->fault_rules(qp);
	if (rules)
		return *rules;
	any = xd_faults_of(all->faults, NULL);
	if (f->meta.qpn != XR_GSI_QPN)
		return any;
	if (by_program)
		any = xd_fault_mads_rules(xd_faults_mads(all->faults), direction == XD_FAULT_RX, f,
					  any);
	return xd_faults_of_mads(all->faults, any, f->self);
}

/* An engine that is sending must not be called: the error is injected at the end of the round. */
static void worker_faults_remember(struct xd_worker *w, uint32_t qpn, struct xt_inject inject)
{
	if (w->injections < XD_INJECTIONS)
		w->injection[w->injections++] = (struct xd_injection){ qpn, inject };
}

bool xd_worker_inject(struct xd_worker *w)
{
	const bool any = w->injections;
	struct xt_qp *qp;

	for (uint32_t i = 0; i < w->injections; i++) {
		qp = xt_qp_by_num(w->all->config.shared->qps, w->injection[i].qpn);
		if (qp && xt_qp_info(qp)->engine == w->engine)
			xt_qp_inject(qp, w->injection[i].inject, false);
	}
	w->injections = 0;
	return any;
}

static void worker_faults_inject_received(const struct xd_fault_action *a, struct xt_frame *f)
{
	f->inject = a->inject;
	f->refusal = (struct xt_inject){ XT_INJECT_NONE, 0 };
	if (a->refusal)
		f->refusal = (struct xt_inject){ XT_INJECT_ASK, f->queue };
}

/*
 * Returns true if a damaged frame goes on. A packet whose IP or UDP header is damaged reaches no
 * QP. Where the kernel writes these headers, it cannot be sent, as it would go to another host.
 */
static bool worker_faults_damage(const struct xd_worker *w, uint32_t direction,
				 const struct xd_fault_action *a, const struct xt_frame *f)
{
	uint8_t before[XT_MAX_HEADERS];
	uint32_t n = f->meta.bth_off;
	bool kept = direction == XD_FAULT_TX && xd_socket_kernel_headers(w->socket);

	if (kept)
		memcpy(before, f->seg[0].data, n);
	xd_fault_damage(a, f);
	return !kept || !memcmp(before, f->seg[0].data, n);
}

/* Returns true if the frame continues now, unchanged or damaged. The rules are locked. */
static bool worker_faults_apply(struct xd_worker *w, uint32_t direction, struct xt_frame *f)
{
	const struct xd_fault_packet packet = {
		.direction = direction,
		.queue = direction == XD_FAULT_RX ? f->queue : w->index,
		.frame = f,
		.now = w->now,
		.rules = rules_of(w, direction, f),
	};
	struct xd_fault_action a;

	if (!packet.rules)
		return true;
	a = xd_faults_next(w->all->faults, &packet);
	if (a.hit)
		xd_count(&w->stats.faults, 1);
	if (direction == XD_FAULT_RX)
		worker_faults_inject_received(&a, f);
	else if (a.inject.kind != XT_INJECT_NONE)
		worker_faults_remember(w, f->meta.qpn, a.inject);
	for (uint32_t i = 1; i < a.copies; i++)
		xd_delay_add(w->delay, direction, w->now + a.delay_ns[i], a.delayed_by, f);
	if ((a.flips || a.field.width) && !worker_faults_damage(w, direction, &a, f))
		return false;
	if (a.copies && a.delay_ns[0])
		xd_delay_add(w->delay, direction, w->now + a.delay_ns[0], a.delayed_by, f);
	return a.copies && !a.delay_ns[0];
}

static bool apply_to_one(struct xd_worker *w, uint32_t direction, struct xt_frame *f)
{
	struct xd_faults *faults = w->all->faults;
	bool goes_on;

	if (!xd_faults_on(faults, direction))
		return true;
	xd_faults_lock(faults);
	goes_on = worker_faults_apply(w, direction, f);
	xd_faults_unlock(faults);
	return goes_on;
}

struct xt_inject xd_worker_refusal(void *ctx, const struct xt_frame *f)
{
	struct xd_worker *w = ctx;
	struct xd_faults *faults = w->all->faults;
	struct xd_fault_packet packet = {
		.direction = XD_FAULT_RX,
		.queue = f->refusal.value,
		.frame = f,
		.now = w->now,
	};
	struct xt_inject refusal;

	xd_faults_lock(faults);
	packet.rules = rules_of(w, XD_FAULT_RX, f);
	refusal = xd_faults_refusal(faults, &packet);
	xd_faults_unlock(faults);
	if (refusal.kind != XT_INJECT_NONE)
		xd_count(&w->stats.faults, 1);
	return refusal;
}

unsigned int xd_worker_rx_faults(struct xd_worker *w, unsigned int n)
{
	struct xd_faults *faults = w->all->faults;
	unsigned int kept = 0;

	xd_faults_lock(faults);
	for (unsigned int i = 0; i < n; i++) {
		if (!worker_faults_apply(w, XD_FAULT_RX, &w->frames[i]))
			continue;
		if (kept != i)
			w->frames[kept] = w->frames[i];
		kept++;
	}
	xd_faults_unlock(faults);
	return kept;
}

bool xd_worker_rx_fault(struct xd_worker *w, struct xt_frame *f)
{
	return apply_to_one(w, XD_FAULT_RX, f);
}

bool xd_worker_tx_fault(struct xd_worker *w, struct xt_frame *f)
{
	return apply_to_one(w, XD_FAULT_TX, f);
}
