/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The BPF maps, which are the device's tables (daemon/io/tables.h), and their pins. */
#ifndef XD_MAPS_H
#define XD_MAPS_H

#include <bpf/libbpf.h>
#include <stddef.h>

#include "daemon/io/tables.h"
#include "pins.h"

struct xd_options;

/* A skeleton that has these maps, and its variables (bpf/refused.h) */
struct xd_maps_skeleton {
	struct bpf_object *obj;
	uint32_t *report_refused;
	uint64_t *refused_lost;
};

struct xd_maps {
	struct xd_tables tables; /* first */
	struct xd_maps_skeleton skel;
	const struct bpf_map *qps, *keys, *addrs, *psns, *stats;
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

/* Logs the warnings of libbpf, and nothing else of it. */
void xd_maps_log_warnings(void);

void xd_maps_init(struct xd_maps *m);
/* Gives the maps of an open object, before it is loaded, the sizes that the limits require. */
void xd_maps_resize(struct bpf_object *obj, const struct xd_options *opt);
/* Takes and pins the maps of a loaded object. Logs errors. */
int xd_maps_take(struct xd_maps *m, const struct xd_options *opt,
		 const struct xd_maps_skeleton *skel);
/* To be called before the skeleton is destroyed. */
void xd_maps_free(struct xd_maps *m);

#endif /* XD_MAPS_H */
