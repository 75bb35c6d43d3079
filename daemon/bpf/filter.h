/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The filter of UDP sockets (bpf/filter.bpf.c), with which the kernel drops invalid packets before
 * they wake up a worker. Its maps show QPs and keys as those of the XDP program do.
 *
 * What it keeps is checked again in user space (daemon/io/verdict.h), which counts it.
 */
#ifndef XD_FILTER_H
#define XD_FILTER_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/tables.h>

struct xd_filter;
struct xd_options;
struct xd_tables;

/*
 * Loads the filter and pins its maps. Returns -EPERM without CAP_BPF and CAP_PERFMON. Logs other
 * errors. Packets can be checked without a filter.
 */
int xd_filter_new(const struct xd_options *opt, struct xd_filter **filter);
void xd_filter_free(struct xd_filter *f); /* NULL allowed; after the end of all verdicts */

/* Adds the filter to a socket bound to the RoCE v2 port. Returns 0 or a negative error. */
int xd_filter_attach(const struct xd_filter *f, int fd);

/*
 * The same for a socket that receives for a slot of direct programs: it gets packets for the QPNs
 * of the slot only, and their keys are those that the program has published. The filter of a socket
 * without a slot drops everything.
 */
int xd_filter_attach_slot(const struct xd_filter *f, int fd, uint32_t slot, uint32_t slots);
/* flags: XR_SLOT_*, until the next call */
int xd_filter_set_slot(const struct xd_filter *f, int fd, uint32_t slot, uint32_t slots,
		       uint32_t flags);
void xd_filter_end_slot(const struct xd_filter *f, int fd);

/* Entries of direct programs. NULL: deletes an entry, which need not exist. Any thread. */
int xd_filter_publish_qp(struct xd_filter *f, uint32_t qpn, const struct xr_qp_entry *entry);
int xd_filter_publish_key(struct xd_filter *f, uint32_t slot, uint32_t index,
			  const struct xr_key_entry *entry);

/* The device's tables: those of the filter and of user space, and the sums of their counters */
struct xd_tables *xd_filter_tables(struct xd_filter *f);
/* The tables of user space, for xd_verdict_new() */
struct xd_tables *xd_filter_memory(const struct xd_filter *f);

/* The directory of the pinned maps; give and release: as xd_pins_give(), xd_pins_release() */
const char *xd_filter_pins(const struct xd_filter *f);
int xd_filter_give_pins(struct xd_filter *f);
void xd_filter_release_pins(struct xd_filter *f);

#endif /* XD_FILTER_H */
