/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Values of the emulated files, in the formats of drivers/infiniband/core/sysfs.c of Linux. */
#ifndef XP_VALUES_H
#define XP_VALUES_H

#include <stddef.h>
#include <stdint.h>

#include "provider/control/connection.h"

/* A connection to the daemon of a device */
struct xp_source {
	struct xp_conn conn;
	struct xr_hello_rep hello;
};

/* Connects to the daemon of a device that the program may see. Returns 0 or -errno. */
int xp_source_open(struct xp_source *s, const char *device);
void xp_source_close(struct xp_source *s);

/* The parts of a path that name an entry, apart from the device */
struct xp_place {
	uint32_t index;
	char name[64];
};

/*
 * Write the text of a file. Return its length, or -ENOENT if the place does not exist. All but the
 * first group ignore `at`.
 */
typedef int xp_value(struct xp_source *s, const struct xp_place *at, char *text, size_t size);
xp_value xp_value_gid, xp_value_gid_type, xp_value_gid_netdev, xp_value_pkey;
xp_value xp_value_counter, xp_value_hw_counter;

xp_value xp_value_node_type, xp_value_guid, xp_value_node_desc, xp_value_fw_ver, xp_value_type;
xp_value xp_value_hw_rev, xp_value_state, xp_value_phys_state, xp_value_rate, xp_value_zero;
xp_value xp_value_zero_hex, xp_value_cap_mask, xp_value_link_layer;
xp_value xp_value_device, xp_value_uverbs_dev, xp_value_verbs_abi, xp_value_driver_abi;
xp_value xp_value_umad_abi, xp_value_umad_port, xp_value_umad_dev;

/* Calls a function with each name that exists. They stop at its first error and return it. */
typedef int xp_each(void *arg, const char *name);
int xp_each_gid(struct xp_source *s, xp_each *fn, void *arg);
int xp_each_used_gid(struct xp_source *s, xp_each *fn, void *arg);
int xp_each_pkey(struct xp_source *s, xp_each *fn, void *arg);
int xp_each_counter(struct xp_source *s, xp_each *fn, void *arg);
int xp_each_hw_counter(struct xp_source *s, xp_each *fn, void *arg);

#endif /* XP_VALUES_H */
