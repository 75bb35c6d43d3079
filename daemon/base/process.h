/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Processes of the daemon beside the one that serves clients: for work that needs other privileges,
 * or that may hang in the kernel and must then hold neither memory nor descriptors of the daemon.
 * They are forked at the start, before the daemon has threads, sockets or clients.
 */
#ifndef XD_PROCESS_H
#define XD_PROCESS_H

#include <sys/types.h>

struct xd_process {
	pid_t pid;
	int sock; /* SOCK_SEQPACKET, blocking; the process has the other end */
};

/*
 * Forks a process that calls fn(sock) and exits with its result. It has no other descriptor than
 * the socket and the standard ones, ignores the signals that stop the daemon, and is killed when
 * the daemon ends. The caller must be the only thread. name: at most 15 characters.
 */
int xd_process_start(struct xd_process *p, const char *name, int (*fn)(int sock));
/* Closes the socket, upon which the process has to end. Does not wait for the end. */
void xd_process_close(struct xd_process *p);
/* The same, and waits for the end of the process, at most this number of milliseconds. */
void xd_process_end(struct xd_process *p, int ms);

/* The name of the calling thread, of at most 15 characters, as ps and perf show it. */
void xd_thread_name(const char *name);

/*
 * To be called first in a process that another one has just forked: sets the name, default
 * signals, and that the end of process `parent` kills this one.
 */
void xd_process_begin(const char *name, pid_t parent);

#endif /* XD_PROCESS_H */
