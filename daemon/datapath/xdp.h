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

struct xd_device;

enum xd_mode { XD_MODE_NATIVE_ZEROCOPY, XD_MODE_NATIVE_COPY, XD_MODE_GENERIC };

/* Load and pin; then attach once the sockets are bound. Sets dev->xdp and dev->psns. */
int xd_xdp_load(struct xd_device *dev);
int xd_xdp_attach(struct xd_device *dev);
void xd_xdp_close(struct xd_device *dev);

enum xd_mode xd_xdp_mode(const struct xd_device *dev);
const char *xd_xdp_mode_name(const struct xd_device *dev);
const char *xd_xdp_mode_why(const struct xd_device *dev); /* one sentence */
bool xd_xdp_multi_buffer(const struct xd_device *dev);

/* The driver has no zero-copy for us; -err says why. */
void xd_xdp_no_zerocopy(struct xd_device *dev, int err);
int xd_xdp_xsk_set(struct xd_device *dev, uint32_t queue, int xsk_fd);

int xd_xdp_qp_set(struct xd_device *dev, uint32_t qpn, const struct xr_qp_entry *entry);
int xd_xdp_qp_del(struct xd_device *dev, uint32_t qpn);
int xd_xdp_key_set(struct xd_device *dev, uint32_t index, const struct xr_key_entry *entry);
int xd_xdp_key_del(struct xd_device *dev, uint32_t index);
int xd_xdp_addr_set(struct xd_device *dev, const struct xr_addr *addr, uint32_t gid_index);
int xd_xdp_addr_del(struct xd_device *dev, const struct xr_addr *addr);

/* Sums over CPUs */
int xd_xdp_stat(struct xd_device *dev, enum xr_reason reason, struct xr_stat *stat);

#endif /* XD_XDP_H */
