/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Fault injection in a direct context. The daemon stores the rules that select the program in a
 * page (struct xr_direct_rules), and the host applies them at the same two points as a worker of
 * the daemon: to received frames before the engine, and to sent ones after it. All functions but
 * open, close and the one of requests are for the holder of the engine's lock.
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
	const struct xr_direct_rules *page; /* NULL: the daemon has given none */
	uint32_t seq;			    /* of the page when its rules were read */
	bool any;			    /* there are rules */
	struct xd_faults *rules;	    /* NULL: there were none yet */
	struct xd_delay *delay;
	uint64_t tick_at; /* faults of time are looked at again */
	uint32_t injections;
	struct {
		uint32_t qpn;
		struct xt_inject inject;
	} injection[XP_INJECTIONS];
	struct xr_direct_rules *known; /* the rules in force */
};

/* Takes over the descriptor. */
void xp_faults_open(struct xp_host *h, int fd);
void xp_faults_close(struct xp_host *h);

/* Injects errors, and lets delayed frames go on. Before the engine runs */
void xp_faults_due(struct xp_host *h);
/* Returns `next`, or when xp_faults_due() must be called, if that is earlier. */
uint64_t xp_faults_next(const struct xp_host *h, uint64_t next);
/* Reads the rules if they have changed. Returns true if there are some for the direction. */
bool xp_faults_on(struct xp_host *h, uint32_t direction);
unsigned int xp_faults_apply_rx(struct xp_host *h, unsigned int n);
bool xp_faults_apply_tx(struct xp_host *h, struct xt_frame *f);
/* refusal() of struct xt_ops */
struct xt_inject xp_faults_refusal(void *ctx, const struct xt_frame *f);
/* fault_requests.c: waits for the delay of a request, and returns its error, or 0. Not entered */
int xp_faults_request(struct xp_host *h, uint32_t type);
/* Stores the hits of the rules. */
void xp_faults_hits(struct xp_host *h, struct xr_view_sums *sums);

static inline bool xp_faults_look(const struct xp_faults *f)
{
	return f->page && (f->any || __atomic_load_n(&f->page->seq, __ATOMIC_RELAXED) != f->seq);
}

/* Applies rules to received frames. Returns the number that is left. */
static inline unsigned int xp_faults_rx(struct xp_host *h, const struct xp_faults *f,
					unsigned int n)
{
	return __builtin_expect(xp_faults_look(f), false) ? xp_faults_apply_rx(h, n) : n;
}

/* Returns false if a frame is not sent now. */
static inline bool xp_faults_tx(struct xp_host *h, const struct xp_faults *f,
				struct xt_frame *frame)
{
	return !__builtin_expect(xp_faults_look(f), false) || xp_faults_apply_tx(h, frame);
}

#endif /* XP_HOST_FAULTS_H */
