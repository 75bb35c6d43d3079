/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The BPF maps, which are the device's tables (daemon/io/tables.h), and their pins. */
#ifndef XD_MAPS_H
#define XD_MAPS_H

#include <stddef.h>

#include "daemon/io/tables.h"
#include "pins.h"

struct ring_buffer;
struct xd_options;
struct xroce_bpf;

struct xd_maps {
	struct xd_tables tables; /* first */
	struct xroce_bpf *skel;
	size_t psns_size;
	struct xd_pins pins;
	struct {
		struct ring_buffer *ring;
		uint64_t lost; /* as last read */
		uint32_t left; /* of the calls of fn() */
		xd_refused_fn fn;
		void *arg;
	} refused;
};

/* Creates and pins the maps. Logs errors; xd_maps_free() is to be called then, too. */
int xd_maps_make(struct xd_maps *m, const struct xd_options *opt);
void xd_maps_free(struct xd_maps *m);

#endif /* XD_MAPS_H */
