/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A daemon for the tests of rdma_cm: it implements channels and their commands, but connects to
 * nobody. Tests make events by its command socket. It runs in a process of its own.
 */
#ifndef FAKE_CM_H
#define FAKE_CM_H

#include <stdint.h>

struct fake_cm {
	int pid;
	int cmd; /* command socket */
};

enum fake_cm_op {
	CM_CHANNELS,  /* returns the number of channels */
	CM_IDS,	      /* returns the number of ids */
	CM_LISTENERS, /* returns the number of listeners on port `arg` */
	CM_INCOMING,  /* a connect request for each listener on port `arg`; returns their number */
	CM_EVENT,     /* queues event `arg` for all ids with a uid; returns their number */
	CM_BUSY_PORT, /* port `arg` is in use */
	CM_FOREIGN,   /* 1: addresses of other daemons are not of the same host */
	CM_NEXT_PORT, /* port `arg` is chosen next */
	CM_OPTION,    /* returns the value of the last SET_OPTION */
	CM_REFUSE,    /* HELLO fails with error `arg` */
	CM_GARBAGE,   /* the next reply is not one */
	CM_STALE,     /* the next reply comes after one to another request */
	CM_SLOW,      /* replies take `arg` ms */
	CM_EARLY_REPLY, /* events carry a reply to QUERY: port `arg`; 0: without */
};

/* Starts the daemon with the socket <dir>/<name>.sock and an IPv4 address in host byte order. */
int fake_cm_start(struct fake_cm *f, const char *dir, const char *name, uint32_t ip);
/* Kills the daemon with SIGKILL. */
void fake_cm_kill(struct fake_cm *f);
uint32_t fake_cm(struct fake_cm *f, enum fake_cm_op op, uint32_t arg);

#endif /* FAKE_CM_H */
