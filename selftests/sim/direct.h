/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Direct verbs in the simulation: the provider's own code on a simulated engine.
 *
 *   direct.c        seeds, virtual time
 *   direct_host.c   answers the provider's requests as the daemon does, with objects of the engine
 *   direct_drain.c  draining of queues
 *   direct_rw.c     RW contexts
 */
#ifndef SIM_DIRECT_H
#define SIM_DIRECT_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/xrocedv.h>

#include "check.h"
#include "lossy.h"
#include "provider/verbs/context.h"
#include "rng.h"

#define USEC 1000ull
#define MSEC 1000000ull
#define DIRECT_OBJECTS 128
#define DIRECT_PAGE 4096u

/* Addresses of the memory that programs use, see host_memory() */
#define DIRECT_BASE 0x10000000ull

struct world;

/* ---- hosts ------------------------------------------------------------------------- */

enum object_kind { OBJECT_NONE, OBJECT_PD, OBJECT_CQ, OBJECT_QP, OBJECT_SRQ, OBJECT_MR };

struct object {
	enum object_kind kind;
	struct xr_queue *queue[2];
	struct xt_cq cq;
	struct xt_srq srq;
	struct xt_qp *qp;
	struct xt_key *key;
	struct xt_mem mem;
	struct xt_mem_seg *seg;
	struct xt_mem_piece *piece;
	uint64_t *lists;
};

/* A program's context, and the objects of the daemon behind it. Handles are indices + 1. */
struct direct_host {
	struct xp_context ctx; /* first */
	struct ibv_context ibctx;
	struct world *w;
	uint32_t ip;
	int wake;
	struct xr_doorbell doorbell;
	struct object object[DIRECT_OBJECTS];
	unsigned objects;
};

/* Both hosts use the engine of w->h. */
void host_open(struct direct_host *host, struct world *w, uint32_t ip);
/* The program has destroyed its objects. */
void host_close(struct direct_host *host);
/* Tells the engine which queues have work, as the worker does. */
void host_doorbells(struct direct_host *host);
/* ibv_dereg_mr(), for regions for fast registration */
void host_free_mr(struct ibv_mr *mr);
/* The key of a region for fast registration */
struct xt_key *host_key(struct direct_host *host, const struct ibv_mr *mr);

/* ---- worlds ------------------------------------------------------------------------ */

struct world {
	struct rng rng;
	struct harness *h;
	struct lossy net;
	struct direct_host host[2];
	/* Memory that regions and QPs access by addresses from DIRECT_BASE on */
	uint8_t *memory;
	size_t size;
	struct h_mr mr;
	uint32_t key;		 /* L_Key and R_Key of all of it */
	uint64_t ends;		 /* virtual time at which the run has failed */
	void (*idle)(void *arg); /* another thread of the program: called in naps */
	void *idle_arg;
	unsigned done; /* what the run tested, to be counted */
	const char *wrong;
};

/* Lets the engine, the network and virtual time advance by one step. */
void world_step(struct world *w);
/* Connects two QPs and moves them to RTS. */
void world_connect(struct world *w, struct ibv_qp *a, struct ibv_qp *b);

static inline uint64_t world_address(const struct world *w, const void *p)
{
	return DIRECT_BASE + (uint64_t)((const uint8_t *)p - w->memory);
}

/* Each runs one seed in a world whose hosts are open, and stores what is wrong in w->wrong. */
#define DRAIN_MEMORY (768u << 10)
void direct_drain(struct world *w);
#define RW_MEMORY (768u << 10)
void direct_rw(struct world *w);

#endif /* SIM_DIRECT_H */
