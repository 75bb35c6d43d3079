/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The XDP program: load, attach (bpf_link), pin; and the maps that mirror the daemon's tables. Each
 * update of a map is a system call: for control paths only. Updates are thread-safe: workers update
 * keys, and QPs that fail.
 */
#ifndef XD_XDP_H
#define XD_XDP_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/reason.h>
#include <xroce/tables.h>

struct xd_gso;
struct xd_options;
struct xd_xdp;

/* Loads the program and pins the maps. ifname: for messages. Logs errors. */
int xd_xdp_load(const struct xd_options *opt, const char *ifname, const struct xd_gso *gso,
		struct xd_xdp **xdp);
/* Attaches the program, after the workers have bound their sockets. Logs errors. */
int xd_xdp_attach(struct xd_xdp *x, unsigned int ifindex);
/*
 * Returns the locked directory of the pinned maps, which the caller has to close. From now on the
 * caller has to remove the pins.
 */
int xd_xdp_give_pins(struct xd_xdp *x);
/* Removes the program from the interface, and the pins of the maps, which stay usable. */
void xd_xdp_detach(struct xd_xdp *x);
void xd_xdp_close(struct xd_xdp *x); /* NULL allowed */

/* Returns false if somebody else has removed the program from the interface, or the interface. */
bool xd_xdp_is_attached(const struct xd_xdp *x);
const char *xd_xdp_mode_name(const struct xd_xdp *x);
/* Returns the reason for the mode, as text. */
const char *xd_xdp_mode_why(const struct xd_xdp *x);
/* Returns true in generic mode that was not chosen for the sake of GSO frames. */
bool xd_xdp_is_slow(const struct xd_xdp *x);
/* Returns true if GSO frames are received as such. */
bool xd_xdp_receives_gso(const struct xd_xdp *x);
bool xd_xdp_multi_buffer(const struct xd_xdp *x);
/* Returns the directory of the pinned maps. */
const char *xd_xdp_pins(const struct xd_xdp *x);

/* Reports that the sockets use copy mode. err: -errno of the attempt to use zero-copy mode. */
void xd_xdp_no_zerocopy(struct xd_xdp *x, int err);
int xd_xdp_xsk_set(struct xd_xdp *x, uint32_t queue, int xsk_fd);

int xd_xdp_qp_set(struct xd_xdp *x, uint32_t qpn, const struct xr_qp_entry *entry);
int xd_xdp_qp_del(struct xd_xdp *x, uint32_t qpn);
int xd_xdp_key_set(struct xd_xdp *x, uint32_t index, const struct xr_key_entry *entry);
int xd_xdp_key_del(struct xd_xdp *x, uint32_t index);
int xd_xdp_addr_set(struct xd_xdp *x, const struct xr_addr *addr, uint32_t gid_index);
int xd_xdp_addr_del(struct xd_xdp *x, const struct xr_addr *addr);
/* Returns the mapped array of sequence windows, by QP slot. */
struct xr_psn_entry *xd_xdp_psns(struct xd_xdp *x);

/* Reads the counter of a reason, summed over CPUs. */
int xd_xdp_stat(struct xd_xdp *x, enum xr_reason reason, struct xr_stat *stat);

/*
 * Packets that the XDP program drops: reports them from now on or no longer; passes at most `most`
 * reports to fn and returns the number that was lost since the last call.
 */
typedef void (*xd_refused_fn)(void *arg, const struct xr_refused *r);
void xd_xdp_report_refused(struct xd_xdp *x, bool on);
uint64_t xd_xdp_refused(struct xd_xdp *x, uint32_t most, xd_refused_fn fn, void *arg);

#endif /* XD_XDP_H */
