/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The XDP program behind the dispatcher of libxdp, beside programs of others. libxdp attaches the
 * dispatcher without a bpf_link and pins it, so the kernel does not remove the program when the
 * daemon ends. Removing it takes privileges that the daemon has given up. A process that keeps them
 * waits for the end of the daemon and removes the program then.
 */
#ifndef XD_DISPATCHER_H
#define XD_DISPATCHER_H

#include <bpf/libbpf.h>
#include <stdbool.h>
#include <stdint.h>

struct xd_dispatcher;

/* Sets up libxdp. bpffs: BPF file system in which it pins programs. */
void xd_dispatcher_init(const char *bpffs);

/*
 * Starts the process. The caller must be the only thread, without sockets that have to be closed
 * when the daemon ends.
 */
int xd_dispatcher_start(struct xd_dispatcher **d);

/* A program to attach, of an object that is not loaded. priority: lower runs earlier */
struct xd_dispatched {
	struct bpf_object *obj;
	const char *program;
	uint32_t priority;
};

/*
 * Removes the program of a daemon that was killed together with its process, then loads and
 * attaches the program. Returns -EBUSY if another program is attached without a dispatcher,
 * -EOPNOTSUPP if the kernel does not permit dispatchers.
 */
int xd_dispatcher_attach(struct xd_dispatcher *d, const struct xd_dispatched *what,
			 unsigned int ifindex, bool generic);

/* Returns false if the process has found that somebody else has removed the program. */
bool xd_dispatcher_is_attached(const struct xd_dispatcher *d);

/* Makes the process remove the program, and waits for its end for a short time. NULL allowed. */
void xd_dispatcher_stop(struct xd_dispatcher *d);

#endif /* XD_DISPATCHER_H */
