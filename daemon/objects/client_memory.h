/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The address space of a client, and the reserved L_Key, which gives its queues access to all of
 * it.
 */
#ifndef XD_CLIENT_MEMORY_H
#define XD_CLIENT_MEMORY_H

#include <stdbool.h>

#include "daemon/base/fd_quota.h"
#include "daemon/base/json.h"
#include "daemon/clients/client_jobs.h"
#include "daemon/memory/region.h"

struct xd_client;
struct xd_mem;
struct xd_proc;
struct xd_proc_quota;
struct xt_mem;

/*
 * Address spaces of a client at a time: that of its process, and older ones that regions refer to
 * after fork() or execve()
 */
#define XD_CLIENT_PROCS 8

struct xd_client_memory {
	struct xd_fd_quota procs; /* address spaces */
	struct xd_proc *proc;	  /* NULL: the client sent no descriptors yet; atomic */
	struct xd_mem *all;	  /* NULL: no reserved L_Key */
	struct xt_mem *xt;	  /* the same for engines; atomic */
	/* see absent.h */
	struct xd_absent absent;
	bool absent_found;	    /* absent.seen was handled */
	bool unmapped;		    /* no region is accessed by a mapping */
	struct xd_client_job mover; /* starts the mover */
};

/* Returns the client's address space, NULL if none was sent. */
struct xd_proc *xd_client_proc(const struct xd_client *c);
void xd_client_memory_init(struct xd_client_memory *m);
/* Counts one more address space, for xd_proc_new(). -EDQUOT, -EMFILE, -ENOMEM. */
int xd_client_take_proc(struct xd_client *c, struct xd_proc_quota *quota);
/* Replaces the address space, e.g. after fork(). Takes over the reference. */
void xd_client_set_proc(struct xd_client *c, struct xd_proc *proc);
/* Adds the client's mover to an object of SHOW. */
void xd_client_memory_show(struct json *j, const struct xd_client *c);
/*
 * The client ends: accesses to its memory that hang are given up, so that none of its jobs waits
 * for them.
 */
void xd_client_memory_end(struct xd_client *c);
/* Releases both. In a job: may block. */
void xd_client_memory_close(struct xd_client_memory *m);

#endif /* XD_CLIENT_MEMORY_H */
