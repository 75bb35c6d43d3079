/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The port of the device. */
#ifndef XD_PORT_H
#define XD_PORT_H

#include <stdint.h>

struct xd_device;

/* Longest delay of an ACK, 4.096 us * 2^15 = 134 ms */
#define XD_PORT_ACK_DELAY 15

/* Path MTU in bytes: the largest that the link carries now, and the largest of the datapath. */
uint32_t xd_port_mtu(const struct xd_device *dev);
uint32_t xd_port_max_mtu(const struct xd_device *dev);

/* Returns the enum ibv_mtu of a path MTU in bytes. */
uint8_t xd_port_mtu_code(uint32_t path_mtu);

/* Returns the MTU of a link that carries packets of a path MTU. */
uint32_t xd_port_link_mtu(uint32_t path_mtu);

#endif /* XD_PORT_H */
