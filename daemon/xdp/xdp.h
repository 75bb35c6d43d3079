/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The XDP program and its maps: load, attach (bpf_link), pin. */
#ifndef XD_XDP_H
#define XD_XDP_H

#include <stdbool.h>
#include <stdint.h>

struct xd_gso;
struct xd_options;
struct xd_tables;
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

/* The BPF maps */
struct xd_tables *xd_xdp_tables(struct xd_xdp *x);

#endif /* XD_XDP_H */
