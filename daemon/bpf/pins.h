/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The maps of the XDP program as files of a BPF file system, for bpftool and scripts:
 * BPFFS/xroce/DEVICE/MAP; docs/xdp.md lists them. The directory is locked while the daemon runs.
 */
#ifndef XD_PINS_H
#define XD_PINS_H

#include <bpf/libbpf.h>

struct iter_bpf;
struct xd_options;

/* Maps that are pinned as text, too */
#define XD_PINS_TEXTS 3

struct xd_pins {
	char dir[512];
	int fd; /* the directory, locked; -1: not locked */
	struct iter_bpf *iter;
	struct bpf_link *link[XD_PINS_TEXTS];
};

void xd_pins_init(struct xd_pins *p);
/*
 * Pins the maps of a loaded object in a locked directory; mounts a BPF file system if there is
 * none. Logs errors. Returns -EBUSY if another daemon has the directory.
 */
int xd_pins_make(struct xd_pins *p, const struct xd_options *opt, struct bpf_object *obj);
/* Returns the locked directory, which the caller has to close. The pins stay. */
int xd_pins_give(struct xd_pins *p);
/* Removes the pins and the directory, if it is locked. */
void xd_pins_release(struct xd_pins *p);
void xd_pins_free(struct xd_pins *p);

#endif /* XD_PINS_H */
