/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The verdict on received packets in user space, by the same code as in BPF programs
 * (include/xroce/verdict.h) with tables in memory (memory_tables.h).
 *
 * Each worker has a verdict of its own, with its counters and its limit on NAKs.
 */
#ifndef XD_VERDICT_H
#define XD_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/parse.h>

struct xd_tables;
struct xd_verdict;

/* tables: of xd_memory_tables_new(). worker: the queue in reports. Both: control thread */
int xd_verdict_new(struct xd_tables *tables, uint32_t worker, struct xd_verdict **verdict);
void xd_verdict_free(struct xd_verdict *v); /* NULL allowed; the counters stay */

/* A received packet */
struct xd_headers {
	const uint8_t *bytes; /* from the Ethernet header on */
	uint32_t copied;      /* bytes there: at least XR_MAX_PARSED, or the whole frame */
	uint32_t len;	      /* of the frame, without a checksum of Ethernet */
};

/*
 * Checks a packet and counts it under its reason, which is in meta->reason. Returns true if it goes
 * to the engine, and meta describes it; false if it is to be dropped, and that has been reported if
 * reports are on. now: CLOCK_MONOTONIC, ns
 */
bool xd_verdict(struct xd_verdict *v, const struct xd_headers *h, uint64_t now,
		struct xr_meta *meta);

/* Counts packets that need no check, as they differ from a valid one in their PSNs only. */
void xd_verdict_pass(struct xd_verdict *v, uint32_t packets, uint32_t bytes);

/* Returns true if an address is one of the device. */
bool xd_verdict_is_own(struct xd_verdict *v, const struct xr_addr *addr);

#endif /* XD_VERDICT_H */
