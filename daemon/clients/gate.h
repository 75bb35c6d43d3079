/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The gate: a process for each client that sends descriptors. It receives the requests that carry
 * some, and passes them on. Descriptors of a client may be of a file system of its own, where even
 * close() can hang in the kernel, so the daemon must never own them. The gate passes those of
 * memory file systems, procfs and dma-bufs. It replaces every other one by a descriptor of the same
 * file that was opened with O_PATH and is closed without asking the file system.
 */
#ifndef XD_GATE_H
#define XD_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct xd_killed;
struct xd_loop;
struct xd_spawner;
struct xd_watch;

/* A request arrived with descriptors, which fn() takes over. len 0: the gate has failed. */
typedef void (*xd_gate_fn)(void *arg, const void *data, size_t len, const int *fds, uint32_t nfds);

struct xd_gate {
	struct xd_loop *loop;
	struct xd_spawner *spawner; /* NULL: requests with descriptors are refused */
	xd_gate_fn fn;
	void *arg;
	struct xd_killed *process; /* charge for it, see processes.h; NULL: none */
	int pidfd, sock;	   /* -1: not started */
	struct xd_watch *watch;
	bool taking; /* the process receives a request, and has not passed it on yet */
};

/* The caller sets loop, spawner, fn and arg. */
void xd_gate_init(struct xd_gate *gate);
/*
 * Has the gate receive one request from a client's socket; fn() follows. If it is not started yet
 * (gate->watch NULL), it is, and gate->process is the charge for it. Returns -errno if it cannot.
 */
int xd_gate_take(struct xd_gate *gate, int client_fd);
void xd_gate_close(struct xd_gate *gate);

/* Main function of a gate process. */
void xd_gate_main(const int *fds, uint32_t n);

#endif /* XD_GATE_H */
