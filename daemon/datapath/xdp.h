/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The XDP program of this device: load, attach (bpf_link), pin, and the maps that mirror the
 * daemon's tables. Map updates cost a system call each: control paths only.
 * Thread-safe: workers call xd_xdp_qp_set() when a QP fails.
 */
#ifndef XD_XDP_H
#define XD_XDP_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/reason.h>
#include <xroce/tables.h>

struct xd_options;
struct xd_xdp;

/* Load and pin; then attach once the sockets are bound. Errors are logged, with ifname. */
int xd_xdp_load(const struct xd_options *opt, const char *ifname, struct xd_xdp **xdp);
int xd_xdp_attach(struct xd_xdp *x, unsigned int ifindex);
void xd_xdp_close(struct xd_xdp *x); /* NULL allowed */

const char *xd_xdp_mode_name(const struct xd_xdp *x);
const char *xd_xdp_mode_why(const struct xd_xdp *x); /* one sentence */
bool xd_xdp_multi_buffer(const struct xd_xdp *x);
const char *xd_xdp_pins(const struct xd_xdp *x); /* the folder of the pinned maps */

/* The driver has no zero-copy for us; -err says why. */
void xd_xdp_no_zerocopy(struct xd_xdp *x, int err);
int xd_xdp_xsk_set(struct xd_xdp *x, uint32_t queue, int xsk_fd);

int xd_xdp_qp_set(struct xd_xdp *x, uint32_t qpn, const struct xr_qp_entry *entry);
int xd_xdp_qp_del(struct xd_xdp *x, uint32_t qpn);
int xd_xdp_key_set(struct xd_xdp *x, uint32_t index, const struct xr_key_entry *entry);
int xd_xdp_key_del(struct xd_xdp *x, uint32_t index);
int xd_xdp_addr_set(struct xd_xdp *x, const struct xr_addr *addr, uint32_t gid_index);
int xd_xdp_addr_del(struct xd_xdp *x, const struct xr_addr *addr);
/* The sequence windows of QPs, by QP slot: the mapped BPF array */
struct xr_psn_entry *xd_xdp_psns(struct xd_xdp *x);

/* Sums over CPUs */
int xd_xdp_stat(struct xd_xdp *x, enum xr_reason reason, struct xr_stat *stat);

#endif /* XD_XDP_H */
