/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The programs whose rules of fault injection select MADs of connection management. QP 1 sends and
 * receives these for all programs, so the fields of a MAD tell whose it is: its communication ID at
 * this device, or the service ID of a listener. The control thread adds and removes entries,
 * workers look them up; a lock protects them.
 */
#ifndef XD_FAULTS_MADS_H
#define XD_FAULTS_MADS_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/gid.h>

struct xt_frame;
struct xd_fault_mads;

enum xd_fault_mad_kind {
	XD_FAULT_MAD_CONNECTION, /* key: communication ID, or request ID of SIDR, made here */
	XD_FAULT_MAD_SIDR,	 /* key: request ID of SIDR that the peer made */
	XD_FAULT_MAD_LISTENER,	 /* key: service ID */
};

struct xd_fault_mad {
	struct xd_fault_mad *next, **pprev; /* pprev NULL: not in the table */
	enum xd_fault_mad_kind kind;
	uint64_t key;
	struct xr_addr addr;   /* GID: of the listener, else of the peer */
	bool any;	       /* a listener on all addresses */
	uint8_t ip_version;    /* of a listener that gets requests of one only; else 0 */
	const uint64_t *rules; /* that select the program; under the lock of the rules */
};

struct xd_fault_mads *xd_fault_mads_new(void);
void xd_fault_mads_free(struct xd_fault_mads *t); /* NULL allowed */

/* Adds an entry, which its owner has filled in. If it is in the table already, it is replaced. */
void xd_fault_mads_set(struct xd_fault_mads *t, struct xd_fault_mad *entry,
		       const struct xd_fault_mad *value);
/* Removes an entry. Does nothing if it is not in the table. */
void xd_fault_mads_remove(struct xd_fault_mads *t, struct xd_fault_mad *entry);

/*
 * Returns the rules that select the program of a MAD in a frame; `none` if it is no MAD of
 * connection management, or of no program.
 */
uint64_t xd_fault_mads_rules(struct xd_fault_mads *t, bool received, const struct xt_frame *frame,
			     uint64_t none);

#endif /* XD_FAULTS_MADS_H */
