/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Fault injection in a direct context. The page has the rules that select the program (page.h), and
 * the host applies them at the same two points as a worker of the daemon: to received frames before
 * the engine, and to sent ones after it. All functions but close and the one of requests are for
 * the holder of the engine's lock.
 */
#ifndef XP_HOST_FAULTS_H
#define XP_HOST_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/view.h>

#include "daemon/transport/transport.h"

struct xp_host;
struct xd_delay;
struct xd_faults;

#define XP_INJECTIONS 16

struct xp_faults {
	bool any;		 /* there are rules */
	struct xd_faults *rules; /* NULL: there were none yet */
	struct xd_delay *delay;
	uint64_t tick_at;  /* faults of time are looked at again */
	uint64_t injected; /* packets that rules have applied to */
	uint32_t injections;
	struct {
		uint32_t qpn;
		struct xt_inject inject;
	} injection[XP_INJECTIONS];
	struct xr_direct_page *known; /* the rules in force */
};

void xp_faults_close(struct xp_host *h);

/* Takes the rules of the page. Returns false if there is no memory. */
bool xp_faults_load(struct xp_host *h, const struct xr_direct_page *present);
/* Injects errors, and lets delayed frames go on. Before the engine runs */
void xp_faults_due(struct xp_host *h);
/* Returns `next`, or when xp_faults_due() must be called, if that is earlier. */
uint64_t xp_faults_next(const struct xp_host *h, uint64_t next);
/* Applies rules to received frames. Returns the number that is left. */
unsigned int xp_faults_rx(struct xp_host *h, unsigned int n);
/* Returns false if a frame is not sent now. */
bool xp_faults_tx(struct xp_host *h, struct xt_frame *f);
/* refusal() of struct xt_ops */
struct xt_inject xp_faults_refusal(void *ctx, const struct xt_frame *f);
/* fault_requests.c: waits for the delay of a request, and returns its error, or 0. Not entered */
int xp_faults_request(struct xp_host *h, uint32_t type);
/* Stores the number of faults, and the hits of the rules. */
void xp_faults_hits(struct xp_host *h, struct xr_view_sums *sums);

#endif /* XP_HOST_FAULTS_H */
